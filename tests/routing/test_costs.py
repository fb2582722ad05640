"""What strategies cost, measured on real plans and segments, against the papers' equations."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.routing.aligned import Atr, AtrRouter
from anabranch.routing.coordinated import Ctr, CtrRouter
from anabranch.routing.reigns import Election
from anabranch.routing.sliced import Psp, PspRouter
from tests.routing.interpreter import World, check, query_of
from tests.routing.steady import SECOND, Flow, chained


@pytest.mark.parametrize("segment", [4, 8])
def test_atr_copies_as_many_rows_as_equation_2_says(tmp_path: Path, segment: int) -> None:
    rates = [200, 100, 50]
    query = chained([2, 3, 1], width=0.01)
    router = AtrRouter(query, 4, Atr(segment=f"{segment} seconds"))
    flow = Flow(query, rates, router, tmp_path)
    for _ in range(8):
        flow.batch()
    seconds = 4 * segment  # whole segments: a copy is made when a segment begins
    copied = sum(flow.batch()["copied"] for _ in range(seconds))
    master = router.reigns[-1].master
    slaves = sum(rate for stream, rate in enumerate(rates) if stream != master)
    windows = [stream.window for stream in query.streams]
    expected = Election(windows, rates, segment * SECOND).copies(master)
    assert copied / seconds - slaves == pytest.approx(expected, rel=0.1)


def test_the_master_is_the_stream_that_equation_2_prefers() -> None:
    # The copies are those of the other streams, so the fastest stream leads...
    assert Election([10, 10, 10], [5.0, 50.0, 5.0], length=20).winner() == 1
    # ...unless its window makes everybody else's overlap longer.
    assert Election([1, 100, 1], [40.0, 50.0, 40.0], length=20).winner() != 1


def test_of_near_equals_the_stream_with_the_most_terms_leads() -> None:
    assert Election([10, 10, 10], [51.0, 50.0, 50.0], length=20).winner() == 0
    assert Election([10, 10, 10], [51.0, 50.0, 50.0], length=20, links=[1, 2, 1]).winner() == 1
    assert Election([10, 10, 10], [90.0, 50.0, 50.0], length=20, links=[1, 2, 1]).winner() == 0


def test_a_master_that_came_first_gives_way_to_the_one_with_the_most_terms(tmp_path: Path) -> None:
    query = chained([2, 2, 2], width=0.02)
    router = AtrRouter(query, 2)
    flow = Flow(query, [20, 0, 0], router, tmp_path)
    flow.batch()
    assert router.reigns[-1].master == 0
    flow.rates = [20, 20, 20]
    for _ in range(6):
        flow.batch()
    assert router.reigns[-1].master == 1


@pytest.mark.parametrize("copies", [1, 2])
def test_ctr_sends_as_many_rows_as_equation_4_says(tmp_path: Path, copies: int) -> None:
    query = chained([4, 4, 4], width=0.02)
    router = CtrRouter(query, 4, Ctr(copies=copies, segment="1 second", hop=0))
    flow = Flow(query, [100, 100, 100], router, tmp_path)
    for _ in range(10):
        flow.batch()
    measured = predicted = 0.0
    for _ in range(12):
        cost = flow.batch()
        # A row that goes to k hosts was sent to k - 1 of them beside its own.
        measured += cost["sent"] + cost["probing"] - cost["rows"]
        predicted += cost["predicted"]["sent_rows"]
    assert predicted == pytest.approx(measured, rel=0.1)


def test_new_rows_of_up_to_a_window_take_one_route() -> None:
    world = World(query_of([10, 10, 10]))
    router = CtrRouter(world.query, 4, Ctr(segment="1 microsecond", hop=0))
    plan = check(world, router, [list(range(8)), list(range(8)), list(range(8))])
    assert [(route.start, route.times) for route in plan.routes] == [
        (start, (0, 7)) for start in range(3)
    ]
    world.commit(None)
    # The first is late; the others are of more than a window together.
    plan = check(world, router, [[5, *range(8, 24)], [], [9]])
    assert [route.start for route in plan.routes] == [0, 0, 2]
    assert all(last - first <= 10 for first, last in (route.times for route in plan.routes))


def test_ctr_does_not_collapse_onto_few_hosts(tmp_path: Path) -> None:
    query = chained([4, 4, 4], width=0.02)
    router = CtrRouter(query, 6, Ctr(copies=1, segment="1 second", hop=0))
    flow = Flow(query, [60, 60, 60], router, tmp_path)
    for _ in range(8):
        flow.batch()
    kept = dict.fromkeys(range(6), 0)
    joined = dict.fromkeys(range(6), 0.0)
    for _ in range(8):
        for host, entry in flow.batch()["hosts"].items():
            kept[int(host)] += entry["kept"]
            joined[int(host)] += entry["cpu"]
    assert min(kept.values()) > 0.5 * max(kept.values()), kept
    assert min(joined.values()) > 0.2 * max(joined.values()), joined


def test_ctr_recovers_from_a_table_with_everything_on_one_host(tmp_path: Path) -> None:
    """PSP09, section 7: once all copies are on one host, covers alone would keep them there."""
    query = chained([4, 4, 4], width=0.02)
    router = CtrRouter(query, 1, Ctr(segment="1 second", hop=0))
    flow = Flow(query, [60, 60, 60], router, tmp_path)
    for _ in range(6):
        flow.batch()
    router.rescale(4, at_once=False)
    for _ in range(11):
        flow.batch()
    kept = {host: entry["kept"] for host, entry in flow.batch()["hosts"].items()}
    assert len(kept) == 4
    assert min(kept.values()) > 0.5 * max(kept.values()), kept


@pytest.mark.parametrize("windows", [[4, 4], [4, 2, 8], [2, 2, 2, 2]])
def test_psp_keeps_every_live_row_once_and_evenly(tmp_path: Path, windows: list[int]) -> None:
    query = chained(windows, width=0.005)
    router = PspRouter(query, 3, Psp(hop=0))
    flow = Flow(query, [90] * len(windows), router, tmp_path)
    costs = [flow.batch() for _ in range(9)]
    assert [cost["kept"] for cost in costs] == [cost["live"] for cost in costs]
    cost = costs[-1]
    kept = [entry["kept"] for entry in cost["hosts"].values()]
    assert len(kept) == 3
    assert max(kept) < 1.5 * min(kept), kept


@pytest.mark.parametrize("at_once", [True, False])
def test_psp_spreads_over_hosts_that_come_while_it_runs(tmp_path: Path, *, at_once: bool) -> None:
    query = chained([6, 6], width=0.005)
    router = PspRouter(query, 2, Psp(hop=0))
    flow = Flow(query, [120, 120], router, tmp_path)
    for _ in range(10):
        flow.batch()
    router.rescale(4, at_once=at_once)
    balance = []
    for _ in range(10):
        cost = flow.batch()
        assert cost["kept"] == cost["live"]
        kept = [cost["hosts"].get(str(host), {"kept": 0})["kept"] for host in range(4)]
        balance.append(min(kept) / max(kept))
    assert balance[-1] > 0.6
    assert (balance[0] > 0.6) is at_once, "passive moves with time, aggressive at once"


def test_psp_counts_rows_where_rates_change(tmp_path: Path) -> None:
    """Workload smoothing: slices are cut by count, so a burst is shared by all hosts."""
    query = chained([6, 6], width=0.005)
    flow = Flow(query, [60, 60], PspRouter(query, 3, Psp(hop=0)), tmp_path)
    for _ in range(8):
        flow.batch()
    flow.rates = [600, 60]
    cost = [flow.batch() for _ in range(8)][-1]
    kept = [entry["kept"] for entry in cost["hosts"].values()]
    assert max(kept) < 1.6 * min(kept), kept
