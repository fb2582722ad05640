"""Workers that cannot run a join are found out at the start, in one sentence."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from anabranch.errors import RunError
from anabranch.spark import preflight
from tests.crash import data
from tests.ends.programs import Program


@pytest.mark.long
@pytest.mark.parametrize("kind", ["command", "script"])
def test_workers_in_an_environment_without_the_package_are_one_sentence(
    kind: str, tmp_path: Path
) -> None:
    bare = tmp_path / "bare"
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", str(bare)], check=True)
    data.write(tmp_path / "data", 2, seed=7)
    python = str(bare / "bin" / "python")
    program = Program(tmp_path, kind, "available now", PYSPARK_PYTHON=python)
    try:
        assert program.end() == {"command": 2, "script": 1}[kind]
    finally:
        program.clean_up()
    assert len(program.errors) <= {"command": 1, "script": 20}[kind], program.errors
    line = program.errors[-1]
    assert f"Spark's workers run {python}" in line
    assert "cannot import anabranch" in line
    assert "set PYSPARK_PYTHON" in line
    assert not (tmp_path / "disk" / "state").exists()


def test_workers_of_a_session_are_asked_once(spark: SparkSession) -> None:
    preflight.check_workers(spark, 2)
    jobs = spark.sparkContext.statusTracker().getJobIdsForGroup
    before = jobs()
    preflight.check_workers(spark, 2)
    assert jobs() == before
    preflight._checked.discard(spark)
    preflight.check_workers(spark, 2)
    assert len(jobs()) == len(before) + 1


@pytest.mark.parametrize(
    ("there", "words"),
    [
        ({"python": "3.10"}, "is Python 3.10, and the driver's is 3.11"),
        ({"version": "9.9"}, "has anabranch 9.9, and the driver has 0.1.0"),
        ({"trouble": "No module named 'duckdb'"}, "cannot import anabranch (No module named"),
    ],
)
def test_a_worker_that_differs_is_named_with_what_to_do(there: dict[str, str], words: str) -> None:
    here = {"python": "3.11", "version": "0.1.0", "trouble": None}
    place = {"executable": "/usr/bin/python3", "machine": "one"}
    with pytest.raises(RunError) as refused:
        preflight._compare(here, {**here, **place, **there})
    assert f"/usr/bin/python3 on one, which {words}" in str(refused.value)
    assert "set PYSPARK_PYTHON" in str(refused.value)
    preflight._compare(here, {**here, **place})
