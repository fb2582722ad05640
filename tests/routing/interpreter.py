"""Plans carried out on plain times, by brute force: what a strategy must get right.

Rows are nothing but times here, and every combination within the windows is a result. A result is
named by the positions of its rows; the interpreter notes on which host each was made.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import product

from anabranch.model.query import Query, Stream
from anabranch.routing.base import Plan, Route, Router, Situation
from anabranch.state.segment import SegmentRef

Combination = tuple[int, ...]


def query_of(windows: Sequence[int]) -> Query:
    """Streams with these windows, and no condition but time."""
    names = "abcdefghi"[: len(windows)]
    streams = tuple(Stream(n, "ts", w, 0, 10**12) for n, w in zip(names, windows, strict=True))
    nothing = tuple(() for _ in windows)
    return Query(streams, nothing, nothing, (), ())


class World:
    """Streams that come in batches, and everything that is known of them."""

    def __init__(self, query: Query) -> None:
        self.query = query
        self.times: list[list[int]] = [[] for _ in query.streams]
        self.refs: list[list[SegmentRef]] = [[] for _ in query.streams]
        self.old: list[int] = [0] * len(query.streams)
        self.watermark: int | None = None
        self.batch = 0

    def arrive(self, batch: Sequence[Sequence[int]]) -> Situation:
        """The situation in which a strategy decides about a batch."""
        self.old = [len(times) for times in self.times]
        new = [
            [SegmentRef(f"{self.batch}/{s}", s, len(rows), len(rows), min(rows), max(rows), 0)]
            if rows
            else []
            for s, rows in enumerate(batch)
        ]
        old = [list(refs) for refs in self.refs]
        for stream, rows in enumerate(batch):
            self.times[stream] += rows
            self.refs[stream] += new[stream]
        return Situation(self.query, self.batch, old, new, self.watermark)

    def commit(self, watermark: int | None) -> None:
        """The batch is done, and time has come so far: what is behind expires."""
        self.batch += 1
        if watermark is not None:
            self.watermark = max(watermark, self.watermark or watermark)
            for stream, refs in enumerate(self.refs):
                horizon = self.watermark - self.query.streams[stream].longest
                self.refs[stream] = [ref for ref in refs if ref.last >= horizon]

    def fits(self, combination: Combination) -> bool:
        times = [self.times[s][row] for s, row in enumerate(combination)]
        return all(
            max(times) - time <= stream.window_at(time)
            for time, stream in zip(times, self.query.streams, strict=True)
        )

    def expected(self) -> Counter[Combination]:
        """The results that the batch adds: those with at least one new row."""
        rows = [range(len(times)) for times in self.times]
        return Counter(
            c
            for c in product(*rows)
            if any(row >= self.old[s] for s, row in enumerate(c)) and self.fits(c)
        )

    def made(self, plan: Plan) -> Counter[Combination]:
        """The results that the hosts make by the plan, each as often as it is made."""
        found: Counter[Combination] = Counter()
        for share in plan.shares:
            for box in share.boxes:
                for c in self.expected():
                    if all(a <= self.times[s][c[s]] <= b for s, (a, b) in box.items()):
                        found[c] += 1
        for route in plan.routes:
            found.update(self._routed(route))
        return found

    def _routed(self, route: Route) -> Iterator[Combination]:
        first, last = route.times
        for row in range(self.old[route.start], len(self.times[route.start])):
            if first <= self.times[route.start][row] <= last:
                yield from self._hop(route, 0, {route.start: row})

    def _hop(self, route: Route, at: int, bound: dict[int, int]) -> Iterator[Combination]:
        if at == len(route.hops):
            combination = tuple(bound[s] for s in range(len(self.times)))
            if self.fits(combination):
                yield combination
            return
        hop, reach = route.hops[at], route.reaches[at]
        visible = len(self.times[hop.stream])
        if hop.stream > route.start:
            visible = self.old[hop.stream]
        for host in hop.hosts(reach):
            for times in hop.slices.held(*reach).get(host, ()):
                for row in range(visible):
                    if times[0] <= self.times[hop.stream][row] <= times[1]:
                        yield from self._hop(route, at + 1, {**bound, hop.stream: row})


def check(world: World, router: Router, batch: Sequence[Sequence[int]]) -> Plan:
    """Route a batch and see that every result is made once."""
    situation = world.arrive(batch)
    plan = router.route(situation)
    assert world.made(plan) == world.expected()
    return plan
