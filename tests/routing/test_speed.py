"""Routing is cheap: decisions are made about segments, and there are few of those."""

from __future__ import annotations

import time

import pytest

from anabranch.adapt.load import Usage
from anabranch.routing.base import Measured, Router
from anabranch.routing.strategies import router_for
from tests.routing.interpreter import query_of
from tests.routing.steady import SECOND, World

ROWS = 100_000
"""Of all streams together, in a second of event time and a batch."""
HOSTS = 32
BATCHES = 30


def seconds_to_route(router: Router, world: World) -> float:
    """Driver time for so many batches, with their measurements."""
    begin = time.process_time()
    for batch in range(BATCHES):
        router.route(world.batch(ROWS))
        usage = {host: Usage(((host * 7 + batch) % 5) / 5, 1e6, 1e5) for host in range(HOSTS)}
        router.learn(Measured(1.0, ROWS, usage, 2.0))
    return time.process_time() - begin


@pytest.mark.parametrize("strategy", ["atr", "ctr", "psp"])
@pytest.mark.parametrize("windows", [[60, 60], [10, 30, 60, 20]])
def test_routing_takes_less_than_a_microsecond_a_tuple(strategy: str, windows: list[int]) -> None:
    query = query_of([window * SECOND for window in windows])
    router = router_for(query, strategy, HOSTS)
    spent = seconds_to_route(router, World(query))
    assert spent / (ROWS * BATCHES) < 1e-6
