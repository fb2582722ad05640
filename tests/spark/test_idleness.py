"""Streams that are silent: what they keep from expiring, and when a run goes on without them."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import anabranch as ab
from anabranch.model.duration import Duration
from anabranch.report.progress import readable_time
from anabranch.spark.builder import JoinQuery
from anabranch.spark.envelope import tagged_union
from anabranch.spark.inputs import Input
from anabranch.state.store import Store
from tests.streams import KEYED, at, delivered, file_stream, finish, table, write_file

Rows = list[tuple[float, int, int]]


def pair(
    spark: SparkSession, home: Path, a: list[Rows], b: list[Rows], idle: Duration | None
) -> JoinQuery:
    """Streams a and b, with a file for each list of rows, joined on their keys."""
    streams = [
        ab.stream(
            name,
            file_stream(spark, home / name, [table(KEYED, rows) for rows in batches]),
            time="ts",
            window="5 seconds",
            idle=idle,
        )
        for name, batches in (("a", a), ("b", b))
    ]
    return ab.join(*streams).on("a.k = b.k").select("a.id AS a", "b.id AS b")


def one(second: float) -> Rows:
    return [(second, 1, int(second))]


def until(done: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not done():
        assert time.monotonic() < deadline
        time.sleep(0.05)


FLOWING = [one(0), one(10), one(20), one(30)]


def test_a_silent_stream_holds_state_back_until_the_run_goes_on_without_it(
    spark: SparkSession, tmp_path: Path
) -> None:
    for idle, live in ((None, 4), ("1 hour", 4), ("1 microsecond", 1)):
        home = tmp_path / str(idle).replace(" ", "")
        run = finish(pair(spark, home, FLOWING, [one(0)], idle), home)
        assert run.progress["streams"]["a"]["live"] == live
        assert run.progress["streams"]["b"]["idle"] == (live == 1)
        assert delivered(spark, home) == Counter([(0, 0)])


def test_diagnose_says_what_a_silent_stream_keeps_from_expiring(
    spark: SparkSession, tmp_path: Path
) -> None:
    run = finish(pair(spark, tmp_path, FLOWING, [one(0)], None), tmp_path)
    held = run.progress["held_by_silence"]
    assert (held["streams"], held["rows"]) == (["b"], 4)
    assert 0 < held["bytes"] < run.progress["state_bytes"]
    sentence = run.diagnose().sentence
    assert sentence.startswith("There is output: 1 results from 4 batches. Nothing has come from b")
    assert "in the last 3 batches, and 4 rows" in sentence
    assert "ab.stream('b', ..., idle=" in sentence


def test_a_source_that_still_has_rows_is_not_idle_although_none_of_them_arrives(
    spark: SparkSession, tmp_path: Path
) -> None:
    query = pair(spark, tmp_path, FLOWING, [one(0), one(-1), one(-2), one(3)], "1 microsecond")
    a, b = query.inputs
    b = Input(b.spec, b.frame.filter("id >= 0"))
    query = ab.join(a, b).on("a.k = b.k").select("a.id AS a", "b.id AS b")
    run = finish(query, tmp_path)
    assert run.progress["streams"]["b"]["late"] == 0
    assert delivered(spark, tmp_path) == Counter([(0, 0), (0, 3)])


def test_a_stream_of_several_sources_is_never_idle(spark: SparkSession, tmp_path: Path) -> None:
    a, b = pair(spark, tmp_path, FLOWING, [one(0)], "1 microsecond").inputs
    more = file_stream(spark, tmp_path / "c", [table(KEYED, one(1))])
    query = ab.join(a, Input(b.spec, b.frame.unionAll(more))).on("a.k = b.k").select("a.id AS a")
    assert finish(query, tmp_path).progress["streams"]["a"]["live"] == 4


def test_the_time_that_a_run_is_down_does_not_count(spark: SparkSession, tmp_path: Path) -> None:
    query = pair(spark, tmp_path, FLOWING[:3], [one(0)], "1 hour")
    before = finish(query, tmp_path)._runtime.manifest.seen[1]
    time.sleep(1)
    write_file(tmp_path / "a", 3, table(KEYED, one(30)))
    after = finish(query, tmp_path)._runtime.manifest.seen[1]
    assert (before.silent, after.silent) == (2, 3)
    assert 0 < before.waited == after.waited


@pytest.mark.parametrize("idle", [None, "2 seconds"])
def test_a_slow_sink_and_a_long_trigger_lose_no_result(
    spark: SparkSession, tmp_path: Path, idle: Duration | None
) -> None:
    """One batch without rows of b takes longer than b may be idle, and so does the trigger."""
    query = pair(spark, tmp_path, [one(0)], [one(0)], idle)
    write = ab.parquet_sink(str(tmp_path / "out"))

    def slow(frame: DataFrame, batch: int) -> None:
        write(frame, batch)
        if batch == 1:
            time.sleep(2.5)

    run = query.start(slow, checkpoint=str(tmp_path / "checkpoint"), trigger="2500 milliseconds")
    until(lambda: run.progress["batches"] >= 1)
    write_file(tmp_path / "a", 1, table(KEYED, one(10)))
    until(lambda: run.progress["batches"] >= 2)
    write_file(tmp_path / "b", 1, table(KEYED, one(4)))
    until(lambda: run.progress["streams"]["b"]["arrived"] >= 2)
    run.stop()
    assert run.progress["streams"]["b"]["late"] == 0
    assert delivered(spark, tmp_path) == Counter([(0, 0), (0, 4)])


def test_only_the_time_that_the_run_waits_counts(spark: SparkSession, tmp_path: Path) -> None:
    """By a clock of the test's own: batches take an hour each, and waits between them a second."""
    seconds = [0]
    query = pair(spark, tmp_path, [one(0)], [one(0)], "3 seconds")

    def process(batch: int, a: Rows, b: Rows, wait: int) -> None:
        seconds[0] += wait
        inputs = [
            Input(source.spec, spark.createDataFrame(table(KEYED, rows)))
            for source, rows in zip(query.inputs, (a, b), strict=True)
        ]
        frame = tagged_union(runtime.carried, runtime.envelope, inputs, streaming=False)
        runtime.process(frame, batch)

    def an_hour(frame: DataFrame, _batch: int) -> None:
        frame.count()
        seconds[0] += 3600

    store = Store.at(str(tmp_path / "checkpoint"))
    store.claim(query.description())
    runtime = query._runtime(store, query._router("central", 1), an_hour, None)
    runtime.clock = lambda: seconds[0] * 1_000_000
    process(0, one(0), one(0), wait=0)
    for batch, wait, mark in ((1, 100, 0), (2, 1, 0), (3, 1, 0), (4, 1, 40), (5, 1, 50)):
        process(batch, one(10 * batch), [], wait)
        seen, watermark = runtime.manifest.seen[1], runtime.manifest.watermark
        assert (seen.silent, seen.waited) == (batch, (batch - 1) * 1_000_000)
        assert readable_time(watermark) == at(mark).isoformat()
