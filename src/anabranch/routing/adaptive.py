"""What the strategies that adapt have in common: hosts with loads, and the price of comparing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import replace
from statistics import median
from typing import Any

from anabranch.adapt.events import Event
from anabranch.adapt.load import Loads, Weights
from anabranch.errors import QueryError
from anabranch.model.query import Query
from anabranch.routing.base import Measured, Plan, Share, Situation
from anabranch.routing.work import WorkRate

HOP = 0.05
"""Seconds that a further hop takes at the least, however little it carries (measured on Spark)."""
TELLING = 0.2
"""CPU seconds of a host in a batch that say how fast it is. With less, most of it is what any task
takes, whatever it compares, and a host that loads its libraries once would look slow."""
SMALL = 4 << 20
"""Bytes of live rows that one host may fetch to spare the others a hop."""


def checked_hop(hop: Any) -> None:
    """QueryError if the option `hop` is no number of seconds."""
    if isinstance(hop, bool) or not isinstance(hop, int | float) or not hop >= 0:
        raise QueryError(f"hop is {hop!r}; write seconds, 0 or more")


class AdaptiveRouter(ABC):
    """A strategy over a number of hosts that learns from every batch."""

    def __init__(self, query: Query, hosts: int, weights: Weights) -> None:
        self.hosts = hosts
        self.loads = Loads(hosts, weights)
        self.work = WorkRate()
        self._names = [stream.name for stream in query.streams]

    def learn(self, measured: Measured) -> tuple[Event, ...]:
        """Take in what a batch has shown; the decisions that follow for the next."""
        took = [usage.cpu * measured.seconds for usage in measured.usage.values() if usage.cpu]
        tells_pace = bool(took) and median(took) >= TELLING
        for host, usage in measured.usage.items():
            self.loads.measured(host, usage, tells_pace=tells_pace)
        self.work.measured(measured)
        return ()

    def rescale(self, hosts: int, *, at_once: bool) -> tuple[Event, ...]:
        """Go on with more or fewer hosts. `at_once` moves state; otherwise it moves with time."""
        before, self.hosts = self.hosts, hosts
        self.loads.hosts = hosts
        how = self._divide_among(hosts, at_once=at_once)
        return (Event("hosts", how, {"before": before, "after": hosts}),)

    def _gathered(self, plan: Plan, situation: Situation, hop: float) -> Plan:
        """The plan, or, where comparing takes less than its hops would, all of it on one host.

        Each host keeps what it keeps: the next batch may take its routes again.
        """
        spared = (plan.hops - 1) * hop
        takes = self.work.expected * self.work.per_pair
        streams = range(len(self._names))
        fetched = sum(ref.bytes for stream in streams for ref in situation.all(stream))
        if takes >= spared or fetched > SMALL:
            return plan
        host = self.loads.least()
        why = f"comparing takes {takes:.3f} s, and hops would take {spared:.3f} s"
        event = Event("gather", why, {"host": host}, spared - takes, "seconds")
        stay = tuple(event for event in plan.events if event.kind != "route")
        return replace(plan, routes=(), shares=(Share(host),), events=(*stay, event), predicted={})

    @abstractmethod
    def _divide_among(self, hosts: int, *, at_once: bool) -> str:
        """Give every time an owner among the hosts that there are now; say how, in words."""

    def snapshot(self) -> Mapping[str, Any]:
        """What a restart must know to decide alike."""
        return {
            "hosts": self.hosts,
            "loads": self.loads.snapshot(),
            "work": self.work.snapshot(),
            "placed": self._placed(),
        }

    @abstractmethod
    def _placed(self) -> Mapping[str, Any]:
        """Who has what, as JSON can hold it."""

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Go on from a snapshot, with the hosts that there are now."""
        self.loads.restore(saved["loads"])
        self.work.restore(saved["work"])
        self._replace(saved["placed"])
        if saved["hosts"] != self.hosts:
            wanted, self.hosts = self.hosts, saved["hosts"]
            self.rescale(wanted, at_once=False)

    @abstractmethod
    def _replace(self, placed: Mapping[str, Any]) -> None:
        """Take back what `_placed` gave."""
