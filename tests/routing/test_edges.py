"""Unusual histories: long gaps, backlogs, tiny segments, hosts that leave an empty stream."""

from __future__ import annotations

import json
import time

import pytest

from anabranch.routing.aligned import Atr, AtrRouter
from anabranch.routing.base import Hop, Plan, Route, Router
from anabranch.routing.coordinated import Ctr, CtrRouter
from anabranch.routing.sliced import PspRouter
from anabranch.routing.slices import Slices
from tests.routing.interpreter import World, check, query_of

DAY = 86_400_000_000


def routers(world: World) -> list[Router]:
    tiny = "1 microsecond"
    return [
        AtrRouter(world.query, 3),
        AtrRouter(world.query, 3, Atr(segment=tiny)),
        CtrRouter(world.query, 3),
        CtrRouter(world.query, 3, Ctr(segment=tiny)),
        PspRouter(world.query, 3),
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
        "ctr": CtrRouter(world.query, 5, Ctr(segment="2 microseconds")),
        "psp": PspRouter(world.query, 5),
    }
    router = made[name]
    check(world, router, [list(range(20)), list(range(20))])
    world.commit(100)  # everything expires
    router.rescale(2, at_once=at_once)
    check(world, router, [[100, 101, 102], []])
    world.commit(100)
    check(world, router, [[103], [100, 104, 109]])


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
