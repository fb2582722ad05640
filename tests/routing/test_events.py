"""Decisions can be seen: each with its reason, and with what it is expected to gain."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

from anabranch.adapt.events import Event
from anabranch.adapt.load import Usage
from anabranch.routing.aligned import AtrRouter
from anabranch.routing.base import Measured, Router
from anabranch.routing.coordinated import CtrRouter
from anabranch.routing.sliced import PspRouter
from tests.routing.interpreter import World, check, query_of

BATCHES, ROWS = 8, 10


def decisions(make: Callable[[World], Router]) -> list[Event]:
    """All of a run in which one stream becomes faster, and a host comes."""
    world = World(query_of([12, 12]))
    router = make(world)
    events: list[Event] = []
    for batch in range(BATCHES):
        start = batch * ROWS
        slow, fast = list(range(start, start + ROWS, 4)), list(range(start, start + ROWS))
        both = [fast, slow] if batch < BATCHES // 2 else [slow, fast * 3]
        events += check(world, router, both).events
        usage = {host: Usage(0.5, 1e3, 1e3) for host in range(router.hosts)}
        events += router.learn(Measured(1.0 + batch % 2, 2 * ROWS, usage, cpu=1.0))
        if batch == BATCHES // 2:
            router.rescale(3, at_once=True)
        world.commit(start)
    return events


@pytest.mark.parametrize(
    ("router", "kinds"),
    [
        (lambda world: AtrRouter(world.query, 2), {"election", "segment", "length"}),
        (lambda world: CtrRouter(world.query, 2), {"placement", "route"}),
        (lambda world: PspRouter(world.query, 2), {"boundary", "ring", "move"}),
    ],
)
def test_every_decision_has_a_reason_and_a_predicted_gain(
    router: Callable[[World], Router], kinds: set[str]
) -> None:
    events = decisions(router)
    assert {event.kind for event in events} == kinds
    for event in events:
        assert event.why
        assert event.gain is not None, event
        assert event.unit
        assert json.loads(json.dumps(event.to_dict(), allow_nan=False)) == event.to_dict()


def test_atr_elects_again_when_rates_change() -> None:
    elections = [e for e in decisions(lambda w: AtrRouter(w.query, 2)) if e.kind == "election"]
    assert [election.what["after"] for election in elections] == ["a", "b"]
    assert all(election.gain is not None and election.gain > 0 for election in elections)
