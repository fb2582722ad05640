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

import pyarrow as pa
import pyarrow.dataset as ds
import pytest

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
                    found[d["id"], h["id"], d["target"], t["ts"], t["megabytes"]] += 1
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
    assert "batch 5: " in done.stdout

    again = anabranch("run", str(example / "correlate.toml"))
    assert again.returncode == 0, again.stdout + again.stderr
    assert put_out(example / "out" / "results", *columns) == answer


def test_explain_starts_nothing(example: Path, anabranch: Command) -> None:
    done = anabranch("explain", str(example / "correlate.toml"))
    assert done.returncode == 0, done.stdout + done.stderr
    assert all(name in done.stdout for name in ("detector", "honeypot", "traffic"))
    assert not (example / "out").exists()


def test_a_job_on_rate_stops_after_its_seconds(tmp_path: Path, anabranch: Command) -> None:
    job = tmp_path / "rate.toml"
    job.write_text(RATE)
    done = anabranch("run", str(job), "--seconds", "8", "--master", "local[2]")
    assert done.returncode == 0, done.stdout + done.stderr
    assert put_out(tmp_path / "out", "l", "r").total() > 0


@pytest.mark.parametrize(
    ("written", "instead", "message"),
    [
        ("[run]", "[running]", "unknown key running"),
        ('"timestamp AS ts"', '"tiemstamp AS ts"', "rate.toml: [[stream]] left: "),
        ('"left.id AS l"', '"left.nothing AS l"', "nothing"),
    ],
)
def test_a_wrong_job_is_one_message_and_exit_code_2(
    tmp_path: Path, anabranch: Command, written: str, instead: str, message: str
) -> None:
    job = tmp_path / "rate.toml"
    job.write_text(RATE.replace(written, instead, 1))
    done = anabranch("run", str(job), "--master", "local[1]")
    assert done.returncode == 2
    assert "anabranch: " in done.stderr
    assert message in done.stderr
    assert "Traceback" not in done.stderr
