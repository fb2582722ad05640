"""PSP09's cost model: how many hosts a ring should have (section 5)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Prices:
    """Table 1, of the hosts: seconds to compare a pair, to pass a row on, and of the network."""

    pair: float
    send: float
    network: float


@dataclass(frozen=True)
class RingCost:
    """Table 1, of one stream: rows per second, window in seconds, selectivity of a probing."""

    rate: float
    window: float
    selectivity: float

    @property
    def rows(self) -> float:
        """`λ W`: rows in the window, which a row meets at least one of."""
        return max(self.rate * self.window, 1.0)

    @property
    def multiplies(self) -> float:
        """`λ W S`: partners that a row finds in this stream."""
        return self.rows * self.selectivity


def central_work(streams: Sequence[RingCost], prices: Prices) -> float:
    """Eq. 1: seconds to join one row with all others on one host."""
    work, partial = 0.0, 1.0
    for stream in streams:
        work += prices.pair * partial * stream.rows
        partial *= stream.multiplies
    return work


def ring_work(streams: Sequence[RingCost], hosts: int, prices: Prices) -> float:
    """Eqs. 1 and 2: the same on a ring, where rows and intermediate results are sent around."""
    partial, sent = 1.0, 1.0
    for stream in streams[:-1]:
        partial *= stream.multiplies
        sent += partial
    return central_work(streams, prices) + prices.send * hosts * sent


def service_rate(streams: Sequence[RingCost], hosts: int, prices: Prices) -> float:
    """Eq. 3: rows per second that a ring takes in. `1 / L`, for each host at work on its part."""
    return _over(hosts, ring_work(streams, hosts, prices))


def output_gain(stream: RingCost, hosts: int, prices: Prices) -> float:
    """Eq. 4: the output rate of a ring, over that of one host. It grows with every host.

    >>> output_gain(RingCost(1.0, 10.0, 0.1), 4, Prices(pair=1.0, send=0.0, network=0.0))
    4.0
    """
    return hosts / (1 + hosts * _over(prices.send, stream.rows * prices.pair))


def latency(work: float, stream: RingCost, hosts: int, ways: int, prices: Prices) -> float:
    """Eq. 5: mean seconds from a row's arrival to its results.

    Sharing the work further makes it shorter, until rows wait for the network instead.
    """
    shared = work / hosts + work * _over(prices.send, stream.rows * prices.pair)
    return (hosts - 1) / 2 * prices.network + max(shared, ways * hosts * prices.network)


def bandwidth(row_bytes: float, hosts: int, streams: Sequence[RingCost], prices: Prices) -> float:
    """Eq. 6: bytes per second that the network must carry for hosts not to wait for it."""
    least = min(stream.rows / hosts for stream in streams)
    return _over(row_bytes, prices.pair * least)


def fastest_ring(work: float, stream: RingCost, most: int, ways: int, prices: Prices) -> int:
    """The length of least latency, at most `most` (section 5.2); of equals the shortest."""
    return min(range(1, most + 1), key=lambda hosts: latency(work, stream, hosts, ways, prices))


def ring_lengths(streams: Sequence[RingCost], most: int, prices: Prices) -> list[int]:
    """Section 5.4: lengths of all rings, least `λ W S` first, each knowing those before it."""
    lengths = [0] * len(streams)
    ascending = sorted(range(len(streams)), key=lambda p: streams[p].multiplies)
    for position in ascending:
        stream = streams[position]
        known = [length for length in lengths if length]
        # A row of the stream that multiplies least, or of the next, visits all others.
        begin = next(at for at in ascending if at != position)
        visited = [streams[at] for at in ascending if at not in (begin, position)]
        work = central_work([*visited, stream], prices)
        own = fastest_ring(work, stream, most, len(streams), prices)
        # A ring much longer than those that its rows come from would wait for them.
        lengths[position] = min(own, 2 * max(known, default=most))
    return lengths


def _over(part: float, whole: float) -> float:
    """A ratio that stays finite: an empty window is no reason to fail."""
    return min(part / whole, 1e9) if whole > 0 else 1e9
