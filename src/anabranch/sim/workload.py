"""Stream sources: when tuples arrive, what time they bear, and what is in them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from anabranch.sim.queries import SECOND
from anabranch.sim.tuples import Floats, Tuples

_GRID = 0.05
"""Seconds between the points at which a rate is looked at."""


class Profile(Protocol):
    """A rate that may change with time."""

    def rates(self, times: Floats) -> Floats:
        """Tuples per second at some times."""


@dataclass(frozen=True)
class Steady:
    """A Poisson process."""

    rate: float

    def rates(self, times: Floats) -> Floats:
        return np.full(len(times), self.rate)


@dataclass(frozen=True)
class Bursty:
    """LD07's HIGH/LOW model: `(1 + θ) / 2 · r` and `(1 - θ) / 2 · r` by turns."""

    rate: float
    ratio: float
    period: float = 20.0
    offset: float = 0.0

    def rates(self, times: Floats) -> Floats:
        high = (times + self.offset) % self.period < self.period / 2
        return np.where(high, (1 + self.ratio) / 2, (1 - self.ratio) / 2) * self.rate


@dataclass(frozen=True)
class Drifting:
    """From one rate to another, little by little."""

    before: float
    after: float
    seconds: float

    def rates(self, times: Floats) -> Floats:
        part = np.clip(times / self.seconds, 0, 1)
        return self.before + (self.after - self.before) * part


@dataclass(frozen=True)
class Jump:
    """From one rate to another, at once."""

    before: float
    after: float
    at: float

    def rates(self, times: Floats) -> Floats:
        return np.where(times < self.at, self.before, self.after)


@dataclass(frozen=True)
class Clock:
    """A source's clock: it may be wrong, and go wrong further."""

    offset: float = 0.0
    drift: float = 0.0
    """Seconds that it gains in a second."""

    def stamps(self, times: Floats) -> Floats:
        return times * (1 + self.drift) + self.offset


@dataclass(frozen=True)
class Workload:
    """One source for each stream."""

    profiles: tuple[Profile, ...]
    seconds: float
    seed: int = 0
    keys: int | None = None
    """Values are one of so many; None: any 63-bit number."""
    disorder: float = 0.0
    """Seconds that a tuple may take to arrive."""
    clocks: tuple[Clock, ...] = ()

    def streams(self) -> list[Tuples]:
        """All tuples of each stream, in the order of their arrival."""
        return [
            self._stream(np.random.default_rng([self.seed, at]), profile, at)
            for at, profile in enumerate(self.profiles)
        ]

    def _stream(self, random: np.random.Generator, profile: Profile, at: int) -> Tuples:
        grid = np.linspace(0, self.seconds, round(self.seconds / _GRID) + 1)
        mass = np.concatenate([[0.0], np.cumsum(profile.rates(grid[:-1]) * np.diff(grid))])
        count = random.poisson(mass[-1])
        left = np.interp(np.sort(random.uniform(0, mass[-1], count)), mass, grid)
        left = np.minimum(left, self.seconds)
        arrived = left + random.uniform(0, self.disorder, count) if self.disorder else left
        clock = self.clocks[at] if self.clocks else Clock()
        times = np.maximum(np.round(clock.stamps(left) * SECOND), 0).astype(np.int64)
        high = self.keys if self.keys is not None else 2**63 - 1
        values = random.integers(0, high, count)
        order = np.argsort(arrived, kind="stable")
        return Tuples(np.arange(count), times[order], values[order], arrived[order])


def steady(rates: Sequence[float], seconds: float, seed: int = 0) -> Workload:
    """Poisson streams of some rates."""
    return Workload(tuple(Steady(rate) for rate in rates), seconds, seed)
