"""A batch that explodes is seen while it does."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import anabranch as ab
from anabranch.spark.run import Run
from tests.streams import KEYED, file_stream, table

MANY = 20_000


def nowhere(frame: DataFrame, _batch: int) -> None:
    frame.write.format("noop").mode("overwrite").save()


def exploding(spark: SparkSession, home: Path, *terms: str, **options: Any) -> Run:
    """20,000 rows of each of two streams, all with the key 42."""
    rows = table(KEYED, [(row / MANY, 42, row) for row in range(MANY)])
    streams = [
        ab.stream(name, file_stream(spark, home / name, [rows]), time="ts", window="5 seconds")
        for name in "ab"
    ]
    query = ab.join(*streams).on("a.k = b.k", *terms).select("a.id AS a", "b.id AS b")
    return query.start(nowhere, checkpoint=str(home / "checkpoint"), **options)


def seen(run: Run) -> dict[str, Any]:
    """The progress of a run whose tasks have said twice how far they are."""
    first = 0
    deadline = time.monotonic() + 90
    while time.monotonic() < deadline:
        progress = run.progress
        now = progress["under_way"]
        if now is not None and now["tasks"]:
            first = first or now["compared"]
            if now["compared"] > first:
                return progress
        run.await_termination(0.2)
    raise AssertionError(run.progress)


@pytest.mark.long
def test_rows_are_counted_while_a_slow_source_is_read(spark: SparkSession, tmp_path: Path) -> None:
    def slow(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            time.sleep(1.5)
            yield batch

    rows = table(KEYED, [(0, row, row) for row in range(400_000)])
    frame = file_stream(spark, tmp_path / "in", [rows])
    streams = [
        ab.stream(name, frame.mapInArrow(slow, frame.schema), time="ts", window="5 seconds")
        for name in "ab"
    ]
    query = ab.join(*streams).on("a.k = b.k").select("a.id AS a")
    run = query.start(nowhere, checkpoint=str(tmp_path / "checkpoint"))
    read = set[int]()
    try:
        while not run.progress["batches"]:
            now = run.progress["under_way"]
            if now is not None and now["phase"] == "ingest":
                read.add(now["rows"])
            assert run.await_termination(0.2) is False
    finally:
        run.stop()
    assert 0 in read
    assert 100_000 <= max(read) < 800_000


@pytest.mark.parametrize("strategy", ["hash", "psp"])
def test_diagnose_names_the_key_while_the_batch_runs(
    spark: SparkSession, tmp_path: Path, strategy: str
) -> None:
    run = exploding(spark, tmp_path, strategy=strategy)
    try:
        progress = seen(run)
        sentence = run.diagnose().sentence
    finally:
        run.stop()
    now = progress["under_way"]
    assert progress["batches"] == 0
    assert (now["batch"], now["phase"], now["rows"]) == (0, "join", 2 * MANY)
    assert 2 < now["seconds"] < 90
    assert now["results"] > 1_000_000
    assert now["multiplying"][0]["values"] == {"k": "42"}
    assert sentence.startswith("Batch 0 is under way: join, after ")
    assert "of 40,000 rows" in sentence
    assert "The row that multiplies most is of" in sentence
    assert "(k=42)" in sentence
    assert run.progress["under_way"] is None, "nothing is under way in a run that has ended"


@pytest.mark.long
def test_diagnose_names_the_key_that_is_compared_in_vain(
    spark: SparkSession, tmp_path: Path
) -> None:
    run = exploding(spark, tmp_path, "a.id + b.id = -1", strategy="central")
    try:
        now = seen(run)["under_way"]
        sentence = run.diagnose().sentence
    finally:
        run.stop()
    assert now["results"] == 0
    assert "Most pairs are compared for a row of" in sentence
    assert "k=42" in sentence
