"""The search for a segment length climbs to where performance is best, and stays there."""

from __future__ import annotations

import math
from collections.abc import Callable

import pytest

from anabranch.adapt.length import LengthSearch


def settled(performance: Callable[[int], float], start: int) -> int:
    search = LengthSearch(start, batches=2, rest=10_000)
    for _ in range(200):
        search.measured(performance(search.length))
    return search.length


@pytest.mark.parametrize("start", [100, 1_000, 20_000])
def test_it_finds_the_peak_from_either_side(start: int) -> None:
    best = settled(lambda length: 1000 / (1 + math.log(length / 3_000) ** 2), start)
    assert 2_000 < best < 4_500


def test_it_stays_where_nothing_is_better() -> None:
    assert settled(lambda _length: 100.0, 500) == 500


def test_it_searches_again_after_a_while_and_follows_a_change() -> None:
    search = LengthSearch(1_000, batches=1, rest=5)
    for _ in range(60):
        search.measured(1000 / (1 + math.log(search.length / 1_000) ** 2))
    assert search.length == 1_000
    for _ in range(200):
        search.measured(1000 / (1 + math.log(search.length / 5_000) ** 2))
    assert search.length > 3_000


def test_a_restart_goes_on_where_it_was() -> None:
    search = LengthSearch(1_000)
    for performance in (10.0, 11.0, 12.0, 30.0):
        search.measured(performance)
    again = LengthSearch.restored(search.snapshot())
    assert again == search


def test_it_never_goes_below_the_least_length() -> None:
    search = LengthSearch(64, least=50, batches=1, rest=10_000)
    for _ in range(50):
        search.measured(1e6 / search.length)
        assert search.length >= 50
