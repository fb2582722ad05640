"""What a segment of ATR costs its host: the pairs that a batch compares there."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from anabranch.routing.base import Situation
from anabranch.routing.slices import Density, Range

PARTS = 4
"""Parts of a segment that are looked at one by one: windows cut through segments."""


def pairs_of(
    situation: Situation,
    densities: Sequence[Density],
    windows: Sequence[int],
    master: int,
    pieces: Sequence[Range],
) -> list[float]:
    """For pieces of the master's time, the pairs of its rows and slaves' that a batch compares.

    One of the two is new, and each is in the other's window. Rows are taken to lie where the middle
    of a small part of a piece lies.
    """
    if not pieces:
        return []
    fresh = [Density(refs) for refs in situation.new]
    first, last = densities[master].first, densities[master].last
    bounds = np.clip(np.array(pieces, np.int64), first, last)
    edges = np.linspace(bounds[:, 0], bounds[:, 1] + 1, PARTS + 1, axis=1)
    middles = (edges[:, 1:] + edges[:, :-1]) / 2
    new = np.diff(fresh[master].counts(edges))
    old = np.diff(densities[master].counts(edges)) - new
    pairs = np.zeros(len(pieces))
    for stream, window in enumerate(windows):
        if stream != master:
            since, until = middles - window, middles + windows[master] + 1
            for own, others in ((new, densities[stream]), (old, fresh[stream])):
                pairs += (own * (others.counts(until) - others.counts(since))).sum(axis=1)
    return [float(count) for count in pairs]
