"""The papers' baselines do what they are there for: lose results, or send and copy more."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from anabranch.routing.aligned import Atr, AtrRouter
from anabranch.routing.baselines import UnawareRouter
from anabranch.routing.central import CentralRouter
from anabranch.routing.coordinated import Ctr, CtrRouter
from anabranch.routing.strategies import STRATEGIES
from tests.routing.steady import SECOND, Flow, chained


def test_routing_that_ignores_windows_loses_results_and_says_how_many(tmp_path: Path) -> None:
    query = chained([3, 3], width=0.1)
    exact = Flow(query, [40, 40], CentralRouter(), tmp_path / "exact")
    unaware = Flow(query, [40, 40], UnawareRouter(query, 4, 2 * SECOND), tmp_path / "unaware")
    lost = missing = 0
    for _ in range(6):
        exact.batch()
        lost += unaware.batch()["lost"]
        missing += exact.results - unaware.results
    assert lost == missing
    assert lost > 0
    assert "unaware" not in STRATEGIES


def test_choosing_hosts_at_random_sends_more(tmp_path: Path) -> None:
    query = chained([4, 4, 4], width=0.02)
    sent = {}
    for optimized in (True, False):
        options = Ctr(copies=2, segment="1 second", optimized=optimized, hop=0)
        flow = Flow(query, [60, 60, 60], CtrRouter(query, 6, options), tmp_path / str(optimized))
        costs = [flow.batch() for _ in range(10)]
        sent[optimized] = sum(cost["sent"] + cost["probing"] for cost in costs)
    assert sent[True] < sent[False]


def test_a_fixed_atr_neither_elects_nor_searches(tmp_path: Path) -> None:
    query = chained([2, 2], width=0.1)
    router = AtrRouter(query, 2, Atr(segment="2 seconds", master="a"))
    flow = Flow(query, [10, 90], router, tmp_path)
    for _ in range(12):
        flow.batch()
    (reign,) = router.reigns
    assert reign.master == 0, "b would be cheaper"
    assert {b - a for a, b in pairwise(reign.slices.edges)} == {2 * SECOND}
