"""CTR, coordinated tuple routing (LD07, section 4): each segment goes where its partners are.

A table says which hosts hold each segment of each stream. New segments visit the other streams in
some order; each hop needs hosts that together hold every segment in reach, which is a weighted set
cover, solved greedily, with the hosts of the hop before taken first, since what is there already
need not be sent. Hosts weigh alike until they have their part of a batch, and their load after
that. Of all orders tried, the one with the least to send (Eq. 3) wins. Where several hosts hold a
segment, one of them joins it, and only that one.

LD07 keeps a new segment on the hosts of its first hop. If those are few, so are the next ones,
until everything is on one host (PSP09, section 7). Here a segment is kept on the host that is least
loaded of all, and copied to one that its first hop visits anyway: places follow load, not covers.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from anabranch.adapt.events import Event
from anabranch.adapt.load import Weights
from anabranch.errors import QueryError
from anabranch.model.query import Query
from anabranch.routing.adaptive import HOP, AdaptiveRouter, checked_hop
from anabranch.routing.base import Hop, Plan, Route, Situation
from anabranch.routing.paths import Holders, Path, Paths
from anabranch.routing.reach import reaches
from anabranch.routing.slices import Density, Range, Slices, segment_length, united
from anabranch.state.segment import SegmentRef

MOST_SEGMENTS = 16
"""Of one window: what a route costs to find grows with them."""
MOST_NEW = 64
"""Segments that one batch may begin."""
PIECES = 8
"""Segments of a long batch for each host: the more, the more evenly they can be dealt out."""
HUB = 1.2
"""How much more than others a host may keep, because it is on the way of what comes."""
AT_EASE = 0.5
"""The load up to which a host may have more to do than others: evening that out gains nothing."""

PLACEMENTS = ("spread", "cover")
WARM = 5
"""Hosts of a segment while few are placed: LD07 found these enough to reach all hosts soon."""

Segment = tuple[Range, Holders]
"""Times of a stream, and the hosts that keep its rows."""


@dataclass(frozen=True)
class Ctr:
    """Options of CTR."""

    copies: int = 2
    """On how many hosts a segment is kept: one is least memory, more make covers smaller."""
    segment: str | None = None
    """Length of a segment, like "1 second"; None: a part of the stream's window."""
    optimized: bool = True
    """False: hosts that cover are chosen at random, LD07's unoptimized CTR."""
    hop: float = HOP
    """Seconds that a further hop is taken to cost: a batch that one host joins faster than its hops
    would take is joined by one host. 0: never."""
    placement: str = "spread"
    """Where new segments are kept: "spread" (by load), or "cover" (where their first hop goes, as
    LD07 has it: less is sent, and work may collapse onto few hosts)."""
    weights: Weights = field(default_factory=Weights)

    def __post_init__(self) -> None:
        checked_hop(self.hop)
        if not isinstance(self.copies, int) or self.copies < 1:
            raise QueryError(f"copies is {self.copies!r}; write a whole number from 1")
        if self.placement not in PLACEMENTS:
            allowed = " and ".join(PLACEMENTS)
            raise QueryError(f"placement is {self.placement!r}; there are {allowed}")


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
        self.loads.settle(self.work.parts(situation.waiting))
        densities = [Density(situation.all(s)) for s in range(len(self._names))]
        self._forget(situation, densities)
        chance = None if self.options.optimized else np.random.default_rng(situation.batch)
        old = [Density(refs) for refs in situation.old]
        paths = Paths(
            situation, densities, old, self._table, self.loads, self.work, self._fair, chance
        )
        routes: list[Route] = []
        events: list[Event] = []
        sent = copied = 0.0
        for start in range(len(self._names)):
            fresh = Density(situation.new[start])
            if fresh.first is None or fresh.last is None:
                continue
            segments = self._segments(situation, start, fresh, densities[start])
            for together in self._together(situation, start, segments, fresh):
                times = _clipped(together, (fresh.first, fresh.last))
                path = paths.best(start, times, max(fresh.between(*times), 1.0))
                for segment, holders in together:
                    rows = max(fresh.between(*segment), 1.0)
                    placed = holders
                    if not holders:
                        placed, event = self._place(start, segment, rows, path)
                        events.append(event)
                    copied += rows * len(set(placed) - path.hosts[0])
                for host, pairs in path.work.items():
                    self.loads.expect(host, self.work.part(pairs))
                sent += path.sent
                routes.append(
                    Route(
                        start,
                        times,
                        tuple(map(Hop, path.order, path.hops)),
                        reaches(situation.query, start, times, path.order),
                    )
                )
                events.append(self._routed(start, times, path))
        plan = Plan(
            self.hosts,
            routes=tuple(routes),
            keeps=self._keeps(),
            events=tuple(events),
            predicted={"sent_rows": sent, "copied_rows": copied},
        )
        return self._gathered(plan, situation, self.options.hop)

    @property
    def _fair(self) -> float:
        """A host's part of a batch, as the one before had it; less is no reason to send more."""
        return max(self.work.would_take(self.work.before) / self.hosts, AT_EASE)

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
    ) -> list[Segment]:
        """Segments that new rows fall into; those without holders are new themselves."""
        assert fresh.first is not None
        assert fresh.last is not None
        length = self._length(situation, stream, density)
        table = self._table[stream]
        if table is None:
            first = fresh.first if density.first is None else density.first
            table = Slices((first,), ((), ()))
        # Rows that are in their place stay there: a segment ends among new rows, or behind all.
        start = max(table.last_edge, situation.placed(stream) + 1 - length)
        for edge in density.cuts(start, length, MOST_NEW):
            table = table.cut(edge, ())
        self._table[stream] = table
        return list(table.pieces(fresh.first, fresh.last))

    def _together(
        self, situation: Situation, stream: int, segments: Sequence[Segment], fresh: Density
    ) -> list[list[Segment]]:
        """Segments with new rows that take one route: up to a window of them, one after another.

        They need nearly the same rows, and rows that travel together are compared together.
        """
        assert fresh.first is not None
        assert fresh.last is not None
        window = max(s.longest for s in situation.query.streams)
        found: list[list[Segment]] = []
        for segment in segments:
            if not _any_within(situation.new[stream], segment[0]):
                continue
            group = [*found[-1], segment] if found else [segment]
            first, last = _clipped(group, (fresh.first, fresh.last))
            if found and last - first <= window:
                found[-1].append(segment)
            else:
                found.append([segment])
        return found

    def _length(self, situation: Situation, stream: int, density: Density) -> int:
        if self._fixed is not None:
            return self._fixed
        new = situation.new[stream]
        span = max(ref.last for ref in new) - min(ref.first for ref in new)
        window = situation.query.streams[stream].longest
        even = max(window // MOST_SEGMENTS, span // (PIECES * self.hosts), 1)
        # To send a row to one more host should not take longer than to compare it there.
        worth = self.work.per_sent / max(self.work.per_pair, 1e-12) / max(density.rate, 1e-12)
        return max(even, min(round(worth), window))

    # -- placing and telling -----------------------------------------------------------------

    def _place(self, stream: int, times: Range, rows: float, path: Path) -> tuple[Holders, Event]:
        """Keep a new segment where there is least, and where its first hop goes anyway.

        Who is slow keeps less: what a host keeps is what it will be asked for.
        """
        burden = {h: self._kept.get(h, 0.0) * self.loads.slowness(h) for h in range(self.hosts)}
        by_load = sorted(burden, key=lambda h: (burden[h], self.loads.value(h), h))
        first = by_load[0]
        most = HUB * sum(burden.values()) / self.hosts
        near = [
            host
            for host in by_load
            if host in path.hosts[0] and host != first and burden[host] <= most
        ]
        rest = [host for host in by_load if host != first and host not in near]
        spared = sum(self._kept.values()) / self.hosts - self._kept.get(first, 0.0)
        holders = tuple([first, *near, *rest][: min(self.options.copies, self.hosts)])
        if self.options.placement == "cover" and len(path.hosts[0]) >= min(WARM, self.hosts):
            holders = tuple(sorted(path.hosts[0]))
        elif self.options.placement == "cover":  # warm-up: few tuples are placed yet
            holders = tuple(by_load[: min(WARM, self.hosts)])
        for host in holders:
            self._kept[host] = self._kept.get(host, 0.0) + rows
        table = self._table[stream]
        assert table is not None
        self._table[stream] = table.given(_at(table, times[0]), holders)
        what = {"stream": self._names[stream], "from": times[0], "hosts": list(holders)}
        why = f"host {first} keeps the fewest rows for its speed" + (
            f", host {near[0]} is on the way" if near and near[0] in holders else ""
        )
        return holders, Event(
            "placement", why, what, spared, "rows fewer than hosts keep on average"
        )

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


def _clipped(segments: Sequence[Segment], times: Range) -> Range:
    """From the first of some segments to the last, as far as there are rows."""
    return max(segments[0][0][0], times[0]), min(segments[-1][0][1], times[1])


def _any_within(refs: Sequence[SegmentRef], times: Range) -> bool:
    """Whether there may be rows: a question for the segments themselves, not for an estimate."""
    return any(ref.first <= times[1] and ref.last >= times[0] for ref in refs)


def _at(table: Slices[Holders], time: int) -> int:
    return sum(edge <= time for edge in table.edges)


def _remapped(holders: Holders, at: int, hosts: int, *, at_once: bool) -> Holders:
    if at_once:
        return tuple((at + copy) % hosts for copy in range(min(len(holders), hosts)))
    return tuple(dict.fromkeys(host % hosts for host in holders))
