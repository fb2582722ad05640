"""PSP09's cost model, in numbers worked by hand."""

from __future__ import annotations

from typing import Any

import pytest

from anabranch.adapt.ring import (
    RingCost,
    bandwidth,
    central_work,
    fastest_ring,
    latency,
    output_gain,
    ring_lengths,
    ring_work,
    service_rate,
)

EVEN = [RingCost(rate=50, window=10, selectivity=0.1)] * 2
"""A row of a three-way join meets 500 rows, of which 50 match, and these 500 each."""


def test_equation_1_adds_the_probings_of_a_row() -> None:
    assert central_work(EVEN, pair=1e-3) == pytest.approx(0.5 + 50 * 0.5)


def test_a_ring_adds_what_is_sent_around_it() -> None:
    extra = ring_work(EVEN, hosts=4, pair=1e-3, send=1e-4) - central_work(EVEN, pair=1e-3)
    assert extra == pytest.approx(1e-4 * 4 * (1 + 50))
    assert service_rate(0.5) == 2.0


def test_equation_4_grows_with_every_host() -> None:
    gains = [output_gain(n, send=1e-4, pair=1e-3, window_rows=500) for n in range(1, 30)]
    assert gains == sorted(gains)
    assert gains[-1] < 29


def test_the_fastest_ring_is_where_equation_5_is_least() -> None:
    facts: dict[str, Any] = {
        "send": 1e-5,
        "network": 5e-3,
        "pair": 1e-3,
        "window_rows": 500.0,
        "ways": 3,
    }
    work = central_work(EVEN, pair=1e-3)
    best = fastest_ring(work, most=200, **facts)
    waits = {n: latency(n, work, **facts) for n in range(1, 201)}
    assert waits[best] <= 1.05 * min(waits.values())
    assert 1 < best < 200


def test_equation_6_asks_for_more_bandwidth_the_longer_the_ring() -> None:
    needs = [bandwidth(1000, 1e-3, hosts, EVEN) for hosts in (2, 4, 8)]
    assert needs == sorted(needs)


def test_cheap_joins_get_short_rings_and_costly_ones_all_hosts() -> None:
    assert max(ring_lengths(EVEN, most=16, pair_seconds=1e-9)) < 4
    assert ring_lengths(EVEN, most=16, pair_seconds=1e-2) == [16, 16]
