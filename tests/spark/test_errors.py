"""What a wrong query, a wrong function or a wrong checkpoint is told, and that nothing is lost."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest
from pyspark.sql import DataFrame, SparkSession

import anabranch as ab
from tests.streams import KEYED, counted, delivered, file_stream, finish, table


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    return spark.sql(
        "SELECT timestamp'2026-01-01' ts, 1L k, 'x' s, array(1.0D) v, array('p') tags, "
        "map('a', 1.0D) weights, 1.5D x"
    )


@pytest.fixture(scope="module")
def pair(frame: DataFrame) -> Any:
    return ab.join(*(ab.stream(name, frame, time="ts", window="1 second") for name in "ab"))


WRONG_TERMS: list[tuple[Any, str]] = [
    ("a.nope = b.k", "nope"),
    ("k = b.k", "which is of no stream: write stream.column, like a.k"),
    ("c.k = b.k", "streams: a, b"),
    ("a.k = ", "not a SQL expression"),
    ("a.k + b.k", "is not a condition"),
    ("sum(a.k) > b.k", "aggregate"),
    ("a.k IN (SELECT 1)", "subquery"),
    ("nosuchfunction(a.k, b.k)", "nosuchfunction"),
    ("1 = 1", "names no column"),
    (17, "is not a term"),
    (ab.equal("a.k", "a.k"), "two different streams"),
    (ab.band("a.s", "b.s", 1), "a band compares numbers"),
    (ab.within("a.k", "b.v", 1), "arrays of numbers"),
    (ab.cosine("a.weights", "b.v", 0.5), "two arrays of numbers, or two maps"),
    (ab.overlap("a.tags", "b.v", 1), "one type"),
    (ab.jaccard("a.k", "b.tags", 0.5), "compares arrays"),
]


@pytest.mark.parametrize(("term", "words"), WRONG_TERMS)
def test_a_wrong_term_is_refused_with_a_reason(pair: Any, term: Any, words: str) -> None:
    with pytest.raises(ab.QueryError) as refusal:
        pair.on(term)
    assert words in str(refusal.value)


WRONG_ARGUMENTS: list[tuple[Callable[[DataFrame], Any], str]] = [
    (lambda f: ab.stream("a", f, time="nope", window="1 second"), "there is no time column"),
    (lambda f: ab.stream("a", f, time="k", window="1 second"), "timestamp_seconds(k)"),
    (lambda f: ab.stream("a b", f, time="ts", window="1 second"), "letters, digits"),
    (lambda f: ab.stream("a", f, time="ts", window="soon"), "10 minutes"),
    (lambda f: ab.stream("a", f, time="ts", window="1 second", idle="0 seconds"), "idle is 0"),
    (lambda f: ab.join(ab.stream("a", f, time="ts", window="1 second")), "2 to 9 streams"),
    (lambda f: ab.join(*[ab.stream("a", f, time="ts", window="1 second")] * 2), "named a"),
    (lambda f: ab.join(cast("Any", f), cast("Any", f)), "made by ab.stream"),
    (lambda _: ab.overlap("a.tags", "b.tags", at_least=0), "at least 1"),
    (lambda _: ab.within("a.v", "b.v", distance=float("nan")), "write a finite number"),
    (lambda _: ab.match(print), "name the columns"),
]


@pytest.mark.parametrize(("wrong", "words"), WRONG_ARGUMENTS)
def test_a_wrong_argument_is_refused_with_a_reason(
    frame: DataFrame, wrong: Callable[[DataFrame], Any], words: str
) -> None:
    with pytest.raises(ab.QueryError) as refusal:
        wrong(frame)
    assert words in str(refusal.value)


def test_a_wrong_select_is_refused_with_a_reason(pair: Any) -> None:
    query = pair.on("a.k = b.k")
    for columns, words in {
        ("a.nope",): "nope",
        ("a.k", "b.k"): "more than once",
        ("a.k + 1",): "give it a name with AS",
        ("c.*",): "no stream c",
        (): "at least one column",
    }.items():
        with pytest.raises(ab.QueryError) as refusal:
            query.select(*columns)
        assert words in str(refusal.value)


def test_hash_is_refused_where_no_equality_spans_all_streams(pair: Any, tmp_path: Path) -> None:
    query = pair.on(ab.band("a.x", "b.x", 1))
    with pytest.raises(ab.QueryError, match="no equality in this query spans all streams"):
        query.start(print, checkpoint=str(tmp_path / "c"), strategy="hash")
    with pytest.raises(ab.QueryError, match="there are auto, central, hash"):
        query.explain(strategy="random")
    with pytest.raises(ab.QueryError, match="a whole number"):
        query.start(print, checkpoint=str(tmp_path / "c"), hosts=0)
    with pytest.raises(ab.QueryError, match="available now"):
        query.start(print, checkpoint=str(tmp_path / "c"), trigger="")
    with pytest.raises(ab.QueryError, match="a sink is"):
        query.start("out", checkpoint=str(tmp_path / "c"))
    assert not (tmp_path / "c").exists()


def live_pair(spark: SparkSession, home: Path) -> Any:
    batches = [table(KEYED, [(t, t, t)]) for t in range(3)]
    return ab.join(
        *(
            ab.stream(name, file_stream(spark, home / name, batches), time="ts", window="1 hour")
            for name in "ab"
        )
    )


def raising(left: Any, right: Any) -> Any:
    if (left >= 1).any():
        raise ValueError("one is too many")
    return left == right


def misshapen(left: Any, _right: Any) -> Any:
    return np.ones(len(left) + 1, np.bool_)


def counting(left: Any, right: Any) -> Any:
    return left + right


def test_after_a_failing_function_is_mended_the_same_checkpoint_goes_on(
    spark: SparkSession, tmp_path: Path
) -> None:
    joined = live_pair(spark, tmp_path)

    def run(function: Any) -> Any:
        function.__name__ = "same_key"
        query = joined.on(ab.match(function, "a.k", "b.k")).select("a.id AS a", "b.id AS b")
        return finish(query, tmp_path)

    given = "First rows it was given: [{'k': "
    for wrong, words, rows in (
        (raising, "it raised ValueError: one is too many", "The row is of a at 2026-01-01T00:00"),
        (misshapen, "it must return Booleans of shape", given),
        (counting, "it returned int64 values", given),
    ):
        with pytest.raises(ab.TermError) as failure:
            run(wrong)
        assert "match(same_key, a.k, b.k)" in str(failure.value)
        assert words in str(failure.value)
        assert rows in str(failure.value)
    mended = run(lambda left, right: left == right)
    assert mended.exception is None
    assert delivered(spark, tmp_path) == Counter([(0, 0), (1, 1), (2, 2)])


def test_a_failing_sink_fails_the_run_and_loses_nothing(
    spark: SparkSession, tmp_path: Path
) -> None:
    query = live_pair(spark, tmp_path).on("a.k = b.k").select("a.id AS a", "b.id AS b")

    def broken(_results: DataFrame, _batch: int) -> None:
        raise OSError("the disk is full")

    run = query.start(broken, checkpoint=str(tmp_path / "checkpoint"), trigger="available now")
    with pytest.raises(OSError, match="the disk is full"):
        run.await_termination()
    assert isinstance(run.exception, OSError)
    finish(query, tmp_path)
    assert delivered(spark, tmp_path) == Counter([(0, 0), (1, 1), (2, 2)])


def test_a_checkpoint_of_another_query_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    joined = live_pair(spark, tmp_path)
    finish(joined.on("a.k = b.k").select("a.id AS a"), tmp_path)
    with pytest.raises(ab.CheckpointError, match="belongs to another query"):
        finish(joined.on("a.k = b.k AND a.id > 5").select("a.id AS a"), tmp_path)
    # Readers of the output would see the columns of some of its batches only.
    with pytest.raises(ab.CheckpointError, match=r"columns: was \['a'\], is \['x'\]"):
        finish(joined.on("a.k = b.k").select("a.id AS x"), tmp_path)


def test_a_message_about_very_many_columns_keeps_its_beginning_and_its_end(
    spark: SparkSession,
) -> None:
    wide = spark.range(1).selectExpr(*(f"id AS column{n}" for n in range(300)))
    with pytest.raises(
        ab.QueryError, match=r"^stream a: there is no time.*column299\)$"
    ) as refusal:
        ab.stream("a", wide, time="ts", window="1 second")
    assert len(str(refusal.value)) < 1000


def test_a_foreign_directory_is_no_checkpoint(spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "checkpoint").mkdir()
    (tmp_path / "checkpoint" / "notes.txt").write_text("mine")
    with pytest.raises(ab.CheckpointError, match=r"not an Anabranch checkpoint.*notes\.txt"):
        finish(live_pair(spark, tmp_path).on("a.k = b.k").select("a.id AS a"), tmp_path)


def test_vectors_of_different_lengths_fail_the_run_by_name(spark: SparkSession) -> None:
    frames = [
        spark.sql(f"SELECT timestamp'2026-01-01' ts, array({values}) v")
        for values in ("1D, 2D", "1D, 2D, 3D")
    ]
    streams = [
        ab.stream(name, frame, time="ts", window="1 second")
        for name, frame in zip("ab", frames, strict=True)
    ]
    query = ab.join(*streams).on(ab.within("a.v", "b.v", distance=1)).select("a.ts")
    with pytest.raises(Exception, match=r"within\(a\.v, b\.v, distance=1\)"):
        query.to_df().collect()


def test_a_sink_that_takes_no_result_does_not_block_the_run(
    spark: SparkSession, tmp_path: Path
) -> None:
    query = live_pair(spark, tmp_path).on("a.k = b.k").select("a.id AS a")
    seen: list[int] = []
    run = query.start(
        lambda _, batch: seen.append(batch),
        checkpoint=str(tmp_path / "checkpoint"),
        trigger="available now",
    )
    run.await_termination()
    assert seen == [0, 1, 2]


def test_answers_may_be_counted_twice_in_one_sink(spark: SparkSession, tmp_path: Path) -> None:
    query = live_pair(spark, tmp_path).on("a.k = b.k").select("a.id AS a")
    totals: Counter[Any] = Counter()

    def twice(results: DataFrame, _batch: int) -> None:
        assert results.count() == results.count()
        totals.update(counted(results.toArrow()))

    query.start(
        twice, checkpoint=str(tmp_path / "checkpoint"), trigger="available now"
    ).await_termination()
    assert totals == Counter([(0,), (1,), (2,)])


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: ab.equal(None, "b.k"), "None is not a column"),  # type: ignore[arg-type] # wrong on purpose
        (lambda: ab.band("a.x", "", width=1), "'' is not a column"),
        (lambda: ab.inner_product("a.v", "b.v", at_least=float("inf")), "finite"),
        (lambda: ab.overlap("a.v", "b.v", at_least=float("inf")), "finite"),  # type: ignore[arg-type] # wrong on purpose
        (lambda: ab.within("a.v", "b.v", distance=float("nan")), "finite"),
    ],
)
def test_a_term_of_ours_says_what_it_takes(make: Any, words: str) -> None:
    with pytest.raises(ab.QueryError) as refusal:
        make()
    assert words in str(refusal.value)


@pytest.mark.parametrize("width", [np.float32(0.5), np.int64(1), Decimal("0.5"), 1])
def test_a_width_may_be_any_number(pair: Any, width: Any) -> None:
    pair.on(ab.band("a.x", "b.x", width=width))


@pytest.mark.parametrize("name", ["null", "true"])
def test_a_stream_cannot_have_a_name_that_means_something_else(
    spark: SparkSession, name: str
) -> None:
    frame = spark.sql("SELECT timestamp'2026-01-01' AS ts, 1 AS k")
    streams = [ab.stream(n, frame, time="ts", window="1 s") for n in (name, "b")]
    with pytest.raises(ab.QueryError, match=f"stream {name}: the name means something else"):
        ab.join(*streams).on(f"{name}.k = b.k")


def test_a_window_below_a_microsecond_and_a_pandas_frame_are_refused(spark: SparkSession) -> None:
    frame = spark.sql("SELECT timestamp'2026-01-01' AS ts, 1 AS k")
    with pytest.raises(ab.QueryError, match="shorter than a microsecond"):
        ab.stream("a", frame, time="ts", window="0.0000001 s")
    with pytest.raises(ab.QueryError, match=r"pandas.DataFrame is not a DataFrame of Spark's"):
        ab.stream("a", frame.toPandas(), time="ts", window="1 s")


def test_sets_with_a_collation_are_refused_and_the_advice_works(spark: SparkSession) -> None:
    frame = spark.sql(
        "SELECT timestamp'2026-01-01' AS ts, array('X', 'y') AS p, "
        "CAST(array('x', 'Y') AS ARRAY<STRING COLLATE UTF8_LCASE>) AS q"
    )
    a, b = (ab.stream(name, frame, time="ts", window="1 s") for name in "ab")
    with pytest.raises(ab.QueryError, match="have a collation"):
        ab.join(a, b).on(ab.overlap("a.q", "b.q", at_least=2))
    alike = "transform({}.q, tag -> CAST(lower(tag) AS STRING COLLATE UTF8_BINARY))"
    query = ab.join(a, b).on(ab.overlap(alike.format("a"), alike.format("b"), at_least=2))
    assert query.select("a.ts").to_df().count() == 1


def test_explain_names_what_spark_decides_and_on_how_much(pair: Any) -> None:
    text = pair.on("a.k = b.k", "a.s LIKE b.s").explain()
    assert "a.s LIKE b.s: decided by Spark, on combinations that the other terms leave" in text
    assert "since no other term narrows them" in pair.on("a.s LIKE b.s").explain()
