"""Messages on links that stall, overtake each other on others, or come after a crash."""

from __future__ import annotations

from dataclasses import replace
from unittest.mock import patch

import numpy as np
import pytest
import simpy

from anabranch.model.terms import Match
from anabranch.routing.sliced import Psp
from anabranch.sim.faults import Fault
from anabranch.sim.hardware import Costs, Hardware, Machine, Wire
from anabranch.sim.network import Link
from anabranch.sim.pacing import Change, Pacing
from anabranch.sim.queries import Chance, join
from anabranch.sim.scenarios import drawn, judged
from anabranch.sim.simulation import Setup
from anabranch.sim.workload import steady


class Taker:
    def __init__(self) -> None:
        self.taken: list[int] = []

    def receive(self, source: int, message: int) -> None:
        self.taken.append(message)


@pytest.mark.parametrize("seed", range(20))
def test_messages_are_taken_once_and_in_order_whatever_stalls_or_repeats(seed: int) -> None:
    random = np.random.default_rng(seed)
    env, taker = simpy.Environment(), Taker()
    link = Link(env, Wire(100.0, float(random.uniform(0, 0.3))), 0, taker)

    def send() -> simpy.events.ProcessGenerator:
        for number in range(200):
            link.send(number, float(random.uniform(0, 1e4)))
            if random.random() < 0.1:
                link.stall(float(random.uniform(0, 2)))
            if random.random() < 0.1:
                link.reconnect()
            yield env.timeout(float(random.choice([0.0, 0.1, 1 / 3])))

    env.process(send())
    env.run()
    assert taker.taken == list(range(200))


@pytest.mark.parametrize("up", [1.10, 1.12, 1.2])
def test_a_host_that_is_back_waits_for_a_reset_that_knows_of_it(up: float) -> None:
    """Another host's recovery must not make it join in, without the rows that it has lost."""
    query = join([5.0, 5.0, 5.0], Match(Chance(0.5)), [(0, 1), (1, 2)])
    slow = {(-1, 1): 1.0, (1, -1): 9.0}
    setup = Setup(
        query,
        Psp(hop=0),
        Hardware((Machine(),) * 3, Costs(2e-3, 2e-3, 1e-5, 1e-4)),
        steady([5.0] * 3, 3.0, 1),
        3,
        Pacing(epoch=1.0, most=1),
        faults=(Fault(0.2, "crash", 1, seconds=up - 0.2), Fault(0.3, "crash", 2, seconds=0.1)),
        collect=True,
    )

    def wire(_self: Hardware, source: int, target: int) -> Wire:
        return Wire(1000.0, slow.get((source, target), 1e-3))

    with patch.object(Hardware, "wire", wire):
        verdict = judged(0, setup)
    assert verdict.right, str(verdict)


@pytest.mark.parametrize("seed", range(4, 74, 5))
def test_rows_that_move_away_and_back_are_not_dropped_by_a_late_order(seed: int) -> None:
    random = np.random.default_rng(seed)
    before = drawn(seed, faults=False)
    setup = replace(
        before,
        strategy=Psp(hop=0),
        hosts=4,
        hardware=Hardware(
            (Machine(),) * 4, Costs(1e-4, 1e-4, 1e-6, 1e-4), (100.0, 100.0), (1e-4, 2e-3), seed
        ),
        changes=tuple(
            Change(2.0 + turn, "rescale", (2, 4)[turn % 2], at_once=True) for turn in range(16)
        ),
        faults=tuple(
            Fault(
                float(random.uniform(2, 18)),
                "stall",
                int(random.integers(4)),
                seconds=float(random.uniform(0.3, 2)),
            )
            for _ in range(8)
        ),
        pacing=replace(before.pacing, epoch=0.25, most=1, in_flight=64, units=None),
    )
    verdict = judged(seed, setup)
    assert verdict.right, str(verdict)
