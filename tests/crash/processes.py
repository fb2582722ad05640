"""Starting a job in a process of its own, watching it, and killing it with all its children."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from tests.crash import job
from tests.crash.job import Halt

JOB = Path(__file__).with_name("job.py")
PATIENCE = 300
"""Seconds until a wait counts as failed; a busy machine takes its time."""


AND_THE_OTHERS = 15
"""Seconds from one halt to the next of the same job."""


class Job:
    """A running job: the Python driver, its JVM, and Python workers, all in one session."""

    def __init__(
        self,
        data: Path,
        home: Path,
        master: str,
        halts: Mapping[str, tuple[str, int]],
        strategy: str,
        environment: Mapping[str, str] | None = None,
        runs_for: float | None = None,
    ) -> None:
        """`strategy` is that of the query without an equality; see `job.main` for the rest."""
        home.mkdir(exist_ok=True)
        for mark in job.MARKS:
            (home / mark).unlink(missing_ok=True)
        shutil.rmtree(home / "halts", ignore_errors=True)
        self.home = home
        self.halts = [Halt(str(home), name, *where) for name, where in halts.items()]
        self._log = home / f"log-{len(list(home.glob('log-*')))}"
        told = {
            "data": str(data),
            "home": str(home),
            "master": master,
            "halts": halts,
            "strategies": {"equality": "hash", "theta": strategy},
            "runs_for": runs_for,
        }
        with self._log.open("w") as log:
            self.process = subprocess.Popen(
                [sys.executable, str(JOB), json.dumps(told)],
                stdout=log,
                stderr=subprocess.STDOUT,
                stdin=subprocess.DEVNULL,
                env={**os.environ, **(environment or {})},
                # Python workers leave the process group of their driver, but not its session.
                start_new_session=True,
            )

    def until(self, condition: Callable[[], bool], what: str) -> None:
        """Wait for something that the job is about to do."""
        deadline = time.monotonic() + PATIENCE
        while not condition():
            assert self.process.poll() is None, f"ended before {what}: {self.log()}"
            assert time.monotonic() < deadline, f"waited in vain for {what}: {self.log()}"
            time.sleep(0.02)

    def until_all_halted(self) -> None:
        for halt in self.halts:
            self.until(halt.reached.exists, str(halt))

    def until_halted_or_over(self) -> None:
        """Wait for a halt, and a while for the others: a batch that comes again lacks some."""
        waits = [halt.reached for halt in self.halts]
        deadline = time.monotonic() + PATIENCE
        while not any(mark.exists() for mark in waits) and self.process.poll() is None:
            assert time.monotonic() < deadline, f"no halt was reached: {self.log()}"
            time.sleep(0.02)
        deadline = time.monotonic() + AND_THE_OTHERS
        while not all(mark.exists() for mark in waits) and time.monotonic() < deadline:
            if self.process.poll() is not None:
                return
            time.sleep(0.02)

    def finish(self) -> None:
        """Let it run to its end, which must be a good one."""
        try:
            code = self.process.wait(PATIENCE)
        except subprocess.TimeoutExpired:
            code = -1
        assert code == 0, f"exit code {code}: {self.log()}"

    def kill(self) -> None:
        """SIGKILL to every process of the job, at once and until none is left."""
        while members := self._members():
            for pid in members:
                kill(pid)
            self.process.wait()

    def _members(self) -> list[int]:
        return [pid for pid, _, _ in processes() if _session(pid) == self.process.pid]

    def log(self) -> str:
        return self._log.read_text()[-6000:]


def processes() -> list[tuple[int, int, str]]:
    """Of every process that lives: its id, its parent's, and its command line."""
    ps = shutil.which("ps")
    assert ps is not None, "there is no ps, which tells the processes to kill"
    table = subprocess.run(
        [ps, "-A", "-ww", "-o", "pid=,ppid=,stat=,args="],
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    rows = [line.split(maxsplit=3) for line in table.splitlines()]
    return [
        (int(pid), int(parent), "".join(args))
        for pid, parent, state, *args in rows
        if not state.startswith("Z")
    ]


def kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)


def _session(pid: int) -> int | None:
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return None
