"""When a job is killed: as it starts, at a moment of a batch, at any time, or as it stops."""

from __future__ import annotations

import contextlib
import random
import shutil
import subprocess
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from anabranch.state.store import Store
from tests.crash import data as files
from tests.crash import job
from tests.crash.processes import Job

MASTER = "local[2]"
STRATEGIES = ("central", "atr", "ctr", "psp", "auto")
"""Of the query without an equality; the other one's is hash."""
START_UP, MOMENT, RUNNING, SHUTDOWN = "start-up", "moment", "running", "shutdown"
WHEN = (START_UP, MOMENT, MOMENT, RUNNING, SHUTDOWN)


@dataclass(frozen=True)
class Kill:
    """One start of the job, and when it ends."""

    when: str
    strategy: str
    delay: float = 0.0
    """Seconds after the mark that `when` waits for."""
    runs_for: float | None = None
    """Seconds until the job stops its queries, where it is killed while it does so."""
    moments: dict[str, str] = field(default_factory=dict)
    """For each query, the moment of its next batch where it halts."""

    @staticmethod
    def drawn(chance: random.Random) -> Kill:
        when = chance.choice(WHEN)
        strategy = chance.choice(STRATEGIES)
        if when == MOMENT:
            return Kill(
                when, strategy, moments={name: chance.choice(job.MOMENTS) for name in job.QUERIES}
            )
        if when == START_UP:
            return Kill(when, strategy, chance.uniform(0, 2))
        if when == SHUTDOWN:
            return Kill(when, strategy, chance.uniform(0, 0.8), chance.uniform(0, 8))
        return Kill(when, strategy, chance.uniform(0, 10))

    def carry_out(self, source: Path, home: Path) -> dict[str, Any]:
        """Start the job, kill it, and tell how far it had come."""
        before = {name: committed(home, name) for name in job.QUERIES}
        halts = {name: (moment, before[name] + 1) for name, moment in self.moments.items()}
        running = Job(source, home, MASTER, halts, self.strategy, runs_for=self.runs_for)
        try:
            if self.when == MOMENT:
                running.until_halted_or_over()
            else:
                running.until((home / MARKS[self.when]).exists, MARKS[self.when])
                with contextlib.suppress(subprocess.TimeoutExpired):
                    running.process.wait(self.delay)
            code = running.process.poll()
            assert not code, f"exit code {code}: {running.log()}"
            had_started = (home / "started").exists()
        finally:
            running.kill()
        return {
            **asdict(self),
            "hit": code is None,
            "had_started": had_started,
            "batches": {name: committed(home, name) for name in job.QUERIES},
        }


MARKS = {START_UP: "session", RUNNING: "started", SHUTDOWN: "stopping"}


def committed(home: Path, query: str) -> int:
    """The last batch of a query that is in a manifest."""
    root = home / "checkpoint" / query
    latest = Store.at(str(root)).latest() if root.exists() else None
    return latest.batch if latest is not None else -1


class Supply:
    """Files that are held back, so that every start of the job has something to do."""

    def __init__(self, directory: Path, number: int, seed: int) -> None:
        self.number = number
        self.given = 0
        self.source, self._held = directory / "data", directory / "held"
        files.write(self._held, number, seed)

    def give(self, count: int) -> None:
        """Let the job see some more files of each stream."""
        for number in range(self.given, min(self.given + count, self.number)):
            for stream in files.STREAMS:
                (self.source / stream).mkdir(parents=True, exist_ok=True)
                name = f"{stream}/{number:03d}.parquet"
                shutil.move(self._held / name, self.source / name)
        self.given = min(self.given + count, self.number)
