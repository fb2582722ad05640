"""`anabranch run` and `explain`, on the example job and on jobs that are wrong."""

from __future__ import annotations

import runpy
import shutil
import subprocess
from collections import Counter
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.dataset as ds
import pytest
from pyspark.sql import SparkSession

from anabranch.cli.job import build_query
from anabranch.cli.jobfile import parse_job, read_job
from anabranch.cli.main import main
from anabranch.errors import AnabranchError
from tests.streams import delivered, finish

Command = Callable[..., subprocess.CompletedProcess[str]]
EXAMPLES = Path(__file__).parents[2] / "examples"

RATE = """
[[stream]]
name = "left"
format = "rate"
options = {rowsPerSecond = 50}
sql = ["value AS id", "timestamp AS ts", "array(value % 10, value % 7) AS tags"]
time = "ts"
window = "5 seconds"

[[stream]]
name = "right"
format = "rate"
options = {rowsPerSecond = 50}
sql = ["value AS id", "timestamp AS ts", "array(value % 10, value % 7) AS tags"]
time = "ts"
window = "5 seconds"

[join]
on = [{overlap = ["left.tags", "right.tags"], at_least = 2}]
select = ["left.id AS l", "right.id AS r"]

[run]
sink = "out"
checkpoint = "checkpoint"
trigger = "1 second"
"""


@pytest.fixture
def example(tmp_path: Path) -> Path:
    """A copy of the example and its data, so that its output lands nowhere else."""
    shutil.copy(EXAMPLES / "correlate.toml", tmp_path)
    runpy.run_path(str(EXAMPLES / "make_data.py"))["write"](tmp_path / "data")
    return tmp_path


def expected() -> Counter[tuple[Any, ...]]:
    """The example's answer by loops over its data, read off the job file by hand."""
    pieces = list(runpy.run_path(str(EXAMPLES / "make_data.py"))["pieces"]())
    detector, honeypot, traffic = (
        pa.concat_tables([piece[position] for piece in pieces]).to_pylist()
        for position in (1, 2, 3)
    )
    one, two = timedelta(minutes=1), timedelta(minutes=2)
    found: Counter[tuple[Any, ...]] = Counter()
    for d in detector:
        flows = [
            t
            for t in traffic
            if d["target"] == t["target"]
            and t["megabytes"] >= 10
            and -two <= d["ts"] - t["ts"] <= one
        ]
        for h in honeypot:
            if abs(d["ts"] - h["ts"]) > two or len({*d["signs"]} & {*h["signs"]}) < 3:
                continue
            for t in flows:
                if -two <= h["ts"] - t["ts"] <= one:
                    at = t["ts"].replace(tzinfo=None)  # Spark's files name no time zone; it is UTC
                    found[d["id"], h["id"], d["target"], at, t["megabytes"]] += 1
    return found


def put_out(path: Path, *columns: str) -> Counter[tuple[Any, ...]]:
    table = ds.dataset(path, format="parquet", partitioning="hive").to_table().select(columns)
    return Counter(zip(*table.to_pydict().values(), strict=True))


def test_the_example_runs_and_its_results_are_those_of_plain_loops(
    example: Path, anabranch: Command
) -> None:
    done = anabranch("run", str(example / "correlate.toml"))
    assert done.returncode == 0, done.stdout + done.stderr
    answer = expected()
    columns = ("alert", "trap", "target", "at", "megabytes")
    assert put_out(example / "out" / "results", *columns) == answer
    assert f"{answer.total():,} results in" in done.stdout
    assert "batch 3: " in done.stdout


def test_explaining_the_example_starts_nothing(example: Path, spark: SparkSession) -> None:
    text = build_query(read_job(example / "correlate.toml"), spark).explain()
    assert all(name in text for name in ("detector", "honeypot", "traffic", "overlap"))
    assert not (example / "out").exists()


def test_a_job_on_rate_runs_until_it_is_told_to_stop(tmp_path: Path, anabranch: Command) -> None:
    job = tmp_path / "rate.toml"
    job.write_text(RATE)
    done = anabranch("run", str(job), "--batches", "3", "--master", "local[2]")
    assert done.returncode == 0, done.stdout + done.stderr
    assert put_out(tmp_path / "out", "l", "r").total() > 0


def test_a_wrong_query_is_one_message_and_exit_code_2(tmp_path: Path, anabranch: Command) -> None:
    job = tmp_path / "rate.toml"
    job.write_text(RATE.replace("left.id AS l", "left.nothing AS l"))
    done = anabranch("run", str(job), "--master", "local[1]")
    assert done.returncode == 2
    assert "anabranch: " in done.stderr
    assert "nothing" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_expression_that_spark_refuses_names_its_stream(spark: SparkSession) -> None:
    job = parse_job(RATE.replace("timestamp AS ts", "moment AS ts", 1), "rate.toml", Path("/jobs"))
    with pytest.raises(AnabranchError, match=r"rate\.toml: \[\[stream\]\] left: .*`moment`"):
        build_query(job, spark)


def test_a_wrong_job_file_is_refused_before_spark_starts(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = tmp_path / "rate.toml"
    job.write_text(RATE.replace("[run]", "[running]"))
    assert main(["run", str(job)]) == 2
    assert (
        capsys.readouterr().err == "anabranch: rate.toml: unknown key running; did you mean run?\n"
    )


def test_a_job_without_run_says_what_to_add(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    job = tmp_path / "rate.toml"
    job.write_text(RATE[: RATE.index("[run]")])
    assert main(["run", str(job)]) == 2
    assert "rate.toml has no [run]; add where results and state go" in capsys.readouterr().err


@pytest.mark.parametrize("seconds", ["-1", "0", "nan", "inf", "soon"])
def test_a_demo_takes_a_number_of_seconds(seconds: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["demo", f"--seconds={seconds}"])
    assert f"'{seconds}' is not a number of seconds above zero" in capsys.readouterr().err


def test_the_cameras_see_what_the_definition_says(tmp_path: Path, spark: SparkSession) -> None:
    shutil.copy(EXAMPLES / "cameras.toml", tmp_path)
    module = runpy.run_path(str(EXAMPLES / "make_images.py"))
    module["write"](tmp_path / "data")
    cameras = [
        pa.concat_tables([module["images"](camera, number) for number in range(module["FILES"])])
        for camera in range(3)
    ]
    times = [np.array(table["ts"].cast(pa.int64())) for table in cameras]
    pixels = [
        np.stack([np.frombuffer(image, np.uint8) for image in table["image"].to_pylist()])
        for table in cameras
    ]

    def alike(one: int, other: int) -> Any:
        """Which images of two cameras match, as a matrix."""
        found = np.zeros((len(pixels[one]), len(pixels[other])), bool)
        for row, image in enumerate(pixels[one]):
            gap = np.maximum(pixels[other], image) - np.minimum(pixels[other], image)
            near = (gap <= 16).reshape(len(gap), -1, 3).all(axis=2)
            found[row] = near.mean(axis=1) >= 0.9
        return found & (np.abs(times[one][:, None] - times[other]) <= 10_000_000)

    gate_hall, hall_yard = alike(0, 1), alike(1, 2)
    gate_yard = np.abs(times[0][:, None] - times[2]) <= 10_000_000
    expected = {
        (int(gate), int(hall), int(yard))
        for gate, hall in np.argwhere(gate_hall)
        for yard in np.flatnonzero(hall_yard[hall] & gate_yard[gate])
    }
    query = build_query(read_job(tmp_path / "cameras.toml"), spark).select(
        "gate.id AS gate", "hall.id AS hall", "yard.id AS yard"
    )
    finish(query, tmp_path, strategy="psp")
    found = delivered(spark, tmp_path)
    assert found
    assert found == Counter(expected)
