"""Inputs and outputs of the reference answer: Spark evaluates what only Spark can."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F

from anabranch.model.query import TIME
from anabranch.spark.builder import JoinQuery
from anabranch.spark.envelope import KEEP, Envelope
from anabranch.spark.frames import Finisher


def stored_tables(query: JoinQuery) -> list[pa.Table]:
    """The rows of each stream that pass its filters, as stored columns and times."""
    compiled = query.compiled.query
    envelope = Envelope.of(compiled)
    tables = []
    for position, source in enumerate(query.inputs):
        packed = envelope.pack(compiled, position, source)
        if KEEP in packed.columns:
            packed = packed.filter(F.col(KEEP)).drop(KEEP)
        rows = list(_unpacked(envelope, packed.toArrow()))
        table = pa.concat_tables(rows) if rows else _nothing(envelope, position, packed.toArrow())
        tables.append(table.filter(pc.is_valid(table.column(TIME))).combine_chunks())
    return tables


def _unpacked(envelope: Envelope, rows: pa.Table) -> Iterator[pa.Table]:
    for batch in rows.to_batches():
        for _, table in envelope.unpack(batch):
            yield table


def _nothing(envelope: Envelope, stream: int, rows: pa.Table) -> pa.Table:
    columns = [rows.column(TIME), *(rows.column(f"s{slot}") for slot in envelope.slots[stream])]
    return pa.Table.from_arrays(columns, [TIME, *envelope.names[stream]])


def finished(query: JoinQuery, answer: pa.Table) -> pa.Table:
    """Joined columns, with the conditions and expressions that span streams applied by Spark."""
    spark = query.inputs[0].frame.sparkSession
    if not answer.num_rows:
        answer = pa.Table.from_pylist([], answer.schema)  # Spark takes no column without a chunk
    return Finisher(query.compiled.finish).apply(spark.createDataFrame(answer)).toArrow()
