"""One side of a case, in a process of its own: `python -m anabranch.bench.child '{…}'`.

A fresh process means a fresh JVM and fresh Python workers, so no side runs on what an earlier one
has compiled, cached or left on the heap.
"""

from __future__ import annotations

import importlib
import json
import os
import sys
from dataclasses import asdict, dataclass

from anabranch.bench.cases import CASES, CORES, Case
from anabranch.bench.reporting import Reporter

OURS, SPARK, KERNEL = SIDES = ("ours", "spark", "kernel")
MODULES = {
    OURS: "anabranch.bench.our_side",
    SPARK: "anabranch.bench.spark_side",
    KERNEL: "anabranch.bench.kernel_side",
}


@dataclass(frozen=True)
class Assignment:
    """What a child is asked to run. Strings and numbers only: it goes over the command line."""

    case: str
    quick: bool
    side: str
    plan: int
    """Which of the case's ways to ask Spark; of no meaning for the other sides."""
    data: str
    work: str
    files: int
    strategy: str = "auto"
    """Ours; of no meaning for the other sides."""
    cores: int = CORES
    every_hop: bool = False
    """As its `Contender` has them."""

    @property
    def chosen(self) -> Case:
        """The case, at the size that was asked for."""
        case = CASES[self.case]
        return case.quick() if self.quick else case

    def command(self) -> list[str]:
        return [sys.executable, "-m", "anabranch.bench.child", json.dumps(asdict(self))]


def keep_to(cores: int) -> None:
    """Use so many cores and no more, here and in the processes that are started from here."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:cores])


def main() -> int:
    """Run the assignment that is the one argument, and report to standard output."""
    to = Reporter(sys.stdout)
    try:
        task = Assignment(**json.loads(sys.argv[1]))
        keep_to(task.cores)
        # Imported by name: a side loads what it needs itself, and nothing of the other two.
        importlib.import_module(MODULES[task.side]).run(task, to)
    except Exception as error:  # whatever it is, the bench must hear of it before this process ends
        to.fail(f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
        raise
    to.finish()
    return 0


if __name__ == "__main__":
    sys.exit(main())
