"""Results that are missing because rows came late are the first thing that a run tells."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

import anabranch as ab
from anabranch.spark.run import Run
from tests.streams import KEYED, delivered, file_stream, finish, table

IN_ORDER = [[(10 * file + row, row, 10 * file + row) for row in range(10)] for file in range(4)]
OUT_OF_ORDER = [IN_ORDER[file] for file in (0, 2, 1, 3)]


def disordered(spark: SparkSession, home: Path, lateness: str = "0 seconds", **options: Any) -> Run:
    """Streams a and b, one result per row; the second file comes after the third in both."""
    batches = [table(KEYED, rows) for rows in OUT_OF_ORDER]
    streams = [
        ab.stream(
            name,
            file_stream(spark, home / name, batches),
            time="ts",
            window="1 second",
            lateness=slack,
        )
        for name, slack in (("a", lateness), ("b", "0 seconds"))
    ]
    query = ab.join(*streams).on("a.id = b.id").select("a.id AS a")
    return finish(query, home, **options)


def warnings(caplog: pytest.LogCaptureFixture) -> list[str]:
    return [r.getMessage() for r in caplog.records if r.name == "anabranch"]


def test_diagnose_begins_with_the_late_rows_and_what_would_have_kept_them(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, "anabranch")
    run = disordered(spark, tmp_path / "none")
    assert delivered(spark, tmp_path / "none").total() == 30, "of 40: a quarter is missing"
    told = (
        "25.0 % of the rows (20 of 80: 10 of a, 10 of b) came behind the watermark and were not "
        "joined. A lateness of 19 seconds on a alone would have kept them all (it has 0 seconds)."
    )
    assert run.diagnose().sentence == f"{told} There is output: 30 results from 4 batches."
    (warned,) = warnings(caplog)
    assert warned.startswith("33.3 % of the rows (20 of 60: 10 of a, 10 of b) came behind the")
    assert "start(..., late=sink) keeps such rows" in warned

    enough = disordered(spark, tmp_path / "enough", "19 seconds")
    assert delivered(spark, tmp_path / "enough").total() == 40
    assert enough.diagnose().sentence == "There is output: 40 results from 4 batches."

    less = disordered(spark, tmp_path / "less", "18.999999 seconds")
    assert less.progress["late"]["rows"] == 2
    assert less.progress["late"]["lateness"] == "19 seconds"


def ignored(_frame: DataFrame, _batch: int) -> None:
    """A sink for late rows that has no use for them."""


@pytest.mark.parametrize(
    "quiet", [{"late_warning": None}, {"late_warning": 0.34}, {"late": ignored}]
)
def test_no_warning_where_it_is_not_wanted(
    spark: SparkSession, tmp_path: Path, caplog: pytest.LogCaptureFixture, quiet: dict[str, Any]
) -> None:
    caplog.set_level(logging.WARNING, "anabranch")
    assert disordered(spark, tmp_path, **quiet).progress["late"]["share"] == 0.25
    assert warnings(caplog) == []


@pytest.mark.parametrize("share", [-0.1, 1.5, float("nan")])
def test_a_share_is_from_none_to_all(spark: SparkSession, tmp_path: Path, share: float) -> None:
    with pytest.raises(ab.QueryError, match="write a share of rows from 0 to 1"):
        disordered(spark, tmp_path, late_warning=share)
