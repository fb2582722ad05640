"""Hosts that shed load, as LD07's do: results are lost and counted, and none is wrong."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from math import inf

import pytest

from anabranch.routing.aligned import Atr
from anabranch.routing.coordinated import Ctr
from anabranch.routing.sliced import Psp
from anabranch.routing.strategies import Strategy
from anabranch.sim.hardware import Costs, even
from anabranch.sim.pacing import Pacing
from anabranch.sim.queries import clique
from anabranch.sim.scenarios import right_answer
from anabranch.sim.simulation import Setup, simulate
from anabranch.sim.workload import steady

STRATEGIES: dict[str, Strategy] = {
    "central": "central",
    "atr": Atr(segment="2 seconds"),
    "ctr": Ctr(hop=0),
    "psp": Psp(hop=0),
}


@pytest.mark.parametrize("name", STRATEGIES)
def test_what_is_shed_is_missing_and_nothing_else(name: str) -> None:
    patient = Setup(
        clique([4.0] * 3, 0.2),
        STRATEGIES[name],
        even(3, Costs(pair=5e-3)),  # far more than three hosts can do
        steady([10.0] * 3, 10.0, seed=3),
        pacing=Pacing(epoch=0.5, most=1, backlog=inf),
        collect=True,
    )
    hasty = replace(patient, patience=1.0)
    found = {}
    for setup in (patient, hasty):
        outcome = simulate(setup)
        assert outcome.finished
        found[setup.patience] = outcome, Counter(map(tuple, outcome.answer.tolist()))
    whole, all_results = found[inf]
    assert all_results == right_answer(patient.query, whole.history.taken)
    assert whole.shed == 0
    outcome, some = found[1.0]
    assert outcome.shed > 0
    assert some < all_results
    assert outcome.seconds < whole.seconds
