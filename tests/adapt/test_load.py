"""LD07's load value, and who is least loaded."""

from __future__ import annotations

import pytest

from anabranch.adapt.load import Loads, Usage, Weights
from anabranch.errors import QueryError


def test_equation_1_weighs_usage_over_capacity() -> None:
    capacity = {0: Usage(cpu=2.0, memory=100.0, bandwidth=10.0)}
    loads = Loads(1, Weights(0.5, 0.3, 0.2), capacity)
    loads.measured(0, Usage(cpu=1.0, memory=50.0, bandwidth=10.0))
    assert loads.value(0) == pytest.approx(0.5 * 0.5 + 0.3 * 0.5 + 0.2 * 1.0)


def test_without_known_capacities_the_greatest_usage_stands_for_them() -> None:
    loads = Loads(2, Weights(1.0, 0.0, 0.0))
    loads.measured(0, Usage(cpu=4.0))
    loads.measured(1, Usage(cpu=1.0))
    assert (loads.value(0), loads.value(1)) == (1.0, 0.25)
    assert loads.least() == 1


def test_work_that_was_just_placed_counts_until_it_is_measured() -> None:
    loads = Loads(2)
    loads.expect(0, 0.5)
    assert loads.least() == 1
    loads.measured(0, Usage())
    assert loads.least() == 0


def test_a_restart_remembers_loads() -> None:
    loads = Loads(3)
    loads.measured(0, Usage(3.0, 2.0, 1.0))
    loads.measured(2, Usage(1.0, 1.0, 1.0))
    again = Loads(3)
    again.restore(loads.snapshot())
    assert [again.value(host) for host in range(3)] == [loads.value(host) for host in range(3)]


@pytest.mark.parametrize("parts", [(0.5, 0.5, 0.5), (1.5, -0.5, 0.0)])
def test_weights_that_mean_nothing_are_refused(parts: tuple[float, float, float]) -> None:
    with pytest.raises(QueryError, match="sum to 1"):
        Weights(*parts)
