"""Partial results of an m-way probe: row numbers only, columns are gathered when asked for."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.kernel.base import Ints, Rows
from anabranch.kernel.block import Block


class Refs:
    """Rows of one stream, over one block or several."""

    __slots__ = ("blocks", "rows", "which")

    def __init__(
        self, blocks: tuple[Block, ...], rows: Rows, which: npt.NDArray[np.int32] | None = None
    ) -> None:
        self.blocks = blocks
        self.rows = rows
        self.which = which
        """Which block each row is of; None where there is one block only."""

    def __len__(self) -> int:
        return len(self.rows)

    def take(self, positions: Rows) -> Refs:
        which = None if self.which is None else self.which[positions]
        return Refs(self.blocks, self.rows[positions], which)

    def column(self, name: str) -> pa.Array:
        """Gather one column."""
        if self.which is None:
            return self.blocks[0].columns[name].take(pa.array(self.rows))
        # One gather a block, over rows grouped by block (a radix sort), then back in order.
        grouped = np.argsort(self.which, kind="stable")
        edges = np.searchsorted(self.which[grouped], np.arange(len(self.blocks) + 1))
        rows = self.rows[grouped]
        pieces = [
            block.columns[name].take(pa.array(rows[start:stop]))
            for block, start, stop in zip(self.blocks, edges[:-1], edges[1:], strict=True)
            if stop > start
        ]
        back = np.empty(len(grouped), np.int64)
        back[grouped] = np.arange(len(grouped))
        return pa.concat_arrays(pieces).take(pa.array(back))


def concatenated(parts: Sequence[Refs]) -> Refs:
    """Several lists of rows, one after the other."""
    blocks: dict[int, Block] = {}
    for part in parts:
        for block in part.blocks:
            blocks.setdefault(id(block), block)
    rows = np.concatenate([part.rows for part in parts])
    if len(blocks) == 1:
        return Refs(tuple(blocks.values()), rows)
    place = {identity: position for position, identity in enumerate(blocks)}
    which = [
        np.full(len(part), place[id(part.blocks[0])], np.int32)
        if part.which is None
        else np.array([place[id(block)] for block in part.blocks], np.int32)[part.which]
        for part in parts
    ]
    return Refs(tuple(blocks.values()), rows, np.concatenate(which))


_NO_TIMES: Ints = np.empty(0, np.int64)


@dataclass(frozen=True)
class Partial:
    """Combinations of rows of some of the streams, all inside each other's windows.

    `latest` is the greatest time in each; `deadline` the last time that a further row may have,
    `min(t_i + W_i)` over the rows in it.
    """

    refs: Mapping[int, Refs]
    latest: Ints
    deadline: Ints
    _gathered: dict[tuple[int, str], pa.Array] = field(default_factory=dict, compare=False)

    def column(self, stream: int, name: str) -> pa.Array:
        """One column of a bound stream, gathered once however many steps ask for it."""
        if (stream, name) not in self._gathered:
            self._gathered[stream, name] = self.refs[stream].column(name)
        return self._gathered[stream, name]

    def __len__(self) -> int:
        return len(next(iter(self.refs.values())))

    def bind(
        self, stream: int, block: Block, probes: Rows, rows: Rows, times: Ints, ends: Ints
    ) -> Partial:
        """These combinations (`probes`), each with one more row (`rows` of the block).

        `times` are those of the new rows, `ends` the last times that their windows reach.
        """
        return Partial(
            self._with(stream, block, probes, rows),
            np.maximum(self.latest[probes], times),
            np.minimum(self.deadline[probes], ends),
        )

    def complete(self, stream: int, block: Block, probes: Rows, rows: Rows) -> Partial:
        """As `bind`, with the last stream: no further row will ask for the times."""
        return Partial(self._with(stream, block, probes, rows), _NO_TIMES, _NO_TIMES)

    def part(self, start: int, stop: int) -> Partial:
        """Some of the combinations, from one position up to another."""
        positions = np.arange(start, stop)
        return Partial(
            {stream: refs.take(positions) for stream, refs in self.refs.items()},
            self.latest[start:stop],
            self.deadline[start:stop],
        )

    def _with(self, stream: int, block: Block, probes: Rows, rows: Rows) -> dict[int, Refs]:
        refs = {bound: ref.take(probes) for bound, ref in self.refs.items()}
        refs[stream] = Refs((block,), rows)
        return refs


def merged(parts: Sequence[Partial]) -> Partial:
    """Combinations of the same streams, found in several blocks."""
    if len(parts) == 1:
        return parts[0]
    return Partial(
        {stream: concatenated([part.refs[stream] for part in parts]) for stream in parts[0].refs},
        np.concatenate([part.latest for part in parts]),
        np.concatenate([part.deadline for part in parts]),
    )
