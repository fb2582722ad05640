"""The same job on a cluster of several processes, which loses executors while it runs."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

import anabranch as ab
from anabranch.state.store import Store
from tests.crash import data as files
from tests.crash import job
from tests.crash.delivery import delivered, rows
from tests.crash.processes import Job, kill, processes

MASTER = "local-cluster[2,1,1024]"
"""Two workers of one slot and 1 GiB each: executors are processes of their own."""
FILES = 4
EXECUTOR = "CoarseGrainedExecutorBackend"


def executor_of(worker: int) -> list[int]:
    """The executor that a Python worker belongs to, and all that it has started."""
    parents = {pid: parent for pid, parent, _ in processes()}
    executors = {pid for pid, _, command in processes() if EXECUTOR in command}
    pid = worker
    while pid not in executors:
        assert pid in parents, f"worker {worker} belongs to no executor"
        pid = parents[pid]
    family = [pid]
    for member in family:
        family += [child for child, parent in parents.items() if parent == member]
    return family


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("data")
    files.write(directory, FILES, seed=11)
    return directory


@pytest.mark.long
def test_a_cluster_that_loses_executors_in_ingest_and_in_join_delivers_each_result_once(
    spark: SparkSession, source: Path, tmp_path: Path
) -> None:
    home = tmp_path / "home"
    halts = {"equality": ("ingest", 1), "theta": ("join", 2)}
    workers = {"SPARK_WORKER_DIR": str(tmp_path / "workers")}
    # CTR joins in two stages: what a lost executor had shuffled has to be made again.
    running = Job(source, home, MASTER, halts, "ctr", workers)
    try:
        for halt in running.halts:
            running.until(halt.reached.exists, str(halt))
            lost = executor_of(int(halt.reached.read_text()))
            assert len(lost) >= 3, "a JVM, its Python daemon, a worker"
            for pid in lost:
                kill(pid)
        running.finish()
    finally:
        running.kill()

    for name in job.QUERIES:
        expected = rows(ab.testing.reference(job.static(spark, name, source)))
        assert expected.total() > 50
        assert delivered(home / "out" / name) == expected
        latest = Store.at(str(home / "checkpoint" / name)).latest()
        assert latest is not None
        assert latest.batch == FILES - 1
        for counted in latest.counters["streams"].values():
            assert counted["arrived"] == FILES * files.ROWS
