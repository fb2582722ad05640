"""LD07's set-up (section 5 of the paper): its cluster, its streams, and the strategies compared.

The paper's cluster is overloaded by its own numbers (30 hosts can do a third of what Figure 11
asks for), so throughput is what hosts can do. To see that in a minute of simulated time instead of
a thousand seconds, the rows of a thousand seconds wait at the beginning (a backlog), and windows
are filled before.

Hosts are kept busy: rows are routed as long as the least busy one has less than four seconds of
work, and, where combinations go from host to host, as long as fewer than 64 epochs are under way.
CTR keeps new segments where LD07 does, on the hosts of their first hop.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import numpy as np

from anabranch.experiments.figure import Point
from anabranch.model.query import Query
from anabranch.routing.aligned import Atr
from anabranch.routing.baselines import UnawareRouter
from anabranch.routing.coordinated import Ctr
from anabranch.routing.strategies import Strategy
from anabranch.sim.hardware import Costs, ld07
from anabranch.sim.pacing import Pacing
from anabranch.sim.queries import clique
from anabranch.sim.simulation import Setup
from anabranch.sim.workload import Bursty, Profile, Steady, Workload

SECONDS = 40.0
LENGTH = "10 seconds"
"""Of ATR's segments: where the search begins, and where it stays in the unoptimized ATR."""

SEGMENT = 10_000_000
"""The same in microseconds."""

SHORT = 16.0
"""Seconds that are enough where a tuple is little work."""
BACKLOG = 1000.0
"""Seconds of rows that wait at the beginning: as many as LD07's runs have."""
ANY = 10**6
"""Epochs under way at once: no bound at all."""

ATR, ATR_FIXED = "ATR", "ATR-unoptimized"
CTR, CTR_RANDOM = "CTR", "CTR-unoptimized"
ATR_SHORT, ATR_LONG = "ATR, segments of 1 s", "ATR, segments of 10 s"
ATR_NAIVE = "ATR, joins know no master"
CTR_SPREAD = "CTR, spread by load"
CENTRAL, UNAWARE = "centralized", "semantics-unaware"


def strategy(name: str, query: Query, hosts: int) -> Strategy:
    """A strategy by its name in the figures."""
    made: dict[str, Strategy] = {
        ATR: Atr(first=LENGTH, trial=20),
        ATR_FIXED: Atr(segment=LENGTH, master="a"),
        ATR_SHORT: Atr(segment="1 second"),
        ATR_LONG: Atr(segment=LENGTH),
        ATR_NAIVE: Atr(first=LENGTH, trial=20, master_first=False),
        CTR: Ctr(hop=0, placement="cover"),
        CTR_RANDOM: Ctr(hop=0, placement="cover", optimized=False),
        CTR_SPREAD: Ctr(hop=0),
        CENTRAL: "central",
        UNAWARE: UnawareRouter(query, hosts, SEGMENT),
    }
    return made[name]


@dataclass(frozen=True)
class Trial:
    """The paper's set-up for one run, but for what is varied; a seed makes it one."""

    name: str
    streams: int = 3
    window: float = 30.0
    selectivity: float = 0.1
    hosts: int = 30
    burst: float | None = None
    length: float | None = None
    seconds: float = SECONDS
    epoch: float | None = None
    """Seconds of rows that are routed together; None: as the number of streams allows."""
    in_flight: int = 64
    backlog: float = BACKLOG
    patience: float | None = None
    """Seconds that rows may wait at a host. With it tuples come as time goes on, and are sent on at
    once, and hosts shed what they cannot do in time; None: tuples wait for hosts, a backlog."""
    costs: Costs = field(default_factory=Costs)

    def __call__(self, seed: int) -> Setup:
        drawn = np.random.default_rng([seed, 11]).uniform(5, 20, self.streams)
        profiles: tuple[Profile, ...] = tuple(map(Steady, drawn))
        if self.burst is not None:
            ratio = self.burst
            profiles = tuple(Bursty(rate, ratio, 20.0, 7.0 * at) for at, rate in enumerate(drawn))
        epoch = self.epoch or {2: 4.0, 3: 1.0, 4: 1.0}.get(self.streams, 2.0)
        query = clique([self.window] * self.streams, self.selectivity)
        chosen = strategy(self.name, query, self.hosts)
        if self.length is not None:
            chosen = Atr(segment=f"{self.length} seconds")
        preload = self.window + 10
        pacing = Pacing(epoch, 1, in_flight=self.in_flight, preload=preload)
        if self.patience is not None:
            pacing = replace(pacing, in_flight=ANY, backlog=inf)
        return Setup(
            query,
            chosen,
            ld07(self.hosts, seed, self.costs),
            Workload(
                profiles, self.backlog if self.patience is None else preload + self.seconds, seed
            ),
            pacing=pacing,
            ahead=self.backlog if self.patience is None else preload,
            until=self.seconds,
            patience=inf if self.patience is None else self.patience,
        )


def points(
    names: tuple[str, ...], xs: tuple[float, ...], argument: str, **fixed: Any
) -> tuple[Point, ...]:
    """Points for each name and x, where x is the value of a field of `Trial`."""

    def varied(name: str, x: float) -> Any:
        arguments: dict[str, Any] = {argument: x if argument in _REAL else int(x), **fixed}
        return Trial(name, **arguments)

    return tuple(
        Point(name, x, varied(name, x), fixed.get("seconds", SECONDS) / 4)
        for name in names
        for x in xs
    )


_REAL = ("window", "selectivity", "burst", "length")
MORE = {"backlog": 4800.0}
"""Where a tuple is little work, hosts would run out of it."""
