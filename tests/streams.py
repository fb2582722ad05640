"""Small live streams for tests: a table a batch, as files in the order of their times."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

import anabranch as ab
from anabranch.spark.builder import JoinQuery
from anabranch.spark.run import Run
from anabranch.spark.sinks import Sink

START = datetime(2026, 1, 1, tzinfo=UTC)
Answer = Counter[tuple[Any, ...]]


def at(seconds: float) -> datetime:
    """A moment, in seconds after the start of all tests."""
    return START + timedelta(seconds=seconds)


def table(schema: dict[str, pa.DataType], rows: Sequence[tuple[Any, ...]]) -> pa.Table:
    """Literal rows; a column `ts` is written in seconds after the start."""
    names = list(schema)
    literal = [dict(zip(names, row, strict=True)) for row in rows]
    for row in literal:
        if isinstance(row.get("ts"), int | float):
            row["ts"] = at(row["ts"])
    return pa.Table.from_pylist(literal, pa.schema(schema))


TS = pa.timestamp("us", tz="UTC")
KEYED = {"ts": TS, "k": pa.int64(), "id": pa.int64()}


def write_file(directory: Path, batch: int, rows: pa.Table) -> None:
    directory.mkdir(parents=True, exist_ok=True)
    file = directory / f"{batch:04d}.parquet"
    pq.write_table(rows, file)
    os.utime(file, (1_700_000_000 + batch, 1_700_000_000 + batch))


def file_stream(spark: SparkSession, directory: Path, batches: Sequence[pa.Table]) -> DataFrame:
    """A stream that gives one of the tables a batch."""
    for batch, rows in enumerate(batches):
        write_file(directory, batch, rows)
    schema = spark.createDataFrame(batches[0].slice(0, 0)).schema
    return spark.readStream.schema(schema).option("maxFilesPerTrigger", 1).parquet(str(directory))


def finish(
    query: JoinQuery, home: Path, strategy: str = "auto", late: Sink | None = None, **options: Any
) -> Run:
    """Run a query over all there is, into `home/out`, with its checkpoint in `home/checkpoint`."""
    run = query.start(
        ab.parquet_sink(str(home / "out")),
        checkpoint=str(home / "checkpoint"),
        strategy=strategy,
        trigger="available now",
        late=late,
        **options,
    )
    run.await_termination()
    return run


def delivered(spark: SparkSession, home: Path, name: str = "out") -> Answer:
    """What is in the Parquet sink, as a multiset."""
    return counted(spark.read.parquet(str(home / name)).drop("batch").toArrow())


def counted(answer: pa.Table) -> Answer:
    return Counter(tuple(row.values()) for row in answer.to_pylist())
