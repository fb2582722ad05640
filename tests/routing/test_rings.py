"""PSP's rings: as long as what was measured says, once something was measured."""

from __future__ import annotations

import pytest

from anabranch.adapt.load import Usage
from anabranch.routing.base import Measured, Plan
from anabranch.routing.sliced import Psp, PspRouter
from tests.routing.interpreter import World, check, query_of

HOSTS = 4
ROWS = list(range(0, 4_000_000, 100_000))
"""Microseconds: 10 rows a second."""


def after_a_batch(objective: str, cpu: float, seconds: float) -> tuple[World, PspRouter, Plan]:
    """The second plan, when the first batch took so long, and so much CPU of one host."""
    world = World(query_of([10_000_000, 10_000_000]))
    router = PspRouter(world.query, HOSTS, Psp(objective=objective))
    first = check(world, router, [ROWS, ROWS])
    assert not [event for event in first.events if event.kind == "ring"]
    world.commit(None)
    usage = {host: Usage(cpu=cpu / seconds / HOSTS) for host in range(HOSTS)}
    router.learn(Measured(seconds, 2 * len(ROWS), usage, cpu=cpu, sent=80, sending=cpu / 100))
    later = [time + 4_000_000 for time in ROWS]
    return world, router, check(world, router, [later, later])


def rings(plan: Plan) -> dict[str, list[int]]:
    return {e.what["stream"]: e.what["hosts"] for e in plan.events if e.kind == "ring"}


def test_costly_comparisons_get_long_rings_and_cheap_ones_short_rings() -> None:
    _, _, costly = after_a_batch("latency", cpu=400.0, seconds=101.0)
    _, _, cheap = after_a_batch("latency", cpu=0.004, seconds=1.0)
    assert {len(hosts) for hosts in rings(costly).values()} == {HOSTS}
    assert {len(hosts) for hosts in rings(cheap).values()} == {1}


def test_the_greatest_output_takes_all_hosts_and_says_what_it_expects() -> None:
    _, _, plan = after_a_batch("output", cpu=4.0, seconds=2.0)
    (event, _) = (event for event in plan.events if event.kind == "ring")
    assert event.what["hosts"] == list(range(HOSTS))
    assert event.gain == pytest.approx(HOSTS, rel=0.1)
    assert event.what["rows_per_second"] > 0
    assert event.what["bytes_per_second"] > 0


def test_a_restart_with_another_objective_chooses_its_rings_anew() -> None:
    world, router, _ = after_a_batch("output", cpu=0.004, seconds=1.0)
    world.commit(None)
    saved = router.snapshot()
    batch = [[8_000_000], [8_000_000]]
    for objective, lengths in (("output", set()), ("latency", {1})):
        again = PspRouter(world.query, HOSTS, Psp(objective=objective))
        again.restore(saved)
        plan = check(world, again, batch)
        assert {len(hosts) for hosts in rings(plan).values()} == lengths
        world.commit(None)
        batch = [[8_000_001], [8_000_001]]
