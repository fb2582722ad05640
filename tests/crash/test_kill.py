"""A job is killed with SIGKILL again and again; in the end each result is there exactly once."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import anabranch as ab
from anabranch.state.store import Store
from tests.crash import data as files
from tests.crash import job
from tests.crash.delivery import delivered, rows
from tests.crash.kills import MASTER, RUNNING, SHUTDOWN, START_UP, Kill
from tests.crash.processes import Job

FILES = 10
KILLS = (
    # Two queries run in a job, and die at different moments of the same batch; then of the next.
    # Each start joins by another strategy, which goes on from what the one before has left.
    ("ctr", {"equality": ("ingest", 0), "theta": ("join", 0)}),
    ("psp", {"equality": ("manifest", 1), "theta": ("delivered", 1)}),
    ("atr", {"equality": ("cleanup", 2), "theta": ("committed", 2)}),
    ("central", {"equality": ("written", 3), "theta": ("written", 3)}),
)
SEED = int(os.environ.get("CRASH_SEED", random.randrange(10**6)))


def unnamed(home: Path, query: str) -> set[str]:
    """Files of a query's store that are neither a manifest nor named by the latest one."""
    store = Store.at(str(home / "checkpoint" / query))
    latest = store.latest()
    named = latest.paths() if latest else frozenset()
    return {
        name
        for name in (*store.files.names("segments"), *store.files.names("manifests"))
        if name not in named and not name.endswith(".json")
    }


@pytest.fixture
def stage(tmp_path: Path) -> tuple[Path, Path]:
    """The files, and the place where a job keeps everything of its own."""
    source = tmp_path / "data"
    files.write(source, FILES, seed=7)
    return source, tmp_path / "home"


@pytest.mark.long
def test_killed_at_every_moment_each_result_is_delivered_exactly_once(
    stage: tuple[Path, Path], spark: SparkSession
) -> None:
    source, home = stage
    chance = random.Random(SEED)
    print(f"CRASH_SEED={SEED}")  # noqa: T201 - shown if the test fails

    assert {moment for _, halts in KILLS for moment, _ in halts.values()} == set(job.MOMENTS)
    for strategy, halts in KILLS:
        running = Job(source, home, MASTER, halts, strategy)
        try:
            running.until_all_halted()
            if halts["equality"] == ("ingest", 0):
                running.until(lambda: bool(unnamed(home, "equality")), "a segment of no manifest")
        finally:
            running.kill()

    # Three more, at moments that chance chooses.
    for kill in (
        Kill(START_UP, "central", chance.uniform(0, 2)),
        Kill(SHUTDOWN, "auto", chance.uniform(0, 1), chance.uniform(0, 2)),
        Kill(RUNNING, "psp", chance.uniform(0, 4)),
    ):
        kill.carry_out(source, home)

    running = Job(source, home, MASTER, {}, "ctr")
    try:
        running.finish()
    finally:
        running.kill()

    for name in job.QUERIES:
        expected = rows(ab.testing.reference(job.static(spark, name, source)))
        assert expected.total() > 100
        assert delivered(home / "out" / name) == expected
        latest = Store.at(str(home / "checkpoint" / name)).latest()
        assert latest is not None
        for counted in latest.counters["streams"].values():
            assert counted["arrived"] == FILES * files.ROWS
            assert counted["late"] == 0
        assert unnamed(home, name) == set()
