"""What the driver keeps: descriptions of live segments, and never rows."""

from __future__ import annotations

import gc
import tracemalloc
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import anabranch as ab
from anabranch.spark.builder import JoinQuery
from tests.streams import KEYED, file_stream, finish, table

MEGABYTE = 1 << 20


def sparse(rows: int, batch: int) -> pa.Table:
    """Rows whose keys are all different, so that both streams together give one result a row."""
    first = batch * rows
    return table(KEYED, [(batch, first + row, first + row) for row in range(rows)])


def paired(spark: SparkSession, home: Path, rows: int, batches: int) -> JoinQuery:
    tables = [sparse(rows, batch) for batch in range(batches)]
    streams = [
        ab.stream(name, file_stream(spark, home / name, tables), time="ts", window="3 seconds")
        for name in "ab"
    ]
    return ab.join(*streams).on("a.k = b.k").select("a.id AS a", "b.id AS b")


def peak(spark: SparkSession, home: Path, rows: int, batches: int) -> tuple[int, int]:
    """The most that the driver's Python held at once while it ran, and the last manifest's size."""
    query = paired(spark, home, rows, batches)
    gc.collect()
    tracemalloc.start()
    try:
        run = finish(query, home)
        most = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert run.progress["results_total"] == rows * batches
    manifest = max((home / "checkpoint" / "manifests").glob("*.json"))
    return most, manifest.stat().st_size


def test_the_driver_holds_no_rows(spark: SparkSession, tmp_path: Path) -> None:
    few, _ = peak(spark, tmp_path / "few", rows=20, batches=4)
    many, _ = peak(spark, tmp_path / "many", rows=40_000, batches=4)
    # The rows themselves, two streams of 24 bytes a row, are 8 MB, and the results as many more.
    assert many - few < MEGABYTE, (few, many)


def test_the_driver_keeps_what_is_live_however_long_it_runs(
    spark: SparkSession, tmp_path: Path
) -> None:
    _, early = peak(spark, tmp_path / "short", rows=20, batches=8)
    # A manifest has a digest for each file of Spark's source logs, which Spark compacts after every
    # tenth batch: there are as many after 27 batches as after 8.
    _, late = peak(spark, tmp_path / "long", rows=20, batches=27)
    assert late == pytest.approx(early, rel=0.1)


def test_a_checkpoint_in_use_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    query = paired(spark, tmp_path, rows=2, batches=1)
    checkpoint = str(tmp_path / "checkpoint")
    first = query.start(ab.parquet_sink(str(tmp_path / "out")), checkpoint=checkpoint)
    try:
        with pytest.raises(ab.CheckpointError, match="in use by process"):
            query.start(ab.parquet_sink(str(tmp_path / "out")), checkpoint=checkpoint)
        assert first.is_active
    finally:
        first.stop()
    again = query.start(
        ab.parquet_sink(str(tmp_path / "out")), checkpoint=checkpoint, trigger="available now"
    )
    assert again.await_termination()
