"""Running a drawn case in every way there is, each answer as a multiset of ids."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

import anabranch as ab
from anabranch.kernel.local import LocalJoin
from anabranch.spark.builder import JoinQuery
from anabranch.spark.oracle import finished, stored_tables
from tests.contract.drawing import NAMES, Case, table
from tests.streams import Answer, counted, file_stream


def query(case: Case, frames: Sequence[DataFrame]) -> JoinQuery:
    streams = [
        ab.stream(
            name,
            frame,
            time="ts",
            window=f"{case.windows[position]} seconds",
            lateness=f"{case.lateness[position]} seconds",
        )
        for position, (name, frame) in enumerate(zip(NAMES, frames, strict=False))
    ]
    ids = [f"{stream.name}.id AS {stream.name}_id" for stream in streams]
    return ab.join(*streams).on(*case.terms).select(*ids)


def static(spark: SparkSession, case: Case) -> JoinQuery:
    """The query over all rows at once."""
    frames = [spark.createDataFrame(table(case.rows(s))) for s in range(case.streams)]
    return query(case, frames)


def strategies(joined: JoinQuery) -> list[str]:
    """The strategies that the query allows."""
    return ["central", "hash"] if joined.compiled.query.key is not None else ["central"]


def by_spark_sql(case: Case, joined: JoinQuery) -> Answer:
    """The same query as a batch join in Spark SQL: windows and terms as one condition."""
    frames = [source.frame.alias(source.name) for source in joined.inputs]
    product = frames[0]
    for frame in frames[1:]:
        product = product.crossJoin(frame)
    names = NAMES[: case.streams]
    conditions = [f"({term})" for term in case.terms]
    for i, earlier in enumerate(names):
        window = case.windows[i] * 1_000_000
        conditions += [
            f"unix_micros({later}.ts) - unix_micros({earlier}.ts) <= {window}"
            for later in names
            if later != earlier
        ]
    chosen = product.filter(" AND ".join(conditions))
    return counted(
        chosen.select(*(F.col(f"{name}.id").alias(f"{name}_id") for name in names)).toArrow()
    )


def by_kernel(case: Case, joined: JoinQuery) -> Answer:
    """The kernels alone, without Spark, batch by batch, and no row too late."""
    tables = stored_tables(joined)
    compiled = joined.compiled.query
    patient = tuple(replace(stream, lateness=10**12) for stream in compiled.streams)
    local = LocalJoin(replace(compiled, streams=patient))
    pieces = []
    for batch in range(len(case.batches)):
        shares = [_share(t, batch, len(case.batches)) for t in tables]
        pieces += list(local.push(shares))
    schema = [
        (o.name, tables[o.operand.stream].schema.field(o.operand.column).type)
        for o in joined.compiled.query.outputs
    ]
    return counted(finished(joined, pa.Table.from_batches(pieces, pa.schema(schema))))


def _share(rows: pa.Table, batch: int, batches: int) -> pa.Table:
    edges = [rows.num_rows * b // batches for b in range(batches + 1)]
    return rows.slice(edges[batch], edges[batch + 1] - edges[batch])


def streaming(spark: SparkSession, case: Case, directory: Path) -> JoinQuery:
    """The query over file streams, a file of each stream a batch."""
    frames = [
        file_stream(
            spark,
            directory / NAMES[stream],
            [table(list(batch[stream])) for batch in case.batches],
        )
        for stream in range(case.streams)
    ]
    return query(case, frames)


def timely(case: Case) -> tuple[Case, list[int]]:
    """The case without the rows that are late by the definition, and how many those are."""
    watermark: datetime | None = None
    greatest: list[datetime | None] = [None] * case.streams
    late = [0] * case.streams
    kept_batches = []
    for batch in case.batches:
        kept = []
        for stream, rows in enumerate(batch):
            good = [row for row in rows if watermark is None or row["ts"] >= watermark]
            late[stream] += len(rows) - len(good)
            times = [row["ts"] for row in good] + [greatest[stream]]
            greatest[stream] = max((t for t in times if t is not None), default=None)
            kept.append(tuple(good))
        kept_batches.append(tuple(kept))
        marks = [
            time - timedelta(seconds=lateness)
            for time, lateness in zip(greatest, case.lateness, strict=True)
            if time is not None
        ]
        if len(marks) == case.streams:
            watermark = min(marks) if watermark is None else max(watermark, min(marks))
    return Case(case.windows, case.lateness, case.terms, tuple(kept_batches)), late
