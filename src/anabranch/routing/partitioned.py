"""Partition groups by key over the hosts (SA05): for an equality that spans all streams.

A group is a range of the key's codes, the same on every stream (SA05's partition group). Segments
are in the order of these codes, so a group is a slice of a segment, and a host reads only slices.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anabranch.adapt.events import Event
from anabranch.kernel.equality import GROUPS
from anabranch.model.query import Query
from anabranch.routing.base import Measured, Plan, Share, Situation


class HashRouter:
    """Equal runs of neighbouring groups for each host."""

    name = "hash"

    def __init__(self, hosts: int) -> None:
        self.hosts = hosts

    def route(self, situation: Situation) -> Plan:
        edges = [GROUPS * host // self.hosts for host in range(self.hosts + 1)]
        shares = (Share(host, ((edges[host], edges[host + 1]),)) for host in range(self.hosts))
        return Plan(self.hosts, shares=tuple(shares))

    def learn(self, measured: Measured) -> tuple[Event, ...]:
        return ()

    def rescale(self, hosts: int, *, at_once: bool) -> tuple[Event, ...]:
        before, self.hosts = self.hosts, hosts
        why = f"{GROUPS} groups of keys are divided anew; groups are read where they are needed"
        return (Event("hosts", why, {"before": before, "after": hosts}),)

    def forecast(self, rates: Sequence[float], query: Query) -> str:
        return "no row is copied or sent on; a hot key stays on one host"

    def snapshot(self) -> Mapping[str, Any]:
        return {"hosts": self.hosts}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """Groups are divided among the hosts that there are now: there is nothing to remember."""
