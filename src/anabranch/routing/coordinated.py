"""CTR, coordinated tuple routing (LD07, section 4): each segment goes where its partners are.

A table says which hosts hold each segment of each stream. A new segment visits the other streams in
some order; each hop needs hosts that together hold every segment in reach, which is a weighted set
cover, solved greedily by least load per segment covered, with the hosts of the hop before taken
first, since what is there already need not be sent. Of all orders tried, the one with the
least to send (Eq. 3) wins. Where several hosts of a hop hold a segment, the least loaded one
joins it, and only that one.

LD07 keeps a new segment on the hosts of its first hop. If those are few, so are the next ones,
until everything is on one host (PSP09, section 7). Here a segment is kept on the host that is least
loaded of all, and copied to one that its first hop visits anyway: places follow load, not covers.
"""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any

from anabranch.adapt.events import Event
from anabranch.adapt.load import Weights
from anabranch.errors import QueryError
from anabranch.kernel.order import steps
from anabranch.model.query import Query
from anabranch.routing.adaptive import AdaptiveRouter
from anabranch.routing.base import Hop, Plan, Route, Situation
from anabranch.routing.reach import reaches
from anabranch.routing.slices import BEGINNING, Density, Range, Slices, segment_length, united
from anabranch.state.segment import SegmentRef

MOST_SEGMENTS = 16
"""Of one window: what a route costs to find grows with them."""
MOST_NEW = 64
"""Segments that one batch may begin."""
MOST_ORDERS = 6
"""Join orders tried for a segment: all of them for up to four streams."""
_IDLE = 1e-3
"""Added to every load in a cover: of idle hosts, few are better than many."""

Holders = tuple[int, ...]


@dataclass(frozen=True)
class Ctr:
    """Options of CTR."""

    copies: int = 2
    """On how many hosts a segment is kept: one is least memory, more make covers smaller."""
    segment: str | None = None
    """Length of a segment, like "1 second"; None: a part of the stream's window."""
    optimized: bool = True
    """False: hosts that cover are chosen at random, LD07's unoptimized CTR."""
    weights: Weights = field(default_factory=Weights)

    def __post_init__(self) -> None:
        if not isinstance(self.copies, int) or self.copies < 1:
            raise QueryError(f"copies is {self.copies!r}; write a whole number from 1")


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


class CtrRouter(AdaptiveRouter):
    """Coordinated routing by a table of segments."""

    name = "ctr"

    def __init__(self, query: Query, hosts: int, options: Ctr | None = None) -> None:
        self.options = options or Ctr()
        super().__init__(query, hosts, self.options.weights)
        self._fixed = segment_length(self.options.segment)
        self._table: list[Slices[Holders] | None] = [None] * len(self._names)
        self._kept: dict[int, float] = {}
        """Rows placed on each host, forgotten as they expire."""

    # -- a batch -----------------------------------------------------------------------------

    def route(self, situation: Situation) -> Plan:
        self.loads.settle()
        densities = [Density(situation.all(s)) for s in range(len(self._names))]
        self._forget(situation, densities)
        chance = random.Random(situation.batch)  # noqa: S311 - repeatable, for the unoptimized
        routes: list[Route] = []
        events: list[Event] = []
        sent = copied = 0.0
        for start in range(len(self._names)):
            fresh = Density(situation.new[start])
            if fresh.first is None or fresh.last is None:
                continue
            for times, holders in self._segments(situation, start, fresh, densities[start]):
                if not _any_within(situation.new[start], times):
                    continue
                rows = max(fresh.between(*times), 1.0)
                path = self._best(situation, densities, start, times, rows, chance)
                placed = holders
                if not holders:
                    placed, event = self._place(start, times, rows, path)
                    events.append(event)
                for host, pairs in path.work.items():
                    self.loads.expect(host, self.work.part(pairs))
                sent += path.sent
                copied += rows * len(set(placed) - path.hosts[0])
                routes.append(
                    Route(
                        start,
                        times,
                        tuple(map(Hop, path.order, path.hops)),
                        reaches(situation.query, start, times, path.order),
                    )
                )
                events.append(self._routed(start, times, path))
        return Plan(
            self.hosts,
            routes=tuple(routes),
            keeps=self._keeps(),
            events=tuple(events),
            predicted={"sent_rows": sent, "copied_rows": copied},
        )

    def _keeps(self) -> dict[int, dict[int, list[Range]]]:
        """By host and stream, the times that the table says are there."""
        kept: dict[int, dict[int, list[Range]]] = {host: {} for host in range(self.hosts)}
        for stream, table in enumerate(self._table):
            for times, holders in table.pieces() if table is not None else ():
                for host in holders:
                    kept[host].setdefault(stream, []).append(times)
        return {
            host: {stream: united(ranges) for stream, ranges in mine.items()}
            for host, mine in kept.items()
        }

    def _forget(self, situation: Situation, densities: Sequence[Density]) -> None:
        """Delete the entries that no stream needs any more."""
        self._kept = dict.fromkeys(range(self.hosts), 0.0)
        for stream, table in enumerate(self._table):
            if table is None:
                continue
            horizon = situation.horizon(stream)
            kept = table if horizon is None else table.since(horizon)
            self._table[stream] = kept
            for times, holders in kept.pieces():
                rows = densities[stream].between(*times)
                for host in holders:
                    self._kept[host] = self._kept.get(host, 0.0) + rows

    def _segments(
        self, situation: Situation, stream: int, fresh: Density, density: Density
    ) -> list[tuple[Range, Holders]]:
        """Segments that new rows fall into; those without holders are new themselves."""
        assert fresh.first is not None
        assert fresh.last is not None
        length = self._length(situation, stream)
        table = self._table[stream]
        if table is None:
            first = fresh.first if density.first is None else density.first
            table = Slices((first,), ((), ()))
        start = table.last_edge
        for edge in density.cuts(start, length, MOST_NEW):
            table = table.cut(edge, ())
        self._table[stream] = table
        return list(table.pieces(fresh.first, fresh.last))

    def _length(self, situation: Situation, stream: int) -> int:
        if self._fixed is not None:
            return self._fixed
        new = situation.new[stream]
        span = max(ref.last for ref in new) - min(ref.first for ref in new)
        window = situation.query.streams[stream].longest
        return max(window // MOST_SEGMENTS, span // (2 * self.hosts), 1)

    # -- a path ------------------------------------------------------------------------------

    def _best(
        self,
        situation: Situation,
        densities: Sequence[Density],
        start: int,
        times: Range,
        rows: float,
        chance: random.Random,
    ) -> Path:
        live = [density.rows for density in densities]
        paths = [
            self._path(situation, densities, start, times, rows, order, chance)
            for order in self._orders(situation, start, live)
        ]
        return min(paths, key=lambda path: (path.sent, sum(path.work.values())))

    def _orders(
        self, situation: Situation, start: int, live: Sequence[float]
    ) -> list[tuple[int, ...]]:
        """The join orders worth trying: all of few, else the likeliest of each first step."""
        others = [s for s in range(len(self._names)) if s != start]
        if not self.options.optimized:
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

    def _path(
        self,
        situation: Situation,
        densities: Sequence[Density],
        start: int,
        times: Range,
        rows: float,
        order: tuple[int, ...],
        chance: random.Random,
    ) -> Path:
        live = [density.rows for density in densities]
        before: frozenset[int] = frozenset()
        hops, hosts, sent = [], [], 0.0
        work: dict[int, float] = {}
        size, made = rows, dict[int, float]()
        for position, (stream, reach) in enumerate(
            zip(order, reaches(situation.query, start, times, order), strict=True)
        ):
            slices, used, compared = self._hop(densities[stream], stream, reach, before, chance)
            sent += size * (len(used) - 1 if position == 0 else _receivers(made, used))
            for host, partners in compared.items():
                work[host] = work.get(host, 0.0) + size * partners
            size *= situation.expected_partners((start, *order[:position]), stream, live)
            hops.append(slices)
            hosts.append(used)
            before, made = used, compared
        return Path(order, tuple(hops), tuple(hosts), sent, work)

    def _hop(
        self,
        density: Density,
        stream: int,
        reach: Range,
        before: frozenset[int],
        chance: random.Random,
    ) -> tuple[Slices[int], frozenset[int], dict[int, float]]:
        """Who joins which segment in reach; the hosts of it; and the rows that each compares."""
        table = self._table[stream] or Slices.whole(())
        within = [
            (times, holders, density.between(max(times[0], reach[0]), min(times[1], reach[1])))
            for times, holders in table.pieces(*reach)
        ]
        needed = [(times, holders) for times, holders, rows in within if holders and rows]
        chosen = cover(needed, before, self._weight, None if self.options.optimized else chance)
        fallback = min(chosen or before or {self.loads.least()})
        edges: list[int] = []
        owners: list[int] = [fallback]
        compared: dict[int, float] = {}
        for times, holders, rows in within:
            able = [host for host in holders if host in chosen] or [fallback]
            host = min(able, key=lambda h: (self.loads.value(h) + _share(compared, h), h))
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

    def _weight(self, host: int) -> float:
        return self.loads.value(host) + _IDLE

    # -- placing and telling -----------------------------------------------------------------

    def _place(self, stream: int, times: Range, rows: float, path: Path) -> tuple[Holders, Event]:
        """Keep a new segment where there is least, and where its first hop goes anyway."""
        by_load = sorted(
            range(self.hosts), key=lambda h: (self._kept.get(h, 0.0), self.loads.value(h), h)
        )
        first = by_load[0]
        near = [host for host in by_load if host in path.hosts[0] and host != first]
        rest = [host for host in by_load if host != first and host not in near]
        holders = tuple([first, *near, *rest][: min(self.options.copies, self.hosts)])
        for host in holders:
            self._kept[host] = self._kept.get(host, 0.0) + rows
        table = self._table[stream]
        assert table is not None
        self._table[stream] = table.given(_at(table, times[0]), holders)
        what = {"stream": self._names[stream], "from": times[0], "hosts": list(holders)}
        why = f"host {first} keeps the fewest rows" + (
            f", host {near[0]} is on the way" if near else ""
        )
        return holders, Event("placement", why, what)

    def _routed(self, start: int, times: Range, path: Path) -> Event:
        names = [self._names[stream] for stream in path.order]
        what = {
            "stream": self._names[start],
            "from": times[0],
            "order": names,
            "hosts": [sorted(hosts) for hosts in path.hosts],
        }
        return Event(
            "route", "the least to send of the orders tried (Eq. 3)", what, path.sent, "rows"
        )

    # -- between batches ---------------------------------------------------------------------

    def _divide_among(self, hosts: int, *, at_once: bool) -> str:
        self._table = [
            None
            if table is None
            else Slices(
                table.edges,
                tuple(
                    _remapped(held, at, hosts, at_once=at_once)
                    for at, held in enumerate(table.owners)
                ),
            )
            for table in self._table
        ]
        return "segments are dealt out anew" if at_once else "new segments go to all hosts"

    def forecast(self, rates: Sequence[float], query: Query) -> str:
        copies = min(self.options.copies, self.hosts)
        return (
            f"each row is kept on {copies} host(s), and sent where the rows in its reach are; "
            f"intermediate results take {max(len(query.streams) - 2, 0)} further hop(s) "
            "(LD07, Eq. 4)"
        )

    def _placed(self) -> Mapping[str, Any]:
        return {"table": [None if table is None else table.to_dict() for table in self._table]}

    def _replace(self, placed: Mapping[str, Any]) -> None:
        self._table = [None if t is None else Slices.from_dict(t) for t in placed["table"]]


def cover(
    segments: Iterable[tuple[Range, Holders]],
    before: frozenset[int],
    weight: Any,
    chance: random.Random | None = None,
) -> frozenset[int]:
    """Hosts that together hold all segments, light ones and few: greedy weighted set cover.

    Hosts of the hop before are used first. With `chance` hosts are drawn instead.

    >>> segments = [((0, 1), (1, 2)), ((2, 3), (2, 4)), ((4, 5), (4, 5))]
    >>> sorted(cover(segments, frozenset(), {1: 1, 2: 1, 4: 1, 5: 1}.get))
    [2, 4]
    >>> sorted(cover(segments, frozenset({5}), {1: 1, 2: 1, 4: 1, 5: 1}.get))
    [2, 5]
    """
    left = {times: set(holders) for times, holders in segments}
    chosen = {host for host in before if any(host in holders for holders in left.values())}
    left = {times: holders for times, holders in left.items() if not holders & chosen}
    while left:
        if chance is not None:
            host = chance.choice(sorted(next(iter(left.values()))))
        else:
            counts: dict[int, int] = {}
            for holders in left.values():
                for candidate in holders:
                    counts[candidate] = counts.get(candidate, 0) + 1
            host = min(counts, key=lambda h: (weight(h) / counts[h], h))
        chosen.add(host)
        left = {times: holders for times, holders in left.items() if host not in holders}
    return frozenset(chosen)


def _any_within(refs: Sequence[SegmentRef], times: Range) -> bool:
    """Whether there may be rows: a question for the segments themselves, not for an estimate."""
    return any(ref.first <= times[1] and ref.last >= times[0] for ref in refs)


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


def _share(compared: Mapping[int, float], host: int) -> float:
    """How much of this hop is on a host already, so that equal hosts take turns."""
    total = sum(compared.values())
    return compared.get(host, 0.0) / total if total else 0.0


def _first(edges: Sequence[int], reach: Range) -> int:
    return sum(edge <= reach[0] for edge in edges)


def _at(table: Slices[Holders], time: int) -> int:
    return sum(edge <= time for edge in table.edges)


def _remapped(holders: Holders, at: int, hosts: int, *, at_once: bool) -> Holders:
    if at_once:
        return tuple((at + copy) % hosts for copy in range(min(len(holders), hosts)))
    return tuple(dict.fromkeys(host % hosts for host in holders))
