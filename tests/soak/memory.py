"""What the JVM of a job takes over hundreds of tiny batches, and what it takes it for.

A case is a job in a process of its own, with Spark's defaults. In case 1 the JVM is left alone; in
case 2 it collects its garbage before each sample, so that its heap shows what is kept.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyspark.sql import SparkSession

import anabranch as ab
from tests.soak.soak import Facts
from tests.streams import KEYED, table, write_file

BATCHES = int(os.environ.get("MEMORY_BATCHES", "900"))
EVERY = 25
LEVEL = 1.03
"""How much more the last third of the samples may have, on average, than the third before."""


def run(seed: int, directory: Path) -> Facts:
    """Run the job and look whether its memory has come to a level."""
    collect = seed % 2 == 0
    told = {"directory": str(directory), "collect": collect}
    environment = {**os.environ, "SPARK_SUBMIT_OPTS": "-XX:NativeMemoryTracking=summary"}
    command = [sys.executable, "-m", "tests.soak.memory", json.dumps(told)]
    with (directory / "log").open("w") as log:
        code = subprocess.run(command, env=environment, stdout=log, stderr=log, check=False)
    assert code.returncode == 0, (directory / "log").read_text()[-3000:]
    samples = [json.loads(line) for line in (directory / "samples").read_text().splitlines()]
    return {
        "collect": collect,
        **judge(samples, collect=collect),
        "batches": BATCHES,
        "samples": samples,
    }


def judge(samples: Sequence[Mapping[str, Any]], *, collect: bool) -> Facts:
    """Whether the last third of the samples is on the level of the third before.

    A JVM lets its heap grow to what it may take before it works hard to keep it small. So what
    counts is what remains in it after a collection, and what the JVM takes beside it.
    """
    measure = "heap_used" if collect else "beside_heap"
    values = [s["heap_used"] if collect else beside_heap(s) for s in samples]
    third = len(values) // 3
    before, after = sum(values[third : 2 * third]), sum(values[2 * third : 3 * third])
    outcome = "level" if after <= LEVEL * before else "grows"
    return {"outcome": outcome, "measure": measure, "growth": round(after / before - 1, 3)}


def beside_heap(sample: Mapping[str, Any]) -> int:
    """MB that the JVM has taken for anything else than its heap."""
    return sum(mb for name, mb in sample["native"].items() if name != "Java Heap")


def job(directory: Path, *, collect: bool) -> None:
    """Join tiny files batch by batch, and take samples of this process's JVM meanwhile."""
    for batch in range(BATCHES):
        for name in "ab":
            write_file(directory / name, batch, _rows(batch))
    builder = SparkSession.builder.master("local[2]")
    for name, value in {
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.sql.warehouse.dir": str(directory / "warehouse"),
    }.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    schema = "ts timestamp, k long, id long"
    a, b = (
        ab.stream(
            name,
            spark.readStream.schema(schema)
            .option("maxFilesPerTrigger", 1)
            .parquet(str(directory / name)),
            time="ts",
            window="1 minute",
        )
        for name in "ab"
    )
    run = (
        ab.join(a, b)
        .on("a.k = b.k")
        .select("a.id AS a", "b.id AS b")
        .start(
            ab.parquet_sink(str(directory / "out")),
            checkpoint=str(directory / "checkpoint"),
            trigger="available now",
        )
    )
    pid = int(spark.sparkContext._jvm.ProcessHandle.current().pid())  # type: ignore[union-attr] # Any at run time
    over = threading.Event()
    sampler = threading.Thread(target=_sample, args=(directory, pid, over, collect))
    sampler.start()
    try:
        run.await_termination()
    finally:
        over.set()
        sampler.join()


def _rows(batch: int) -> pa.Table:
    return table(KEYED, [(10 * batch + row, row % 3, 10 * batch + row) for row in range(10)])


def _sample(directory: Path, pid: int, over: threading.Event, collect: bool) -> None:
    """One line whenever some more batches are committed."""
    commits, due = directory / "checkpoint" / "spark" / "commits", EVERY
    with (directory / "samples").open("w") as file:
        while not over.wait(0.2):
            done = max((int(p.name) for p in commits.glob("[0-9]*")), default=0)
            if done >= due:
                due = done + EVERY
                file.write(json.dumps({"batch": done, **sample(pid, collect=collect)}) + "\n")
                file.flush()


def sample(pid: int, *, collect: bool) -> Mapping[str, Any]:
    """Resident memory, heap, classes, and what the JVM has taken from the system; in MB."""
    if collect:
        _jcmd(pid, "GC.run")
    status = Path(f"/proc/{pid}/status").read_text()
    heap = _jcmd(pid, "GC.heap_info")
    native = _jcmd(pid, "VM.native_memory", "summary")
    used = sum(int(kb) for kb in re.findall(r"(?:heap|generation)\s+total \d+K, used (\d+)K", heap))
    meta = re.search(r"Metaspace\s+used (\d+)K", heap)
    found = re.search(r"VmRSS:\s+(\d+)", status)
    threads = re.search(r"Threads:\s+(\d+)", status)
    assert found is not None
    assert threads is not None
    taken = re.findall(r"-\s+([A-Z][\w ]*?) \(reserved=\d+KB, committed=(\d+)KB\)", native)
    return {
        "rss": int(found[1]) // 1024,
        "heap_used": used / 1024,
        "metaspace": int(meta[1]) // 1024 if meta else None,
        "threads": int(threads[1]),
        "native": {name.strip(): int(kb) // 1024 for name, kb in taken if int(kb) >= 1024},
    }


def _jcmd(pid: int, *command: str) -> str:
    jcmd = shutil.which("jcmd", path=f"{os.environ.get('JAVA_HOME', '')}/bin") or "jcmd"
    told = subprocess.run([jcmd, str(pid), *command], capture_output=True, text=True, check=True)
    return told.stdout


if __name__ == "__main__":
    given = json.loads(sys.argv[1])
    job(Path(given["directory"]), collect=given["collect"])
