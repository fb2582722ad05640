"""PSP, pipelined state partitioning (PSP09): disjoint time slices of every stream over the hosts.

Each stream has a ring of hosts. The head of the ring takes the newest rows; when it has its part of
them, its slice is closed and the next host of the ring becomes the head. So every live row is on
exactly one host, slices hold equal numbers of rows whatever the rates do (count-based smoothing,
section 6), and no row moves on its own: in the paper rows travel from the head to the tail while
the ring stands still, here the head travels.

New rows visit all slices of the other streams, hop by hop, in the order that is cheapest.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from anabranch.adapt.events import Event
from anabranch.adapt.load import Weights
from anabranch.adapt.ring import RingCost, bandwidth, output_gain, ring_lengths, service_rate
from anabranch.errors import QueryError
from anabranch.kernel.order import steps
from anabranch.model.query import Query
from anabranch.routing.adaptive import HOP, AdaptiveRouter, checked_hop
from anabranch.routing.base import Hop, Plan, Route, Situation
from anabranch.routing.pairs import pairs_visited
from anabranch.routing.reach import reaches
from anabranch.routing.slices import END, Density, Slices

PIECES = 4
"""Slices that a host has of one stream: the more, the less the one that is being filled weighs."""

OBJECTIVES = ("output", "latency")

Visits = Sequence[Mapping[int, float]]
"""For each stream, the streams whose new rows visit it, and what each of their rows has become."""


@dataclass(frozen=True)
class Psp:
    """Options of PSP."""

    objective: str = "output"
    """What the length of the rings is chosen for: "output" (greatest rate) or "latency"."""
    relocation: str = "passive"
    """When hosts come or go: "passive" (slices move with time), "aggressive" (state moves now)."""
    hop: float = HOP
    """Seconds that a further hop is taken to cost: a batch that one host joins faster than its hops
    would take is joined by one host. 0: never."""
    weights: Weights = field(default_factory=Weights)

    def __post_init__(self) -> None:
        checked_hop(self.hop)
        for name, value, allowed in (
            ("objective", self.objective, OBJECTIVES),
            ("relocation", self.relocation, ("passive", "aggressive")),
        ):
            if value not in allowed:
                raise QueryError(f"{name} is {value!r}; there are {' and '.join(allowed)}")


class PspRouter(AdaptiveRouter):
    """Time slices over rings of hosts, one ring for each stream."""

    name = "psp"

    def __init__(self, query: Query, hosts: int, options: Psp | None = None) -> None:
        self.options = options or Psp()
        super().__init__(query, hosts, self.options.weights)
        self._slices: list[Slices[int] | None] = [None] * len(self._names)
        self._rings: list[tuple[int, ...]] = [tuple(range(hosts))] * len(self._names)
        self._settled = False
        self._move_now = False

    # -- a batch -----------------------------------------------------------------------------

    def route(self, situation: Situation) -> Plan:
        self.loads.settle(self.work.parts(situation.waiting))
        densities = [Density(situation.all(s)) for s in range(len(self._names))]
        live = [density.rows for density in densities]
        events: list[Event] = []
        if not self._settled and self.work.learned and all(live):
            events += self._choose_rings(situation, densities)
        orders = {
            start: [
                step.stream
                for step in steps(
                    situation.query, start, situation.visible(start), situation.selectivities
                )
            ]
            for start in range(len(self._names))
            if situation.new[start]
        }
        visits = _visits(situation, orders, live)
        for stream, density in enumerate(densities):
            events += self._slice(situation, stream, density)
        self._move_now = False
        self._expect(situation, densities, visits)
        routes = tuple(self._route(situation, start, order) for start, order in orders.items())
        held = {
            stream: slices.held()
            for stream, slices in enumerate(self._slices)
            if slices is not None
        }
        keeps = {
            host: {stream: mine.get(host, []) for stream, mine in held.items()}
            for host in range(self.hosts)
        }
        plan = Plan(
            self.hosts,
            routes=routes,
            keeps=keeps,
            events=tuple(events),
            predicted={"sent_rows": _network(situation, routes, visits)},
        )
        return self._gathered(plan, situation, self.options.hop)

    def _choose_rings(self, situation: Situation, densities: Sequence[Density]) -> list[Event]:
        """The lengths of the rings, by the cost model and the heuristic of section 5.4."""
        self._settled = True
        query, prices = situation.query, self.work.prices
        costs = [
            RingCost(
                rate=density.rate * 1e6,
                window=query.streams[stream].longest / 1e6,
                selectivity=_mean_selectivity(query, stream, situation.selectivities),
            )
            for stream, density in enumerate(densities)
        ]
        lengths = [self.hosts] * len(costs)  # Eq. 4 grows with every host
        why = "the output rate grows with every host (PSP09, Eq. 4)"
        if self.options.objective == "latency":
            lengths = ring_lengths(costs, self.hosts, prices)
            why = "the latency is least with so many hosts (PSP09, Eq. 5)"
        events = []
        for stream, length in enumerate(lengths):
            self._rings[stream] = tuple(sorted(self.loads.ordered()[:length]))
            others = [at for at in range(len(costs)) if at != stream]
            visited, shortest = [costs[at] for at in others], min(lengths[at] for at in others)
            what = {
                "stream": self._names[stream],
                "hosts": list(self._rings[stream]),
                "rows_per_second": service_rate(visited, shortest, prices),
                "bytes_per_second": bandwidth(_row_bytes(situation), length, costs, prices),
            }
            gain = output_gain(costs[stream], length, prices)
            events.append(Event("ring", why, what, gain, "times the output of one host"))
        return events

    def _slice(self, situation: Situation, stream: int, density: Density) -> list[Event]:
        """Cut where the head has its part of the rows; hand the rest to the next of the ring."""
        ring = self._rings[stream]
        slices = self._slices[stream]
        horizon = situation.horizon(stream)
        if density.first is None or density.last is None:
            return []
        events: list[Event] = []
        if slices is None or self._move_now:
            slices, events = self._dealt(stream, density, slices)
        elif horizon is not None:
            slices = slices.since(horizon)
        # Who is slow takes less, as all wait for the slowest.
        speeds = {host: 1 / self.loads.slowness(host) for host in {*ring, *slices.owners}}
        each = density.rows / (PIECES * sum(speeds[host] for host in ring))
        start = max(slices.last_edge, density.first)
        # Rows that are in their place stay there: a slice ends among new rows, or behind all.
        placed = situation.placed(stream)
        while density.between(start, END) > (part := max(each * speeds[slices.owners[-1]], 1.0)):
            edge = max(density.time_at(density.before(start) + part), placed + 1)
            if not start < edge <= density.last:
                break
            head = slices.owners[-1]
            host = ring[(ring.index(head) + 1) % len(ring)] if head in ring else ring[0]
            slices = slices.cut(edge, host)
            events.append(self._boundary(stream, edge, host, part))
            start = edge
        self._slices[stream] = slices
        return events

    def _dealt(
        self, stream: int, density: Density, before: Slices[int] | None
    ) -> tuple[Slices[int], list[Event]]:
        """Slices of equal counts over the whole ring, at once: the beginning, or a relocation."""
        assert density.first is not None
        ring = self._rings[stream]
        count = PIECES * len(ring)
        speeds = [1 / self.loads.slowness(ring[piece % len(ring)]) for piece in range(count)]
        edges: list[int] = []
        for piece in range(1, count):
            edge = density.time_at(density.rows * sum(speeds[:piece]) / sum(speeds))
            if edge > (edges[-1] if edges else density.first):
                edges.append(edge)
        owners = tuple(ring[piece % len(ring)] for piece in range(len(edges) + 1))
        after = Slices(tuple(edges), owners)
        events = [
            self._boundary(stream, edge, host, density.rows / count)
            for edge, host in zip(edges, owners[1:], strict=True)
        ]
        if before is not None:
            moved = _moved(before, after, density)
            what = {"stream": self._names[stream], "rows": round(moved), "hosts": len(ring)}
            events.append(Event("move", "slices are dealt out anew, at once", what, moved, "rows"))
        return after, events

    def _boundary(self, stream: int, edge: int, host: int, part: float) -> Event:
        what = {"stream": self._names[stream], "from": edge, "host": host}
        why = f"the slice before it has its {part:,.0f} rows"
        return Event("boundary", why, what, part, "rows that the host before is spared")

    def _expect(self, situation: Situation, densities: Sequence[Density], visits: Visits) -> None:
        """Note what each host will compare, to learn what a pair costs, and who is slow."""
        for stream, (density, slices) in enumerate(zip(densities, self._slices, strict=True)):
            if slices is not None and density.first is not None and density.last is not None:
                pieces = list(slices.pieces(density.first, density.last))
                times = [times for times, _ in pieces]
                pairs = pairs_visited(situation, densities, stream, visits[stream], times)
                for (_, host), count in zip(pieces, pairs, strict=True):
                    self.loads.expect(host, self.work.part(count))

    def _route(self, situation: Situation, start: int, order: Sequence[int]) -> Route:
        refs = situation.new[start]
        times = min(ref.first for ref in refs), max(ref.last for ref in refs)
        hops = []
        for stream in order:
            slices = self._slices[stream]
            hops.append(Hop(stream, slices if slices is not None else Slices.whole(0)))
        return Route(start, times, tuple(hops), reaches(situation.query, start, times, order))

    # -- between batches ---------------------------------------------------------------------

    def _divide_among(self, hosts: int, *, at_once: bool) -> str:
        """A host that leaves hands its slices on, also those that have no rows just now."""
        self._rings = [tuple(range(hosts))] * len(self._names)
        self._settled = False
        self._move_now = self._move_now or at_once or self.options.relocation == "aggressive"
        self._slices = [
            None
            if slices is None
            else Slices(slices.edges, tuple(owner % hosts for owner in slices.owners))
            for slices in self._slices
        ]
        return "state moves now" if self._move_now else "slices move with time"

    def forecast(self, rates: Sequence[float], query: Query) -> str:
        hops = len(query.streams) - 1
        return (
            f"no row is kept twice; each new row visits the slices of {self.hosts} host(s), and "
            f"intermediate results do so {max(hops - 1, 0)} time(s) more (PSP09, section 4.3)"
        )

    def _placed(self) -> Mapping[str, Any]:
        return {
            "slices": [None if s is None else s.to_dict() for s in self._slices],
            "rings": [list(ring) for ring in self._rings],
            "settled_for": self.options.objective if self._settled else None,
            "move_now": self._move_now,
        }

    def _replace(self, placed: Mapping[str, Any]) -> None:
        self._slices = [None if s is None else Slices.from_dict(s) for s in placed["slices"]]
        self._rings = [tuple(ring) for ring in placed["rings"]]
        self._settled = placed.get("settled_for") == self.options.objective
        self._move_now = placed["move_now"]


def _visits(
    situation: Situation, orders: Mapping[int, Sequence[int]], live: Sequence[float]
) -> Visits:
    """What comes by each stream, where new rows visit the others in these orders."""
    visits: list[dict[int, float]] = [{} for _ in live]
    for start, order in orders.items():
        each, visited = 1.0, [start]
        for stream in order:
            visits[stream][start] = each
            each *= situation.expected_partners(visited, stream, live)
            visited.append(stream)
    return visits


def _network(situation: Situation, routes: Sequence[Route], visits: Visits) -> float:
    """Section 4.3: every new row, and every intermediate result, visits the whole ring."""
    sent = 0.0
    for route in routes:
        rows = sum(ref.rows for ref in situation.new[route.start])
        for hop, reach in zip(route.hops, route.reaches, strict=True):
            sent += rows * visits[hop.stream][route.start] * (len(hop.hosts(reach)) - 1)
    return sent


def _row_bytes(situation: Situation) -> float:
    """What a row takes on its way, as far as segments tell."""
    refs = [ref for stream in situation.new for ref in stream]
    return sum(ref.bytes for ref in refs) / max(sum(ref.rows for ref in refs), 1)


def _mean_selectivity(query: Query, stream: int, known: Mapping[int, float]) -> float:
    found = [
        known.get(position, 0.1)
        for position, term in enumerate(query.terms)
        if stream in term.streams
    ]
    return sum(found) / len(found) if found else 1.0


def _moved(before: Slices[int], after: Slices[int], density: Density) -> float:
    """Rows that have another owner after than before."""
    moved = 0.0
    for (first, last), host in after.pieces():
        for (start, stop), owner in before.pieces(first, last):
            if owner != host:
                moved += density.between(max(first, start), min(last, stop))
    return moved
