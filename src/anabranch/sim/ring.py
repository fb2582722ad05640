"""PSP's ring, tuple by tuple as PSP09's Figures 3 and 5 have it.

The head of the ring takes in build and probe tuples. **Build** tuples go round until they come to
the host whose slice they fall into (insert). **Probe** tuples go round once: each host purges by
them (cross-purge), passes them on (propagate), and looks for partners in its slice (probe).
Intermediate results go round once as well, from the host that made them and back to it (life-span
control), and give further ones. All results of one stream's new rows and one hop travel as one
*train*, led by the **END** tuple: each host adds its own results as the train passes. When END
comes back to the head, everything of that hop has been to every host but those before its origin,
which the train visits in a second round; the train of the next hop follows right behind it. The
last train carries nothing but END; once it is back, the cycle is over.

Links deliver in order, so no other synchronization is needed. With more than one cycle on the ring
(PSP-I), a host marks, for every cycle that has begun and not ended here, from where on its rows are
still needed (StateStart, StateEnd); rows are deleted when the last mark that needs them is gone.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from anabranch.sim.doing import Doing
from anabranch.sim.messages import Build, Ended, Probe, Train, Unit
from anabranch.sim.network import DIFFUSION
from anabranch.sim.tuples import Combos

if TYPE_CHECKING:
    from anabranch.sim.host import JoinHost

Work = Iterator[float]


class RingPart:
    """A host's part in the rings that it is on."""

    def __init__(self, host: JoinHost) -> None:
        self._host = host
        self._marks: dict[int, int | None] = {}
        """By the number of the unit: the watermark from which on it needs rows."""
        self._made: dict[tuple[int, int], list[Combos]] = {}
        """Results of a unit that wait for the train of their hop."""
        self._doing: dict[int, Doing] = {}

    def build(self, message: Build) -> Work:
        """Keep what falls into the host's own slices; the rest goes on."""
        host, order = self._host, message.order
        yield sum(map(len, message.rows.values())) * host.costs.receive
        rest = {}
        for stream, rows in message.rows.items():
            mine = np.zeros(len(rows), np.bool_)
            for first, last in order.plan.keeps[host.number].get(stream, ()):
                mine |= (rows.times >= first) & (rows.times <= last)
            host.held[stream].insert(rows.take(mine), order.epoch)
            if not mine.all():
                rest[stream] = rows.take(~mine)
        if rest:
            count = sum(map(len, rest.values()))
            yield count * host.costs.send
            self._pass_on(order.ring, Build(order, rest), count)

    def probe(self, message: Probe) -> Work:
        """Purge, propagate, probe (Figure 3, 2-1 to 2-4)."""
        host, unit = self._host, message.unit
        doing = self._doing.setdefault(unit.number, Doing(host.number, 0))
        yield host.clocked(doing, len(message.rows) * host.costs.receive)
        self._marks[unit.number] = unit.order.safe
        self._purge()
        if unit.route == 0:  # once an epoch
            doing.counts["kept"] = host.kept
            doing.counts["kept_bytes"] = host.kept * host.costs.tuple_bytes
        doing.counts["probing"] += len(message.rows)
        if self._position(unit) + 1 < len(unit.order.ring):
            yield from self._propagate(unit, message, len(message.rows), doing)
        seeds = host.prober.seeds(unit.start, message.rows)
        yield from self._met(unit, 0, seeds, doing)
        if self._position(unit) == 0:
            yield from self._depart(unit, 1, doing)

    def train(self, message: Train) -> Work:
        """Results of other hosts, each for one round; END goes in front."""
        host, unit = self._host, message.unit
        at = self._position(unit)
        doing = self._doing[unit.number]
        alone = len(unit.order.ring) == 1  # what a host sends itself costs nothing
        receiving = 0.0 if alone else message.load * host.costs.receive
        yield host.clocked(doing, receiving, receiving)
        back = at == 0
        going = [(origin, combos) for origin, combos in message.cargo if origin != at]
        if not back and not message.second_round:
            # The train of this hop takes along what was made here.
            own = self._made.pop((unit.number, message.hop), [])
            going += [(at, Combos.joined(own))] if own else []
            message = self._ends_here(message, doing)
            yield from self._forward(unit, message, going, doing)
        elif going:
            again = replace(message, second_round=True, results=0, reports=())
            yield from self._forward(unit, again, going, doing)
        if message.cargo:
            everything = Combos.joined([combos for _, combos in message.cargo])
            yield from self._met(unit, message.hop, everything, doing)
        if back:
            yield from self._returned(message, doing)

    def _returned(self, message: Train, doing: Doing) -> Work:
        """END is back at the head: the next hop begins, or the cycle is over."""
        unit = message.unit
        if message.hop < self._last_hop(unit):
            yield from self._depart(unit, message.hop + 1, doing)
            return
        message = self._ends_here(message, doing)
        ended = Ended(unit, message.results, message.reports)
        self._host.network.send(self._host.number, DIFFUSION, ended)

    def _depart(self, unit: Unit, hop: int, doing: Doing) -> Work:
        """The head sends the train of a hop, with END in front and its own results behind."""
        own = self._made.pop((unit.number, hop), [])
        cargo = [(0, Combos.joined(own))] if own else []
        yield from self._forward(unit, Train(unit, hop, ()), cargo, doing)

    def _ends_here(self, message: Train, doing: Doing) -> Train:
        """The last train takes the host's account of the unit along, and lifts its mark."""
        unit = message.unit
        if message.hop < self._last_hop(unit):
            return message
        self._marks.pop(unit.number, None)
        self._doing.pop(unit.number, None)
        self._purge()
        return replace(
            message,
            results=message.results + doing.results,
            reports=(*message.reports, doing.report()),
        )

    def _met(self, unit: Unit, hop: int, combos: Combos, doing: Doing) -> Work:
        """Look for partners among the host's own rows of the stream that this hop visits."""
        host, visits = self._host, unit.visits
        if not len(combos) or hop >= len(visits):
            return
        step, combos = unit.steps[hop], host.timely(combos, doing)
        found = host.visit(unit.order.epoch, unit.start, step, combos, visits[hop], doing)
        yield host.clocked(doing, host.costs.probing(found.probes, found.compared))
        if hop + 1 == len(visits):
            yield from host.deliver(unit.order, found, doing)
        elif found.count:
            assert found.combos is not None
            self._made.setdefault((unit.number, hop + 1), []).append(found.combos)

    def _forward(
        self, unit: Unit, message: Train, cargo: list[tuple[int, Combos]], doing: Doing
    ) -> Work:
        count = sum(len(combos) for _, combos in cargo)
        message = replace(message, cargo=tuple(cargo))
        yield from self._propagate(unit, message, count, doing)

    def _propagate(self, unit: Unit, message: Any, count: int, doing: Doing) -> Work:
        if len(unit.order.ring) > 1:
            doing.counts["sent"] += count
            doing.counts["packed"] += count
            doing.counts["sent_bytes"] += count * self._host.costs.tuple_bytes
            sending = count * self._host.costs.send
            yield self._host.clocked(doing, sending, sending)
        self._pass_on(unit.order.ring, message, count)

    def _pass_on(self, ring: tuple[int, ...], message: Any, count: int) -> None:
        following = ring[(ring.index(self._host.number) + 1) % len(ring)]
        self._host.network.send(self._host.number, following, message, count)

    def _purge(self) -> None:
        """Delete what no cycle on the ring needs (Figure 5, 2-1-4)."""
        if self._marks and None not in self._marks.values():
            self._host.purge(min(safe for safe in self._marks.values() if safe is not None))

    def _position(self, unit: Unit) -> int:
        return unit.order.ring.index(self._host.number)

    @staticmethod
    def _last_hop(unit: Unit) -> int:
        """The train that carries nothing but END: all hops are behind it."""
        return len(unit.visits)
