"""A stop ends a run between two batches, or cuts off one that takes long; it is never a failure."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import anabranch as ab
from anabranch.spark import run as running
from anabranch.spark.builder import JoinQuery
from tests.streams import KEYED, Answer, counted, delivered, file_stream, finish, table

ANSWER = Counter({(number, number): 1 for number in range(4)})


def live_pair(spark: SparkSession, home: Path) -> JoinQuery:
    """Four batches, each of them with one match."""
    batches = [table(KEYED, [(number, number, number)]) for number in range(4)]
    a, b = (
        ab.stream(name, file_stream(spark, home / name, batches), time="ts", window="1 minute")
        for name in "ab"
    )
    return ab.join(a, b).on("a.k = b.k").select("a.id AS a", "b.id AS b")


def dawdle(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    time.sleep(600)
    yield from batches


def test_a_stop_lets_the_batch_under_way_come_to_its_end(
    spark: SparkSession, tmp_path: Path
) -> None:
    begun, stopping = threading.Event(), threading.Event()
    taken: Answer = Counter()

    def sink(frame: DataFrame, _batch: int) -> None:
        begun.set()
        stopping.wait(60)
        taken.update(counted(frame.toArrow()))

    query = live_pair(spark, tmp_path)
    run = query.start(sink, checkpoint=str(tmp_path / "checkpoint"), trigger="0 seconds")
    assert begun.wait(60)
    stopper = threading.Thread(target=run.stop)
    stopper.start()
    while not run._stopping.is_set():
        time.sleep(0.01)
    stopping.set()
    stopper.join(60)
    assert (run.is_active, run.exception, run.progress["batches"]) == (False, None, 1)
    assert taken == Counter({(0, 0): 1})
    query.start(
        sink, checkpoint=str(tmp_path / "checkpoint"), trigger="available now"
    ).await_termination()
    assert taken == ANSWER


def test_a_stop_cuts_off_a_batch_that_takes_long_and_commits_nothing_of_it(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(running, "GRACE_SECONDS", 0.5)
    begun = threading.Event()

    def sink(frame: DataFrame, _batch: int) -> None:
        begun.set()
        frame.mapInArrow(dawdle, frame.schema).collect()

    query = live_pair(spark, tmp_path)
    run = query.start(sink, checkpoint=str(tmp_path / "checkpoint"), trigger="0 seconds")
    assert begun.wait(60)
    started = time.monotonic()
    run.stop()
    assert time.monotonic() - started < 30
    assert (run.is_active, run.exception, run.progress["batches"]) == (False, None, 0)
    finish(query, tmp_path)
    assert delivered(spark, tmp_path) == ANSWER
