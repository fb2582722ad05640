"""Comparing a row once, however many partial results it is part of.

In an m-way join, a row that has matched a hundred others would look for partners in the next
stream a hundred times. Where that is costly, it looks once, within the widest times of all.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from anabranch.kernel.base import Ints, Pairs, Probe
from anabranch.kernel.pairs import ranges
from anabranch.kernel.partial import Refs


class Once:
    """The distinct rows that look for partners by one column, and the way back to all of them."""

    def __init__(self, refs: Refs, position: int, column: str, low: Ints, high: Ints) -> None:
        which = np.int64(0) if refs.which is None else refs.which.astype(np.int64) << 40
        _, first, number = np.unique(
            refs.rows.astype(np.int64) + which, return_index=True, return_inverse=True
        )
        self._order = np.argsort(number, kind="stable")
        self._counts = np.bincount(number)
        self._starts = np.cumsum(self._counts) - self._counts
        self.probe = Probe(
            {position: refs.take(first).column(column)},
            np.minimum.reduceat(low[self._order], self._starts),
            np.maximum.reduceat(high[self._order], self._starts),
        )

    def spread(self, found: Iterator[Pairs]) -> Iterator[Pairs]:
        """The same pairs for every partial result that a row is part of."""
        for rows, partners in found:
            start = self._starts[rows]
            for at, positions in ranges(start, start + self._counts[rows]):
                yield self._order[positions], partners[at]
