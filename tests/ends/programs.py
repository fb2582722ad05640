"""The same join as a job file and as a script, in a process of its own, and ways to end it."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import time
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds

from tests.crash.processes import kill, processes

SCRIPT = Path(__file__).with_name("script.py")
PATIENCE = 240
"""Seconds until a wait counts as failed; a busy machine takes its time."""

STREAM = """
[[stream]]
name = "{name}"
format = "parquet"
path = "data/{name}"
options = {{maxFilesPerTrigger = 1}}
time = "ts"
window = "25 seconds"
lateness = "4 seconds"
"""
REST = """
[join]
on = ["a.key = b.key", "abs(a.x - b.x) <= 5"]
select = ["a.id AS a", "b.id AS b"]
[run]
sink = "out"
checkpoint = "disk/state"
trigger = "{trigger}"
"""


class Program:
    """A running program: Python driver, JVM and Python workers."""

    def __init__(self, home: Path, kind: str, trigger: str, *more: str, **environment: str) -> None:
        job = home / "job.toml"
        job.write_text(
            STREAM.format(name="a") + STREAM.format(name="b") + REST.format(trigger=trigger)
        )
        arguments = {
            "command": ["-m", "anabranch.cli.main", "run", str(job), "--master", "local[2]"],
            "script": [str(SCRIPT), str(home), trigger, *more],
        }
        self._out, self._err = home / f"{kind}.out", home / f"{kind}.err"
        with self._out.open("w") as out, self._err.open("w") as err:
            self.process = subprocess.Popen(
                [sys.executable, *arguments[kind]],
                stdout=out,
                stderr=err,
                stdin=subprocess.DEVNULL,
                env=os.environ | environment,
                start_new_session=True,
            )

    @property
    def errors(self) -> list[str]:
        """The lines on standard error, without those that every start of Spark prints."""
        return [line for line in self._err.read_text().splitlines() if not _is_greeting(line)]

    @property
    def output(self) -> str:
        return self._out.read_text()

    def until_it_works(self, batches: int = 2) -> None:
        """Wait until it has committed some batches, and is in the midst of the next."""
        deadline = time.monotonic() + PATIENCE
        while self.output.count("batch ") < batches:
            assert self.process.poll() is None, f"it ended: {self._err.read_text()[-4000:]}"
            assert time.monotonic() < deadline, "it has committed nothing"
            time.sleep(0.02)

    def end(self) -> int:
        """Wait for its end; its exit code."""
        return self.process.wait(PATIENCE)

    def kill_java(self) -> None:
        for pid in _children([self.process.pid]):
            kill(pid)

    def kill_workers(self) -> None:
        """Until that is noticed: one that is killed between two tasks is only replaced."""
        deadline = time.monotonic() + PATIENCE
        while self.process.poll() is None and time.monotonic() < deadline:
            daemons = _children(_children([self.process.pid]))
            for pid in _children(daemons):
                kill(pid)
            with contextlib.suppress(subprocess.TimeoutExpired):
                self.process.wait(0.1)

    def signal_group(self) -> None:
        os.killpg(self.process.pid, signal.SIGTERM)

    def clean_up(self) -> None:
        for pid, _, _ in processes():
            with contextlib.suppress(ProcessLookupError):
                if os.getsid(pid) == self.process.pid:
                    kill(pid)
        self.process.wait()


def _children(parents: list[int]) -> list[int]:
    return [pid for pid, parent, _ in processes() if parent in parents]


def _is_greeting(line: str) -> bool:
    return any(
        words in line
        for words in (
            "Using incubator modules",
            "Using Spark's default log4j profile",
            "Setting default log level",
            "To adjust logging level",
            "WARN NativeCodeLoader",
            "WARN ResolveWriteToStream",
            "WARN ProcessingTimeExecutor",
            "WARN Utils: Your hostname",
            "WARN Utils: Set SPARK_LOCAL_IP",
        )
    )


def delivered(home: Path) -> Counter[tuple[Any, ...]]:
    table = ds.dataset(home / "out", format="parquet", partitioning="hive").to_table()
    return Counter(zip(*table.select(["a", "b"]).to_pydict().values(), strict=True))


def expected(home: Path) -> Counter[tuple[Any, ...]]:
    """The answer by loops over the data."""
    left, right = (
        ds.dataset(home / "data" / name).to_table().sort_by("id").to_pylist() for name in "ab"
    )
    return Counter(
        (one["id"], other["id"])
        for one in left
        for other in right
        if one["key"] == other["key"]
        and abs(one["x"] - other["x"]) <= 5
        and abs((one["ts"] - other["ts"]).total_seconds()) <= 25
    )
