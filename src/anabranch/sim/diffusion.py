"""The diffusion operator: collects rows, asks the router, and has its plans carried out.

Rows are collected for the length of an epoch, and described to the router as segments, just as the
Spark runtime describes a batch. Epochs overlap: the next one is sent as long as hosts have room.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count
from time import perf_counter
from typing import Any

import numpy as np
import simpy

from anabranch.adapt.events import Event
from anabranch.kernel.order import steps_along
from anabranch.kernel.tally import Tally
from anabranch.model.query import Query
from anabranch.model.watermark import Seen, advance, expired_before
from anabranch.report.diffusion import measured
from anabranch.report.statistics import Statistics
from anabranch.routing.adaptive import AdaptiveRouter
from anabranch.routing.aligned import AtrRouter
from anabranch.routing.base import Plan, Router, Situation, probe_orders
from anabranch.routing.sliced import PspRouter
from anabranch.routing.strategies import Strategy, router_for
from anabranch.sim.assignments import assignments
from anabranch.sim.cluster import Cluster
from anabranch.sim.directory import Bools, Directory, OldRows
from anabranch.sim.epochs import Epoch, Progress
from anabranch.sim.messages import (
    Arrived,
    Back,
    Build,
    Commit,
    Committed,
    Done,
    Drop,
    Ended,
    Moved,
    Probe,
    Purge,
    Reset,
    Send,
    Unit,
)
from anabranch.sim.network import DIFFUSION, FUSION
from anabranch.sim.tuples import Ints, Tuples
from anabranch.state.manifest import without_expired
from anabranch.state.segment import SegmentRef

Waits = Generator[simpy.Event, Any, None]
"""A process: what it waits for, one event after the other."""

CYCLES = 4
"""Cycles on a ring at once, for each of its hosts."""
RECENT = 16
"""Epochs over which the pace of a run is measured: single ones come in jumps."""


@dataclass(frozen=True)
class Pacing:
    """How epochs follow each other."""

    epoch: float = 1.0
    """Seconds of rows that are routed together."""
    most: int = 8
    """Epochs of rows that are routed together when they had to wait."""
    in_flight: int = 64
    """Epochs that may be under way at once, where hosts wait for each other."""
    units: int | None = None
    """Cycles on a ring at once: 1 is plain PSP, more is PSP-I; None: some for each host."""
    backlog: float = 4.0
    """Seconds of work that the least busy host may have waiting before the next epoch is sent."""
    preload: float = 0.0
    """Seconds of event time at the beginning in which windows are filled, and nothing is joined."""
    purge_idle: bool = True
    """Whether hosts that get no rows are told the time; else rows are purged by those that come."""


@dataclass(frozen=True)
class Change:
    """Something that is asked for while the join runs, as a user of a run would."""

    at: float
    kind: str
    """rescale, switch, or crown (make ATR change its master now)."""
    hosts: int = 0
    at_once: bool = False
    strategy: Strategy = "central"


@dataclass
class History:
    """What a run leaves behind to look at."""

    plans: list[Plan] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    told: list[tuple[float, str]] = field(default_factory=list)
    late: int = 0
    taken: list[list[Tuples]] = field(default_factory=list)
    """Rows of each stream that were not late: what the answer is about."""
    processed: int = 0
    """Rows whose epochs are committed."""
    resets: int = 0
    routing: float = 0.0
    """Real seconds that the router took: it is the one thing here that is not simulated."""


class Diffusion:
    """Where rows come in."""

    def __init__(
        self,
        cluster: Cluster,
        query: Query,
        strategy: Strategy,
        used: int,
        pacing: Pacing,
        changes: Sequence[Change] = (),
    ) -> None:
        self._env, self._network, self._query = cluster.env, cluster.network, query
        self._hosts, self._hardware, self._pacing = cluster.hosts, cluster.hardware, pacing
        self._changes = deque(sorted(changes, key=lambda change: change.at))
        self._streams = range(len(query.streams))
        self.router = self._router(strategy, used)
        self.history = History(taken=[[] for _ in self._streams])
        self._directory = Directory(query, len(cluster.hosts))
        self._statistics = Statistics()
        self._segments: list[list[SegmentRef]] = [[] for _ in self._streams]
        self._seen = tuple(Seen(None, 0) for _ in self._streams)
        self._watermark: int | None = None
        self._numbers = count()
        self._unit_numbers = count()
        self._attempt = 0
        self._under_way: list[Epoch] = []
        """Epochs that are not committed, in their order."""
        self._again: deque[Epoch] = deque()
        """Of these, the ones to be sent again."""
        self._lives = [0] * len(cluster.hosts)
        self._sent = [0] * len(cluster.hosts)
        """Tuples that each host was sent."""
        self._moving = 0
        self._ring: tuple[int, ...] | None = None
        self._commits: deque[float] = deque(maxlen=RECENT)
        self._stir = cluster.env.event()
        self._arrivals: deque[Mapping[int, Tuples]] = deque()
        self._closed = False
        self._process = cluster.env.process(self._run())

    def _router(self, strategy: Strategy, hosts: int) -> Router:
        router = router_for(self._query, strategy, hosts)
        if isinstance(router, AdaptiveRouter):
            router.loads.capacities = self._hardware.capacities()
            costs = self._hardware.costs  # known here, and learned on Spark
            router.work.per_pair = costs.of_a_pair or router.work.per_pair
            router.work.per_sent = costs.visit or router.work.per_sent
        return router

    # -- rows in -----------------------------------------------------------------------------

    def collect(self, rows: Mapping[int, Tuples]) -> None:
        """Rows of all streams that have come in during the length of an epoch."""
        self._arrivals.append(rows)
        self._notify()

    def close(self) -> None:
        """No more rows will come."""
        self._closed = True
        self._notify()

    @property
    def finished(self) -> bool:
        return self._closed and not self._arrivals and not self._under_way

    def _notify(self) -> None:
        if not self._stir.triggered:
            self._stir.succeed()

    def _something_new(self) -> simpy.Event:
        if self._stir.triggered:
            self._stir = self._env.event()
        return self._stir

    def _run(self) -> Waits:
        while True:
            try:
                if self._again:
                    epoch = self._again[0]
                    yield from self._dispatch(epoch)
                    if self._again and self._again[0] is epoch:
                        self._again.popleft()
                elif self._arrivals:
                    yield from self._room()
                    routed = self._routed(self._collected())
                    if routed is not None:
                        self._under_way.append(routed)
                        self._again.append(routed)
                else:
                    yield self._something_new()
            except simpy.Interrupt:
                continue  # `_again` holds what is to be done now

    def _collected(self) -> Mapping[int, Tuples]:
        """What has come in; several epochs' rows if these had to wait."""
        several = [
            self._arrivals.popleft() for _ in range(min(len(self._arrivals), self._pacing.most))
        ]
        return {
            stream: Tuples.joined([rows[stream] for rows in several if stream in rows])
            for stream in sorted({stream for rows in several for stream in rows})
        }

    def _room(self) -> Waits:
        """Wait until hosts can take more."""
        while True:
            if isinstance(self.router, AtrRouter) or len(self._under_way) < self._pacing.in_flight:
                if min(self._waiting().values()) <= self._pacing.backlog:
                    return
                yield self._env.timeout(self._pacing.epoch / 4)
            else:
                yield self._something_new()

    # -- a plan ------------------------------------------------------------------------------

    def _routed(self, arrived: Mapping[int, Tuples]) -> Epoch | None:
        """Describe the rows to the router, and take its plan."""
        self._change()
        rows = {stream: self._timely(stream, some) for stream, some in arrived.items()}
        rows = {stream: some for stream, some in rows.items() if len(some)}
        if not rows:
            return None
        number = next(self._numbers)
        situation = self._situation(number, rows)
        began = perf_counter()
        plan = self.router.route(situation)
        self.history.routing += perf_counter() - began
        pairs = 0.0
        if isinstance(self.router, AdaptiveRouter):  # epochs overlap: each has its own account
            pairs, self.router.work.expected = self.router.work.expected, 0.0
        self.history.plans.append(plan)
        self.history.events += plan.events
        for stream, some in rows.items():
            self.history.taken[stream].append(some)
            self._directory.live[stream].add(some, number)
        self._advance(situation, rows)
        ring: tuple[int, ...] = ()
        if isinstance(self.router, PspRouter) and plan.routes:
            ring = tuple(sorted(host for host, kept in plan.keeps.items() if any(kept.values())))
        return Epoch(
            number,
            rows,
            situation,
            self.router,
            plan,
            probe_orders(situation, plan),
            tuple(
                steps_along(
                    self._query,
                    route.start,
                    [hop.stream for hop in route.hops],
                    situation.selectivities,
                )
                for route in plan.routes
            ),
            ring,
            pairs=pairs,
            quiet=max(ref.last for refs in situation.new for ref in refs)
            < self._pacing.preload * 1e6,
        )

    def _timely(self, stream: int, rows: Tuples) -> Tuples:
        if self._watermark is None:
            return rows
        timely = rows.times >= self._watermark
        self.history.late += len(rows) - int(timely.sum())
        return rows.take(timely)

    def _situation(self, number: int, rows: Mapping[int, Tuples]) -> Situation:
        size = self._hardware.costs.tuple_bytes
        new = [
            [
                SegmentRef(
                    f"{number}/{stream}",
                    stream,
                    len(rows[stream]),
                    len(rows[stream]) * size,
                    int(rows[stream].times.min()),
                    int(rows[stream].times.max()),
                    0,
                )
            ]
            if stream in rows
            else []
            for stream in self._streams
        ]
        return Situation(
            self._query,
            number,
            [list(refs) for refs in self._segments],
            new,
            self._watermark,
            self._statistics.selectivities,
            self._statistics.partners,
            {host: seconds for host, seconds in self._waiting().items() if seconds},
        )

    def _waiting(self) -> dict[int, float]:
        """Seconds of work that hosts have before them, on its way to them included."""
        return {
            host.number: host.waiting(self._sent[host.number])
            for host in self._hosts[: self.router.hosts]
        }

    def _advance(self, situation: Situation, rows: Mapping[int, Tuples]) -> None:
        """Event time goes on, as it does on Spark when a batch is committed."""
        now = round(self._env.now * 1e6)
        self._seen = tuple(
            Seen(max(int(rows[stream].times.max()), seen.greatest or 0), now)
            if stream in rows
            else seen
            for stream, seen in enumerate(self._seen)
        )
        mark = advance(self._query.streams, self._seen, self._watermark, now)
        self._watermark = mark.value
        self._segments = [
            list(without_expired(situation.all(stream), expired_before(mark.value, window)))
            for stream, window in enumerate(self._query.windows)
        ]

    def _change(self) -> None:
        """Take up what was asked for before now."""
        while self._changes and self._changes[0].at <= self._env.now:
            change = self._changes.popleft()
            self._tell(f"asked for: {change.kind} {change.hosts or ''}".rstrip())
            if change.kind == "rescale":
                self.history.events += self.router.rescale(change.hosts, at_once=change.at_once)
            elif change.kind == "switch":
                self.router = self._router(change.strategy, change.hosts or self.router.hosts)
            elif isinstance(self.router, AtrRouter) and len(self.router.reigns) == 1:
                greatest = [seen.greatest for seen in self._seen if seen.greatest is not None]
                master = (self.router.reigns[0].master + 1) % len(self._query.streams)
                self.router.crown(master, max(greatest, default=0) + 1)

    # -- carrying it out ---------------------------------------------------------------------

    def _dispatch(self, epoch: Epoch) -> Waits:
        """Send an epoch's rows to where the plan needs them, and what to do with them."""
        epoch.progress = Progress(begun=True)
        by_shares = not epoch.plan.routes
        moves = not by_shares and self._moves(epoch)
        if moves or (self._ring is not None and epoch.ring != self._ring):
            # Rows under way to a slice must be there before it moves, and before the ring changes.
            yield from self._drained(epoch)
        if moves:
            yield from self._move(self._missing(epoch, self._needed(epoch)))
        self._ring = epoch.ring
        needed = self._needed(epoch)
        old = self._directory.rows_of(self._missing(epoch, needed)) if by_shares else {}
        self._directory.retire(epoch.number, needed, epoch.situation.watermark)
        for live, needs in zip(self._directory.live, needed, strict=True):
            live.held |= needs
        epoch.progress.order = epoch.order(self._attempt, self._safe())
        if epoch.ring:
            yield from self._send_round(epoch)
        else:
            self._assign(epoch, needed, old)
        epoch.progress.dispatched = True
        self._check(epoch)

    def _needed(self, epoch: Epoch) -> list[Bools]:
        return self._directory.needed(epoch.plan, epoch.number, epoch.situation.watermark)

    def _moves(self, epoch: Epoch) -> bool:
        return any(some.any() for some in self._missing(epoch, self._needed(epoch)))

    def _missing(self, epoch: Epoch, needed: Sequence[Bools]) -> list[Bools]:
        """Old rows that hosts need and have not got."""
        return [
            needs & ~live.held & (live.epochs < epoch.number)
            for live, needs in zip(self._directory.live, needed, strict=True)
        ]

    def _safe(self) -> int | None:
        """The watermark before the first epoch under way: no older rows than its can be needed."""
        return self._under_way[0].situation.watermark if self._under_way else self._watermark

    def _drained(self, epoch: Epoch) -> Waits:
        """Wait until every epoch before is committed."""
        while self._under_way and self._under_way[0] is not epoch:
            yield self._something_new()

    def _move(self, missing: Sequence[Bools]) -> Waits:
        """Rows go from a host that has them to those that need them; the join waits."""
        while self._moving:  # rows that are still to be dropped must not be dropped afterwards
            yield self._something_new()
        for stream, (live, some) in enumerate(zip(self._directory.live, missing, strict=True)):
            for host in np.flatnonzero(some.any(axis=1)).tolist():
                lacking = np.flatnonzero(some[host])
                anyone = live.held[:, lacking].any(axis=0)
                sources = np.where(anyone, live.held[:, lacking].argmax(axis=0), DIFFUSION)
                for source in np.unique(sources):
                    which = lacking[sources == source]
                    self._moving += 1
                    self._order_move(stream, int(source), int(host), which)
            live.held |= some
        while self._moving:
            yield self._something_new()

    def _order_move(self, stream: int, source: int, target: int, which: Ints) -> None:
        live = self._directory.live[stream]
        rows = live.rows.take(which)
        self._tell(f"{len(rows)} rows of stream {stream} move from {source} to {target}")
        if source == DIFFUSION:
            moved = Moved(self._attempt, stream, rows, live.epochs[which])
            self._network.send(DIFFUSION, target, moved, len(rows))
        else:
            self._network.send(DIFFUSION, source, Send(self._attempt, stream, rows.ids, target))

    def _drop_retired(self) -> None:
        first = self._under_way[0].number if self._under_way else None
        for host, stream, ids in self._directory.due(first):
            self._moving += 1
            self._network.send(DIFFUSION, host, Drop(self._attempt, stream, ids))

    def _assign(self, epoch: Epoch, needed: Sequence[Bools], old: OldRows) -> None:
        """One message to each host that takes part."""
        order = epoch.progress.order
        assert order is not None
        left_out = {host.number for host in self._hosts if host.kept}
        for host, message in assignments(epoch, order, self._directory, needed, old):
            left_out.discard(host)
            epoch.progress.sent[0] += 1
            self._sent[host] += message.tuples
            self._network.send(DIFFUSION, host, message, message.tuples)
        if order.safe is not None and self._pacing.purge_idle:
            for host in sorted(left_out):
                self._network.send(DIFFUSION, host, Purge(self._attempt, order.safe))

    def _send_round(self, epoch: Epoch) -> Waits:
        """To the head of the ring: build tuples, then the probe tuples of stream after stream."""
        order = epoch.progress.order
        assert order is not None
        head = epoch.ring[0]
        self._network.send(DIFFUSION, head, Build(order, epoch.rows), epoch.size)
        for number, route in enumerate(epoch.plan.routes):
            rows = epoch.rows[route.start].within(*route.times)
            if epoch.quiet:  # one cycle with nothing but END, behind the build tuples
                rows = rows.take(slice(0, 0))
            if (not len(rows) and not epoch.quiet) or (epoch.quiet and epoch.progress.units):
                continue
            while self._cycles >= (self._pacing.units or CYCLES * len(epoch.ring)):
                yield self._something_new()
            unit = Unit(order, next(self._unit_numbers), number)
            epoch.progress.units.append(unit)
            self._sent[head] += len(rows)
            self._network.send(DIFFUSION, head, Probe(unit, rows), len(rows))

    @property
    def _cycles(self) -> int:
        return sum(len(epoch.progress.units) for epoch in self._under_way)

    # -- messages in -------------------------------------------------------------------------

    def receive(self, source: int, message: Any) -> None:
        if isinstance(message, Back):
            self._lives[message.host] = message.life
            self._recover(message.host)
        elif isinstance(message, Committed):
            self._committed(message.epoch)
        elif isinstance(message, Arrived):
            self._moving -= message.attempt == self._attempt
        elif message.attempt == self._attempt:
            self._noted(message)
        self._notify()

    def _noted(self, message: Done | Ended) -> None:
        order = message.unit.order if isinstance(message, Ended) else message.order
        epoch = next((e for e in self._under_way if e.number == order.epoch), None)
        if epoch is None:
            return
        progress = epoch.progress
        progress.results += message.results
        if isinstance(message, Ended):
            progress.units = [unit for unit in progress.units if unit is not message.unit]
            progress.reports += message.reports
        else:
            progress.dealt_with(message.stage, message.messages, message.spawned)
            progress.reports.append(message.report)
        self._check(epoch)

    def _check(self, epoch: Epoch) -> None:
        if epoch.progress.over:
            assert epoch.progress.order is not None
            commit = Commit(epoch.progress.order, epoch.progress.results)
            self._network.send(DIFFUSION, FUSION, commit)

    def _committed(self, number: int) -> None:
        for epoch in self._under_way:
            if epoch.number == number:
                epoch.committed = True
        self._settle()

    def _settle(self) -> None:
        """Take leave of the first epochs, as far as they are over."""
        while self._under_way and self._under_way[0].settled:
            epoch = self._under_way.pop(0)
            if epoch in self._again:
                self._again.remove(epoch)
            self.history.processed += epoch.size
            if not epoch.quiet:
                self._learn(epoch)
        self._drop_retired()
        self._directory.expire(self._safe())

    def _learn(self, epoch: Epoch) -> None:
        """What an epoch has shown, as a batch on Spark shows it."""
        now = self._env.now
        begin = self._commits[0] if self._commits else now - self._pacing.epoch
        seconds = max((now - begin) / max(len(self._commits), 1), 1e-6)
        self._commits.append(now)
        reports = epoch.progress.reports
        tally = Tally()
        for report in reports:
            tally.add(report)
        self._statistics = self._statistics.after(tally, epoch.plan, epoch.situation, reports)
        if epoch.router is self.router:
            if isinstance(self.router, AdaptiveRouter):
                self.router.work.expected = epoch.pairs
            shown = measured(reports, seconds, epoch.size, self.router.hosts)
            self.history.events += self.router.learn(shown)

    def _recover(self, host: int) -> None:
        """A host is back without its memory: begin again from what was committed."""
        self._attempt += 1
        self.history.resets += 1
        self._tell(f"host {host} is back: attempt {self._attempt}")
        self._directory.forget_places()
        self._sent = [0] * len(self._hosts)
        self._moving = 0
        self._ring = None
        for epoch in self._under_way:
            epoch.progress = Progress()
        self._again = deque(epoch for epoch in self._under_way if not epoch.committed)
        reset = Reset(self._attempt, tuple(self._lives))
        for target in (FUSION, *range(len(self._hosts))):
            self._network.send(DIFFUSION, target, reset)
        self._settle()
        self._process.interrupt()

    def _tell(self, what: str) -> None:
        self.history.told.append((self._env.now, what))
