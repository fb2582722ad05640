"""Rows that are set aside: taken out of their segments, and kept until a sink has taken them.

They lie in segments of their own, which the manifest of their batch names: a batch is committed
with them, so that whichever rows were found to be at fault, the same ones leave the state and
reach the sink, however often a batch or its delivery is repeated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pyarrow as pa

from anabranch.kernel.base import Ints
from anabranch.kernel.block import Block, build
from anabranch.model.query import TIME, Query
from anabranch.state.segment import SegmentRef, read_segment
from anabranch.state.store import Store

STAGE, REASON = "#stage", "#reason"
"""Columns of rows that were set aside: where they failed, and why."""

DEAD = "dead"
"""The purpose of such a segment, in its name."""

Found = Mapping[str, Mapping[int, str]]
"""Rows to set aside: by the path of their segment, the reason by row number."""


def dead_block(
    columns: Mapping[str, pa.Array], times: Ints, stage: str, reasons: Sequence[str]
) -> Block:
    """Rows that were set aside, with what is to be said of them."""
    described = {
        STAGE: pa.array([stage] * len(times), pa.string()),
        REASON: pa.array(reasons, pa.string()),
    }
    return Block({**columns, **described}, times, {})


def without_dead(
    store: Store, query: Query, batch: int, refs: Sequence[SegmentRef], found: Found
) -> tuple[list[SegmentRef], list[SegmentRef]]:
    """Segments without some of their rows, and segments of these rows."""
    kept: list[SegmentRef] = []
    dead: list[SegmentRef] = []
    for ref in refs:
        reasons = found.get(ref.path)
        if not reasons:
            kept.append(ref)
            continue
        block = read_segment(store.files, ref)
        rows = np.array(sorted(reasons))
        taken = {name: column.take(pa.array(rows)) for name, column in block.columns.items()}
        aside = dead_block(taken, block.times[rows], "join", [reasons[row] for row in rows])
        dead.append(store.add(batch, ref.stream, aside, DEAD))
        left = np.ones(len(block), np.bool_)
        left[rows] = False
        if left.any():
            table = pa.table({TIME: pa.array(block.times), **block.columns})
            rebuilt = build(query, ref.stream, table.filter(pa.array(left)).combine_chunks())
            kept.append(store.add(batch, ref.stream, rebuilt))
    return kept, dead
