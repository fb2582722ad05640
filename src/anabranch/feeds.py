"""A seeded workload: streams of item sets whose popular items move around, after LS05 5.1.

A feed makes rows with an id, an event time, a set of items and an embedding of that set. Which
items are popular changes with time, and a shifted feed follows the others with a delay, so that
a row's partners sit at a certain age in the other window and not simply at its young end.

LS05's symbols and their names here: `L` (items) is ITEMS; the set size is Normal(`mu`, `sigma`)
with MEAN_SIZE and SIZE_DEVIATION; `kappa` (Zipf's exponent) is `skew`; the cycle period is
`period` (twice the window, see `three_feeds`); the time shift is `shift` (5/8 of the period).
The most popular item at time `T` is

    a = 1 + floor(L * ((T - shift) mod period) / period)

the next is `a + 1`, and so on around the circle of items.

Departs from the paper: a row has an embedding beside its set; rows come in ticks, each with a
fixed number of rows, so that a seed gives the same rows however they are batched; a size is
rounded and kept within 1..L; the items of a set are drawn one after the other without
replacement (the paper does not say how it avoids drawing one twice).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

ITEMS = 100
MEAN_SIZE = 5.0
SIZE_DEVIATION = 1.0
SHIFT = 5 / 8
DIMENSIONS = 8
EMBEDDING_NOISE = 0.05
MICROSECONDS = 1_000_000

SCHEMA = pa.schema(
    [
        pa.field("id", pa.int64(), nullable=False),
        pa.field("ts", pa.timestamp("us", tz="UTC"), nullable=False),
        pa.field("items", pa.list_(pa.int32())),
        pa.field("embedding", pa.list_(pa.float32())),
    ]
)

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]


@dataclass(frozen=True)
class Feed:
    """One stream of the workload. Times and durations are in seconds of the feed's own clock."""

    name: str
    seed: int
    rate: float
    """Rows per second."""
    period: float
    shift: float = 0.0
    skew: float = 0.8

    def tick(self, number: int, seconds: float, origin: int = 0) -> pa.Table:
        """The rows of the time from `number * seconds` on, in the order of their event time.

        `origin` is the event time at which the feed's clock is zero, in microseconds since the
        epoch. The rows depend on it in nothing but their times.
        """
        first = int(self.rate * seconds * number)
        count = int(self.rate * seconds * (number + 1)) - first
        # The name takes part, so that two feeds with one seed are still two different streams.
        random = np.random.default_rng([self.seed, number, *self.name.encode()])
        times = np.sort(random.uniform(number * seconds, (number + 1) * seconds, count))
        sizes = set_sizes(random, count)
        items = item_sets(random, sizes, most_popular(times, self.period, self.shift), self.skew)
        embeddings = embed(items, sizes)
        embeddings += random.normal(0.0, EMBEDDING_NOISE, embeddings.shape)
        return pa.table(
            [
                pa.array(np.arange(first, first + count), pa.int64()),
                pa.array(origin + (times * MICROSECONDS).astype(np.int64), SCHEMA.field("ts").type),
                _lists(items, sizes, pa.int32()),
                _lists(embeddings.ravel(), np.full(count, DIMENSIONS), pa.float32()),
            ],
            schema=SCHEMA,
        )


def three_feeds(seed: int, rate: float, window: float, skew: float = 0.8) -> tuple[Feed, ...]:
    """Three feeds that turn together with a period of two windows; the second lags behind.

    LS05 has two streams and shifts one of them. The third is not shifted, so that a join of all
    three has to look at a certain age of one window and at the young end of another.
    """
    period = 2 * window
    return (
        Feed("news", seed, rate, period, skew=skew),
        Feed("blogs", seed, rate, period, shift=SHIFT * period, skew=skew),
        Feed("posts", seed, rate, period, skew=skew),
    )


def most_popular(times: Floats, period: float, shift: float) -> Ints:
    """The item of rank one at each time (LS05 5.1).

    Worked by hand: with a period of 16 s, a quarter of it has passed after 4 s; a shift of
    5/8 of the period puts a stream 10 s behind.

    >>> most_popular(np.array([0.0, 4.0, 16.0]), 16.0, 0.0).tolist()
    [1, 26, 1]
    >>> most_popular(np.array([10.0, 14.0]), 16.0, 10.0).tolist()
    [1, 26]
    """
    phase = np.mod(times - shift, period) / period
    top: Ints = 1 + np.minimum((ITEMS * phase).astype(np.int64), ITEMS - 1)
    return top


def popularity(skew: float) -> Floats:
    """The probability that an item drawn has rank 1, 2, …: Zipf, `p(r) ~ r ** -skew`.

    >>> weights = popularity(1.0)
    >>> round(float(weights[0] / weights[9]), 6), round(float(weights.sum()), 6)
    (10.0, 1.0)
    """
    weights = np.arange(1, ITEMS + 1, dtype=np.float64) ** -skew
    share: Floats = weights / weights.sum()
    return share


def set_sizes(random: np.random.Generator, count: int) -> Ints:
    """How many items each set has: Normal(5, 1), rounded, at least one."""
    sizes = np.rint(random.normal(MEAN_SIZE, SIZE_DEVIATION, count)).astype(np.int64)
    return np.clip(sizes, 1, ITEMS)


def item_sets(random: np.random.Generator, sizes: Ints, top: Ints, skew: float) -> Ints:
    """The items of all sets, one set after the other; no set has an item twice.

    The `k` largest of `log(weight) + Gumbel noise` are a draw of `k` without replacement (the
    Gumbel-top-k trick): one sort for all sets instead of a loop over them.
    """
    keys = np.log(popularity(skew)) + random.gumbel(size=(len(sizes), ITEMS))
    ranks = np.argsort(-keys, axis=1)
    items: Ints = 1 + (top[:, None] - 1 + ranks) % ITEMS
    return items[np.arange(ITEMS) < sizes[:, None]]


def embed(items: Ints, sizes: Ints) -> Floats:
    """A vector of unit scale for each set: the mean of its items' places on the circle.

    An item's place is its angle on the circle and the first multiples of it (sine and cosine of
    each), so neighbours on the circle are near each other, and the vectors of a feed travel
    around the circle together with what is popular.
    """
    angles = 2 * np.pi * np.arange(ITEMS)[:, None] / ITEMS * np.arange(1, DIMENSIONS // 2 + 1)
    places = np.hstack([np.cos(angles), np.sin(angles)]) / np.sqrt(DIMENSIONS / 2)
    sums = np.zeros((len(sizes), DIMENSIONS))
    np.add.at(sums, np.repeat(np.arange(len(sizes)), sizes), places[items - 1])
    means: Floats = sums / sizes[:, None]
    return means


def _lists(values: npt.NDArray[Any], sizes: Ints, kind: pa.DataType) -> pa.ListArray:
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    return pa.ListArray.from_arrays(
        pa.array(offsets), pa.array(values.astype(kind.to_pandas_dtype()))
    )
