"""Unusual histories: long gaps, backlogs, tiny segments, hosts that leave an empty stream."""

from __future__ import annotations

import json
import time
from dataclasses import replace

import pytest

from anabranch.adapt.load import Usage
from anabranch.errors import QueryError
from anabranch.routing.adaptive import SMALL
from anabranch.routing.aligned import Atr, AtrRouter
from anabranch.routing.base import Hop, Measured, Plan, Route, Router, Situation, probe_orders
from anabranch.routing.coordinated import Ctr, CtrRouter
from anabranch.routing.partitioned import HashRouter
from anabranch.routing.sliced import Psp, PspRouter
from anabranch.routing.slices import Slices
from anabranch.routing.strategies import router_for
from anabranch.state.segment import SegmentRef
from tests.routing.interpreter import World, check, query_of

DAY = 86_400_000_000
SECOND = 1_000_000


def routers(world: World) -> list[Router]:
    tiny = "1 microsecond"
    return [
        AtrRouter(world.query, 3),
        AtrRouter(world.query, 3, Atr(segment=tiny)),
        CtrRouter(world.query, 3, Ctr(hop=0)),
        CtrRouter(world.query, 3, Ctr(segment=tiny, hop=0)),
        PspRouter(world.query, 3, Psp(hop=0)),
    ]


@pytest.mark.parametrize("which", range(5))
@pytest.mark.parametrize("window", [0, 1_000])
def test_a_day_of_backlog_after_a_microsecond_is_routed_at_once(which: int, window: int) -> None:
    world = World(query_of([window, window]))
    router = routers(world)[which]
    begin = time.process_time()
    check(world, router, [[5], [5]])
    world.commit(None)
    backlog = [step * DAY // 20 for step in range(20)]
    check(world, router, [backlog, backlog])
    world.commit(DAY)
    plan = check(world, router, [[300 * DAY, 300 * DAY + 400], [300 * DAY + 1]])
    assert time.process_time() - begin < 2
    pieces = sum(len(share.boxes) for share in plan.shares) + len(plan.routes)
    assert pieces < 300


@pytest.mark.parametrize("at_once", [True, False])
@pytest.mark.parametrize("name", ["atr", "ctr", "psp"])
def test_hosts_that_leave_take_no_times_of_an_empty_stream_with_them(
    name: str, *, at_once: bool
) -> None:
    world = World(query_of([10, 10]))
    made: dict[str, Router] = {
        "atr": AtrRouter(world.query, 5, Atr(segment="2 microseconds")),
        "ctr": CtrRouter(world.query, 5, Ctr(segment="2 microseconds", hop=0)),
        "psp": PspRouter(world.query, 5, Psp(hop=0)),
    }
    router = made[name]
    check(world, router, [list(range(20)), list(range(20))])
    world.commit(100)  # everything expires
    router.rescale(2, at_once=at_once)
    check(world, router, [[100, 101, 102], []])
    world.commit(100)
    check(world, router, [[103], [100, 104, 109]])


@pytest.mark.parametrize("which", range(5))
def test_times_that_no_float_tells_apart_are_routed_all_the_same(which: int) -> None:
    """The end of the year 9999 is a favourite where a time is not known."""
    world = World(query_of([10, 10]))
    router = routers(world)[which]
    end = 253_402_300_799_000_000
    check(world, router, [[end, end + 1], [end + 3]])
    world.commit(None)
    check(world, router, [[end + 5], [end, end + 7]])


def test_late_streams_do_not_pile_up_segments() -> None:
    """What is live may span far more than the windows, where the watermark is far behind."""
    world = World(query_of([1_000, 1_000]))
    router = AtrRouter(world.query, 4)
    most = 0
    for batch in range(60):
        rows = list(range(batch * 1_000, batch * 1_000 + 1_000, 100))
        plan = router.route(world.arrive([rows, rows]))
        most = max(most, sum(len(share.boxes) for share in plan.shares))
        world.commit(None)
    assert most <= 40
    assert len(router.reigns[-1].slices.edges) < 400


def test_auto_slices_time_where_there_is_no_key_and_more_than_one_host() -> None:
    query = query_of([10, 10, 10, 10])
    assert router_for(query, "auto", 2).name == "psp"
    assert router_for(query, "auto", 1).name == "central"


def test_a_start_with_other_hosts_divides_keys_among_these() -> None:
    router = HashRouter(8)
    router.restore({"hosts": 2})
    assert router.hosts == 8


@pytest.mark.parametrize("options", [Atr(segment="0 seconds"), Ctr(segment="0 seconds")])
def test_segments_of_no_length_are_refused(options: Atr | Ctr) -> None:
    with pytest.raises(QueryError, match="write a length like"):
        router_for(query_of([10, 10]), options, 2)


def test_a_restart_with_another_master_changes_it_in_order() -> None:
    world = World(query_of([10, 10]))
    router = AtrRouter(world.query, 2, Atr(segment="4 microseconds", master="a"))
    check(world, router, [list(range(12)), list(range(12))])
    world.commit(10)
    again = AtrRouter(world.query, 2, Atr(segment="4 microseconds", master="b"))
    again.restore(json.loads(json.dumps(router.snapshot())))
    check(world, again, [[12, 14], [11, 15]])
    assert [reign.master for reign in again.reigns] == [0, 1]


def test_a_plan_for_hosts_that_do_not_exist_is_no_plan() -> None:
    hop = Hop(1, Slices((5,), (0, 2)))
    with pytest.raises(AssertionError, match="names host 2"):
        Plan(2, routes=(Route(0, (0, 9), (hop,), ((0, 9),)),))


@pytest.mark.parametrize("make", [CtrRouter, PspRouter])
def test_a_batch_that_is_joined_faster_than_its_hops_take_is_joined_by_one_host(
    make: type[CtrRouter | PspRouter],
) -> None:
    world = World(query_of([20, 20, 20]))
    router = make(world.query, 3)
    cheap, dear = 1e-4, 100.0
    shapes = []
    for at, cpu in enumerate((cheap, cheap, dear, dear)):
        plan = check(world, router, [[10 * at, 10 * at + 5]] * 3)
        shapes.append((len(plan.shares), bool(plan.routes)))
        assert {event.kind for event in plan.events} >= ({"gather"} if plan.shares else set())
        assert set(plan.keeps) == {0, 1, 2}  # who keeps what does not change with it
        usage = {host: Usage(0.5, 1e3, 1e3) for host in range(3)}
        router.learn(Measured(1.0, 6, usage, cpu=cpu))
        world.commit(10 * at)
    assert shapes == [(1, False), (1, False), (1, False), (0, True)]


@pytest.mark.parametrize("make", [CtrRouter, PspRouter])
def test_a_batch_with_much_to_fetch_stays_where_it_is(make: type[CtrRouter | PspRouter]) -> None:
    world = World(query_of([20, 20, 20]))
    check(world, make(world.query, 3), [[0, 5]] * 3)
    world.refs = [[replace(ref, bytes=SMALL) for ref in refs] for refs in world.refs]
    assert check(world, make(world.query, 3), [[10, 15]] * 3).routes


@pytest.mark.parametrize("hop", [-1.0, float("nan"), "1 s", True])
def test_hops_cannot_cost_less_than_nothing(hop: float) -> None:
    for options in (Ctr, Psp):
        with pytest.raises(QueryError, match="hop is"):
            options(hop=hop)


def test_probes_go_first_where_they_see_old_rows_only() -> None:
    """Of two new rows that match one finds the other: b's new rows see c's old ones only."""
    query = query_of([SECOND] * 3)
    old, new = (
        [[SegmentRef(f"{name}{s}", s, 100, 100, at, at + SECOND, 0)] for s in range(3)]
        for name, at in (("old", 0), ("new", SECOND))
    )
    situation = Situation(query, 1, old, new, None)

    orders = [[step.stream for step in steps] for steps in probe_orders(situation, None)]
    routes = PspRouter(query, 2, Psp(hop=0)).route(situation).routes

    assert orders == [[1, 2], [2, 0], [0, 1]]
    assert [[hop.stream for hop in route.hops] for route in routes] == orders
