"""What the papers compare with. Not offered to users: it loses results.

The other baselines are strategies with their adaptation off: `Atr(segment=…, master=…)` and
`Ctr(optimized=False)`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any

from anabranch.adapt.events import Event
from anabranch.model.query import Query
from anabranch.routing.base import Box, Measured, Plan, Share, Situation
from anabranch.routing.slices import Density, Slices


class UnawareRouter:
    """LD07's semantics-unaware routing: each segment goes to the least-loaded host, no more.

    Rows meet only where they happen to be on the same host. One host counts all results as well, so
    that a run can say how many it loses.
    """

    name = "unaware"

    def __init__(self, query: Query, hosts: int, segment: int) -> None:
        self.hosts, self._segment = hosts, segment
        self._given = dict.fromkeys(range(hosts), 0.0)
        """Rows that each host was given so far: its load, as far as this baseline knows."""
        self._slices: list[Slices[int] | None] = [None] * len(query.streams)

    def __repr__(self) -> str:
        return f"UnawareRouter({self.hosts}, {self._segment})"

    def route(self, situation: Situation) -> Plan:
        for stream, refs in enumerate(situation.new):
            self._extend(stream, fresh := Density(refs))
            self._give(stream, fresh)
            slices, horizon = self._slices[stream], situation.horizon(stream)
            if slices is not None and horizon is not None:
                self._slices[stream] = slices.since(horizon)
        pieces: list[dict[int, list[Box]]] = []
        for stream, slices in enumerate(self._slices):
            mine: dict[int, list[Box]] = {}
            for times, host in slices.pieces() if slices is not None else ():
                mine.setdefault(host, []).append({stream: times})
            pieces.append(mine)
        shares = [
            Share(host, boxes=tuple(_met(boxes)))
            for host in range(self.hosts)
            if (boxes := list(product(*(mine.get(host, []) for mine in pieces))))
        ]
        return Plan(self.hosts, shares=(*shares, Share(0, counts_only=True)))

    def _extend(self, stream: int, fresh: Density) -> None:
        if fresh.first is None or fresh.last is None:
            return
        slices = self._slices[stream]
        least = min(self._given, key=lambda host: (self._given[host], host))
        if slices is None:
            slices = Slices((fresh.first,), (least, least))
        while fresh.last >= slices.last_edge + self._segment:
            slices = slices.cut(slices.last_edge + self._segment, least)
        self._slices[stream] = slices

    def _give(self, stream: int, fresh: Density) -> None:
        slices = self._slices[stream]
        if slices is not None and fresh.first is not None and fresh.last is not None:
            for times, host in slices.pieces(fresh.first, fresh.last):
                self._given[host] += fresh.between(*times)

    def learn(self, measured: Measured) -> tuple[Event, ...]:
        return ()

    def rescale(self, hosts: int, *, at_once: bool) -> tuple[Event, ...]:
        self.hosts = hosts
        self._given = {host: self._given.get(host, 0.0) for host in range(hosts)}
        return ()

    def forecast(self, rates: Sequence[float], query: Query) -> str:
        return "no row is copied or sent on, and results are lost"

    def snapshot(self) -> Mapping[str, Any]:
        return {
            "hosts": self.hosts,
            "slices": [s and s.to_dict() for s in self._slices],
            "given": [self._given[host] for host in range(self.hosts)],
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        self._slices = [s and Slices.from_dict(s) for s in saved["slices"]]
        given = dict(enumerate(saved["given"]))
        self._given = {host: given.get(host, 0.0) for host in range(self.hosts)}


def _met(combined: Sequence[tuple[Box, ...]]) -> list[Box]:
    """Boxes that bound every stream, one for each combination of pieces on a host."""
    return [{stream: times for box in boxes for stream, times in box.items()} for boxes in combined]
