"""The cases: what is joined, how much of it, and how Spark would be asked for the same.

Sizes are in seconds of event time, rows per stream and second, and seconds of window. The
equality cases have the sizes that the project's bars are stated for; the others are cut so that
finding matches, and not moving rows, is most of the work.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace

from anabranch.bench.columns import (
    Column,
    HotKeys,
    ItemSets,
    Keys,
    Numbers,
    Pictures,
    Vectors,
)
from anabranch.model.terms import Request, alike, band, equal, overlap, within


@dataclass(frozen=True)
class Feed:
    """One stream: its name and, beside `ts` and `id`, its columns."""

    name: str
    columns: tuple[tuple[str, Column], ...]

    @property
    def schema(self) -> str:
        """As Spark's readers want it."""
        typed = [f"{name} {column.sql_type}" for name, column in self.columns]
        return ", ".join(["ts timestamp", "id bigint", *typed])


@dataclass(frozen=True)
class SparkPlan:
    """One way to put the query to Spark's stream-stream join.

    `conditions` has one entry per stream after the first: what joins it to those before it.
    Columns are called `stream_column` there. `extra` are columns computed first, per stream.
    Every condition holds an equality, without which Spark refuses to join streams.
    """

    name: str
    conditions: tuple[str, ...]
    extra: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    files: int | None = None
    """Files per stream and batch that suit this way best, where it is not the case's."""


CORES = 2
"""What a side may use, unless it is there to show what one core does."""


@dataclass(frozen=True)
class Contender:
    """One of our strategies, on so many cores."""

    strategy: str
    cores: int = CORES
    every_hop: bool = False
    """Whether small batches take their hops too, which one host would join faster."""

    @property
    def name(self) -> str:
        if self.every_hop:
            return f"{self.strategy} hop=0"
        return self.strategy if self.cores == CORES else f"{self.strategy}, {self.cores} core"


@dataclass(frozen=True)
class Case:
    """A query, its data, and the batch sizes that suit each side (in seconds of event time)."""

    name: str
    about: str
    feeds: tuple[Feed, ...]
    terms: tuple[Request, ...]
    spark: tuple[SparkPlan, ...]
    """Where there are several, all are run and the fastest is compared with."""
    rows: tuple[int, ...]
    """Rows per stream, second by second: one file each."""
    window: int = 10
    # For the 2-way equality 5, 10 and 20 files were tried on both sides: for ours 10 was best, for
    # Spark 10 and 20 were alike and 5 was worse. Where Spark has one file a batch, it may not get
    # through a larger batch within its limit, and a bound is the tighter the smaller the batch.
    ours_files: int = 10
    spark_files: int = 10
    warm_files: int = 10
    """How many files pass before the steady state: until then windows are still filling."""
    strategies: tuple[Contender, ...] = ()
    """Where there are any, our strategies are compared with the first of them, and nothing else."""
    counts_batches: bool = False
    """Measures the time of a batch without rows, not the rows of a second."""

    def batches(self, files: int) -> tuple[int, ...]:
        """Rows of all streams in each batch of so many files per stream."""
        return tuple(
            sum(self.rows[start : start + files]) * len(self.feeds)
            for start in range(0, len(self.rows), files)
        )

    def warm_batches(self, files: int) -> int:
        """How many of those are warm-up: at least one, and not all."""
        return min(max(-(-self.warm_files // files), 1), len(self.batches(files)) - 1)

    def quick(self) -> Case:
        """The same in a few seconds, to see that it works; its numbers mean nothing."""
        if self.counts_batches:
            return replace(self, rows=(20,) * 2 + (0,) * 2 + (1,) * 2, warm_files=2)
        rows = (max(self.rows[0] // 100, 20),) * 8
        return replace(self, rows=rows, window=2, ours_files=2, spark_files=2, warm_files=2)


def _feeds(**columns: tuple[tuple[str, Column], ...]) -> tuple[Feed, ...]:
    return tuple(Feed(name, column) for name, column in columns.items())


KEYS = Keys(20_000)
CONSTANT = "pmod({0}_id, 1) AS {0}_one"
"""A key that is always 0, written so that the optimizer does not see it: it would fold a literal
away, and refuse the join for having no equality left."""


def _constant_key(**conditions: str) -> SparkPlan:
    """The naive way to a theta join: one key for all rows, with the condition behind it.

    `conditions` are those of the streams after the first, which is called a.
    """
    return SparkPlan(
        "constant key",
        tuple(f"a_one = {name}_one AND {text}" for name, text in conditions.items()),
        {name: (CONSTANT.format(name),) for name in ("a", *conditions)},
        files=1,
    )


EQUALITY_2WAY = Case(
    name="equality-2way",
    about="a.k = b.k",
    feeds=_feeds(a=(("k", KEYS),), b=(("k", KEYS),)),
    terms=(equal("a.k", "b.k"),),
    spark=(SparkPlan("equality", ("a_k = b_k",)),),
    rows=(20_000,) * 120,
    # Measured, steady state: 223k rows/s in batches of 10 files, 387k in batches of 20. Spark, over
    # whole runs with their first batch: 39k in batches of 10, 36k in batches of 30.
    ours_files=20,
)

EQUALITY_3WAY = Case(
    name="equality-3way",
    about="a.k = b.k AND b.k = c.k",
    feeds=_feeds(a=(("k", KEYS),), b=(("k", KEYS),), c=(("k", KEYS),)),
    terms=(equal("a.k", "b.k"), equal("b.k", "c.k")),
    spark=(SparkPlan("equality", ("a_k = b_k", "b_k = c_k")),),
    rows=(20_000,) * 60,
    spark_files=1,
)

EQUALITY_3WAY_TWO_KEYS = Case(
    name="equality-3way-two-keys",
    about="a.k = b.k AND b.m = c.m",
    feeds=_feeds(a=(("k", KEYS),), b=(("k", KEYS), ("m", KEYS)), c=(("m", KEYS),)),
    terms=(equal("a.k", "b.k"), equal("b.m", "c.m")),
    spark=(SparkPlan("equality", ("a_k = b_k", "b_m = c_m")),),
    rows=(20_000,) * 60,
    spark_files=1,
)

# 20,000 rows a second over a range of a million: a band of 25 on either side finds as many
# partners for a row as the equality cases do, 20 in the other window.
NUMBERS = Numbers(1_000_000.0)
BUCKET_LOW, BUCKET_HIGH = "floor((b_x - 25) / 100)", "floor((b_x + 25) / 100)"
BAND_2WAY = Case(
    name="band-2way",
    about="abs(a.x - b.x) <= 25",
    feeds=_feeds(a=(("x", NUMBERS),), b=(("x", NUMBERS),)),
    terms=(band("a.x", "b.x", 25),),
    spark=(
        SparkPlan(
            "bucketed key",
            ("a_bucket = b_bucket AND abs(a_x - b_x) <= 25",),
            {
                # A row of b goes to every bucket that its band touches, so that each pair within
                # the band meets in exactly one. Buckets of four times the band: 1.5 copies of a
                # row on average, where buckets as wide as the band would make three.
                "a": ("floor(a_x / 100) AS a_bucket",),
                "b": (f"explode(sequence({BUCKET_LOW}, {BUCKET_HIGH})) AS b_bucket",),
            },
        ),
        _constant_key(b="abs(a_x - b_x) <= 25"),
    ),
    rows=(20_000,) * 60,
)

# 4,000 rows a second: each has 80,000 rows of the other stream within its window, of which one
# in 10,000 is near. That is 19 billion pairs of 40 dimensions in all.
VECTORS = Vectors(dimensions=40, clusters=10_000, spread=0.05)
DISTANCE_2WAY = Case(
    name="distance-2way",
    about="distance(a.v, b.v) <= 0.45, 40 dimensions",
    feeds=_feeds(a=(("v", VECTORS),), b=(("v", VECTORS),)),
    terms=(within("a.v", "b.v", 0.45),),
    spark=(
        _constant_key(
            b="sqrt(aggregate(zip_with(a_v, b_v, (x, y) -> double(x) - double(y)), 0D, "
            "(total, part) -> total + part * part)) <= 0.45"
        ),
    ),
    rows=(4_000,) * 60,
    spark_files=1,
)

# 400 rows a second: of the 8,000 rows within a row's window 37 in 100 share an item with it, and 4
# in 1,000 share three, which makes about 2,200 results for a row of b.
SETS = ItemSets(skew=0.6)
OVERLAP_3WAY = Case(
    name="overlap-3way",
    about="3 items in common, a with b and b with c",
    feeds=_feeds(a=(("s", SETS),), b=(("s", SETS),), c=(("s", SETS),)),
    terms=(overlap("a.s", "b.s", 3), overlap("b.s", "c.s", 3)),
    spark=(
        _constant_key(
            b="size(array_intersect(a_s, b_s)) >= 3", c="size(array_intersect(b_s, c_s)) >= 3"
        ),
    ),
    rows=(400,) * 80,
    ours_files=20,
    spark_files=1,
)

# A little state first, then batches of files without a row, then of files with one row each.
EMPTY_BATCH = Case(
    name="empty-batch",
    about="a.k = b.k, batches with no row and with one row per stream",
    feeds=_feeds(a=(("k", KEYS),), b=(("k", KEYS),)),
    terms=(equal("a.k", "b.k"),),
    spark=(SparkPlan("equality", ("a_k = b_k",)),),
    rows=(1_000,) * 10 + (0,) * 20 + (1,) * 20,
    ours_files=1,
    spark_files=1,
    counts_batches=True,
)

# Spreading an expensive predicate over two cores: the same work on one core, on one host of two
# cores (the other is free for the JVM and half of the ingest), and on two hosts. Two busy Python
# workers leave no core for the JVM's compiler, which works for the first half minute or so: what is
# measured begins after that.
LONG = 140
LONG_WARM = 60
SPREAD = (
    Contender("central", cores=1),
    *map(Contender, ("central", "atr", "ctr", "psp")),
)
SPREAD_DISTANCE = replace(
    DISTANCE_2WAY,
    name="spread-distance",
    spark=(),
    rows=(4_000,) * LONG,
    ours_files=20,
    warm_files=LONG_WARM,
    strategies=SPREAD,
)

# Three cameras at 20 images a second: each has 400 images of the next in reach, and looks at all of
# their 5,000 pixels.
IMAGES = Pictures(pixels=5_000, scenes=50, noise=6)
SPREAD_IMAGES = Case(
    name="spread-images",
    about="alike(a.i, b.i) AND alike(b.i, c.i), 5,000 pixels",
    feeds=_feeds(a=(("i", IMAGES),), b=(("i", IMAGES),), c=(("i", IMAGES),)),
    terms=(alike("a.i", "b.i", 0.9), alike("b.i", "c.i", 0.9)),
    spark=(),
    rows=(20,) * LONG,
    ours_files=20,
    warm_files=LONG_WARM,
    strategies=SPREAD,
)

# Half of all rows have one key: whichever host has it, has most of the work. One in a hundred of
# the pairs with that key is a result, so that comparing and not delivering is most of it.
HOT = HotKeys(count=20_000, hot=0.5)
HOT_KEY = Case(
    name="hot-key",
    about="a.k = b.k AND abs(a.x - b.x) <= 5000, half of all rows with one key",
    feeds=_feeds(a=(("k", HOT), ("x", NUMBERS)), b=(("k", HOT), ("x", NUMBERS))),
    terms=(equal("a.k", "b.k"), band("a.x", "b.x", 5_000)),
    spark=(),
    rows=(2_000,) * LONG,
    ours_files=20,
    warm_files=LONG_WARM,
    strategies=tuple(map(Contender, ("hash", "atr", "ctr"))),
)

# What a hop costs where there is next to nothing to do: one stage, or three.
HOPS = Case(
    name="hops",
    about="four streams, batches with no row and with one row per stream",
    feeds=_feeds(**{name: (("x", Numbers(10.0)),) for name in "abcd"}),
    terms=(band("a.x", "b.x", 1), band("b.x", "c.x", 1), band("c.x", "d.x", 1)),
    spark=(),
    # So few that there is nothing to compare: what is measured is what a batch costs anyway.
    rows=(2,) * 10 + (0,) * 20 + (1,) * 20,
    ours_files=1,
    spark_files=1,
    counts_batches=True,
    strategies=(
        *map(Contender, ("atr", "ctr", "psp")),
        *(Contender(strategy, every_hop=True) for strategy in ("ctr", "psp")),
    ),
)

CASES = {
    case.name: case
    for case in (
        EQUALITY_2WAY,
        EQUALITY_3WAY,
        EQUALITY_3WAY_TWO_KEYS,
        BAND_2WAY,
        DISTANCE_2WAY,
        OVERLAP_3WAY,
        EMPTY_BATCH,
        SPREAD_DISTANCE,
        SPREAD_IMAGES,
        HOT_KEY,
        HOPS,
    )
}
