"""SQL means what Spark means by it: the same text, in our join and in Spark's own."""

from __future__ import annotations

import random

import pytest
import sqlglot
from pyspark.errors import AnalysisException, ParseException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from sqlglot import exp

import anabranch as ab
from anabranch.model.sql import DIALECT
from tests.streams import Answer, counted

TS = "timestamp'2026-01-01' ts"


def ours_and_sparks(spark: SparkSession, left: str, right: str, term: str) -> tuple[Answer, Answer]:
    """The answer to a term over two tables of one moment: by our join, and by Spark's."""
    frames = {"a": spark.sql(left), "b": spark.sql(right)}
    streams = [
        ab.stream(name, frame.withColumn("ts", F.expr(TS)), time="ts", window="1 second")
        for name, frame in frames.items()
    ]
    query = ab.join(*streams).on(term).select("a.id AS a", "b.id AS b")
    sparks = (
        frames["a"].alias("a").join(frames["b"].alias("b"), F.expr(term)).select("a.id", "b.id")
    )
    return counted(query.to_df().toArrow()), counted(sparks.toDF("a", "b").toArrow())


@pytest.mark.parametrize(
    "term",
    [
        "a.c = 'o''k' AND a.id <= b.id",
        "concat(a.c, b.c) = 'o''ko''k'",
        """concat(a.c, b.c) IN ("o""k", "it''s", 'o' 'k')""",
    ],
)
def test_a_doubled_quote_is_a_quote(spark: SparkSession, term: str) -> None:
    words = (
        """SELECT * FROM VALUES (1, "o'k"), (2, 'ok'), (3, 'o"k'), (4, "it''s"), (5, '') t(id, c)"""
    )
    ours, sparks = ours_and_sparks(spark, words, words, term)
    assert ours == sparks
    assert sparks


@pytest.mark.parametrize(
    "term",
    [
        "a.n | a.m & b.n = 1",
        "a.n & b.m ^ b.n = 2",
        "a.n ^ b.n << 1 > a.m",
        "a.s || b.n + 1 = 12",
        "a.n = b.n < a.t",
        "a.n = b.n = true",
        "a.n = b.n IS NULL",
    ],
)
def test_operators_bind_as_in_spark(spark: SparkSession, term: str) -> None:
    left = "SELECT id, id % 4 n, id % 3 m, '1' s, id > 3 t FROM range(8)"
    right = "SELECT id, id % 4 n, id % 3 m FROM range(6) UNION SELECT 9, NULL, 1"
    ours, sparks = ours_and_sparks(spark, left, right, term)
    assert ours == sparks
    assert sparks


OPERATORS = (*"+-*/%&^|=<", "DIV", "||", "<>", "<=", ">=", "<=>", "AND", "OR")
ENDS = ["", "", "", " IS NULL", " IN (1, 2)", " NOT BETWEEN 1 AND 2", " LIKE 'x'"]


OPERATOR = exp.Binary | exp.Unary | exp.Between | exp.In


def explicit(node: exp.Expr) -> exp.Expr:
    """A copy with every operand in parentheses: it shows how the text was read."""
    copied = node.copy()
    for part in reversed(list(copied.walk())):
        inner = isinstance(part, OPERATOR) and isinstance(part.parent, OPERATOR)
        if inner and not isinstance(part.parent, exp.Paren):
            part.replace(exp.Paren(this=part.copy()))
    return copied


def test_drawn_expressions_are_parsed_into_sparks_tree(spark: SparkSession) -> None:
    chance = random.Random(seed := random.randrange(10**6))
    frame = spark.sql("SELECT named_struct('p', 1L, 'q', 2L, 'r', 3L, 't', true, 'u', false) a")

    def tree(text: str) -> str:
        """An expression as Spark names its column: with all parentheses."""
        return frame.select(F.expr(text)).columns[0].lower()

    parsed = 0
    while parsed < 60:
        text = f"a.{chance.choice('pqr')}"
        for operator in chance.sample(OPERATORS, 3):
            text += f" {operator} {chance.choice(['', '', '-', '~'])}a.{chance.choice('pqrtu')}"
        text += chance.choice(ENDS)
        try:
            wanted = tree(text)
        except (AnalysisException, ParseException):
            continue
        ours = explicit(sqlglot.parse_one(text, read=DIALECT))
        assert tree(ours.sql(dialect=DIALECT)) == wanted, f"{text} (seed {seed})"
        parsed += 1


@pytest.mark.parametrize(
    "term",
    [
        "a.x % b.x >= 0",
        "a.x % (b.n % 3) >= 0",
        "NOT a.x % b.x < 1",
        "mod(a.x, b.x) IS NULL AND a.id > 0",
        "a.n % b.n = 0",
        "a.x / b.x > 0",
        "NOT a.n / b.n < 1",
    ],
)
def test_a_remainder_of_a_division_by_zero_is_null_where_spark_raises_no_error(
    spark: SparkSession, term: str
) -> None:
    rows = (
        "SELECT id, x, CAST(n AS BIGINT) n FROM VALUES "
        "(0, 5.5D, 3), (1, 0.0D, 0), (2, -0.0D, -2), (3, -2.5D, NULL), (4, NULL, 7), "
        "(5, double('NaN'), 1), (6, double('Infinity'), 5) t(id, x, n)"
    )
    spark.conf.set("spark.sql.ansi.enabled", "false")
    try:
        ours, sparks = ours_and_sparks(spark, rows, rows, term)
    finally:
        spark.conf.unset("spark.sql.ansi.enabled")
    assert ours == sparks
    assert sparks
