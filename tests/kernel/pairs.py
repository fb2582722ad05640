"""What a kernel's index finds, and what its definition says, as pairs of row numbers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from anabranch.kernel.base import Kernel, Probe, Target

Pairs = list[tuple[int, int]]
Reach = Sequence[tuple[int, int]] | None
"""For each row of the left side, the first and last row of the right one that it may meet."""


def found(how: Kernel, left: pa.Array, right: pa.Array, reach: Reach = None) -> Pairs:
    """The pairs that the index finds; the right side's times are its row numbers."""
    times = np.arange(len(right))
    low, high = np.array(reach or [(0, len(right))] * len(left)).reshape(-1, 2).T
    index = how.prepare(1, {1: right}, times) or {}
    pieces = how.candidates(1, Target({1: right}, index, times), Probe({0: left}, low, high))
    pairs = [(int(i), int(j)) for p, r in pieces for i, j in zip(p, r, strict=True)]
    assert how.exact
    assert len(set(pairs)) == len(pairs)
    return sorted((i, j) for i, j in pairs if low[i] <= j <= high[i])


def expected(how: Kernel, left: pa.Array, right: pa.Array, reach: Reach = None) -> Pairs:
    """Every pair in reach, by the definition."""
    low, high = np.array(reach or [(0, len(right))] * len(left)).reshape(-1, 2).T
    i, j = np.divmod(np.arange(len(left) * len(right)), len(right))
    inside = (low[i] <= j) & (j <= high[i])
    i, j = i[inside], j[inside]
    holds = how.holds([left.take(pa.array(i)), right.take(pa.array(j))])
    return list(zip(i[holds].tolist(), j[holds].tolist(), strict=True))
