"""Everything on one host: the baseline, and right for small inputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anabranch.adapt.events import Event
from anabranch.model.query import Query
from anabranch.routing.base import Measured, Plan, Share, Situation


class CentralRouter:
    """One host keeps all segments and joins them."""

    name = "central"
    hosts = 1

    def route(self, situation: Situation) -> Plan:
        return Plan(1, shares=(Share(0),))

    def learn(self, measured: Measured) -> tuple[Event, ...]:
        return ()

    def rescale(self, hosts: int, *, at_once: bool) -> tuple[Event, ...]:
        why = f"`central` stays on one host; switch to another strategy to use {hosts}"
        return (Event("hosts", why, {"before": 1, "after": 1}),)

    def forecast(self, rates: Sequence[float], query: Query) -> str:
        return "no row is copied or sent on; one host does all the work"

    def snapshot(self) -> Mapping[str, Any]:
        return {"hosts": 1}

    def restore(self, saved: Mapping[str, Any]) -> None:
        """There is nothing to remember."""
