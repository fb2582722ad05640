"""A run whose strategy, hosts and windows change under it delivers what the reference says."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import anabranch as ab
from anabranch.kernel.reference import reference
from anabranch.spark.builder import JoinQuery
from anabranch.spark.oracle import finished, stored_tables
from anabranch.spark.run import Run
from tests.streams import KEYED, START, at, counted, delivered, file_stream, table

BATCHES = 6
Action = Callable[[Run], None]


def feeds(seed: int) -> dict[str, list[pa.Table]]:
    """Three streams, a table a batch, a little out of order."""
    random = np.random.default_rng(seed)
    return {
        name: [
            table(
                KEYED,
                [
                    (float(4 * batch + random.integers(0, 7)), int(random.integers(0, 4)), row)
                    for row in range(12)
                ],
            )
            for batch in range(BATCHES)
        ]
        for name in "abc"
    }


def in_order(seed: int) -> dict[str, list[pa.Table]]:
    """The same, each batch behind the one before it."""
    random = np.random.default_rng(seed)
    return {
        name: [
            table(
                KEYED, [(4 * batch + row / 2, int(random.integers(0, 4)), row) for row in range(8)]
            )
            for batch in range(BATCHES)
        ]
        for name in "abc"
    }


def query(frames: Mapping[str, DataFrame], lateness: str) -> JoinQuery:
    streams = [
        ab.stream(name, frame, time="ts", window="3 seconds", lateness=lateness)
        for name, frame in frames.items()
    ]
    terms = ("a.k <= b.k", ab.band("b.k", "c.k", 1))
    return ab.join(*streams).on(*terms).select("a.id AS a", "b.id AS b", "c.id AS c")


class Changing:
    """A run with things done to it after some of its batches."""

    def __init__(
        self,
        spark: SparkSession,
        home: Path,
        tables: Mapping[str, list[pa.Table]],
        lateness: str = "10 seconds",
    ) -> None:
        self.spark, self.home = spark, home
        self.streaming = query(
            {name: file_stream(spark, home / name, t) for name, t in tables.items()}, lateness
        )
        self.static = query(
            {n: spark.createDataFrame(pa.concat_tables(t)) for n, t in tables.items()}, lateness
        )

    def run(self, strategy: Any, hosts: int, actions: Mapping[int, Action]) -> Run:
        write = ab.parquet_sink(str(self.home / "out"))
        started: Future[Run] = Future()

        def sink(frame: DataFrame, batch: int) -> None:
            write(frame, batch)
            if batch in actions:
                actions[batch](started.result())

        run = self.streaming.start(
            sink,
            checkpoint=str(self.home / "checkpoint"),
            strategy=strategy,
            hosts=hosts,
            trigger="available now",
        )
        started.set_result(run)
        run.await_termination()
        return run

    def expected(self, resized: Mapping[str, tuple[tuple[int, int], ...]] | None = None) -> Any:
        compiled = self.static.compiled.query
        streams = tuple(
            replace(stream, resized=(resized or {}).get(stream.name, ()))
            for stream in compiled.streams
        )
        answer = reference(replace(compiled, streams=streams), stored_tables(self.static))
        return counted(finished(self.static, answer))


def test_strategies_are_switched_without_loss_or_repetition(
    spark: SparkSession, tmp_path: Path
) -> None:
    job = Changing(spark, tmp_path, feeds(5))
    run = job.run(
        "central",
        3,
        {
            0: lambda run: run.switch("atr"),
            1: lambda run: run.switch(ab.Ctr(copies=1, hop=0), hosts=2),
            2: lambda run: run.switch(ab.Psp(hop=0), hosts=3),
            3: lambda run: run.switch(ab.Atr(segment="2 seconds", master="b")),
        },
    )
    assert delivered(spark, tmp_path) == job.expected()
    switches = [event["what"]["after"] for event in run.events if event["kind"] == "switch"]
    assert switches == ["atr", "ctr", "psp", "atr"]
    assert run.progress["strategy"] == "atr"


@pytest.mark.parametrize("strategy", ["atr", ab.Ctr(hop=0), ab.Psp(hop=0)])
def test_hosts_come_and_go(spark: SparkSession, tmp_path: Path, strategy: Any) -> None:
    job = Changing(spark, tmp_path, feeds(6))
    run = job.run(
        strategy,
        2,
        {
            0: lambda run: run.rescale(4),
            2: lambda run: run.rescale(1),
            3: lambda run: run.rescale(3, at_once=True),
        },
    )
    assert delivered(spark, tmp_path) == job.expected()
    assert run.progress["hosts"] == 3
    kinds = {event["kind"] for event in run.events}
    assert "hosts" in kinds
    assert kinds & {"segment", "route", "boundary"}
    assert all(event["why"] for event in run.events)


@pytest.mark.parametrize("strategy", ["central", "psp", ab.Ctr(hop=0)])
def test_a_window_is_resized_while_it_runs(
    spark: SparkSession, tmp_path: Path, strategy: Any
) -> None:
    job = Changing(spark, tmp_path, feeds(7))
    run = job.run(
        strategy,
        2,
        {
            1: lambda run: run.resize("b", "6 seconds"),
            3: lambda run: run.resize("a", "1 second", since=at(20)),
        },
    )
    changes: dict[str, list[tuple[int, int]]] = {"a": [], "b": []}
    for event in run.events:
        if event["kind"] == "resize":
            what = event["what"]
            changes[what["stream"]].append((what["since"], what["after"]))
    assert [window for _, window in changes["b"]] == [6_000_000]
    assert changes["a"] == [(round(at(20).timestamp() * 1e6), 1_000_000)]
    resized = {name: tuple(found) for name, found in changes.items()}
    assert delivered(spark, tmp_path) == job.expected(resized)
    assert job.expected(resized) != job.expected()
    assert run.progress["streams"]["b"]["window"] == "6 seconds"


def test_changes_that_make_no_sense_are_refused(spark: SparkSession, tmp_path: Path) -> None:
    job = Changing(spark, tmp_path, feeds(8))

    def misuse(run: Run) -> None:
        with pytest.raises(ab.QueryError, match="there are auto, central"):
            run.switch("shuffle")
        with pytest.raises(ab.QueryError, match="no equality in this query spans"):
            run.switch("hash")
        with pytest.raises(ab.QueryError, match="there is no stream 'z', but a, b, c"):
            run.resize("z", "1 second")
        with pytest.raises(ab.QueryError, match="choose a later time"):
            run.resize("a", "1 second", since=START)
        with pytest.raises(ab.QueryError, match="whole number from 1"):
            run.rescale(0)

    run = job.run("atr", 2, {BATCHES - 1: misuse})
    with pytest.raises(ab.QueryError, match="the run is over"):
        run.switch("psp")


def test_a_request_outlives_a_crash(spark: SparkSession, tmp_path: Path) -> None:
    job = Changing(spark, tmp_path, feeds(9))

    def ask_and_fail(run: Run) -> None:
        run.resize("b", "7 seconds")
        raise RuntimeError("pulled the plug")

    with pytest.raises(Exception, match="pulled the plug"):
        job.run("ctr", 2, {2: ask_and_fail})
    run = job.run("ctr", 3, {})
    (resize,) = [event for event in run.events if event["kind"] == "resize"]
    resized = {"b": ((resize["what"]["since"], 7_000_000),)}
    assert delivered(spark, tmp_path) == job.expected(resized)


def test_rows_from_before_a_longer_window_keep_their_own_however_long_it_runs(
    spark: SparkSession, tmp_path: Path
) -> None:
    job = Changing(spark, tmp_path, in_order(10), lateness="0 seconds")
    run = job.run("atr", 2, {0: lambda run: run.resize("a", "20 seconds")})
    (resize,) = [event for event in run.events if event["kind"] == "resize"]
    resized = {"a": ((resize["what"]["since"], 20_000_000),)}
    assert delivered(spark, tmp_path) == job.expected(resized)


def test_a_batch_that_is_repeated_has_the_windows_that_it_had(
    spark: SparkSession, tmp_path: Path
) -> None:
    times = {"a": [0, 18, 40], "b": [0, 10, 30]}
    streams = [
        ab.stream(
            name,
            file_stream(spark, tmp_path / name, [table(KEYED, [(t, 1, t)]) for t in seconds]),
            time="ts",
            window="3 seconds",
        )
        for name, seconds in times.items()
    ]
    joined = ab.join(*streams).on("a.k = b.k").select("a.id AS a", "b.id AS b")
    taken: list[tuple[int, list[tuple[int, ...]]]] = []

    def sink(frame: DataFrame, batch: int) -> None:
        taken.append((batch, [tuple(row) for row in frame.collect()]))
        if [number for number, _ in taken].count(1) == 1 and batch == 1:
            raise RuntimeError("pulled the plug")

    options: dict[str, Any] = {
        "checkpoint": str(tmp_path / "checkpoint"),
        "trigger": "available now",
    }
    with pytest.raises(Exception, match="pulled the plug"):
        joined.start(sink, **options).await_termination()
    run = joined.start(sink, **options)
    run.resize("b", "20 seconds")  # before the repeated batch begins
    run.await_termination()
    assert taken == [(0, [(0, 0)]), (1, []), (1, []), (2, [(40, 30)])]
