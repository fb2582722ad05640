"""What the operators say to each other.

Messages of the data path name the attempt that they belong to, and say how many tuples they give
their receiver to work on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from anabranch.kernel.order import Step
from anabranch.model.query import Query
from anabranch.routing.base import Box, Plan
from anabranch.routing.reach import reach_of
from anabranch.routing.slices import BEGINNING, Range
from anabranch.sim.tuples import Combos, Ints, Tuples

Rows = Mapping[int, Tuples]
"""Rows by the position of their stream."""


class OfAnOrder:
    """A message that belongs to an epoch."""

    order: Order

    @property
    def attempt(self) -> int:
        return self.order.attempt

    @property
    def load(self) -> int:
        return 0


class OfAUnit:
    """A message that belongs to a cycle on a ring."""

    unit: Unit

    @property
    def attempt(self) -> int:
        return self.unit.order.attempt

    @property
    def load(self) -> int:
        return 0


class OfAnAttempt:
    """A message about rows that are kept."""

    attempt: int
    load = 0


@dataclass(frozen=True, eq=False)
class Order:
    """What is to be done in an epoch, for all who take part in it: known, not sent."""

    epoch: int
    attempt: int
    plan: Plan
    steps: Sequence[Sequence[Step]]
    """Of each stream, for probes that stay on one host."""
    along: Sequence[Sequence[Step]]
    """Of each route."""
    safe: int | None
    """The watermark before the first epoch that may still be under way: older rows may go."""
    ring: tuple[int, ...] = ()

    @cached_property
    def hops(self) -> list[list[Visit]]:
        """Of each route, its hops as a host wants to know them."""
        return [
            [
                Visit(
                    reach,
                    np.array(hop.slices.edges, np.int64),
                    np.array(hop.slices.owners, np.int64),
                    hop.hosts(reach),
                    ",".join(map(str, (route.start, *(h.stream for h in route.hops[: at + 1])))),
                )
                for at, (hop, reach) in enumerate(zip(route.hops, route.reaches, strict=True))
            ]
            for route in self.plan.routes
        ]


@dataclass(frozen=True, eq=False)
class Visit:
    """A hop: the times in reach, who owns which of them, who must be asked, and its name."""

    reach: Range
    edges: Ints
    owners: Ints
    hosts: tuple[int, ...]
    name: str

    def owned_by(self, host: int, rows: Tuples) -> Tuples:
        """Of some rows, those that fall into the slices of a host."""
        own = self.owners[np.searchsorted(self.edges, rows.times, "right")] == host
        return rows if own.all() else rows.take(own)


@dataclass(frozen=True)
class Part:
    """A part of the answer that one host makes, by the times of some streams' rows.

    After a change of master, rows of the old and of the new one bear marks: `*` joins only what is
    before the change, `#` only what is after it (LD07, section 3).
    """

    box: Box
    groups: tuple[tuple[int, int], ...] | None = None

    @property
    def mark(self) -> str:
        if len(self.box) < 2:
            return ""
        return "*" if any(first <= BEGINNING for first, _ in self.box.values()) else "#"

    def bounds(self) -> Box:
        """The times that rows must have to be joined here, marks included."""
        return self.box

    def reach(self, query: Query) -> Mapping[int, Range]:
        return reach_of(query, self.box)


@dataclass(frozen=True, eq=False)
class Assignment(OfAnOrder):
    """From the diffusion operator to a host: rows to keep, and rows to probe with."""

    order: Order
    rows: Rows
    old: Mapping[int, tuple[Tuples, Ints]]
    """Rows of epochs before that the host needs and has not got, with these epochs."""
    parts: tuple[Part, ...] = ()
    probes: Mapping[int, Tuples] = field(default_factory=dict)
    """By the number of the route, the rows that set out from here."""
    tuples: int = 0

    @property
    def load(self) -> int:
        return self.tuples


@dataclass(frozen=True, eq=False)
class Passage(OfAnOrder):
    """From host to host: combinations on their next hop (CTR)."""

    order: Order
    source: int
    stage: int
    route: int
    combos: Combos

    @property
    def load(self) -> int:
        return len(self.combos)


@dataclass(frozen=True, eq=False)
class Done(OfAnOrder):
    """From a host to the diffusion operator: messages are dealt with, and so many came of them."""

    order: Order
    stage: int
    messages: int
    spawned: int
    results: int
    report: Mapping[str, Any]


@dataclass(frozen=True, eq=False)
class Results(OfAnOrder):
    """From a host to the fusion operator."""

    order: Order
    count: int
    arrivals: float
    ids: Ints | None


@dataclass(frozen=True, eq=False)
class Commit(OfAnOrder):
    """To the fusion operator: the epoch is done, and consists of so many messages."""

    order: Order
    results: int


@dataclass(frozen=True, eq=False)
class Committed:
    """From the fusion operator: the epoch's results are delivered, and will not be again."""

    epoch: int


@dataclass(frozen=True, eq=False)
class Reset:
    """To all: what was under way is void, and memory is rebuilt from what was committed.

    `lives` says how often each host is known to have come back: one that has since crashed again
    waits for a reset that knows of it.
    """

    attempt: int
    lives: tuple[int, ...]


@dataclass(frozen=True, eq=False)
class Back:
    """From a host that has crashed and returned, with nothing in its memory."""

    host: int
    life: int


@dataclass(frozen=True, eq=False)
class Send(OfAnAttempt):
    """To a host: hand these rows to another one (a slice moves)."""

    attempt: int
    stream: int
    ids: Ints
    target: int


@dataclass(frozen=True, eq=False)
class Moved(OfAnAttempt):
    """From host to host, or from what was committed: rows that move."""

    attempt: int
    stream: int
    rows: Tuples
    epochs: Ints


@dataclass(frozen=True, eq=False)
class Arrived(OfAnAttempt):
    """To the diffusion operator: rows that were moved, or dropped, are where they should be."""

    attempt: int


@dataclass(frozen=True, eq=False)
class Drop(OfAnAttempt):
    """To a host: rows that nothing under way needs here any more."""

    attempt: int
    stream: int
    ids: Ints


@dataclass(frozen=True, eq=False)
class Purge(OfAnAttempt):
    """To a host that an epoch leaves out: what has expired may go all the same."""

    attempt: int
    safe: int


@dataclass(frozen=True, eq=False)
class Build(OfAnOrder):
    """Along the ring: rows on the way to the host whose slice they fall into (PSP)."""

    order: Order
    rows: Rows


@dataclass(frozen=True, eq=False)
class Unit:
    """New rows of one stream and epoch on a ring: what one END tuple brings to an end."""

    order: Order
    number: int
    route: int

    @property
    def start(self) -> int:
        return self.order.plan.routes[self.route].start

    @property
    def visits(self) -> list[Visit]:
        return self.order.hops[self.route]

    @property
    def steps(self) -> Sequence[Step]:
        return self.order.along[self.route]


@dataclass(frozen=True, eq=False)
class Probe(OfAUnit):
    """Along the ring: rows that purge, and look for partners in every slice."""

    unit: Unit
    rows: Tuples

    @property
    def load(self) -> int:
        return len(self.rows)


@dataclass(frozen=True, eq=False)
class Train(OfAUnit):
    """Along the ring: intermediate results, each for one round, and the END tuple in front.

    `cargo` names the position on the ring where results were made, at which their round ends.
    `hop` counts the streams that they have still to meet from; the last train carries END alone.
    """

    unit: Unit
    hop: int
    cargo: tuple[tuple[int, Combos], ...]
    second_round: bool = False
    results: int = 0
    reports: tuple[Mapping[str, Any], ...] = ()

    @property
    def load(self) -> int:
        return sum(len(combos) for _, combos in self.cargo)


@dataclass(frozen=True, eq=False)
class Ended(OfAUnit):
    """From the head of a ring: the last END tuple has come back."""

    unit: Unit
    results: int
    reports: tuple[Mapping[str, Any], ...]
