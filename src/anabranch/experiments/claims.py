"""How claims are looked into: series against each other, seed by seed.

A seed draws rates, hosts and links, and all series of a figure get the same ones. So what counts is
the difference within a seed, and it has to be clear: more than twice its standard error over the
seeds. With one seed, as in a quick version, there is only its sign.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import numpy as np

from anabranch.experiments.figure import Check, Claim, Measured

Metrics = Mapping[str, Measured]


def clearly_more(one: Sequence[float], other: Sequence[float]) -> bool:
    """Whether the values of one series are above those of another, beyond chance.

    >>> clearly_more([2.0, 3.0, 4.0], [1.0, 2.0, 3.1]), clearly_more([2.0, 1.0], [1.0, 2.0])
    (True, False)
    """
    gaps = np.subtract(one, other)
    if len(gaps) == 1:
        return bool(gaps[0] > 0)
    return bool(gaps.mean() > 2 * gaps.std(ddof=1) / np.sqrt(len(gaps)))


def better(one: str, other: str, xs: Sequence[float], why: str = "") -> Claim:
    """A claim that one series gives more results than another, at each of some places."""

    def check(found: Metrics) -> tuple[bool, str]:
        values = found["throughput"].values
        # A quick version leaves some places out.
        pairs = [(values[one, x], values[other, x]) for x in xs if (one, x) in values]
        told = ", ".join(f"{np.mean(more):,.1f} and {np.mean(less):,.1f}" for more, less in pairs)
        return bool(pairs) and all(clearly_more(more, less) for more, less in pairs), told

    places = ", ".join(f"{x:g}" for x in xs)
    return Claim(f"{one} does better than {other} at {places}", check, why)


def ordered(metric: str, names: Sequence[str], only: float | None = None) -> Check:
    """Whether each series lies clearly above the one before, over the places that all have."""

    def check(found: Metrics) -> tuple[bool, str]:
        values = found[metric].values
        shared = set.intersection(*({x for name, x in values if name == one} for one in names))
        places = sorted(shared) if only is None else [only]
        sums = [np.mean([values[name, x] for x in places], axis=0) for name in names]
        told = ", ".join(f"{n} {s.mean():,.3g}" for n, s in zip(names, sums, strict=True))
        return all(clearly_more(high, low) for low, high in pairwise(sums)), told

    return check


def grows(name: str) -> Claim:
    """A claim that a series gains from every further host."""

    def check(found: Metrics) -> tuple[bool, str]:
        values = found["throughput"].values
        xs = sorted(x for series, x in values if series == name)
        steps = (clearly_more(values[name, after], values[name, x]) for x, after in pairwise(xs))
        return all(steps), listed(found["throughput"].line(name))

    return Claim(f"{name} gains from every further host", check)


def peaks(name: str) -> Claim:
    """A claim that neither the shortest nor the longest segments are best."""

    def check(found: Metrics) -> tuple[bool, str]:
        values = found["throughput"].values
        xs = sorted(x for series, x in values if series == name)
        best = values[name, max(xs, key=lambda x: float(np.mean(values[name, x])))]
        ends = all(clearly_more(best, values[name, x]) for x in (xs[0], xs[-1]))
        return ends, listed(found["throughput"].line(name))

    return Claim(
        f"there is a best segment length for {name}: neither the shortest nor the longest", check
    )


def shaped(metric: str, name: str, test: Callable[[list[float]], bool]) -> Check:
    """Whether the means of a series, in the order of x, pass a test."""

    def check(found: Metrics) -> tuple[bool, str]:
        line = sorted(found[metric].line(name))
        return test([value for _, value in line]), listed(line)

    return check


def listed(line: Sequence[tuple[float, float]]) -> str:
    """Means with their places, for a reader."""
    return ", ".join(f"{value:,.4g} ({x:g})" for x, value in sorted(line))
