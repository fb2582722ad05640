"""The answer is Spark's own: every case is compared with Spark's batch join of the same rows."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest
from pyspark.sql import DataFrame, SparkSession

import anabranch as ab
from anabranch.model.terms import Request
from anabranch.spark.builder import JoinQuery
from tests.fuzz.comparing import settings_of
from tests.fuzz.oracle import counted, spark_answer

ANSI_OFF = {"spark.sql.ansi.enabled": "false"}
ZURICH = {"spark.sql.session.timeZone": "Europe/Zurich"}


@dataclass(frozen=True)
class Case:
    """Rows of a and b as SQL literals, all at one time, and a term between them."""

    name: str
    term: str
    a: str
    b: str
    matches: bool | None = True
    """Whether any result is expected; None where only agreement counts."""
    settings: dict[str, str] = field(default_factory=dict)


CASES = [
    # An index code keeps 40 bits of a key.
    Case("keys whose codes are alike", "a.k = b.k", "(2090799856460215927L) AS t(k)",
         "(9108235421083095925L) AS t(k)", matches=False),
    Case("a doubled quote", "a.c = 'o''k' AND a.k = b.k", r"(1, 'o''k'), (1, 'ok') AS t(k, c)",
         "(1) AS t(k)"),
    Case("a doubled quote across streams", "concat(a.c, b.c) = 'o''k'", r"('o''') AS t(c)",
         "('k') AS t(c)"),
    Case("a band of decimals", "abs(a.d - b.d) <= 0.01", "(18708736.95BD) AS t(d)",
         "(18708736.96BD) AS t(d)"),
    Case("a band of large decimals", "abs(a.d - b.d) < 0.01",
         "(12345678901234567890123456789012.34BD) AS t(d)",
         "(12345678901234567890123456789012.34BD), "
         "(12345678901234567890123456789012.35BD) AS t(d)"),
    Case("a timestamp and one without zone", "a.t <=> b.u",
         "(TIMESTAMP'2026-01-01 10:00:00') AS t(t)", "(TIMESTAMP_NTZ'2026-01-01 10:00:00') AS t(u)",
         settings=ZURICH),
    Case("a timestamp and a date", "a.t = b.d OR a.t < b.d",
         "(TIMESTAMP'2026-01-01 00:00:00') AS t(t)", "(DATE'2026-01-01') AS t(d)", settings=ZURICH),
    Case("a day over a change of clocks", "a.t + INTERVAL 1 DAY = b.t",
         "(TIMESTAMP'2026-03-28 12:00:00') AS t(t)", "(TIMESTAMP'2026-03-29 12:00:00') AS t(t)",
         settings=ZURICH),
    Case("a day over a change of clocks, across streams", "a.t + b.i = b.t",
         "(TIMESTAMP'2026-03-28 12:00:00') AS t(t)",
         "(TIMESTAMP'2026-03-29 12:00:00', INTERVAL 1 DAY) AS t(t, i)", settings=ZURICH),
    *(
        Case(f"a collation and {sign}", f"a.c {sign} b.c", f"('{one}' COLLATE UTF8_LCASE) AS t(c)",
             f"('{other}' COLLATE UTF8_LCASE) AS t(c)", matches)
        for sign, one, other, matches in (
            ("=", "ABC", "abc", True), ("<>", "ABC", "abc", False), (">", "b", "A", True),
            ("<=>", "ABC", "abc", True),
        )
    ),
    Case("a collation in the text", "a.c COLLATE UNICODE_CI = b.c", "('ABC') AS t(c)",
         "('abc') AS t(c)"),
    Case("a collation in an expression over streams", "concat(a.c, b.c) COLLATE UNICODE_CI = 'AB'",
         "('a') AS t(c)", "('b') AS t(c)"),
    Case("bounds of two types", "a.c >= b.lo AND a.c <= b.hi", "('2'), ('11') AS t(c)",
         "(1, '3') AS t(lo, hi)", None),
    Case("a bigint between a bigint and a double", "a.k BETWEEN b.lo AND b.hi",
         "(9007199254740993L) AS t(k)", "(9007199254740993L, 9.1e15D) AS t(lo, hi)"),
    Case("a bigint just below its bound", "a.k >= b.lo AND a.k <= b.hi",
         "(9007199254740992L) AS t(k)", "(9007199254740993L, 9.1e15D) AS t(lo, hi)", matches=False),
    Case("a sum of floats", "a.f + b.f > 0.1", "(0.05F) AS t(f)", "(0.05F) AS t(f)", None),
    Case("a bigint and a float", "a.k <> b.f", "(16777217L) AS t(k)", "(16777216F) AS t(f)"),
    Case("a band of a bigint and a float", "abs(a.k - b.f) < 1", "(16777217L) AS t(k)",
         "(16777216F) AS t(f)", matches=False),
    Case("NaN in an array", "a.v = b.v", "(array(double('NaN'), 1D)) AS t(v)",
         "(array(double('NaN'), 1D)) AS t(v)"),
    Case("NaN in a struct", "a.v = b.v", "(named_struct('x', double('NaN'))) AS t(v)",
         "(named_struct('x', double('NaN'))) AS t(v)"),
    Case("negative zero in an array", "a.v = b.v", "(array(0D)) AS t(v)", "(array(-0D)) AS t(v)"),
    Case("a wide integer band", "abs(a.k - b.k) <= 9007199254740993", "(0L) AS t(k)",
         "(9007199254740993L), (9007199254740994L) AS t(k)"),
    Case("a band just below one", "abs(a.k - b.k) <= 0.99999999999999999999", "(5L) AS t(k)",
         "(5L), (6L) AS t(k)"),
    Case("bits by precedence", "a.n | a.m & b.n = 1", "(1, 2), (0, 1), (3, 1) AS t(n, m)",
         "(1), (2), (3) AS t(n)"),
    Case("a remainder by zero", "a.x % b.x > 0", "(1D) AS t(x)", "(0D) AS t(x)", matches=False,
         settings=ANSI_OFF),
    *(
        Case(f"a string and a {kind} without ANSI", "a.c = b.v", f"('{text}') AS t(c)",
             f"({value}) AS t(v)", settings=ANSI_OFF)
        for kind, text, value in (
            ("bigint", "01", "1L"), ("double", "1", "1D"), ("date", "2026-1-1", "DATE'2026-01-01'"),
            ("timestamp", "2026-1-1", "TIMESTAMP'2026-01-01'"),
        )
    ),
    Case("integers that wrap around without ANSI", "a.n + b.n < 0", "(2147483647) AS t(n)",
         "(1) AS t(n)", settings=ANSI_OFF),
    Case("a band that wraps around without ANSI", "abs(a.k - b.k) <= 2",
         "(9223372036854775807L) AS t(k)", "(-9223372036854775808L) AS t(k)", settings=ANSI_OFF),
    # Valid, and refused or crashed before.
    Case("CASE over two streams", "CASE WHEN a.n > b.n THEN a.n = 2 ELSE b.n = 5 END",
         "(1), (2) AS t(n)", "(1), (5) AS t(n)"),
    Case("a far date", "a.d <= b.d", "(DATE'9999-12-31'), (DATE'0001-01-01') AS t(d)",
         "(DATE'9999-12-31') AS t(d)"),
    Case("a far timestamp", "a.d <= b.d", "(TIMESTAMP'+294247-01-10 04:00:54') AS t(d)",
         "(TIMESTAMP'+294247-01-10 04:00:54') AS t(d)"),
    Case("a difference of dates", "a.d - b.d < INTERVAL '3' DAY", "(DATE'2026-01-02') AS t(d)",
         "(DATE'2026-01-01') AS t(d)"),
    Case("arrays in order", "a.v < b.v", "(array(1, 2)) AS t(v)", "(array(1, 3)) AS t(v)"),
    Case("structs in order", "a.v < b.v", "(named_struct('x', 1)) AS t(v)",
         "(named_struct('x', 2)) AS t(v)"),
    Case("an equality that is true", "a.k = b.k = true", "(1), (2) AS t(k)", "(1) AS t(k)"),
    Case("a lambda", "exists(a.v, x -> x = b.k)", "(array(1, 2)) AS t(v)", "(2) AS t(k)"),
    Case("structs made in the text", "struct(a.k, a.n) = struct(b.k, b.n)", "(1, 2) AS t(k, n)",
         "(1, 2) AS t(k, n)"),
    Case("intervals", "a.i = b.i", "(INTERVAL '25' HOUR) AS t(i)", "(INTERVAL '25' HOUR) AS t(i)"),
    Case("months", "a.i = b.i", "(INTERVAL '14' MONTH) AS t(i)", "(INTERVAL '14' MONTH) AS t(i)"),
    Case("a condition on nothing", "a.k = b.k AND 1 = 1", "(1) AS t(k)", "(1) AS t(k)"),
]  # fmt: skip


def values(spark: SparkSession, text: str) -> DataFrame:
    """Rows at one time, numbered by `id`."""
    rows = spark.sql(f"SELECT TIMESTAMP'2026-01-01 00:00:00' AS ts, * FROM VALUES {text}")  # noqa: S608 - of this file
    return rows.selectExpr("monotonically_increasing_id() AS id", "*").coalesce(1)


def joined(a: DataFrame, b: DataFrame, *terms: str | Request) -> JoinQuery:
    streams = [ab.stream(n, frame, time="ts", window="1 s") for n, frame in (("a", a), ("b", b))]
    return ab.join(*streams).on(*terms).select("a.id AS a", "b.id AS b")


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_term_means_what_it_means_in_spark(spark: SparkSession, case: Case) -> None:
    with settings_of(spark, case.settings):
        a, b = (values(spark, text).localCheckpoint() for text in (case.a, case.b))
        query = joined(a, b, case.term)
        expected = counted(spark_answer(query, [case.term], ["a.id AS a", "b.id AS b"]))
        assert case.matches is None or bool(expected) == case.matches, "or the case is not one"
        assert counted(query.to_df()) == expected


def test_a_checkpoint_is_of_the_settings_that_its_conditions_were_read_by(
    spark: SparkSession, tmp_path: Path
) -> None:
    checkpoint = str(tmp_path / "checkpoint")
    rows = values(spark, "(1) AS t(k)")

    def finish() -> None:
        run = joined(rows, rows, "a.k = b.k").start(
            ab.parquet_sink(str(tmp_path / "out")), checkpoint=checkpoint
        )
        run.await_termination()

    finish()
    with (
        settings_of(spark, ZURICH),
        pytest.raises(ab.CheckpointError, match="Europe/Zurich"),
    ):
        finish()


def test_integer_vectors_that_no_double_tells_apart_are_at_their_true_distance(
    spark: SparkSession,
) -> None:
    a = values(spark, "(array(9007199254740993L, 5L)) AS t(v)")
    b = values(spark, "(array(9007199254740992L, 5L)), (array(9007199254740993L, 5L)) AS t(v)")
    near = joined(a, b, ab.within("a.v", "b.v", distance=0.5)).to_df()
    assert near.count() == 1
    assert joined(a, b, ab.within("a.v", "b.v", distance=1)).to_df().count() == 2
