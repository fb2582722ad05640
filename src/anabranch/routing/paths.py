"""The ways that CTR finds for new rows past the other streams: set covers, and what they send."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import permutations

import numpy as np

from anabranch.adapt.load import Loads
from anabranch.kernel.order import steps
from anabranch.routing.base import Situation
from anabranch.routing.reach import reaches
from anabranch.routing.slices import BEGINNING, Density, Range, Slices
from anabranch.routing.work import WorkRate

ENOUGH = 2.0
"""Batches of work that wait on a host which will not run dry soon."""
MOST_ORDERS = 6
"""Join orders tried for a segment: all of them for up to four streams."""

Holders = tuple[int, ...]
"""The hosts that hold a segment."""


@dataclass(frozen=True)
class Path:
    """A way past the other streams, and what it would send."""

    order: tuple[int, ...]
    hops: tuple[Slices[int], ...]
    hosts: tuple[frozenset[int], ...]
    sent: float
    """Eq. 3: rows and intermediate results that leave their host."""
    work: Mapping[int, float]
    """Pairs that each host compares."""


@dataclass(frozen=True)
class Paths:
    """The search for paths in one batch."""

    situation: Situation
    densities: Sequence[Density]
    old: Sequence[Density]
    """Of the rows from before this batch alone."""
    table: Sequence[Slices[Holders] | None]
    """Who holds what, stream by stream; it grows while the batch is being placed."""
    loads: Loads
    costs: WorkRate
    fair: float
    """The part of its time that a host works if all do the same: up to there, few are best."""
    chance: np.random.Generator | None = None
    """With it nothing is optimized: one order, and hosts that cover by chance."""

    _loads: dict[int, float] = field(default_factory=dict)
    """By host, as long as nothing more is placed; the same goes for weights."""
    _weights: dict[int, float] = field(default_factory=dict)

    def best(self, start: int, times: Range, rows: float) -> Path:
        """The cheapest way for new rows of a stream, of a range of times."""
        self._loads.clear()
        self._weights.clear()
        paths = [self._path(start, times, rows, order) for order in self._orders(start)]
        return min(paths, key=lambda path: (path.sent, sum(path.work.values())))

    def _orders(self, start: int) -> list[tuple[int, ...]]:
        """The join orders worth trying: all of few, else the likeliest of each first step."""
        situation, live = self.situation, self.situation.visible(start)
        others = [s for s in range(len(live)) if s != start]
        if self.chance is not None:
            order = steps(situation.query, start, live, situation.selectivities)
            return [tuple(step.stream for step in order)]
        if len(others) <= 3:
            return list(permutations(others))
        found = []
        by_rows = sorted(others, key=lambda s: situation.expected_partners((start,), s, live))
        for first in by_rows[:MOST_ORDERS]:
            order_so_far = [start, first]
            while len(order_so_far) <= len(others):
                order_so_far.append(_cheapest(situation, order_so_far, others, live))
            found.append(tuple(order_so_far[1:]))
        return found

    def _path(self, start: int, times: Range, rows: float, order: tuple[int, ...]) -> Path:
        situation = self.situation
        before: frozenset[int] = frozenset()
        hops, hosts, sent = [], [], 0.0
        work: dict[int, float] = {}
        size, made = rows, dict[int, float]()
        visible = situation.visible(start)
        for position, (stream, reach) in enumerate(
            zip(order, reaches(situation.query, start, times, order), strict=True)
        ):
            slices, used, compared = self._hop(
                stream, reach, self._met(start, times, stream), size, before, work
            )
            sent += size * (len(used) - 1 if position == 0 else _receivers(made, used))
            for host, partners in compared.items():
                work[host] = work.get(host, 0.0) + size * partners
            size *= situation.expected_partners((start, *order[:position]), stream, visible)
            hops.append(slices)
            hosts.append(used)
            before, made = used, compared
        return Path(order, tuple(hops), tuple(hosts), sent, work)

    def _hop(
        self,
        stream: int,
        reach: Range,
        met: Callable[[Range], float],
        size: float,
        before: frozenset[int],
        work: Mapping[int, float],
    ) -> tuple[Slices[int], frozenset[int], dict[int, float]]:
        """Who joins which segment in reach; the hosts of it; and the rows that each compares.

        `size` rows arrive, and each is compared with as many rows of a segment as `met` tells;
        `work` is what the hops before give each host to do. Where a host of the cover would get
        more than its part of a batch, others take segments that they hold: all wait for the
        slowest. Where batches overlap nobody waits, and only hosts that would run dry take some.
        """
        table = self.table[stream] or Slices.whole(())
        within = [
            (times, holders, met(_both(times, reach))) for times, holders in table.pieces(*reach)
        ]
        needed = [(times, holders) for times, holders, rows in within if holders and rows]
        chosen = cover(needed, before, self._weight, self.chance)
        fallback = min(chosen or before or {self.loads.least()})
        edges: list[int] = []
        owners: list[int] = [fallback]
        compared: dict[int, float] = {}

        def done(host: int, rows: float) -> tuple[float, int]:
            pairs = work.get(host, 0.0) + size * (compared.get(host, 0.0) + rows)
            sent = 0.0 if host in chosen or host in compared else size
            return self.loads.busy_with(host, self.costs.would_take(pairs, sent)), host

        for times, holders, rows in within:
            near = [host for host in holders if host in chosen] or [fallback]
            host = min(near, key=lambda h: (self._load(h) + _share(compared, h), h))
            if self.chance is None and done(host, rows)[0] > self._enough:
                busy, other = min(done(host, rows) for host in holders or near)
                if busy <= self._enough or not self.loads.mean_waiting:
                    host = other
            compared[host] = compared.get(host, 0.0) + rows
            if times[0] > BEGINNING:
                edges.append(times[0])
                owners.append(host)
            else:
                owners[0] = host
        return (
            Slices(tuple(edges), tuple(owners)),
            frozenset(owners[_first(edges, reach) :]),
            compared,
        )

    def _met(self, start: int, times: Range, stream: int) -> Callable[[Range], float]:
        """For times of a stream, how many of its rows a starting row is compared with."""
        ahead = self.situation.query.streams[start].longest
        behind = self.situation.query.streams[stream].longest
        # As `visible_to` has it: of two new rows one finds the other.
        density = (self.densities if stream < start else self.old)[stream]

        def met(target: Range) -> float:
            first, last = _both((target[0] - ahead, target[1] + behind), times)
            part = max(last - first + 1, 0) / (times[1] - times[0] + 1)
            return density.between(*target) * part

        return met

    def _weight(self, host: int) -> float:
        """The load that counts in a cover: all hosts that have not got enough to do are alike."""
        if host not in self._weights:
            least = max(self.loads.weights.cpu * self._enough, 1e-6)
            self._weights[host] = max(self._load(host), least)
        return self._weights[host]

    @cached_property
    def _enough(self) -> float:
        """What a host may have to do before others take some of it."""
        return self.fair + min(self.loads.mean_waiting, ENOUGH)

    def _load(self, host: int) -> float:
        if host not in self._loads:
            self._loads[host] = self.loads.value(host)
        return self._loads[host]


def cover(
    segments: Iterable[tuple[Range, Holders]],
    before: frozenset[int],
    weight: Callable[[int], float],
    chance: np.random.Generator | None = None,
) -> frozenset[int]:
    """Hosts that together hold all segments, light ones and few: greedy weighted set cover.

    Hosts of the hop before are used first. With `chance` hosts are drawn instead, from all.

    >>> segments = [((0, 1), (1, 2)), ((2, 3), (2, 4)), ((4, 5), (4, 5))]
    >>> sorted(cover(segments, frozenset(), {1: 1, 2: 1, 4: 1, 5: 1}.get))
    [2, 4]
    >>> sorted(cover(segments, frozenset({5}), {1: 1, 2: 1, 4: 1, 5: 1}.get))
    [2, 5]
    """
    left = {times: set(holders) for times, holders in segments}
    chosen: set[int] = set()
    if chance is None:
        chosen = {host for host in before if any(host in holders for holders in left.values())}
    left = {times: holders for times, holders in left.items() if not holders & chosen}
    while left:
        if chance is not None:
            host = int(chance.choice(sorted(next(iter(left.values())))))
        else:
            counts: dict[int, int] = {}
            for holders in left.values():
                for candidate in holders:
                    counts[candidate] = counts.get(candidate, 0) + 1
            host = min(counts, key=lambda h: (weight(h) / counts[h], h))
        chosen.add(host)
        left = {times: holders for times, holders in left.items() if host not in holders}
    return frozenset(chosen)


def _cheapest(
    situation: Situation, visited: Sequence[int], streams: Sequence[int], live: Sequence[float]
) -> int:
    """The stream, of those not visited, in which the fewest partners are expected."""
    left = [stream for stream in streams if stream not in visited]
    return min(left, key=lambda stream: situation.expected_partners(visited, stream, live))


def _receivers(made: Mapping[int, float], used: frozenset[int]) -> float:
    """To how many other hosts a result of the hop before goes, on average over where it was made.

    Eq. 3 counts hosts that are new in this hop. But a result is made on one host, and has to visit
    all the others of the next hop, whether these took part in the hop before or not.
    """
    total = sum(made.values())
    if not total:
        return float(len(used - made.keys()))
    return sum(rows / total * (len(used) - (host in used)) for host, rows in made.items())


def _both(one: Range, other: Range) -> Range:
    return max(one[0], other[0]), min(one[1], other[1])


def _share(compared: Mapping[int, float], host: int) -> float:
    """How much of this hop is on a host already, so that equal hosts take turns."""
    total = sum(compared.values())
    return compared.get(host, 0.0) / total if total else 0.0


def _first(edges: Sequence[int], reach: Range) -> int:
    return sum(edge <= reach[0] for edge in edges)
