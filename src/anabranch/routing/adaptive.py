"""What the strategies that adapt have in common: hosts with loads, and the price of comparing."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any

from anabranch.adapt.events import Event
from anabranch.adapt.load import Loads, Weights
from anabranch.model.query import Query
from anabranch.routing.base import Measured
from anabranch.routing.work import WorkRate


class AdaptiveRouter(ABC):
    """A strategy over a number of hosts that learns from every batch."""

    def __init__(self, query: Query, hosts: int, weights: Weights) -> None:
        self.hosts = hosts
        self.loads = Loads(hosts, weights)
        self.work = WorkRate()
        self._names = [stream.name for stream in query.streams]

    def learn(self, measured: Measured) -> tuple[Event, ...]:
        """Take in what a batch has shown; the decisions that follow for the next."""
        for host, usage in measured.usage.items():
            self.loads.measured(host, usage)
        self.work.measured(measured)
        return ()

    def rescale(self, hosts: int, *, at_once: bool) -> tuple[Event, ...]:
        """Go on with more or fewer hosts. `at_once` moves state; otherwise it moves with time."""
        before, self.hosts = self.hosts, hosts
        self.loads.hosts = hosts
        how = self._divide_among(hosts, at_once=at_once)
        return (Event("hosts", how, {"before": before, "after": hosts}),)

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
