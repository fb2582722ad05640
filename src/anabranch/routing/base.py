"""Routing: every combination of rows meets once, on hosts that a strategy chooses.

A strategy is asked once a batch, after the batch's rows have become segments and before any is
joined. It sees sizes and times, never rows, and answers with a plan. There are two kinds:

- **shares**: each host makes whole results, of some groups of keys or of some boxes of times;
- **routes**: new rows visit the other streams hop by hop, and each hop divides the time axis of
  the stream it visits among hosts.

Either way the plan of a batch is complete in itself: a strategy may decide differently for the
next batch, whatever it decided before, and no result is lost or repeated.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from anabranch.adapt.events import Event
from anabranch.adapt.load import Usage
from anabranch.kernel.order import Step, fan_out, steps
from anabranch.model.query import Query
from anabranch.routing.slices import BEGINNING, Range, Slices
from anabranch.state.segment import SegmentRef

Segments = Sequence[Sequence[SegmentRef]]
"""Segments of each stream, by its position."""

Box = Mapping[int, Range]
"""Times that the rows of some streams must have; those of the others follow from the windows."""


@dataclass(frozen=True)
class Share:
    """The results that one host makes from beginning to end."""

    host: int
    groups: tuple[tuple[int, int], ...] | None = None
    """Ranges of partition groups, first and one past the last; None for all keys."""
    boxes: tuple[Box, ...] = ({},)
    fresh: tuple[int, ...] = ()
    """Positions of boxes that the host has not had before: for these it fetches old rows too."""
    counts_only: bool = False
    """Results are counted and not delivered: how a baseline knows what it loses."""


@dataclass(frozen=True)
class Hop:
    """The stream that is visited, and who holds which of its times."""

    stream: int
    slices: Slices[int]

    def hosts(self, reach: Range) -> tuple[int, ...]:
        """The hosts that may have partners in reach."""
        return tuple(sorted({host for _, host in self.slices.pieces(*reach)}))


@dataclass(frozen=True)
class Route:
    """New rows of one stream, of a range of times, on their way past all other streams."""

    start: int
    times: Range
    hops: tuple[Hop, ...]
    reaches: tuple[Range, ...]
    """For each hop, the times in which its rows may find partners."""


@dataclass(frozen=True)
class Plan:
    """What the hosts do in one batch: shares or routes, not both."""

    hosts: int
    shares: tuple[Share, ...] = ()
    routes: tuple[Route, ...] = ()
    keeps: Mapping[int, Mapping[int, Sequence[Range]]] = field(default_factory=dict)
    """For each host, the times of each stream that it keeps; empty where time divides nothing."""
    narrowed: Mapping[int, float] = field(default_factory=dict)
    """Of some streams, the part of their rows that one share meets: probes visit these early."""
    events: tuple[Event, ...] = ()
    predicted: Mapping[str, float] = field(default_factory=dict)
    """What the papers' equations expect of this batch; measured beside it."""

    def __post_init__(self) -> None:
        """A host that does not exist would take its part of the answer with it."""
        named = {share.host for share in self.shares}
        for route in self.routes:
            for hop in route.hops:
                named.update(hop.slices.owners)
        strangers = sorted(host for host in named if not 0 <= host < self.hosts)
        if strangers:
            raise AssertionError(f"a plan for {self.hosts} hosts names host {strangers[0]}")

    @property
    def hops(self) -> int:
        """How many stages of work there are."""
        return max((len(route.hops) for route in self.routes), default=1)


@dataclass(frozen=True)
class Situation:
    """All that a strategy may know when it decides about a batch."""

    query: Query
    batch: int
    old: Segments
    new: Segments
    watermark: int | None
    selectivities: Mapping[int, float] = field(default_factory=dict)
    """Measured, by the position of the term."""
    partners: Mapping[tuple[int, ...], float] = field(default_factory=dict)
    """Measured: for streams in the order of a visit, the rows of the last one that a combination of
    those before it has found."""
    waiting: Mapping[int, float] = field(default_factory=dict)
    """Seconds of work that hosts have not come to yet; none where batches do not overlap."""

    def all(self, stream: int) -> list[SegmentRef]:
        return [*self.old[stream], *self.new[stream]]

    def visible(self, start: int) -> list[float]:
        """Rows of each stream that new rows of one may meet: new ones only of streams before it.

        As `kernel.probe.visible_to` has it: of two new rows that match, one finds the other.
        """
        return [
            float(sum(ref.rows for ref in (self.all(s) if s < start else self.old[s])))
            for s in range(len(self.new))
        ]

    def placed(self, stream: int) -> int:
        """The last time of a stream's rows that hosts have already."""
        return max((ref.last for ref in self.old[stream]), default=BEGINNING)

    def expected_partners(
        self, visited: Sequence[int], stream: int, rows: Sequence[float]
    ) -> float:
        """How many rows of a stream a combination will find: `σ r W`, as measured or as guessed."""
        known = self.partners.get((*visited, stream))
        if known is not None:
            return known
        return fan_out(self.query, set(visited), stream, rows, self.selectivities)

    def horizon(self, stream: int) -> int | None:
        """The time before which no row of a stream can find a partner any more."""
        if self.watermark is None:
            return None
        return self.watermark - self.query.streams[stream].longest


@dataclass(frozen=True)
class Measured:
    """What came of a batch."""

    seconds: float
    rows: int
    """New rows of all streams."""
    usage: Mapping[int, Usage] = field(default_factory=dict)
    cpu: float = 0.0
    places: int = 1
    """How many hosts can be at work at once."""
    sent: int = 0
    """Intermediate results that went into parcels, once for each host that they were for."""
    sending: float = 0.0
    """CPU seconds that went into packing and unpacking them."""
    shed: float = 0.0
    """The part of all new rows that was not compared, since hosts had too much to do."""


class Router(Protocol):
    """One strategy."""

    name: str
    hosts: int

    def route(self, situation: Situation) -> Plan:
        """Divide the join of what is new with what was there, and with itself."""

    def learn(self, measured: Measured) -> tuple[Event, ...]:
        """Take in what a batch has shown; the decisions that follow for the next."""

    def rescale(self, hosts: int, *, at_once: bool) -> tuple[Event, ...]:
        """Go on with more or fewer hosts. `at_once` moves state; otherwise it moves with time."""

    def forecast(self, rates: Sequence[float], query: Query) -> str:
        """A sentence for `explain`: what this strategy is expected to cost."""

    def snapshot(self) -> Mapping[str, Any]:
        """What a restart must know to decide alike; goes into the manifest."""

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on from a snapshot."""


def probe_orders(situation: Situation, plan: Plan | None) -> tuple[tuple[Step, ...], ...]:
    """For each stream, the steps of a share's probe that starts with its new rows."""
    streams = range(len(situation.query.streams))
    narrowed = {} if plan is None else plan.narrowed
    return tuple(
        steps(
            situation.query,
            start,
            [
                rows * narrowed.get(stream, 1.0)
                for stream, rows in enumerate(situation.visible(start))
            ],
            situation.selectivities,
        )
        for start in streams
    )


def frozen(segments: Segments) -> tuple[tuple[SegmentRef, ...], ...]:
    """Segments as they are now, for a task to take along."""
    return tuple(tuple(refs) for refs in segments)
