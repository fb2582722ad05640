"""What the diffusion operator knows of live rows: all of them, and which hosts have which.

It is also what was committed: a host that has lost its memory gets its rows from here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain

import numpy as np
import numpy.typing as npt

from anabranch.kernel.equality import mix
from anabranch.model.query import Query
from anabranch.routing.base import Plan
from anabranch.routing.reach import reach_of
from anabranch.sim.tuples import Ints, Tuples

Bools = npt.NDArray[np.bool_]

OldRows = Mapping[int, Mapping[int, tuple[Tuples, Ints]]]
"""By host and stream, rows with the epochs that brought them."""


NOT_RETIRING = -1


class Live:
    """Live rows of one stream in the order of their arrival, and a row of `held` for each host."""

    def __init__(self, hosts: int) -> None:
        self.rows = Tuples.none()
        self.epochs: Ints = np.empty(0, np.int64)
        self.held: Bools = np.zeros((hosts, 0), np.bool_)
        self.retiring = np.zeros((hosts, 0), np.int32)
        """The epoch after which a host may drop a row that it needs no more."""

    def add(self, rows: Tuples, epoch: int) -> None:
        self.rows = Tuples.joined([self.rows, rows])
        self.epochs = np.concatenate([self.epochs, np.full(len(rows), epoch)])
        fresh = np.zeros((len(self.held), len(rows)), np.bool_)
        self.held = np.concatenate([self.held, fresh], axis=1)
        staying = np.full(fresh.shape, NOT_RETIRING, np.int32)
        self.retiring = np.concatenate([self.retiring, staying], axis=1)

    def expire(self, horizon: int) -> None:
        left = self.rows.times >= horizon
        if not left.all():
            self.rows, self.epochs = self.rows.take(left), self.epochs[left]
            self.held, self.retiring = self.held[:, left], self.retiring[:, left]


class Directory:
    """All streams."""

    def __init__(self, query: Query, hosts: int) -> None:
        self._query, self._hosts = query, hosts
        self.live = [Live(hosts) for _ in query.streams]

    def expire(self, watermark: int | None) -> None:
        if watermark is not None:
            for live, window in zip(self.live, self._query.windows, strict=True):
                live.expire(watermark - window)

    def forget_places(self) -> None:
        """No host has anything any more."""
        for live in self.live:
            live.held[:] = False
            live.retiring[:] = NOT_RETIRING

    def needed(self, plan: Plan, epoch: int, watermark: int | None) -> list[Bools]:
        """For each stream, which hosts must have which rows to carry a plan out."""
        found = [np.zeros(live.held.shape, np.bool_) for live in self.live]
        for host, stream, inside in chain(self._kept(plan), self._shared(plan)):
            found[stream][host] |= inside
        for stream, owner, inside in self._visited(plan, epoch):
            found[stream][owner[inside], np.flatnonzero(inside)] = True
        for stream, live in enumerate(self.live):
            found[stream] &= live.epochs <= epoch
            if watermark is not None:  # rows that expired wait here for epochs before
                found[stream] &= live.rows.times >= watermark - self._query.windows[stream]
        return found

    def reclaim(self, needed: Sequence[Bools]) -> None:
        """Rows that a host was to drop and still has are its own again, if it needs them."""
        for live, needs in zip(self.live, needed, strict=True):
            again = needs & (live.retiring != NOT_RETIRING)
            live.held |= again
            live.retiring[again] = NOT_RETIRING

    def missing(self, epoch: int, needed: Sequence[Bools]) -> list[Bools]:
        """Rows from before an epoch that hosts need and have not got."""
        return [
            needs & ~live.held & (live.epochs < epoch)
            for live, needs in zip(self.live, needed, strict=True)
        ]

    def hand_over(self, epoch: int, needed: Sequence[Bools], watermark: int | None) -> None:
        """Hosts get what they need; what they need no more goes once epochs before are committed.

        Rows that have expired go by themselves.
        """
        for live, needs, window in zip(self.live, needed, self._query.windows, strict=True):
            idle = live.held & ~needs
            if watermark is not None:
                idle &= live.rows.times >= watermark - window
            live.retiring[idle] = epoch - 1
            live.held &= ~idle
            live.held |= needs

    def due(self, first: int | None) -> Iterator[tuple[int, int, Ints]]:
        """Hosts, streams and ids of rows that may go now; `first` is the first epoch under way."""
        for stream, live in enumerate(self.live):
            going = live.retiring != NOT_RETIRING
            if first is not None:
                going &= live.retiring < first
            for host in np.flatnonzero(going.any(axis=1)).tolist():
                yield host, stream, live.rows.ids[going[host]]
            live.retiring[going] = NOT_RETIRING

    def rows_of(self, which: Sequence[Bools]) -> OldRows:
        """What was kept here for segments to come (LD07, section 3)."""
        found: dict[int, dict[int, tuple[Tuples, Ints]]] = {}
        for stream, (live, some) in enumerate(zip(self.live, which, strict=True)):
            for host in np.flatnonzero(some.any(axis=1)).tolist():
                rows = live.rows.take(some[host]), live.epochs[some[host]]
                found.setdefault(host, {})[stream] = rows
        return found

    def _kept(self, plan: Plan) -> Iterator[tuple[int, int, Bools]]:
        """Hosts, streams, and the rows that the plan has them keep."""
        for host, streams in plan.keeps.items():
            for stream, ranges in streams.items():
                times = self.live[stream].rows.times
                for first, last in ranges:
                    yield host, stream, (times >= first) & (times <= last)

    def _shared(self, plan: Plan) -> Iterator[tuple[int, int, Bools]]:
        """Hosts, streams, and the rows that their shares are made of."""
        for share in plan.shares:
            for box in share.boxes if not share.counts_only else ():
                reach = reach_of(self._query, box)
                for stream, live in enumerate(self.live):
                    inside = np.ones(len(live.rows), np.bool_)
                    if reach:
                        first, last = reach[stream]
                        inside = (live.rows.times >= first) & (live.rows.times <= last)
                    if share.groups is not None:
                        inside &= in_groups(live.rows, share.groups)
                    yield share.host, stream, inside

    def _visited(self, plan: Plan, epoch: int) -> Iterator[tuple[int, Ints, Bools]]:
        """For every hop, who owns each row of the stream that it visits, and which are in reach."""
        for route in plan.routes:
            for hop, (first, last) in zip(route.hops, route.reaches, strict=True):
                live = self.live[hop.stream]
                times = live.rows.times
                # Of two new rows, the one of the later stream finds the other.
                seen = (live.epochs < epoch) | (hop.stream < route.start)
                owners = np.array(hop.slices.owners, np.int64)
                edges = np.array(hop.slices.edges, np.int64)
                owner = owners[np.searchsorted(edges, times, "right")]
                yield hop.stream, owner, seen & (times >= first) & (times <= last)


def in_groups(rows: Tuples, groups: tuple[tuple[int, int], ...]) -> Bools:
    """Which rows belong to some groups of keys."""
    own = mix(rows.values) >> np.uint64(56)
    found = np.zeros(len(rows), np.bool_)
    for first, last in groups:
        found |= (own >= first) & (own < last)
    return found
