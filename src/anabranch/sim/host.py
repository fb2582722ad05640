"""A join operator: one host that keeps rows, probes them, and passes combinations on.

It works on one message after the other. What a message makes it do is a generator of CPU seconds;
in between, the simulated clock goes on, and the host may crash.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator
from math import inf
from typing import Any

import numpy as np
import simpy

from anabranch.kernel.order import Step
from anabranch.model.query import Query
from anabranch.routing.slices import Range
from anabranch.sim.directory import in_groups
from anabranch.sim.doing import Doing
from anabranch.sim.hardware import Machine
from anabranch.sim.holding import Held
from anabranch.sim.inbox import Inbox, Passages
from anabranch.sim.messages import (
    Arrived,
    Assignment,
    Build,
    Done,
    Drop,
    Moved,
    Order,
    Part,
    Passage,
    Probe,
    Purge,
    Reset,
    Results,
    Send,
    Train,
    Visit,
)
from anabranch.sim.network import DIFFUSION, FUSION, Network
from anabranch.sim.probing import Found, Prober
from anabranch.sim.ring import RingPart
from anabranch.sim.tuples import Combos

NONE = -1
"""The attempt of a host that has lost its memory: whatever comes waits until it is told which."""

RESULTS_AT_ONCE = 2000
"""Results in one message, where they are counted only."""
PARTNERS = 1000
"""Pairs that a tuple is taken to cost a host until it has worked on some."""

Work = Iterator[float]
"""CPU seconds of a host of average speed, one after the other."""


class JoinHost:
    """One host of the cluster."""

    def __init__(
        self,
        number: int,
        machine: Machine,
        env: simpy.Environment,
        network: Network,
        prober: Prober,
    ) -> None:
        self.number, self.machine, self.costs = number, machine, network.costs
        self.env, self.network, self.prober = env, network, prober
        self.query: Query = prober.query
        self.held = [Held() for _ in self.query.streams]
        self.attempt = 0
        self.busy = 0.0
        """CPU seconds so far."""
        self.clock_rate = 1.0
        """What its clock shows of a second: it times its own work with it."""
        self.life = 0
        """How often it has crashed."""
        self.synchronized = True
        """Whether combinations wait for the rows of their epoch; without that, results are lost."""
        self.patience = inf
        """Seconds after which what has come here is not compared any more: load is shed."""
        self.shed = 0
        """Combinations that were not compared."""
        self._came = 0.0
        """When the message came that is being worked on."""
        self._epoch = -1
        self._inbox = Inbox()
        self.received = 0
        """Tuples that have come from the diffusion operator."""
        self._per_tuple = self.costs.receive + PARTNERS * self.costs.of_a_pair
        self._idle: simpy.Event | None = None
        self._up = True
        self.ring = RingPart(self)
        self._process = env.process(self._run())

    # -- messages in -------------------------------------------------------------------------

    def receive(self, source: int, message: Any) -> None:
        """Take a message; those that come while the host is down are lost."""
        if not self._up:
            return
        if isinstance(message, Reset):
            if message.lives[self.number] == self.life:
                self._reset(message.attempt)
            return
        if source == DIFFUSION and message.attempt >= self.attempt:
            self.received += message.load
        self._inbox.put(message, self.env.now)
        self._wake()

    def crash(self) -> None:
        """Lose all memory, and what was being done."""
        self._up = False
        self.life += 1
        self.attempt = NONE
        self._forget()
        if self._idle is None:
            self._process.interrupt()

    def come_back(self) -> None:
        self._up = True

    @property
    def up(self) -> bool:
        return self._up

    def waiting(self, sent: int = 0) -> float:
        """Seconds of work that wait here, as far as tuples tell; `sent` are those sent so far."""
        return (self._inbox.load + max(sent - self.received, 0)) * self._per_tuple

    @property
    def kept(self) -> int:
        return sum(len(held.rows.ids) for held in self.held)

    def _reset(self, attempt: int) -> None:
        """What was under way is void; rows come again from what was committed."""
        self.attempt = attempt
        self.received = 0
        later = self._inbox.since(attempt)
        self._forget()
        for message in later:
            self._inbox.put(message, self.env.now)
        if self._idle is None:
            self._process.interrupt()
        self._wake()

    def _forget(self) -> None:
        self.held = [Held() for _ in self.query.streams]
        self._inbox = Inbox()
        self._epoch = -1
        self.ring = RingPart(self)

    def _wake(self) -> None:
        if self._idle is not None and not self._idle.triggered:
            self._idle.succeed()

    # -- work --------------------------------------------------------------------------------

    def _run(self) -> Generator[simpy.Event, Any, None]:
        while True:
            epoch = self._epoch if self.synchronized else None
            waiting = self._inbox.next(self.attempt, epoch)
            try:
                if waiting is None:
                    self._idle = self.env.event()
                    yield self._idle
                    self._idle = None
                    continue
                self._came = waiting.came
                yield from self._timed(waiting.message)
            except simpy.Interrupt:
                continue

    def _timed(self, message: Any) -> Generator[simpy.Event, Any, None]:
        begin = self.busy
        for seconds in self._handle(message):
            if seconds:
                took = seconds / self.machine.speed
                self.busy += took
                yield self.env.timeout(took)
        tuples = message.load
        if tuples:
            each = (self.busy - begin) / tuples
            self._per_tuple += 0.1 * (each - self._per_tuple)

    def _handle(self, message: Any) -> Work:
        kinds: dict[type, Callable[[Any], Work]] = {
            Assignment: self._assigned,
            Passages: self._passing,
            Build: self.ring.build,
            Probe: self.ring.probe,
            Train: self.ring.train,
            Send: self._send,
            Moved: self._moved,
            Drop: self._drop,
            Purge: self._purge,
        }
        return kinds[type(message)](message)

    def clocked(self, doing: Doing, seconds: float, sending: float = 0.0) -> float:
        """Count CPU time as this host's own clock shows it, and which part of it was for sending.

        The seconds themselves go on.
        """
        shown = self.clock_rate / self.machine.speed
        doing.cpu += seconds * shown
        doing.sending += sending * shown
        return seconds

    def _assigned(self, message: Assignment) -> Work:
        """New rows from the diffusion operator: keep them, and make or begin results with them."""
        order = message.order
        doing = Doing(self.number, 0)
        self.purge(order.safe)
        for stream, (rows, epochs) in message.old.items():
            self.held[stream].insert(rows, epochs)
        for stream, rows in message.rows.items():
            self.held[stream].insert(rows, order.epoch)
        self._epoch = order.epoch
        doing.counts["kept"] = self.kept
        doing.counts["kept_bytes"] = self.kept * self.costs.tuple_bytes
        doing.counts["copied"] = message.tuples
        doing.counts["received_bytes"] = message.tuples * self.costs.tuple_bytes
        yield self.clocked(doing, message.tuples * self.costs.receive)
        for part in message.parts:
            yield from self._share(order, part, doing)
        spawned = 0
        for route, rows in message.probes.items():
            combos = self.prober.seeds(order.plan.routes[route].start, rows)
            doing.counts["probing"] += len(rows)
            doing.counts["begun"] += len(rows)
            spawned += yield from self._hop(order, route, 0, combos, doing)
        self._done(order, 0, 1, spawned, doing)

    def _share(self, order: Order, part: Part, doing: Doing) -> Work:
        """All results of a part of the answer: each stream's new rows visit all others."""
        bounds, reach = part.bounds(), part.reach(self.query)
        for start in range(len(self.query.streams)):
            rows = self.held[start].of_epoch(order.epoch)
            if start in bounds:
                rows = rows.within(*bounds[start])
            elif reach:
                rows = rows.within(*reach[start])
            if part.groups is not None:
                rows = rows.take(in_groups(rows, part.groups))
            doing.counts["begun"] += len(rows)
            combos = self.timely(self.prober.seeds(start, rows), doing)
            for at, step in enumerate(order.steps[start]):
                if not len(combos):
                    break
                inside = bounds.get(step.stream)
                found = self._met(order.epoch, start, step, combos, inside, None, doing)
                yield self.clocked(doing, self.costs.probing(found.probes, found.compared))
                if at + 1 == len(order.steps[start]):
                    yield from self.deliver(order, found, doing)
                else:
                    assert found.combos is not None
                    combos = found.combos

    def _passing(self, passages: Passages) -> Work:
        """Combinations from hosts of the hop before."""
        order, route, stage = passages.key
        combos = Combos.joined([passage.combos for passage in passages.waiting])
        doing = Doing(self.number, stage)
        others = [p for p in passages.waiting if p.source != self.number]
        received = sum(len(passage.combos) for passage in others)
        doing.counts["received_bytes"] = received * self.costs.tuple_bytes
        receiving = received * self.costs.receive
        yield self.clocked(doing, receiving, receiving)
        spawned = yield from self._hop(order, route, stage, combos, doing)
        self._done(order, stage, len(passages.waiting), spawned, doing)

    def _hop(
        self, order: Order, number: int, hop: int, combos: Combos, doing: Doing
    ) -> Generator[float, None, int]:
        """Meet the rows that are this host's own on this hop, then go on or come to an end."""
        visits, step = order.hops[number], order.along[number][hop]
        start = order.plan.routes[number].start
        combos = self.timely(combos, doing)
        found = self.visit(order.epoch, start, step, combos, visits[hop], doing)
        # What a further visit costs, however little is compared there, is part of its price.
        visiting = found.probes * self.costs.probe if hop else 0.0
        yield self.clocked(doing, self.costs.probing(found.probes, found.compared), visiting)
        if hop + 1 == len(visits):
            yield from self.deliver(order, found, doing)
            return 0
        assert found.combos is not None
        if not found.count:
            return 0
        following = visits[hop + 1].hosts
        others = sum(host != self.number for host in following)
        doing.counts["sent"] += found.count * others
        doing.counts["packed"] += found.count * others
        doing.counts["sent_bytes"] += found.count * others * self.costs.tuple_bytes
        sending = found.count * others * self.costs.send
        yield self.clocked(doing, sending, sending)
        message = Passage(order, self.number, hop + 1, number, found.combos)
        for host in following:
            self.network.send(self.number, host, message, found.count)
        return len(following)

    def timely(self, combos: Combos, doing: Doing) -> Combos:
        """What is still to be compared: all of it, or nothing if it has waited for too long."""
        if self.env.now - self._came <= self.patience:
            return combos
        self.shed += len(combos)
        doing.counts["shed"] += len(combos)
        return combos.take(slice(0, 0))

    def visit(
        self, epoch: int, start: int, step: Step, combos: Combos, visit: Visit, doing: Doing
    ) -> Found:
        """What combinations find among the rows that are this host's own on a hop."""
        found = self._met(epoch, start, step, combos, visit.reach, visit, doing)
        doing.found[visit.name] += found.count
        return found

    def _met(
        self,
        epoch: int,
        start: int,
        step: Step,
        combos: Combos,
        bounds: Range | None,
        visit: Visit | None,
        doing: Doing,
    ) -> Found:
        """Of two new rows, the one of the later stream finds the other, as `visible_to` has it."""
        if not len(combos):
            return Found(combos, 0, 0)
        first = int(combos.latest.min()) - self.query.windows[step.stream]
        last = int(combos.deadline.max())
        if bounds is not None:
            first, last = max(first, bounds[0]), min(last, bounds[1])
        rows = self.held[step.stream].visible(first, last, epoch, own=step.stream < start)
        if visit is not None and len(rows):
            rows = visit.owned_by(self.number, rows)
        return self.prober.extend(combos, step, rows, doing.tally)

    def deliver(self, order: Order, found: Found, doing: Doing) -> Work:
        """Send results to the fusion operator, some at a time where there are very many."""
        ids = None if found.combos is None else found.combos.ids
        left = found.count
        doing.tally.results += found.count
        while left:
            count = left if ids is not None else min(left, RESULTS_AT_ONCE)
            yield self.clocked(doing, count * self.costs.result)
            doing.results += 1
            arrivals = found.arrivals * count / found.count
            self.network.send(self.number, FUSION, Results(order, count, arrivals, ids), count)
            left -= count

    def _done(self, order: Order, stage: int, messages: int, spawned: int, doing: Doing) -> None:
        done = Done(order, stage, messages, spawned, doing.results, doing.report())
        self.network.send(self.number, DIFFUSION, done)

    # -- state -------------------------------------------------------------------------------

    def purge(self, safe: int | None) -> None:
        """Delete rows that no epoch under way, and none to come, can need."""
        if safe is not None:
            for held, window in zip(self.held, self.query.windows, strict=True):
                held.purge(safe - window)

    def _send(self, message: Send) -> Work:
        held = self.held[message.stream]
        mine = np.isin(held.rows.ids, message.ids)
        rows, epochs = held.rows.take(mine), held.epochs[mine]
        yield len(rows) * self.costs.send
        moved = Moved(message.attempt, message.stream, rows, epochs)
        self.network.send(self.number, message.target, moved, len(rows))

    def _moved(self, message: Moved) -> Work:
        yield len(message.rows) * self.costs.receive
        self.held[message.stream].insert_once(message.rows, message.epochs)
        self.network.send(self.number, DIFFUSION, Arrived(message.attempt))

    def _drop(self, message: Drop) -> Work:
        self.held[message.stream].drop(message.ids)
        self.network.send(self.number, DIFFUSION, Arrived(message.attempt))
        yield 0.0

    def _purge(self, message: Purge) -> Work:
        self.purge(message.safe)
        yield 0.0
