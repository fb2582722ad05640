"""Turning ranges of rows into pairs of row numbers, in pieces of bounded size."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from anabranch.kernel.base import PAIRS_AT_ONCE, Ints, Pairs


def ranges(start: Ints, stop: Ints) -> Iterator[Pairs]:
    """Every probe row `i` beside each of the positions `start[i] … stop[i] - 1`.

    >>> [(p.tolist(), r.tolist()) for p, r in ranges(np.array([4, 0]), np.array([6, 1]))]
    [([0, 0, 1], [4, 5, 0])]
    """
    counts = np.maximum(stop - start, 0)
    probes = np.flatnonzero(counts)
    if not len(probes):
        return
    counts, start = counts[probes], start[probes]
    ends = np.cumsum(counts)
    first = 0
    while first < len(probes):
        done = ends[first - 1] if first else 0
        last = max(int(np.searchsorted(ends, done + PAIRS_AT_ONCE, "right")), first + 1)
        piece = slice(first, last)
        size = int(ends[last - 1] - done)
        shift = start[piece] - (ends[piece] - counts[piece] - done)
        yield (
            np.repeat(probes[piece], counts[piece]),
            np.arange(size) + np.repeat(shift, counts[piece]),
        )
        first = last


def everything(probes: int, targets: int) -> Iterator[Pairs]:
    """All pairs: what is left where nothing can be indexed."""
    return ranges(np.zeros(probes, np.int64), np.full(probes, targets, np.int64))
