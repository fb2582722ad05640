"""What pieces of a stream's time cost their hosts: the pairs that a batch compares there."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from anabranch.routing.base import Situation
from anabranch.routing.slices import Density, Range

PARTS = 4
"""Parts of a piece that are looked at one by one: windows cut through pieces."""


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
    middles, old, new = _parts(densities[master], fresh[master], pieces)
    pairs = np.zeros(len(pieces))
    for stream, window in enumerate(windows):
        if stream != master:
            since, until = middles - window, middles + windows[master] + 1
            for own, others in ((new, densities[stream]), (old, fresh[stream])):
                pairs += (own * (others.counts(until) - others.counts(since))).sum(axis=1)
    return [float(count) for count in pairs]


def pairs_visited(
    situation: Situation,
    densities: Sequence[Density],
    stream: int,
    visits: Mapping[int, float],
    pieces: Sequence[Range],
) -> list[float]:
    """For pieces of a stream's time, the pairs of its rows and what comes by on routes.

    `visits` has the streams whose new rows come by, and how many combinations each of them has
    become by then. They meet new rows only of streams before their own.
    """
    if not pieces:
        return []
    middles, old, new = _parts(densities[stream], Density(situation.new[stream]), pieces)
    windows = situation.query.windows
    pairs = np.zeros(len(pieces))
    for start, each in visits.items():
        fresh = Density(situation.new[start])
        since, until = middles - windows[start], middles + windows[stream] + 1
        met = old + new if stream < start else old
        pairs += each * (met * (fresh.counts(until) - fresh.counts(since))).sum(axis=1)
    return [float(count) for count in pairs]


def _parts(
    density: Density, fresh: Density, pieces: Sequence[Range]
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The middles of the parts of each piece, and the old and the new rows in them."""
    bounds = np.clip(np.array(pieces, np.int64), density.first, density.last)
    edges = np.linspace(bounds[:, 0], bounds[:, 1] + 1, PARTS + 1, axis=1)
    new = np.diff(fresh.counts(edges))
    old = np.diff(density.counts(edges)) - new
    return (edges[:, 1:] + edges[:, :-1]) / 2, old, new
