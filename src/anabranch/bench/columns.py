"""What the columns of a case's streams are drawn from. Frozen data; randomness is passed in."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch import feeds


class Column(Protocol):
    """A distribution of values."""

    @property
    def sql_type(self) -> str:
        """Spark's name of its type."""

    def draw(self, random: np.random.Generator, count: int) -> pa.Array:
        """So many independent values."""


@dataclass(frozen=True)
class Keys:
    """Whole numbers below `count`, each as likely as the others."""

    count: int
    sql_type: str = "bigint"

    def draw(self, random: np.random.Generator, count: int) -> pa.Array:
        return pa.array(random.integers(0, self.count, count), pa.int64())


@dataclass(frozen=True)
class HotKeys:
    """Whole numbers below `count`, of which 0 makes up a part `hot` of all rows."""

    count: int
    hot: float
    sql_type: str = "bigint"

    def draw(self, random: np.random.Generator, count: int) -> pa.Array:
        keys = random.integers(1, self.count, count)
        return pa.array(np.where(random.random(count) < self.hot, 0, keys), pa.int64())


@dataclass(frozen=True)
class Pictures:
    """Images of one of `scenes`, which all streams share, as cameras see them: with noise."""

    pixels: int
    scenes: int
    noise: int
    sql_type: str = "binary"

    def draw(self, random: np.random.Generator, count: int) -> pa.Array:
        shared = np.random.default_rng([self.pixels, self.scenes])
        scenes = shared.integers(0, 256, (self.scenes, 3 * self.pixels), np.int16)
        seen = scenes[random.integers(0, self.scenes, count)]
        seen = seen + random.integers(-self.noise, self.noise + 1, seen.shape, np.int16)
        return pa.array([row.tobytes() for row in seen.clip(0, 255).astype(np.uint8)], pa.binary())


@dataclass(frozen=True)
class Numbers:
    """Real numbers from 0 to `top`, uniform."""

    top: float
    sql_type: str = "double"

    def draw(self, random: np.random.Generator, count: int) -> pa.Array:
        return pa.array(random.uniform(0.0, self.top, count), pa.float64())


@dataclass(frozen=True)
class Vectors:
    """Points around one of `clusters` centres, which all streams share.

    The centres are far from each other and a cluster is narrow, so `1 / clusters` of all pairs
    are near. That is what embeddings look like to a join: rarely near, and then clearly.
    """

    dimensions: int
    clusters: int
    spread: float
    sql_type: str = "array<float>"

    def draw(self, random: np.random.Generator, count: int) -> pa.Array:
        shared = np.random.default_rng([self.dimensions, self.clusters])
        centres = shared.normal(0.0, 1.0, (self.clusters, self.dimensions))
        points = centres[random.integers(0, self.clusters, count)]
        points += random.normal(0.0, self.spread, points.shape)
        return _lists(points.ravel(), np.full(count, self.dimensions), pa.float32())


@dataclass(frozen=True)
class ItemSets:
    """LS05's sets: sizes Normal(5, 1), items of 100 by Zipf's law with exponent `skew`."""

    skew: float
    sql_type: str = "array<int>"

    def draw(self, random: np.random.Generator, count: int) -> pa.Array:
        sizes = feeds.set_sizes(random, count)
        # One order of popularity for all time: the bench measures speed, not time correlation.
        items = feeds.item_sets(random, sizes, np.ones(count, np.int64), self.skew)
        return _lists(items, sizes, pa.int32())


def _lists(
    values: npt.NDArray[Any], sizes: npt.NDArray[np.int64], kind: pa.DataType
) -> pa.ListArray:
    offsets = np.concatenate([[0], np.cumsum(sizes)]).astype(np.int32)
    typed = pa.array(values.astype(kind.to_pandas_dtype()), kind)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), typed)
