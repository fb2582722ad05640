"""Join tasks: pure functions of committed segments and a plan, run in Spark's Python workers."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.kernel.block import Block, build
from anabranch.kernel.order import Step
from anabranch.kernel.probe import Join
from anabranch.model.query import TIME, Query
from anabranch.routing.base import Share
from anabranch.state.segment import SegmentRef, read_segment
from anabranch.state.store import Store

UNTIMED = int(np.iinfo(np.int64).min)
"""Stands for a missing time among rows that were set aside."""

_opened: dict[tuple[str, str], tuple[str, Block]] = {}
"""Segments that this worker has mapped. A cache, never the truth: workers come and go."""


def opened(store: Store, refs: Sequence[SegmentRef], run: str) -> list[Block]:
    """Map segments, each once in a run: the next run checks them anew."""
    blocks = []
    for ref in refs:
        name = (store.files.root, ref.path)
        if name not in _opened or _opened[name][0] != run:
            _opened[name] = (run, read_segment(store.files, ref))
        blocks.append(_opened[name][1])
    return blocks


def forget_others(store: Store, paths: frozenset[str]) -> None:
    """Unmap the segments of this store that are live no more."""
    for root, path in list(_opened):
        if root == store.files.root and path not in paths:
            del _opened[root, path]


@dataclass(frozen=True)
class Merge:
    """Segments to rewrite as one."""

    stream: int
    refs: tuple[SegmentRef, ...]


@dataclass(frozen=True)
class JoinTask:
    """Serves the hosts whose numbers are in its partition."""

    query: Query
    store: Store
    batch: int
    orders: tuple[tuple[Step, ...], ...]
    shares: Mapping[int, Share]
    schema: bytes
    """Arrow schema of the results, serialized."""
    merges: Mapping[int, tuple[Merge, ...]] = field(default_factory=dict)
    run: str = ""
    """Which run this is: a worker outlives it, and may serve another over the same files."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for host in batch.column(0).to_pylist():
                if host in self.shares:
                    yield from self._serve(self.shares[host])

    def _serve(self, share: Share) -> Iterator[pa.RecordBatch]:
        live = {ref.path for refs in (*share.old, *share.new) for ref in refs}
        forget_others(self.store, frozenset(live))
        join = Join(self.query, self.orders)
        old = [self._blocks(refs, share) for refs in share.old]
        new = [self._blocks(refs, share) for refs in share.new]
        schema = arrow_schema(self.schema)
        for results in join.run(old, new):
            columns = [
                column if column.type == field.type else column.cast(field.type)
                for column, field in zip(results.columns, schema, strict=True)
            ]
            yield pa.RecordBatch.from_arrays(columns, schema=schema)
        merged = [self._merge(merge) for merge in self.merges.get(share.host, ())]
        report = {**json.loads(join.tally.to_json()), "merged": merged}
        self.store.report(self.batch, share.host, json.dumps(report))

    def _blocks(self, refs: Sequence[SegmentRef], share: Share) -> list[Block]:
        blocks = opened(self.store, refs, self.run)
        if share.groups is None:
            return blocks
        slices = []
        for block in blocks:
            starts = block.group_starts()
            for first, last in share.groups:
                if starts[last] > starts[first]:
                    slices.append(block.keyed(int(starts[first]), int(starts[last])))
        return slices

    def _merge(self, merge: Merge) -> dict[str, Any]:
        blocks = opened(self.store, merge.refs, self.run)
        rows = pa.concat_tables(
            pa.table({TIME: pa.array(block.times), **block.columns}) for block in blocks
        )
        block = build(self.query, merge.stream, rows)
        ref = self.store.add(self.batch, merge.stream, block, "merged")
        return {"from": [ref.path for ref in merge.refs], "into": ref.to_dict()}


@dataclass(frozen=True)
class LateTask:
    """Gives back the rows that were set aside, each in the struct column of its stream."""

    store: Store
    streams: tuple[str, ...]
    refs: tuple[SegmentRef, ...]
    schema: bytes

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for _ in batches:
            for ref in self.refs:
                yield self._rows(ref, read_segment(self.store.files, ref))

    def _rows(self, ref: SegmentRef, block: Block) -> pa.RecordBatch:
        schema = arrow_schema(self.schema)
        untimed = block.times == UNTIMED
        reasons = np.where(untimed, "null time", "late")
        arrays: list[pa.Array] = [
            pa.array([self.streams[ref.stream]] * len(block), pa.string()),
            pa.array(reasons.tolist(), pa.string()),
            pa.array(block.times, mask=untimed).cast(schema.field("time").type),
        ]
        for stream, name in enumerate(self.streams):
            kind = schema.field(name).type
            if stream != ref.stream:
                arrays.append(pa.nulls(len(block), kind))
                continue
            columns = [block.columns[child.name].cast(child.type) for child in kind]
            arrays.append(pa.StructArray.from_arrays(columns, fields=list(kind)))
        return pa.RecordBatch.from_arrays(arrays, schema=schema)


def arrow_schema(serialized: bytes) -> pa.Schema:
    """A schema that came with the task."""
    return pa.ipc.read_schema(pa.py_buffer(serialized))
