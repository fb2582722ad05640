"""PSP09's cost model: how many hosts a ring should have (section 5)."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class RingCost:
    """Table 1, of one stream: rows per second, window in seconds, selectivity of a probing."""

    rate: float
    window: float
    selectivity: float

    @property
    def multiplies(self) -> float:
        """`λ W S`: partners that a row finds in this stream."""
        return self.rate * self.window * self.selectivity


def central_work(streams: Sequence[RingCost], pair: float, upkeep: float = 0.0) -> float:
    """Eq. 1: seconds to join one row with all others on one host."""
    work, rows = upkeep, 1.0
    for stream in streams:
        work += pair * rows * stream.rate * stream.window
        rows *= stream.multiplies
    return work


def ring_work(streams: Sequence[RingCost], hosts: int, pair: float, send: float) -> float:
    """Eqs. 1 and 2: the same on a ring, where rows and intermediate results are sent around."""
    rows, sent = 1.0, 1.0
    for stream in streams[:-1]:
        rows *= stream.multiplies
        sent += rows
    return central_work(streams, pair) + send * hosts * sent


def service_rate(work: float) -> float:
    """Eq. 3: rows per second that a ring takes in."""
    return 1 / work if work > 0 else math.inf


def output_gain(hosts: int, send: float, pair: float, window_rows: float) -> float:
    """Eq. 4: the output rate of a ring, over that of one host. It grows with every host.

    >>> output_gain(1, send=0.0, pair=1.0, window_rows=10)
    1.0
    """
    return hosts / (1 + hosts * _over(send, window_rows * pair))


def latency(
    hosts: int, work: float, send: float, network: float, pair: float, window_rows: float, ways: int
) -> float:
    """Eq. 5: mean seconds from a row's arrival to its results."""
    spread = work / hosts + work * _over(send, window_rows * pair)
    return (hosts - 1) / 2 * network + max(spread, ways * hosts * network)


def bandwidth(tuple_bytes: float, pair: float, hosts: int, streams: Sequence[RingCost]) -> float:
    """Eq. 6: bytes per second that the network must carry for hosts not to wait for it."""
    least = min(stream.rate * stream.window / hosts for stream in streams)
    return _over(tuple_bytes, pair * least)


def fastest_ring(
    work: float, most: int, send: float, network: float, pair: float, window_rows: float, ways: int
) -> int:
    """The length of least latency: `min(N1, N2)` of section 5.2, at least 1, at most `most`.

    N1 is where sharing the work further would take longer on the network than in the joins,
    N2 where passing rows on takes longer than what a further host saves.
    """
    extra = work * _over(send, window_rows * pair)
    # L/N + e = M N T  ->  M T N^2 - e N - L = 0;  (N - 1) T / 2 = L / N  ->  N^2 - N - 2 L / T = 0
    if network <= 0:
        return most
    first = (extra + math.sqrt(extra**2 + 4 * ways * network * work)) / (2 * ways * network)
    second = (1 + math.sqrt(1 + 8 * work / network)) / 2
    return max(1, min(round(min(first, second)), most))


def ring_lengths(
    streams: Sequence[RingCost],
    most: int,
    pair_seconds: float,
    send_seconds: float = 2e-6,
    network_seconds: float = 1e-3,
) -> list[int]:
    """Section 5.4: lengths of all rings, least `λ W S` first, each knowing those before it."""
    lengths = [0] * len(streams)
    for position in sorted(range(len(streams)), key=lambda p: streams[p].multiplies):
        others = [stream for at, stream in enumerate(streams) if at != position]
        known = [length for length in lengths if length]
        work = central_work([*others, streams[position]], pair_seconds)
        rows = streams[position].rate * streams[position].window
        ways = len(streams)
        own = fastest_ring(work, most, send_seconds, network_seconds, pair_seconds, rows, ways)
        # A ring much longer than those that its rows come from would wait for them.
        lengths[position] = max(1, min(own, most, 2 * max(known, default=most)))
    return lengths


def _over(part: float, whole: float) -> float:
    """A ratio that stays finite: an empty window is no reason to fail."""
    return min(part / whole, 1e9) if whole > 0 else 1e9
