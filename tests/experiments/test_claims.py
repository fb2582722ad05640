"""Whether a claim holds is decided by differences within a seed, and only by clear ones."""

from __future__ import annotations

import pytest

from anabranch.experiments.claims import better, clearly_more, grows, ordered, peaks
from anabranch.experiments.figure import Measured


@pytest.mark.parametrize(
    ("one", "other", "clear"),
    [
        pytest.param([11.0, 21.0, 31.1], [10.0, 20.0, 30.0], True, id="seeds differ, gaps agree"),
        pytest.param([11.0, 25.0, 28.0], [10.0, 20.0, 30.0], False, id="gaps disagree"),
        pytest.param([10.0, 20.0, 30.0], [10.0, 20.0, 30.0], False, id="equal"),
        pytest.param([9.0, 19.0, 29.0], [10.0, 20.0, 30.0], False, id="less"),
        pytest.param([10.1], [10.0], True, id="one seed has only a sign"),
    ],
)
def test_a_difference_is_clear_beyond_twice_its_error(
    one: list[float], other: list[float], clear: bool
) -> None:
    assert clearly_more(one, other) == clear


def found(metric: str = "throughput", **series: dict[float, list[float]]) -> dict[str, Measured]:
    values = {(name, x): line[x] for name, line in series.items() for x in line}
    return {metric: Measured(values)}


def test_better_looks_at_every_place_that_was_measured() -> None:
    claim = better("a", "b", (1.0, 2.0))
    low, high = [1.0, 1.1], [2.0, 2.1]
    assert claim.check(found(a={1.0: high, 2.0: high}, b={1.0: low, 2.0: low}))[0]
    assert not claim.check(found(a={1.0: high, 2.0: low}, b={1.0: low, 2.0: high}))[0]
    assert claim.check(found(a={1.0: high}, b={1.0: low}))[0]
    assert not claim.check(found(a={3.0: high}, b={3.0: low}))[0], "nothing was measured"


def test_ordered_goes_from_least_to_most() -> None:
    check = ordered("traffic", ("a", "b"))
    low, high = [1.0, 1.1], [2.0, 2.1]
    assert check(found("traffic", a={1.0: low}, b={1.0: high}))[0]
    assert not check(found("traffic", a={1.0: high}, b={1.0: low}))[0]


def test_growing_and_peaking() -> None:
    rising = {x: [x, x + 0.1] for x in (1.0, 2.0, 3.0)}
    peaking = {1.0: [1.0, 1.1], 2.0: [3.0, 3.1], 3.0: [2.0, 2.1]}
    assert grows("a").check(found(a=rising))[0]
    assert not grows("a").check(found(a=peaking))[0]
    assert peaks("a").check(found(a=peaking))[0]
    assert not peaks("a").check(found(a=rising))[0]
