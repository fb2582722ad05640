"""Simulated runs: the same for the same seed, right under faults, and no row kept without need."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from rich.console import Console

from anabranch.cli.simulate import check_seeds
from anabranch.routing.aligned import Atr
from anabranch.routing.baselines import UnawareRouter
from anabranch.routing.coordinated import Ctr
from anabranch.routing.sliced import Psp
from anabranch.sim.faults import Fault
from anabranch.sim.hardware import FREE, even, ld07
from anabranch.sim.messages import Visit
from anabranch.sim.pacing import Change, Pacing
from anabranch.sim.queries import clique
from anabranch.sim.scenarios import STRATEGIES, drawn, judged, right_answer, timeline
from anabranch.sim.simulation import Setup, simulate
from anabranch.sim.tuples import Tuples
from anabranch.sim.workload import Bursty, Drifting, Jump, Workload, steady

SPREAD = [Atr(segment="2 seconds"), Ctr(hop=0), Psp(hop=0)]


def setup(strategy: Any, **options: Any) -> Setup:
    query = clique([4.0, 6.0, 5.0], 0.2)
    return Setup(query, strategy, ld07(4, 3), steady([4, 5, 6], 20.0, 1), collect=True, **options)


@pytest.mark.parametrize("strategy", SPREAD)
def test_the_same_setup_gives_the_same_run_tuple_by_tuple(strategy: Any) -> None:
    one, other = simulate(setup(strategy)), simulate(setup(strategy))
    assert one.answer.tolist() == other.answer.tolist()
    assert (one.messages, one.tuples, one.busy) == (other.messages, other.tuples, other.busy)


@pytest.mark.parametrize("strategy", ["central", *SPREAD])
def test_the_answer_does_not_depend_on_hardware_or_strategy(strategy: Any) -> None:
    outcome = simulate(setup(strategy))
    expected = right_answer(setup(strategy).query, outcome.history.taken)
    assert sorted(map(tuple, outcome.answer.tolist())) == sorted(expected.elements())


def test_psp_keeps_no_row_twice_even_while_slices_move() -> None:
    changes = (Change(6.0, "rescale", 2, at_once=True), Change(12.0, "rescale", 4, at_once=True))
    outcome = simulate(setup(Psp(hop=0), changes=changes))
    central = simulate(setup("central"))
    assert outcome.kept.max() <= central.kept.max() + 15, "at most what is being moved"
    assert outcome.finished


def test_drawn_runs_are_right_with_and_without_faults() -> None:
    """`anabranch simulate --seeds 2000 --faults` does more of the same."""
    for seed in range(3000, 3000 + 12 * len(STRATEGIES)):
        for faults in (False, True):
            verdict = judged(seed, drawn(seed, faults=faults))
            assert verdict.right, [str(verdict), *timeline(verdict)]


@pytest.mark.parametrize("strategy", SPREAD)
def test_a_crash_is_recovered_from_what_was_committed(strategy: Any) -> None:
    faults = (Fault(7.3, "crash", 1, seconds=2.0), Fault(12.1, "crash", 0, seconds=0.5))
    with_faults, without = simulate(setup(strategy, faults=faults)), simulate(setup(strategy))
    assert with_faults.history.resets == 2
    assert sorted(with_faults.answer.tolist()) == sorted(without.answer.tolist())


def test_the_command_says_which_seed_is_wrong_and_how_to_see_it_again() -> None:
    console = Console(record=True, width=200)
    assert check_seeds(range(5), 1, console, faults=False) == 0

    def everything(_self: Visit, _host: int, rows: Tuples) -> Tuples:
        return rows

    with patch.object(Visit, "owned_by", everything):
        assert check_seeds(range(20), 1, console, faults=True) == 1
    text = console.export_text()
    assert "anabranch simulate --first-seed" in text
    assert "repeated" in text


def test_sources_follow_their_profiles() -> None:
    seconds = 400.0
    profiles = (Bursty(20.0, 0.5, 20.0), Drifting(0.0, 20.0, seconds), Jump(5.0, 15.0, 200.0))
    bursty, drifting, jumping = Workload(profiles, seconds, 1).streams()
    high = (bursty.arrived % 20.0) < 10.0
    assert high.sum() / (~high).sum() == pytest.approx(3.0, rel=0.15)
    assert (drifting.arrived > 200).sum() / len(drifting) == pytest.approx(0.75, abs=0.04)
    assert (jumping.arrived > 200).sum() / len(jumping) == pytest.approx(0.75, abs=0.04)
    assert (np.diff(bursty.arrived) >= 0).all()


def test_plain_psp_has_one_cycle_at_a_time_and_takes_longer() -> None:
    quick, plain = (
        simulate(
            replace(setup(Psp(hop=0)), hardware=even(4), pacing=Pacing(epoch=0.2, units=units))
        )
        for units in (16, 1)
    )
    assert sorted(quick.answer.tolist()) == sorted(plain.answer.tolist())
    assert quick.response() < plain.response()


def test_a_probing_can_cost_the_same_however_much_it_compares() -> None:
    one = replace(setup("central"), hardware=even(1, replace(FREE, probe=1e-3)))
    outcome = simulate(one)
    assert outcome.answer.tolist()
    probes = round(outcome.busy[0] / 1e-3)
    assert outcome.busy[0] == pytest.approx(probes * 1e-3)
    assert outcome.routed <= probes + 2, "a tuple probes once at least, but for the very first"
    by_pair = simulate(replace(one, hardware=even(1, replace(FREE, pair=1e-3))))
    assert by_pair.busy[0] > outcome.busy[0], "there is more than one row in reach"


def test_hosts_that_nobody_sends_anything_keep_what_they_have_unless_they_are_told() -> None:
    lazy, eager = (
        simulate(setup(Atr(segment="2 seconds"), pacing=Pacing(purge_idle=purge)))
        for purge in (False, True)
    )
    assert sorted(map(tuple, lazy.answer.tolist())) == sorted(map(tuple, eager.answer.tolist()))
    assert lazy.state() > eager.state()


def test_the_unaware_baseline_finds_some_results_and_loses_most() -> None:
    query = setup("central").query
    unaware = simulate(setup(UnawareRouter(query, 4, 1_000_000)))
    expected = right_answer(query, unaware.history.taken)
    assert 0 < len(unaware.answer) < 0.5 * sum(expected.values())
