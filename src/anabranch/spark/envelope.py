"""One schema for the rows of all streams, so that a batch is read in a single pass.

The rows of a stream are packed into columns that are shared by type: the first bigint of every
stream travels in the same column. A wide union with a column of its own for each column of each
stream would carry mostly nulls.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType, StructType

from anabranch.model.query import TIME, Query
from anabranch.spark.guard import FAULT, Guard
from anabranch.spark.inputs import Input

STREAM = "stream"
KEEP = "keep"


def spark_type(text: str) -> DataType:
    """A type from Spark's JSON of it."""
    wrapped = {"name": "it", "type": json.loads(text), "nullable": True, "metadata": {}}
    return StructType.fromJson({"fields": [wrapped]})["it"].dataType


@dataclass(frozen=True)
class Envelope:
    """Which slot carries which stored column of which stream."""

    types: tuple[str, ...]
    slots: tuple[tuple[int, ...], ...]
    names: tuple[tuple[str, ...], ...]

    @staticmethod
    def of(query: Query) -> Envelope:
        types: list[str] = []
        slots: list[tuple[int, ...]] = []
        for stored in query.stored:
            used: Counter[str] = Counter()
            row: list[int] = []
            for column in stored:
                same = [slot for slot, kind in enumerate(types) if kind == column.type]
                if used[column.type] == len(same):
                    types.append(column.type)
                    same.append(len(types) - 1)
                row.append(same[used[column.type]])
                used[column.type] += 1
            slots.append(tuple(row))
        names = tuple(tuple(column.name for column in stored) for stored in query.stored)
        return Envelope(tuple(types), tuple(slots), names)

    def pack(self, query: Query, stream: int, source: Input, *, guarded: bool = False) -> DataFrame:
        """The rows of one stream in the common schema, with its filters' verdict beside them.

        If guarded, a row on which an expression fails says so, and evaluating it does not fail.
        """
        guard = Guard.of(query, stream, source)
        spec = query.streams[stream]
        row = source.frame.select(F.struct(F.col("*")).alias(spec.name))
        time = F.unix_micros(F.col(spec.name).getField(spec.time).cast("timestamp"))
        columns: list[Column] = [F.lit(stream).cast("tinyint").alias(STREAM), time.alias(TIME)]
        if guarded:
            row = row.select("*", F.expr(guard.fault).alias(FAULT))
            columns.append(F.col(f"`{FAULT}`"))
        if any(query.filters):
            verdict = guard.verdict if guarded else guard.keep.sql
            columns.append(F.expr(verdict).alias(KEEP))
        by_slot = dict(zip(self.slots[stream], query.stored[stream], strict=True))
        for slot, kind in enumerate(self.types):
            stored = by_slot.get(slot)
            value = F.lit(None).cast(spark_type(kind))
            if stored is not None:
                value = F.expr(guard.value(stored) if guarded else stored.sql)
            columns.append(value.alias(f"s{slot}"))
        return row.select(*columns)

    def unpack(self, batch: pa.RecordBatch) -> Iterator[tuple[int, pa.Table]]:
        """The rows of each stream in a batch: stored columns, and `#time` (null where unknown)."""
        streams = batch.column(STREAM).to_numpy()
        for stream in np.unique(streams):
            part = batch
            if streams[0] != stream or not (streams == stream).all():
                part = batch.filter(pa.array(streams == stream))
            arrays = [part.column(TIME), *(part.column(f"s{s}") for s in self.slots[stream])]
            names = [TIME, *self.names[stream]]
            if FAULT in part.schema.names:
                arrays.append(part.column(FAULT))
                names.append(FAULT)
            yield int(stream), pa.Table.from_arrays(arrays, names)


def tagged_union(
    query: Query, envelope: Envelope, inputs: Sequence[Input], *, streaming: bool
) -> DataFrame | None:
    """All inputs of one kind (streaming or static) as one DataFrame; None if there are none."""
    guarded = any(
        Guard.of(query, position, source).needed for position, source in enumerate(inputs)
    )
    packed = [
        envelope.pack(query, position, source, guarded=guarded)
        for position, source in enumerate(inputs)
        if source.frame.isStreaming == streaming
    ]
    union = packed[0] if packed else None
    for frame in packed[1:]:
        union = union.unionAll(frame) if union is not None else frame
    return union
