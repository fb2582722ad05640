"""How evenly strategies divide the work of a batch, by the pairs that hosts compare."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from anabranch.adapt.load import Usage, Weights
from anabranch.model.query import Query
from anabranch.routing.aligned import Atr, AtrRouter
from anabranch.routing.base import Measured, Plan, Situation
from anabranch.routing.coordinated import Ctr, CtrRouter
from anabranch.routing.pairs import pairs_of
from anabranch.routing.sliced import Psp, PspRouter
from anabranch.routing.slices import Density
from anabranch.state.segment import SegmentRef
from tests.routing.interpreter import query_of
from tests.routing.steady import SECOND

WINDOW, SPAN = 20, 20
STEP = 0.05


class Batches:
    """Two even streams in batches of 20 seconds, with windows of 20 seconds or another length."""

    def __init__(self, window: int = WINDOW, lateness: int = 0) -> None:
        self.window, self.lateness = window, lateness
        self.query = query_of([window * SECOND] * 2)
        self.refs: list[list[SegmentRef]] = [[], []]
        self.number = 0

    def next(self, rows: int = 80_000) -> Situation:
        begin, end = self.number * SPAN * SECOND, (self.number + 1) * SPAN * SECOND
        new = [[SegmentRef(f"{self.number}", s, rows, rows, begin, end - 1, 0)] for s in (0, 1)]
        watermark = begin - self.lateness * SECOND
        live = [
            [ref for ref in refs if ref.last >= watermark - self.window * SECOND]
            for refs in self.refs
        ]
        situation = Situation(self.query, self.number, live, new, watermark)
        self.refs = [[*old, *fresh] for old, fresh in zip(live, new, strict=True)]
        self.number += 1
        return situation

    def work(self, plan: Plan, number: int) -> dict[int, float]:
        """Of all pairs of a batch, the part that each host compares: counted on a fine grid."""
        begin = number * SPAN
        times = np.arange(max(begin - self.window, 0), begin + SPAN, STEP) + STEP / 2
        a, b = times[:, None], times[None, :]
        wanted = (np.abs(a - b) <= self.window) & (np.maximum(a, b) >= begin)
        parts: dict[int, float] = {}
        for share in plan.shares:
            mine = np.zeros_like(wanted)
            for box in share.boxes:
                inside = wanted.copy()
                for stream, (first, last) in box.items():
                    own = (a, b)[stream] * SECOND
                    inside &= (own >= first) & (own <= last)
                mine |= inside
            parts[share.host] = float(mine.sum() / wanted.sum())
        for route in plan.routes:
            # New rows of the first stream meet old ones of the second, those of the second both.
            met = wanted & ((a >= begin) & (b < begin) if route.start == 0 else b >= begin)
            for at, count in enumerate(met.sum(axis=route.start)):
                host = route.hops[0].slices.owner(int(times[at] * SECOND))
                parts[host] = parts.get(host, 0.0) + float(count / wanted.sum())
        return parts


def test_atr_divides_a_batch_evenly_while_it_tries_other_lengths() -> None:
    batches, router = Batches(), AtrRouter(query_of([WINDOW * SECOND] * 2), 2)
    lengths = set()
    for number in range(9):
        plan = router.route(batches.next())
        parts = batches.work(plan, number)
        assert sum(parts.values()) == pytest.approx(1.0)
        assert max(parts.values()) < 0.54, f"batch {number}: {parts}"
        assert router._search is not None
        lengths.add(router._search.length)
        usage = {host: Usage(cpu=part) for host, part in parts.items()}
        router.learn(Measured(10.0, 160_000, usage, cpu=15.0, places=2))
    assert len(lengths) > 1


def test_psp_learns_which_host_is_slow() -> None:
    batches, router = Batches(), PspRouter(query_of([WINDOW * SECOND] * 2), 2, Psp(hop=0))
    parts: dict[int, float] = {}
    for number in range(12):
        parts = batches.work(router.route(batches.next()), number)
        # Host 1 takes twice as long for a pair.
        usage = {0: Usage(cpu=parts[0] / 2), 1: Usage(cpu=parts[1])}
        cpu = 10 * sum(used.cpu for used in usage.values())
        router.learn(Measured(10.0, 160_000, usage, cpu=cpu, places=2))
    assert parts[0] == pytest.approx(2 * parts[1], rel=0.15), parts


def test_pairs_of_a_segment_are_those_in_windows_of_which_one_is_new() -> None:
    batches = Batches()
    batches.next(200)
    situation = batches.next(200)
    densities = [Density(situation.all(stream)) for stream in (0, 1)]
    pieces = [(at * SECOND, (at + 5) * SECOND - 1) for at in range(0, 2 * SPAN, 5)]
    found = pairs_of(situation, densities, situation.query.windows, 0, pieces)
    # 20 rows a second and stream. Both sides of a piece count: 200 rows by 200 in all.
    rows = np.arange(0, 2 * SPAN, 0.1)
    near = np.abs(rows[:, None] - rows[None, :]) <= WINDOW
    near &= np.maximum(rows[:, None], rows[None, :]) >= SPAN
    exact = near.reshape(len(pieces), -1).sum(axis=1)
    assert found == pytest.approx(exact, rel=0.05, abs=30)


@pytest.mark.parametrize("windows", [[0, 0], [5 * SECOND, 0]])
def test_atr_spreads_segments_also_where_windows_are_nothing(windows: list[int]) -> None:
    router = AtrRouter(query_of(windows), 4, Atr(segment="1 second"))
    batches = Batches()
    for _ in range(2):
        segments = [e.what["host"] for e in router.route(batches.next()).events if "host" in e.what]
        assert {segments.count(host) for host in range(4)} <= {3, 4, 5, 6, 7}, segments


def test_rows_that_all_have_one_time_are_charged_once() -> None:
    query = query_of([SECOND, SECOND])
    router = AtrRouter(query, 2, Atr(segment="1 second"))
    router.route(_one_time(query, 0, range(0, SECOND, SECOND // 100)))
    router.work.expected = 0.0
    router.route(_one_time(query, 1, [1_000 * SECOND] * 100))
    assert router.work.expected == pytest.approx(100 * 100)


def _one_time(query: Query, number: int, times: Sequence[int]) -> Situation:
    first, last = min(times), max(times)
    new = [[SegmentRef(f"{number}/{s}", s, len(times), 1, first, last, 0)] for s in (0, 1)]
    return Situation(query, number, [[], []], new, None)


def test_a_change_of_master_is_charged_where_its_pairs_are_joined() -> None:
    router = AtrRouter(query_of([WINDOW * SECOND] * 2), 3, Atr(segment="5 seconds", master="a"))
    batches = Batches()
    router.route(batches.next())
    router.crown(1, 10 * SPAN * SECOND)  # in the future: nothing is the new master's yet
    before = {host for _, host in router.reigns[0].slices.pieces()}
    router.route(batches.next())
    assert set(router.loads._placed) == before


def test_covers_are_small_also_where_the_cpu_does_not_count() -> None:
    def hosts(weights: Weights) -> float:
        batches = Batches()
        options = Ctr(copies=3, segment="1 second", hop=0, weights=weights)
        router = CtrRouter(batches.query, 8, options)
        router.route(batches.next(200))
        routes = router.route(batches.next(200)).routes
        return float(np.mean([len(r.hops[0].hosts(r.reaches[0])) for r in routes]))

    assert hosts(Weights(0.0, 0.5, 0.5)) <= hosts(Weights()) + 1


def test_probes_of_a_join_that_knows_no_master_do_not_visit_it_early() -> None:
    for known, narrowed in ((True, 1), (False, 0)):
        router = AtrRouter(query_of([WINDOW * SECOND] * 2), 2, Atr(master_first=known))
        assert len(router.route(Batches().next()).narrowed) == narrowed


@pytest.mark.parametrize(
    ("seconds", "told"),
    [
        pytest.param([0.03, 0.03, 0.03, 0.12], False, id="milliseconds"),
        pytest.param([0.03, 0.03, 0.03, 0.9], False, id="one host loads its libraries"),
        pytest.param([0.5, 0.5, 0.5, 1.5], True, id="long enough"),
    ],
)
def test_a_host_is_slow_only_by_times_that_tell(seconds: list[float], told: bool) -> None:
    router = AtrRouter(query_of([WINDOW * SECOND] * 2), 4)
    for host in range(4):
        router.loads.expect(host, seconds[0] / 10)
    usage = {host: Usage(cpu=cpu / 10) for host, cpu in enumerate(seconds)}
    router.learn(Measured(10.0, 160_000, usage, cpu=sum(seconds), places=2))
    assert (router.loads.slowness(3) > router.loads.slowness(0)) == told


def routed(waiting: dict[int, float]) -> list[int]:
    """How often each of four hosts joins a segment, where hosts have work from before."""
    batches = Batches()
    router = CtrRouter(batches.query, 4, Ctr(copies=4, segment="1 second", hop=0))
    router.work.learned, router.work.batch = True, 1.0
    router.route(batches.next(200))
    situation = batches.next(200)
    plan = router.route(
        Situation(
            situation.query,
            situation.batch,
            situation.old,
            situation.new,
            situation.watermark,
            waiting=waiting,
        )
    )
    owners = [
        owner
        for route in plan.routes
        for hop, reach in zip(route.hops, route.reaches, strict=True)
        for _, owner in hop.slices.pieces(*reach)
    ]
    return [owners.count(host) for host in range(4)]


def test_a_host_that_would_run_dry_takes_segments_of_those_that_have_enough() -> None:
    dry = routed({0: 50.0, 1: 40.0, 2: 60.0})
    assert dry[3] > 0.9 * sum(dry), dry


def test_hosts_that_all_have_enough_keep_to_the_smallest_cover() -> None:
    fed = routed({0: 50.0, 1: 40.0, 2: 60.0, 3: 45.0})
    assert sum(count > 0 for count in fed) == 1, fed
