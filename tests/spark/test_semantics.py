"""The answer at its edges, on live streams: windows, disorder, late rows, nulls, duplicates."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession

import anabranch as ab
from anabranch.spark.builder import JoinQuery
from tests.streams import KEYED, at, counted, delivered, file_stream, finish, table

Batches = Sequence[Sequence[tuple[Any, ...]]]


def keyed(
    spark: SparkSession,
    home: Path,
    left: Batches,
    right: Batches,
    windows: tuple[str, str] = ("5 seconds", "5 seconds"),
    lateness: str = "0 seconds",
) -> JoinQuery:
    """Streams a and b of (seconds, key, id), joined on the key."""
    streams = [
        ab.stream(
            name,
            file_stream(spark, home / name, [table(KEYED, rows) for rows in batches]),
            time="ts",
            window=window,
            lateness=lateness,
        )
        for name, batches, window in (("a", left, windows[0]), ("b", right, windows[1]))
    ]
    return ab.join(*streams).on("a.k = b.k").select("a.id AS a", "b.id AS b")


@pytest.mark.parametrize("strategy", ["central", "hash"])
def test_a_row_exactly_as_old_as_its_window_still_joins(
    spark: SparkSession, tmp_path: Path, strategy: str
) -> None:
    left = [[(0, 1, 10), (100, 1, 11)]]
    right = [[(5, 1, 20), (5.000001, 1, 21), (97, 1, 22), (96.999999, 1, 23)]]
    query = keyed(spark, tmp_path, left, right, ("5 seconds", "3 seconds"))
    finish(query, tmp_path, strategy)
    assert delivered(spark, tmp_path) == Counter([(10, 20), (11, 22)])


def test_rows_meet_across_batches_and_in_one(spark: SparkSession, tmp_path: Path) -> None:
    left = [[(0, 1, 10)], [(2, 1, 11)], []]
    right = [[], [(1, 1, 20)], [(3, 1, 21)]]
    finish(keyed(spark, tmp_path, left, right), tmp_path)
    expected = Counter([(10, 20), (11, 20), (10, 21), (11, 21)])
    assert delivered(spark, tmp_path) == expected


@pytest.mark.parametrize("strategy", ["central", "hash", "psp"])
def test_keys_that_differ_in_one_bit_of_64_never_meet(
    spark: SparkSession, tmp_path: Path, strategy: str
) -> None:
    # The first two have the same code in the index, which keeps 40 bits of a mixed key.
    keys = [2090799856460215927, 9108235421083095925, 2**62, 2**62 + 1]
    rows = [[(0, key, number) for number, key in enumerate(keys)]]
    finish(keyed(spark, tmp_path, rows, rows), tmp_path, strategy)
    assert delivered(spark, tmp_path) == Counter((number, number) for number in range(len(keys)))


def test_equal_rows_are_distinct_tuples(spark: SparkSession, tmp_path: Path) -> None:
    left = [[(0, 1, 10), (0, 1, 10)]]
    right = [[(0, 1, 20)], [(0, 1, 20)]]
    finish(keyed(spark, tmp_path, left, right), tmp_path)
    assert delivered(spark, tmp_path) == Counter({(10, 20): 4})


def test_a_null_key_matches_nothing_and_is_counted(spark: SparkSession, tmp_path: Path) -> None:
    run = finish(keyed(spark, tmp_path, [[(0, None, 10)]], [[(0, None, 20)]]), tmp_path)
    assert not delivered(spark, tmp_path)
    assert run.progress["streams"]["a"]["null_key"] == 1
    assert "null matches nothing" in run.diagnose().sentence


def test_rows_behind_the_watermark_are_counted_and_kept_aside(
    spark: SparkSession, tmp_path: Path
) -> None:
    left: Batches = [[(100, 1, 10)], [(97, 1, 11), (98, 1, 12), (None, 1, 13)]]
    right = [[(100, 1, 20)], [(101, 1, 21)]]
    query = keyed(spark, tmp_path, left, right, lateness="2 seconds")
    run = finish(query, tmp_path, late=ab.parquet_sink(str(tmp_path / "late")))
    expected = Counter([(10, 20), (10, 21), (12, 20), (12, 21)])
    assert delivered(spark, tmp_path) == expected
    late = spark.read.parquet(str(tmp_path / "late")).select("stream", "reason", "time", "a.*")
    rows = {(r["stream"], r["reason"], r["id"]) for r in late.collect()}
    assert rows == {("a", "late", 11), ("a", "null time", 13)}
    counts = run.progress["streams"]["a"]
    assert (counts["arrived"], counts["late"], counts["null_time"]) == (4, 1, 1)


def test_state_that_no_future_row_can_meet_is_dropped(spark: SparkSession, tmp_path: Path) -> None:
    batches = [[(10 * batch, batch, batch)] for batch in range(6)]
    run = finish(keyed(spark, tmp_path, batches, batches), tmp_path)
    assert delivered(spark, tmp_path) == Counter((b, b) for b in range(6))
    assert run.progress["state_rows"] == 2
    assert len(list((tmp_path / "checkpoint" / "segments").rglob("*.seg"))) == 2


def test_an_empty_stream_gives_no_result_and_says_so(spark: SparkSession, tmp_path: Path) -> None:
    run = finish(keyed(spark, tmp_path, [[(0, 1, 10)]], [[]]), tmp_path)
    assert not delivered(spark, tmp_path)
    assert run.diagnose().sentence.startswith("No row has arrived on b")


def test_a_stream_joins_itself(spark: SparkSession, tmp_path: Path) -> None:
    rows = [[(0, 1, 10), (1, 1, 11)], [(2, 1, 12)]]
    frame = file_stream(spark, tmp_path / "in", [table(KEYED, batch) for batch in rows])
    first = ab.stream("first", frame, time="ts", window="1 second")
    second = ab.stream("second", frame, time="ts", window="1 second")
    query = (
        ab.join(first, second)
        .on("first.k = second.k AND first.id < second.id")
        .select("first.id AS a", "second.id AS b")
    )
    finish(query, tmp_path)
    assert delivered(spark, tmp_path) == Counter([(10, 11), (11, 12)])


def test_a_static_input_joins_a_stream(spark: SparkSession, tmp_path: Path) -> None:
    live = file_stream(spark, tmp_path / "in", [table(KEYED, [(t, 1, t)]) for t in range(3)])
    known = spark.createDataFrame(table(KEYED, [(0, 1, 10), (2, 1, 12)]))
    query = (
        ab.join(
            ab.stream("live", live, time="ts", window="1 hour"),
            ab.stream("known", known, time="ts", window="0 seconds"),
        )
        .on("live.k = known.k")
        .select("live.id AS a", "known.id AS b")
    )
    finish(query, tmp_path)
    assert delivered(spark, tmp_path) == Counter([(0, 10), (0, 12), (1, 12), (2, 12)])


def test_start_over_static_inputs_delivers_and_ends(spark: SparkSession, tmp_path: Path) -> None:
    frames = [spark.createDataFrame(table(KEYED, [(0, 1, i)])) for i in (10, 20)]
    streams = [
        ab.stream(name, frame, time="ts", window="1 second")
        for name, frame in zip("ab", frames, strict=True)
    ]
    query = ab.join(*streams).on("a.k = b.k").select("a.id AS a", "b.id AS b")
    run = finish(query, tmp_path)
    assert delivered(spark, tmp_path) == Counter([(10, 20)])
    assert not run.is_active
    assert run.exception is None


def test_columns_of_every_type_pass_through_unchanged(spark: SparkSession) -> None:
    rows = spark.sql(
        """SELECT timestamp'2026-01-01 00:00:00' ts, 1 k, 'text' s, cast(1.25 as decimal(20,5)) d,
           date'2026-02-03' day, timestamp_ntz'2026-01-01 01:02:03' ntz, array(1, null, 3) numbers,
           map('a', 1.5D) weights, named_struct('x', 1, 'y', array('p')) nested,
           unhex('00FF') bytes, true flag, cast(null as string) nothing, 1.5F small,
           cast(7 as tinyint) tiny, array(map('k', named_struct('z', 1L))) deep,
           interval '1' day span"""
    )
    streams = [ab.stream(name, rows, time="ts", window="1 second") for name in "ab"]
    joined = ab.join(*streams).on("a.k = b.k").select("a.*").to_df()
    assert joined.schema.simpleString() == rows.schema.simpleString()
    assert joined.collect() == rows.collect()


def test_nine_streams_join(spark: SparkSession) -> None:
    frame = spark.createDataFrame(table(KEYED, [(0, 1, 1), (0, 2, 2), (0, 3, 3)]))
    names = [f"s{i}" for i in range(9)]
    streams = [ab.stream(name, frame, time="ts", window="1 second") for name in names]
    equalities = [f"s0.k = {name}.k" for name in names[1:]]
    query = ab.join(*streams).on(*equalities).select("s0.id AS first", "s8.id AS last")
    for strategy in ("central", "hash"):
        assert counted(query.to_df(strategy).toArrow()) == Counter([(1, 1), (2, 2), (3, 3)])


def test_a_select_may_compute_over_several_streams(spark: SparkSession) -> None:
    frame = spark.createDataFrame(table(KEYED, [(0, 1, 10)]))
    streams = [ab.stream(name, frame, time="ts", window="1 second") for name in "ab"]
    query = ab.join(*streams).on("a.k = b.k").select("a.id + b.id AS sum", "upper('x') || a.k AS c")
    assert counted(query.to_df().toArrow()) == Counter([(20, "X1")])


def test_without_a_select_every_column_comes_under_its_streams_name(spark: SparkSession) -> None:
    frame = spark.createDataFrame(table(KEYED, [(0, 1, 10)]))
    streams = [ab.stream(name, frame, time="ts", window="1 second") for name in "ab"]
    joined = ab.join(*streams).on("a.k = b.k").to_df()
    assert joined.columns == ["a_ts", "a_k", "a_id", "b_ts", "b_k", "b_id"]


def test_a_million_rows_in_one_batch(spark: SparkSession) -> None:
    rows = spark.range(1_000_000).selectExpr(
        "timestamp_micros(1767225600000000 + id) AS ts", "id % 500000 AS k", "id"
    )
    streams = [ab.stream(name, rows, time="ts", window="1 hour") for name in "ab"]
    query = ab.join(*streams).on("a.k = b.k AND a.id <= b.id").select("a.id AS a")
    assert query.to_df().count() == 1_500_000


def test_time_columns_of_other_types_are_taken(spark: SparkSession) -> None:
    schema = {"ts": pa.timestamp("us"), "k": pa.int64()}
    frame = spark.createDataFrame(table(schema, [(at(0).replace(tzinfo=None), 1)]))
    days = spark.sql("SELECT date'2026-01-01' ts, 1L k")
    streams = [
        ab.stream("a", frame, time="ts", window="1 second"),
        ab.stream("b", days, time="TS", window="1 second"),
    ]
    assert ab.join(*streams).on("a.k = b.k").select("a.k").to_df().count() == 1
