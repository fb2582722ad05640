"""`anabranch demo`: three live feeds, joined while they grow, and checked at the end.

News, blogs and posts are each a set of items and an embedding of it (`anabranch.feeds`),
appended to directories as small Parquet files, a little out of order; Spark reads them as
streams. A news item and a blog belong together when they share at least three items, a blog and
a post when their embeddings are near each other: neither is an equality, and Spark has no join
of streams for it. When the feeds end, the run catches up, and its results are compared with
those of the slow definition over all that was written.
"""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.dataset as ds
from rich.console import Console

import anabranch as ab
from anabranch.cli.interrupt import stop_requests
from anabranch.cli.livefeed import LiveFeeds
from anabranch.cli.session import file_stream, spark_session, static_frame, ui_address
from anabranch.cli.view import Progress, follow
from anabranch.errors import AnabranchError
from anabranch.feeds import Feed, three_feeds

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from anabranch.spark.builder import JoinQuery

RATE = 50.0
"""Rows per second and feed: well below what two cores take, and few enough for the slow check."""
WINDOW_SECONDS = 8.0
DISTANCE = 0.3
LATENESS = "3 seconds"
"""More than the disorder of the live feeds (two of their ticks), so that no row is late."""
CATCH_UP_SECONDS = 120.0
SCHEMA = "id BIGINT, ts TIMESTAMP, items ARRAY<INT>, embedding ARRAY<FLOAT>"
COLUMNS = ["news", "blog", "post"]
INTRODUCTION = """\
news   share at least 3 items with
blogs, which lie within a distance of {distance:g} of
posts, all three within {window:g} seconds.
{seconds:g} s of live data, seed {seed}. Spark UI: {ui}"""


def demo(seconds: float, seed: int, master: str, console: Console) -> int:
    """Run the demo; 0 where the results are exactly those of the reference, otherwise 1."""
    feeds = three_feeds(seed, RATE, WINDOW_SECONDS)
    with (
        tempfile.TemporaryDirectory(prefix="anabranch-demo-") as home,
        spark_session("anabranch demo", master, ui=True) as spark,
    ):
        root = Path(home)
        live = LiveFeeds(feeds, root / "feeds", seconds)
        paths = [str(live.directory(feed)) for feed in feeds]
        introduction = INTRODUCTION.format(
            window=WINDOW_SECONDS,
            distance=DISTANCE,
            seconds=seconds,
            seed=seed,
            ui=ui_address(spark),
        )
        console.print(introduction, highlight=False)
        run = joined(feeds, [file_stream(spark, path, SCHEMA) for path in paths]).start(
            ab.parquet_sink(str(root / "out")),
            checkpoint=str(root / "checkpoint"),
            trigger="1 second",
        )
        try:
            with live, stop_requests() as requested:
                caught_up = CatchUp(live)
                follow(
                    run,
                    console,
                    "anabranch demo",
                    until=lambda: requested.is_set() or caught_up(run.progress),
                )
            sentence = run.diagnose().sentence
        finally:
            run.stop()
        if requested.is_set():
            raise KeyboardInterrupt
        console.print(f"{sentence}\nChecking against the reference …", highlight=False)
        started = time.monotonic()
        bounded = joined(feeds, [static_frame(spark, path) for path in paths])
        expected = ab.testing.reference(bounded).select(COLUMNS)
        agree, words = compare(results(root / "out"), expected)
        console.print(f"{words} ({time.monotonic() - started:.1f} s)", highlight=False)
    return 0 if agree else 1


def joined(feeds: Sequence[Feed], frames: Sequence[DataFrame]) -> JoinQuery:
    """The demo's query, over streaming frames or over bounded ones."""
    window = f"{WINDOW_SECONDS:g} seconds"
    streams = [
        ab.stream(feed.name, frame, time="ts", window=window, lateness=LATENESS)
        for feed, frame in zip(feeds, frames, strict=True)
    ]
    return (
        ab.join(*streams)
        .on(
            ab.overlap("news.items", "blogs.items", at_least=3),
            ab.within("blogs.embedding", "posts.embedding", distance=DISTANCE),
        )
        .select("news.id AS news", "blogs.id AS blog", "posts.id AS post")
    )


class CatchUp:
    """Whether the feeds have ended and a run has taken all of their rows."""

    def __init__(self, live: LiveFeeds) -> None:
        self._live = live
        self._deadline: float | None = None

    def __call__(self, progress: Progress) -> bool:
        if not self._live.ended:
            return False
        taken = Counter({name: stream["arrived"] for name, stream in progress["streams"].items()})
        if taken == self._live.written:
            return True
        now = time.monotonic()
        self._deadline = self._deadline or now + CATCH_UP_SECONDS
        if now > self._deadline:
            raise AnabranchError(
                f"the run has not caught up within {CATCH_UP_SECONDS:g} s: "
                f"written {dict(self._live.written)}, taken {dict(taken)}"
            )
        return False


def results(path: Path) -> pa.Table:
    """All that the run has put out, without Spark and without the sink's own column."""
    found = ds.dataset(path, format="parquet", partitioning="hive") if path.exists() else None
    if found is None or not found.files:
        return pa.table({name: pa.array([], pa.int64()) for name in COLUMNS})
    return found.to_table(columns=COLUMNS)


def compare(found: pa.Table, expected: pa.Table) -> tuple[bool, str]:
    """Whether two tables have the same rows, each as often, and a sentence about it.

    >>> one = pa.table({"news": [1, 1], "blog": [2, 2]})
    >>> compare(one.slice(1), one)
    (False, 'The run and the reference DISAGREE: 1 results are missing, 0 are too many: (1, 2)')
    """
    counts = [Counter(zip(*table.to_pydict().values(), strict=True)) for table in (found, expected)]
    missing, surplus = counts[1] - counts[0], counts[0] - counts[1]
    if not missing and not surplus:
        return True, (
            f"The run and the reference agree: {found.num_rows:,} results, each exactly once."
        )
    sample = ", ".join(str(row) for row in [*missing, *surplus][:3])
    return False, (
        f"The run and the reference DISAGREE: {missing.total():,} results are missing, "
        f"{surplus.total():,} are too many: {sample}"
    )
