"""Rows that a term or an expression cannot handle: set aside once each, or named by the error."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import anabranch as ab
from anabranch.spark.builder import JoinQuery
from tests.streams import TS, Answer, counted, delivered, file_stream, finish, table

ROWS = {
    "ts": TS,
    "k": pa.int64(),
    "id": pa.int64(),
    "x": pa.float64(),
    "text": pa.string(),
    "v": pa.list_(pa.float64()),
    "note": pa.string(),
}
STRATEGIES: dict[str, Any] = {
    "central": "central",
    "hash": "hash",
    "atr": ab.Atr(segment="2 seconds"),
    "ctr": ab.Ctr(segment="2 seconds", hop=0.0),
    "psp": ab.Psp(hop=0.0),
}
BATCHES, SIZE = 3, 6
BAD = {"a": {7}, "b": {2, 14}, "c": set[int]()}
"""The ids of the rows that are at fault: in three batches of six rows each."""


def rows(stream: str, bad: frozenset[int] | set[int]) -> list[list[tuple[Any, ...]]]:
    """Three batches of six rows a second apart. A row at fault is so in all of its columns."""
    batches = []
    for batch in range(BATCHES):
        ids = range(batch * SIZE, (batch + 1) * SIZE)
        batches.append(
            [
                (
                    i,
                    i % 3,
                    i,
                    -1.0 if i in bad else float(i % 3),
                    "many" if i in bad else str(i % 3),
                    [1.0, 2.0, 3.0] if i in bad else [float(i % 3), 0.0],
                    f"{stream}{i}",
                )
                for i in ids
            ]
        )
    return batches


def checked(left: Any, right: Any) -> Any:
    if (left < 0).any() or (right < 0).any():
        raise ValueError("no x is negative")
    return left == right


TERMS: dict[str, tuple[tuple[Any, ...], str, str]] = {
    "vectors": (
        (ab.within("a.v", "b.v", 0.5), ab.within("b.v", "c.v", 0.5)),
        "join",
        "vectors of",
    ),
    "function": (
        (ab.match(checked, "a.x", "b.x"), ab.match(checked, "b.x", "c.x")),
        "join",
        "it raised ValueError: no x is negative",
    ),
    "cast": (
        ("CAST(a.text AS INT) = CAST(b.text AS INT)", "CAST(b.text AS INT) = CAST(c.text AS INT)"),
        "ingest",
        "CAST(b.text AS INT) cannot be evaluated where text=many",
    ),
}


def joined(spark: SparkSession, home: Path, terms: Sequence[Any], bad: Any = None) -> JoinQuery:
    streams = [
        ab.stream(
            name,
            file_stream(
                spark,
                home / name,
                [table(ROWS, batch) for batch in rows(name, (bad or BAD)[name])],
            ),
            time="ts",
            window="1 hour",
        )
        for name in "abc"
    ]
    return ab.join(*streams).on(*terms).select("a.id AS a", "b.id AS b", "c.id AS c")


def expected() -> Answer:
    """All combinations of good rows whose ids are equal modulo 3."""
    good = {name: [i for i in range(BATCHES * SIZE) if i not in BAD[name]] for name in "abc"}
    return Counter(
        (a, b, c)
        for a in good["a"]
        for b in good["b"]
        for c in good["c"]
        if a % 3 == b % 3 == c % 3
    )


def set_aside(spark: SparkSession, home: Path) -> list[dict[str, Any]]:
    rows = spark.read.parquet(str(home / "dead")).toArrow().to_pylist()
    return sorted(rows, key=lambda row: (row["stream"], row["time"]))


SHORT = {("vectors", "psp"), ("function", "ctr"), ("cast", "central")}
CASES = [
    pytest.param(term, strategy, marks=[] if (term, strategy) in SHORT else [pytest.mark.long])
    for term in TERMS
    for strategy in STRATEGIES
    if strategy != "hash"
]


@pytest.mark.parametrize(("term", "strategy"), CASES)
def test_rows_at_fault_are_set_aside_once_and_the_others_give_the_whole_answer(
    spark: SparkSession, tmp_path: Path, term: str, strategy: str
) -> None:
    terms, stage, reason = TERMS[term]
    query = joined(spark, tmp_path, terms)
    dead = ab.parquet_sink(str(tmp_path / "dead"))
    run = finish(query, tmp_path, STRATEGIES[strategy], dead=dead, hosts=3)
    assert delivered(spark, tmp_path) == expected()
    told = set_aside(spark, tmp_path)
    assert [(row["stream"], row[row["stream"]]["id"], row["batch"]) for row in told] == [
        ("a", 7, 1), ("b", 2, 0), ("b", 14, 2),
    ]  # fmt: skip
    assert {row["stage"] for row in told} == {stage}
    # A row that fails on arrival is shown whole, one that fails later as it was stored.
    assert told[1]["b"]["note"] == ("b2" if stage == "ingest" else None)
    assert told[1]["a"] is None
    assert reason in told[1]["reason"]
    counts = {name: stream["dead"] for name, stream in run.progress["streams"].items()}
    assert counts == {"a": 1, "b": 2, "c": 0}
    assert "set aside 2" in str(run.diagnose())


@pytest.mark.parametrize("term", TERMS)
def test_without_a_sink_for_it_the_run_stops_and_the_error_names_the_row(
    spark: SparkSession, tmp_path: Path, term: str
) -> None:
    terms, _, reason = TERMS[term]
    query = joined(spark, tmp_path, terms)
    with pytest.raises(ab.TermError) as failure:
        finish(query, tmp_path, "central")
    text = str(failure.value)
    assert reason in text
    assert "The row is of b at 2026-01-01T00:00:02.000000Z (" in text
    assert "start(dead=…)" in text
    assert len(text) <= 1000


def test_a_key_that_spans_all_streams_changes_nothing(spark: SparkSession, tmp_path: Path) -> None:
    terms = ("a.k = b.k", "b.k = c.k", *TERMS["function"][0])
    dead = ab.parquet_sink(str(tmp_path / "dead"))
    finish(joined(spark, tmp_path, terms), tmp_path, "hash", dead=dead, hosts=2)
    assert delivered(spark, tmp_path) == expected()
    assert [(row["stream"], row["time"].second) for row in set_aside(spark, tmp_path)] == [
        ("a", 7), ("b", 2), ("b", 14),
    ]  # fmt: skip


def test_delivery_that_fails_is_repeated_with_the_same_rows(
    spark: SparkSession, tmp_path: Path
) -> None:
    query = joined(spark, tmp_path, TERMS["function"][0])
    taken: list[tuple[int, Answer]] = []

    def fragile(frame: DataFrame, batch: int) -> None:
        taken.append((batch, counted(frame.select("stream", "batch", "time").toArrow())))
        if len(taken) in (1, 3):
            raise OSError("the disk is full")

    for _ in range(2):
        with pytest.raises(OSError, match="the disk is full"):
            finish(query, tmp_path, STRATEGIES["psp"], dead=fragile, hosts=2)
    with pytest.raises(ab.CheckpointError, match="start with dead=… as before"):
        finish(query, tmp_path, "central")
    finish(query, tmp_path, "central", dead=fragile)
    assert [batch for batch, _ in taken] == [0, 0, 1, 1, 2]
    assert taken[0] == taken[1]
    assert taken[2] == taken[3]
    assert sum(sum(rows.values()) for _, rows in taken[1::2]) + taken[4][1].total() == 3
    assert delivered(spark, tmp_path) == expected()


def test_a_condition_on_one_stream_may_fail_too_and_what_it_drops_is_not_looked_at(
    spark: SparkSession, tmp_path: Path
) -> None:
    terms = (
        "a.text <> 'many'",  # so the cast below never sees it
        "CAST(a.text AS INT) = CAST(b.x AS INT)",
        "100 / (b.x + 1) > 0",  # of a bad row, x is -1
        "b.x = c.x",
    )
    dead = ab.parquet_sink(str(tmp_path / "dead"))
    run = finish(joined(spark, tmp_path, terms), tmp_path, "central", dead=dead)
    told = set_aside(spark, tmp_path)
    assert [(row["stream"], row["b"]["id"]) for row in told] == [("b", 2), ("b", 14)]
    assert "100 / (b.x + 1) > 0" in told[0]["reason"]
    assert delivered(spark, tmp_path) == expected()
    assert run.progress["streams"]["a"]["filtered"] == 1
    assert run.progress["streams"]["a"]["dead"] == 0


def test_a_result_that_the_select_fails_on_stops_the_run_and_is_named(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Also with a sink for rows at fault: a result is no row of a stream."""
    query = joined(spark, tmp_path, ("a.k = b.k", "b.k = c.k"))
    query = query.select("a.id / (b.id - c.id) AS share", "a.id AS a")
    dead = ab.parquet_sink(str(tmp_path / "dead"))
    with pytest.raises(ab.TermError) as failure:
        finish(query, tmp_path, "central", dead=dead)
    text = str(failure.value)
    assert "a.id / (b.id - c.id) cannot be evaluated on the result with a.id=" in text
    assert len(text) <= 1000


def test_rows_that_are_late_are_late_and_not_at_fault(spark: SparkSession, tmp_path: Path) -> None:
    batches = {
        "a": [[(100, "1")], [(3, "many"), (101, "2")]],
        "b": [[(100, "1")], [(101, "2")]],
    }
    kinds = {"ts": TS, "text": pa.string()}
    streams = [
        ab.stream(
            name,
            file_stream(spark, tmp_path / name, [table(kinds, batch) for batch in batches[name]]),
            time="ts",
            window="1 second",
        )
        for name in "ab"
    ]
    query = ab.join(*streams).on("CAST(a.text AS INT) = b.text").select("a.text AS a")
    late, dead = (ab.parquet_sink(str(tmp_path / name)) for name in ("late", "dead"))
    run = finish(query, tmp_path, late=late, dead=dead)
    assert run.progress["streams"]["a"]["late"] == 1
    assert run.progress["streams"]["a"]["dead"] == 0
    assert spark.read.parquet(str(tmp_path / "late")).count() == 1
    assert not list((tmp_path / "dead").glob("batch=*"))
    assert delivered(spark, tmp_path) == Counter([("1",), ("2",)])


def test_a_sink_for_rows_at_fault_is_checked_like_the_others(
    spark: SparkSession, tmp_path: Path
) -> None:
    query = joined(spark, tmp_path, TERMS["function"][0])
    with pytest.raises(ab.QueryError, match="a sink is"):
        query.start(print, checkpoint=str(tmp_path / "c"), dead="dead")  # type: ignore[arg-type]  # wrong on purpose


@pytest.mark.long
def test_segments_that_are_merged_lose_their_rows_at_fault_all_the_same(
    spark: SparkSession, tmp_path: Path
) -> None:
    """A row is found at fault long after it came, in a batch that would merge its segment."""
    home = tmp_path
    left = [[(2 * b, 2.0 * b), (2 * b + 1, 2.0 * b + 1)] for b in range(10)]
    other = [30.0 if b == 8 else 5.0 for b in range(10)]  # eight segments are merged in batch 8
    right = [[(2 * b, other[b]), (2 * b + 1, other[b])] for b in range(10)]
    kinds = {"ts": TS, "x": pa.float64()}
    streams = [
        ab.stream(
            name,
            file_stream(spark, home / name, [table(kinds, batch) for batch in batches]),
            time="ts",
            window="1 hour",
        )
        for name, batches in (("a", left), ("b", right))
    ]
    query = ab.join(*streams).on(ab.match(touchy, "a.x", "b.x")).select("a.x AS a", "b.x AS b")
    dead = ab.parquet_sink(str(home / "dead"))
    run = finish(query, home, "central", dead=dead)
    told = set_aside(spark, home)
    assert [(row["stream"], row["a"]["x"], row["batch"]) for row in told] == [("a", 3.0, 8)]
    assert run.progress["streams"]["a"]["live"] == 19
    there = list((home / "checkpoint" / "segments").rglob("*.seg"))
    assert len(there) == run.progress["segments"] < 8


def touchy(left: Any, right: Any) -> Any:
    """Cannot handle 3.0 once it meets a large number."""
    if ((left == 3.0) & (right > 20)).any():
        raise ValueError("three is not for large numbers")
    return np.asarray(left == right)
