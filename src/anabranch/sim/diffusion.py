"""The diffusion operator: collects rows, asks the router, and has its plans carried out.

Rows are collected for the length of an epoch, and described to the router as segments, just as the
Spark runtime describes a batch. Epochs overlap: the next one is sent as long as hosts have room.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from itertools import count
from time import perf_counter
from typing import Any

import simpy

from anabranch.kernel.order import steps_along
from anabranch.model.query import Query
from anabranch.report.diffusion import measured
from anabranch.routing.adaptive import AdaptiveRouter
from anabranch.routing.aligned import AtrRouter
from anabranch.routing.base import Router, probe_orders
from anabranch.routing.sliced import PspRouter
from anabranch.routing.strategies import Strategy, router_for
from anabranch.sim.assignments import assignments
from anabranch.sim.cluster import Cluster
from anabranch.sim.directory import Bools, Directory, OldRows
from anabranch.sim.epochs import Epoch, Progress
from anabranch.sim.history import History
from anabranch.sim.intake import Intake
from anabranch.sim.messages import (
    Arrived,
    Back,
    Build,
    Commit,
    Committed,
    Done,
    Ended,
    Probe,
    Purge,
    Reset,
    Unit,
)
from anabranch.sim.moving import Mover
from anabranch.sim.network import DIFFUSION, FUSION, Waits
from anabranch.sim.pacing import Change, Pacing
from anabranch.sim.tuples import Tuples

CYCLES = 4
"""Cycles on a ring at once, for each of its hosts."""
RECENT = 16
"""Epochs over which the pace of a run is measured: single ones come in jumps."""


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
        self._mover = Mover(self._directory, self._network, self._tell)
        self._intake = Intake(query, cluster.hardware.costs.tuple_bytes)
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
        rows = self._intake.timely(arrived)
        self.history.late += sum(map(len, arrived.values())) - sum(map(len, rows.values()))
        if not rows:
            return None
        number = next(self._numbers)
        waiting = {host: seconds for host, seconds in self._waiting().items() if seconds}
        situation = self._intake.situation(number, rows, waiting)
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
        self._intake.advance(situation, rows)
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

    def _waiting(self) -> dict[int, float]:
        """Seconds of work that hosts have before them, on its way to them included."""
        return {
            host.number: host.waiting(self._sent[host.number])
            for host in self._hosts[: self.router.hosts]
        }

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
                master = (self.router.reigns[0].master + 1) % len(self._query.streams)
                self.router.crown(master, self._intake.latest + 1)

    # -- carrying it out ---------------------------------------------------------------------

    def _dispatch(self, epoch: Epoch) -> Waits:
        """Send an epoch's rows to where the plan needs them, and what to do with them."""
        epoch.progress = Progress(begun=True)
        needed = self._claimed(epoch)
        by_shares = not epoch.plan.routes
        moves = not by_shares and self._lacking(epoch, needed)
        if moves or (self._ring is not None and epoch.ring != self._ring):
            # Rows under way to a slice must be there before it moves, and before the ring changes.
            yield from self._drained(epoch)
            needed = self._claimed(epoch)
        if moves:
            missing = self._directory.missing(epoch.number, needed)
            yield from self._mover.move(missing, self._something_new)
            needed = self._claimed(epoch)
        self._ring = epoch.ring
        old: OldRows = {}
        if by_shares:
            old = self._directory.rows_of(self._directory.missing(epoch.number, needed))
        self._directory.hand_over(epoch.number, needed, epoch.situation.watermark)
        epoch.progress.order = epoch.order(self._attempt, self._safe())
        if epoch.ring:
            yield from self._send_round(epoch)
        else:
            self._assign(epoch, needed, old)
        epoch.progress.dispatched = True
        self._check(epoch)

    def _claimed(self, epoch: Epoch) -> list[Bools]:
        """Which hosts must have which rows; what they were to drop and still have is theirs."""
        needed = self._directory.needed(epoch.plan, epoch.number, epoch.situation.watermark)
        self._directory.reclaim(needed)
        return needed

    def _lacking(self, epoch: Epoch, needed: Sequence[Bools]) -> bool:
        return any(some.any() for some in self._directory.missing(epoch.number, needed))

    def _safe(self) -> int | None:
        """The watermark before the first epoch under way: no older rows than its can be needed."""
        return self._under_way[0].situation.watermark if self._under_way else self._intake.watermark

    def _drained(self, epoch: Epoch) -> Waits:
        """Wait until every epoch before is committed."""
        while self._under_way and self._under_way[0] is not epoch:
            yield self._something_new()

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
            self._mover.arrived(message.attempt)
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
        self._mover.drop_retired(self._under_way[0].number if self._under_way else None)
        self._directory.expire(self._safe())

    def _learn(self, epoch: Epoch) -> None:
        """What an epoch has shown, as a batch on Spark shows it."""
        now = self._env.now
        begin = self._commits[0] if self._commits else now - self._pacing.epoch
        seconds = max((now - begin) / max(len(self._commits), 1), 1e-6)
        self._commits.append(now)
        reports = epoch.progress.reports
        self._intake.learn(epoch.plan, epoch.situation, reports)
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
        self._mover.reset(self._attempt)
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
