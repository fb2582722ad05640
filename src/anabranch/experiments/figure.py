"""What an experiment is: points to measure, a chart of them, and claims about it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from anabranch.sim.simulation import Setup

Metric = str
"""throughput, response, state, traffic, balance, routing, lost: see `running.measure`."""


@dataclass(frozen=True)
class Point:
    """One place on a chart: a series, an x, and how to set it up for a seed."""

    series: str
    x: float
    setup: Callable[[int], Setup]
    since: float = 0.0
    """Seconds at the beginning that are not measured."""


@dataclass(frozen=True)
class Measured:
    """The values of one metric at every point, one for each seed."""

    values: Mapping[tuple[str, float], Sequence[float]]

    def mean(self, series: str, x: float) -> float:
        found = self.values[series, x]
        return sum(found) / len(found)

    def line(self, series: str) -> list[tuple[float, float]]:
        """The means of a series, by x."""
        return [(x, self.mean(series, x)) for name, x in self.values if name == series]

    @property
    def series(self) -> list[str]:
        return list(dict.fromkeys(name for name, _ in self.values))


Check = Callable[[Mapping[Metric, Measured]], tuple[bool, str]]
"""Whether a claim holds, and the numbers that say so."""


@dataclass(frozen=True)
class Claim:
    """A sentence of the paper about a figure, in our words, and how it is looked into."""

    says: str
    check: Check
    if_not: str = ""
    """What is behind it where it does not hold: an ambiguity, or a finding, with its evidence."""


@dataclass(frozen=True)
class Chart:
    """One figure of a paper."""

    key: str
    title: str
    x: str
    y: str
    metric: Metric
    claims: tuple[Claim, ...] = ()
    over_time: bool = False
    """Whether the x axis is the time of a single run."""
    log: bool = False
    only: str | None = None
    """The one series that is drawn; None: all."""


@dataclass(frozen=True)
class Experiment:
    """Runs that one or more figures are drawn from."""

    key: str
    points: tuple[Point, ...]
    charts: tuple[Chart, ...]
    about: str = ""
    quick: Callable[[Point], bool] = field(default=lambda _: True)
    """The points that a quick version measures."""
