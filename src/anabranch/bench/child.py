"""One side of a case, in a process of its own: `python -m anabranch.bench.child '{…}'`.

A fresh process means a fresh JVM and fresh Python workers, so no side runs on what an earlier one
has compiled, cached or left on the heap.
"""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path

from anabranch.bench.cases import CASES, Case
from anabranch.bench.reporting import Reporter

OURS, SPARK, KERNEL = SIDES = ("ours", "spark", "kernel")


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

    @property
    def chosen(self) -> Case:
        case = CASES[self.case]
        return case.quick() if self.quick else case

    def command(self) -> list[str]:
        return [sys.executable, "-m", "anabranch.bench.child", json.dumps(asdict(self))]


def run(task: Assignment, to: Reporter) -> None:
    """Import what the side needs, and only that: the kernel side must work without a JVM."""
    case, data, work = task.chosen, Path(task.data), Path(task.work)
    if task.side == KERNEL:
        from anabranch.bench import kernel_side

        kernel_side.run(case, data, task.files, to)
    elif task.side == SPARK:
        from anabranch.bench import spark_side

        spark_side.run(case, case.spark[task.plan], data, task.files, work, to)
    else:
        from anabranch.bench import our_side

        our_side.run(case, data, task.files, work, to)


def main() -> int:
    to = Reporter(sys.stdout)
    try:
        run(Assignment(**json.loads(sys.argv[1])), to)
    except Exception as error:  # whatever it is, the bench must hear of it before this process ends
        to.fail(f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}")
        raise
    to.finish()
    return 0


if __name__ == "__main__":
    sys.exit(main())
