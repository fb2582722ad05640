"""PSP09's cost model, in numbers worked by hand."""

from __future__ import annotations

import pytest

from anabranch.adapt.ring import (
    Prices,
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

COSTLY = Prices(pair=1e-3, send=1e-4, network=5e-3)


def test_equation_1_adds_the_probings_of_a_row() -> None:
    assert central_work(EVEN, COSTLY) == pytest.approx(0.5 + 50 * 0.5)


def test_a_ring_adds_what_is_sent_around_it() -> None:
    extra = ring_work(EVEN, 4, COSTLY) - central_work(EVEN, COSTLY)
    assert extra == pytest.approx(1e-4 * 4 * (1 + 50))
    assert service_rate(EVEN, 4, COSTLY) == pytest.approx(4 / (25.5 + extra))


def test_equation_4_grows_with_every_host() -> None:
    gains = [output_gain(EVEN[0], hosts, COSTLY) for hosts in range(1, 30)]
    assert gains == sorted(gains)
    assert gains[-1] < 29


def test_equation_5_falls_with_hosts_until_the_network_is_in_the_way() -> None:
    # 25.5 s of work: 8 hosts take 3.19 s and what is sent, and pass on 3.5 times on average.
    assert latency(25.5, EVEN[0], 8, 3, COSTLY) == pytest.approx(3.5 * 5e-3 + 25.5 / 8 + 5.1e-3)
    # 60 hosts wait for the network: 3 * 60 * 5 ms are more than 0.43 s.
    assert latency(25.5, EVEN[0], 60, 3, COSTLY) == pytest.approx(29.5 * 5e-3 + 0.9)
    # Where both parts are equal: 25.5 / N + 0.0051 = 0.015 N.
    assert fastest_ring(25.5, EVEN[0], 200, 3, COSTLY) == 41


def test_equation_6_asks_for_more_bandwidth_the_longer_the_ring() -> None:
    assert bandwidth(1000, 2, EVEN, COSTLY) == pytest.approx(4000)
    assert bandwidth(1000, 8, EVEN, COSTLY) == pytest.approx(16000)


def test_cheap_joins_get_short_rings_and_costly_ones_all_hosts() -> None:
    assert max(ring_lengths(EVEN, 16, Prices(1e-9, 2e-6, 1e-3))) < 4
    assert ring_lengths(EVEN, 16, Prices(1e-2, 2e-6, 1e-3)) == [16, 16]
