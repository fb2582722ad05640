"""Segments as blocks, in the memory of a Python worker."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

import numpy as np

from anabranch.kernel.block import Block
from anabranch.routing.slices import Range
from anabranch.state.segment import SegmentRef, read_segment
from anabranch.state.store import Store

_opened: dict[tuple[str, str], tuple[str, Block]] = {}
"""Segments that this worker has mapped. A cache, never the truth: workers come and go."""


@dataclass
class Opener:
    """Maps segments, each once in a run: the next run checks them anew."""

    store: Store
    run: str
    fetched: int = 0
    """Bytes that were not in this worker's memory before."""
    _seen: set[str] = field(default_factory=set)

    def open(self, refs: Iterable[SegmentRef], times: Range | None = None) -> list[Block]:
        """The blocks of segments, of those only that have rows in a range of times."""
        blocks = []
        for ref in refs:
            if times is not None and (ref.last < times[0] or ref.first > times[1]):
                continue
            name = (self.store.files.root, ref.path)
            if name not in _opened or _opened[name][0] != self.run:
                _opened[name] = (self.run, read_segment(self.store.files, ref))
                self.fetched += ref.bytes
            blocks.append(_opened[name][1])
        return blocks

    def forget_others(self, live: frozenset[str]) -> None:
        """Unmap the segments of this store that are no longer live, and delete local copies."""
        self.store.files.forget_copies(live)
        root = self.store.files.root
        for known, path in list(_opened):
            if known == root and path not in live:
                del _opened[known, path]


def rows_within(blocks: Sequence[Block], times: Range) -> int:
    """How many rows have a time in a range."""
    count = 0
    for block in blocks:
        if times[0] <= block.first and block.last <= times[1]:
            count += len(block)
        elif block.first <= times[1] and block.last >= times[0]:
            count += int(np.count_nonzero((block.times >= times[0]) & (block.times <= times[1])))
    return count
