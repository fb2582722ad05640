"""Tasks that give rows which were set aside to their sinks."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from anabranch.kernel.block import Block
from anabranch.spark.tasks import UNTIMED, arrow_schema
from anabranch.spark.worker import settle
from anabranch.state.aside import REASON, STAGE
from anabranch.state.segment import SegmentRef, read_segment
from anabranch.state.store import Store


@dataclass(frozen=True)
class AsideTask:
    """Gives back the rows that were set aside, each in the struct column of its stream."""

    store: Store
    streams: tuple[str, ...]
    refs: tuple[SegmentRef, ...]
    schema: bytes
    """Arrow schema: columns that describe a row, then one struct column per stream."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        for _ in batches:
            for ref in self.refs:
                yield self._rows(ref, read_segment(self.store.files, ref))

    def _rows(self, ref: SegmentRef, block: Block) -> pa.RecordBatch:
        schema = arrow_schema(self.schema)
        described = self._described(ref, block)
        arrays = []
        for field_ in schema:
            kind = field_.type
            if field_.name not in self.streams:
                arrays.append(described[field_.name].cast(kind))
            elif field_.name != self.streams[ref.stream]:
                arrays.append(pa.nulls(len(block), kind))
            else:
                columns = [_column(block, child) for child in kind]
                arrays.append(pa.StructArray.from_arrays(columns, fields=list(kind)))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)

    def _described(self, ref: SegmentRef, block: Block) -> dict[str, pa.Array]:
        untimed = block.times == UNTIMED
        return {
            "stream": pa.array([self.streams[ref.stream]] * len(block), pa.string()),
            "reason": pa.array(np.where(untimed, "null time", "late").tolist(), pa.string()),
            "time": pa.array(block.times, mask=untimed),
        }


@dataclass(frozen=True)
class DeadTask(AsideTask):
    """The same for rows that a term or an expression could not handle."""

    batch: int

    def _described(self, ref: SegmentRef, block: Block) -> dict[str, pa.Array]:
        return {
            **super()._described(ref, block),
            "stage": block.columns[STAGE],
            "reason": block.columns[REASON],
            "batch": pa.array([self.batch] * len(block), pa.int32()),
        }


def _column(block: Block, wanted: pa.Field) -> pa.Array:
    """A column of rows that were set aside; of rows that had been stored, some are gone."""
    if wanted.name not in block.columns:
        return pa.nulls(len(block), wanted.type)
    return block.columns[wanted.name].cast(wanted.type)
