"""A block of rows of one stream, ready to be probed: Arrow columns, times, and the indexes.

A block is what a segment holds. It is built once, when its rows arrive, and never changes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from anabranch.kernel.base import Index, Ints, Target
from anabranch.kernel.columns import numbers
from anabranch.kernel.equality import code_index, group_bounds
from anabranch.kernel.kernels import kernels_of
from anabranch.model.query import TIME, Query, Term

SEGMENT, ROW = "#segment", "#row"
"""Columns of rows that came from another host: what they are known by."""

KEY = "key"
"""The name of the index on the key that spans all streams. Others are named by their term."""


def term_index(position: int) -> str:
    """The name of the index of the term at a position."""
    return f"term{position}"


@dataclass(frozen=True)
class Block:
    """Rows of one stream in the order of its key's codes or, without such a key, of time."""

    columns: Mapping[str, pa.Array]
    times: Ints
    indexes: Mapping[str, Index]
    span: tuple[int, int] | None = None
    """The first and last time of the rows, or of more than these; found out if not given."""
    name: str = ""
    """What tells its rows from those of other blocks: its segment."""
    offset: int = 0
    """The number that its first row has in its segment."""

    def __post_init__(self) -> None:
        if self.span is None:
            known = (int(self.times.min()), int(self.times.max())) if len(self.times) else (0, -1)
            object.__setattr__(self, "span", known)

    @property
    def first(self) -> int:
        assert self.span is not None
        return self.span[0]

    @property
    def last(self) -> int:
        assert self.span is not None
        return self.span[1]

    def __len__(self) -> int:
        return len(self.times)

    def keyed(self, start: int, stop: int) -> Block:
        """Rows `start … stop - 1` of a block that is in the order of its key: no copy."""
        key = self.indexes[KEY]
        return Block(
            {name: column.slice(start, stop - start) for name, column in self.columns.items()},
            self.times[start:stop],
            {KEY: {**key, "codes": key["codes"][start:stop]}},
            self.span,
            self.name,
            self.offset + start,
        )

    def target(self, position: int, term: Term, stream: int) -> Target:
        """What the kernel of a term needs to probe this block."""
        return Target(
            operand_columns(term, stream, self.columns),
            self.indexes.get(term_index(position), {}),
            self.times,
        )

    def group_starts(self) -> Ints:
        return group_bounds(self.indexes[KEY]["codes"])


def operand_columns(
    term: Term, stream: int, columns: Mapping[str, pa.Array]
) -> dict[int, pa.Array]:
    """The columns of one stream that a term works on, by operand position."""
    return {
        position: columns[operand.column]
        for position, operand in enumerate(term.operands)
        if operand.stream == stream
    }


def build(query: Query, stream: int, table: pa.Table) -> Block:
    """Sort rows and index them for every term that can probe them.

    `table` has the stream's stored columns and its time. Where a key spans all streams, every
    probe goes through it and no other index is worth its space.
    """
    times = numbers(_whole(table.column(TIME)))
    if query.key is not None:
        keys = numbers(_whole(table.column(query.key[stream])))
        order, index = code_index(keys, times)
        return _arranged(query, stream, table, times, order, {KEY: index})
    order = np.argsort(times, kind="stable")
    block = _arranged(query, stream, table, times, order, {})
    indexes: dict[str, Index] = {}
    for position, (term, kernel) in enumerate(zip(query.terms, kernels_of(query), strict=True)):
        if stream in term.streams and len(term.streams) == 2:
            columns = operand_columns(term, stream, block.columns)
            prepared = kernel.prepare(stream, columns, block.times)
            if prepared:
                indexes[term_index(position)] = prepared
    return Block(block.columns, block.times, indexes)


def _arranged(
    query: Query,
    stream: int,
    table: pa.Table,
    times: Ints,
    order: np.ndarray[tuple[int], np.dtype[np.intp]],
    indexes: Mapping[str, Index],
) -> Block:
    names = [column.name for column in query.stored[stream]]
    if bool(np.all(order[:-1] < order[1:])):
        columns = {name: _whole(table.column(name)) for name in names}
        return Block(columns, times, indexes)
    positions = pa.array(order)
    columns = {name: _whole(table.column(name)).take(positions) for name in names}
    return Block(columns, times[order], indexes)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return column.combine_chunks()


def total_rows(blocks: Sequence[Block]) -> int:
    """Rows of several blocks together."""
    return sum(len(block) for block in blocks)
