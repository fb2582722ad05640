"""Expressions that fail on some rows are found out, however Spark arranges their evaluation."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import DataFrame, SparkSession

import anabranch as ab
from anabranch.spark.builder import JoinQuery
from anabranch.spark.envelope import Envelope, tagged_union
from tests.streams import at

ROWS = [(0, "7"), (1, "one"), (0, "none"), (5, "5"), (9, "many")]
"""Of id 0 to 4; texts that are no numbers have the ids 1, 2 and 4, and n is 0 for 0 and 2."""


@pytest.fixture(scope="module")
def frame(spark: SparkSession) -> DataFrame:
    rows = [(at(i), i, n, text) for i, (n, text) in enumerate(ROWS)]
    return spark.createDataFrame(rows, "ts TIMESTAMP, id INT, n INT, text STRING").coalesce(1)


@pytest.fixture(params=["compiled", "interpreted"])
def way(spark: SparkSession, request: pytest.FixtureRequest) -> Iterator[str]:
    """Spark generates code for plans, or evaluates them as they are."""
    settings = {
        "spark.sql.codegen.wholeStage": "true",
        "spark.sql.codegen.factoryMode": "CODEGEN_ONLY",
    }
    if request.param == "interpreted":
        settings = dict(zip(settings, ("false", "NO_CODEGEN"), strict=True))
    before = {name: str(spark.conf.get(name)) for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    yield request.param
    for name, value in before.items():
        spark.conf.set(name, value)


def joined(frame: DataFrame, *terms: str) -> JoinQuery:
    streams = [ab.stream(name, frame, time="ts", window="1 hour") for name in "ab"]
    return ab.join(*streams).on(*terms).select("a.id AS a", "b.id AS b")


def packed(query: JoinQuery) -> DataFrame:
    compiled = query.compiled.query
    union = tagged_union(compiled, Envelope.of(compiled), query.inputs, streaming=False)
    assert union is not None
    return union.filter("stream = 0")


def told(query: JoinQuery) -> list[str | None]:
    """What is said of each row of `a`, in their order: what fails, that it is dropped, or None."""
    rows = packed(query).collect()
    for row in rows:
        if "keep" in row:
            assert row["keep"] == (row["#fault"] != "")
    return [fault and fault.split(" cannot")[0] for fault in (row["#fault"] for row in rows)]


CAST = "CAST(a.text AS INT)"
IN_MAP = "MAP('k', CAST(a.text AS INT))['k']"
IF = "IF(a.text = 'many', RAISE_ERROR('no'), a.n)"
WHEN = "CASE WHEN a.n > 4 THEN CAST(a.text AS INT) ELSE 0 END < 6"
KEEP = "COALESCE((CAST(a.text AS INT) > 0), FALSE)"
CASES: dict[tuple[str, ...], list[str | None]] = {
    (f"{CAST} = b.id",): [None, CAST, CAST, None, CAST],
    # The same part in several operands, in a condition, and in both.
    (f"{CAST} = b.id", f"{CAST} + a.n > b.n"): [None, CAST, CAST, None, CAST],
    ("a.id = b.id", f"{CAST} > 0"): [None, KEEP, KEEP, None, KEEP],
    (f"{CAST} = b.id", f"{CAST} > 0"): [None, KEEP, KEEP, None, KEEP],
    # What a condition drops does not fail after it, nor in the rest of it.
    (f"{CAST} = b.id", "a.n > 0"): ["", CAST, "", None, CAST],
    ("a.id = b.id", "a.n > 0 AND 10 / a.n > 1.5"): ["", None, "", None, ""],
    ("a.id = b.id", "a.n > 0", WHEN): [
        "", None, "", None, f"COALESCE((a.n > 0) AND ({WHEN}), FALSE)",
    ],
    (f"{IN_MAP} = b.id",): [None, IN_MAP, IN_MAP, None, IN_MAP],
    (f"{IF} = b.n",): [None, None, None, None, IF],
}  # fmt: skip


@pytest.mark.parametrize("terms", CASES)
def test_each_row_that_fails_says_in_what(frame: DataFrame, way: str, terms: tuple[str]) -> None:
    found = told(joined(frame, *terms))
    expected = CASES[terms]
    assert [f and f.lower() for f in found] == [e and e.lower() for e in expected], way


@pytest.mark.parametrize(
    ("terms", "guarded"),
    [
        (("a.id = b.id", "a.n > 0.5", "b.text = 'x'", "a.n = -1"), False),
        (("a.text = b.text", "a.text IS NOT NULL"), False),
        (("a.id = b.id", "a.n = b.n"), False),
        (("TRY_CAST(a.text AS INT) = b.id",), False),
        (("a.id = b.id", "a.text > 5"), True),
        (("a.id + 1 = b.id",), True),
        (("a.id = b.text",), True),
    ],
)
def test_an_expression_that_cannot_fail_is_not_tried(
    frame: DataFrame, terms: tuple[str, ...], guarded: bool
) -> None:
    assert ("#fault" in packed(joined(frame, *terms)).columns) == guarded


def test_what_is_said_shows_the_expression_as_it_was_written(frame: DataFrame) -> None:
    term = r"""CAST(regexp_replace(a.text, '^\\d\'"?$', '7') AS INT) = b.id"""
    fault = packed(joined(frame, term)).collect()[4]["#fault"]
    assert r"""regexp_replace(a.text, '^\\d\'"?$', '7')""" in fault.replace(
        "REGEXP", "regexp"
    ).replace("REPLACE", "replace")
    assert fault.endswith(" cannot be evaluated where text=many")


def test_registered_python_functions_are_left_to_spark(
    spark: SparkSession, frame: DataFrame
) -> None:
    """Spark takes none of them in a lambda; of what is beside them, failures are told of."""
    spark.udf.register("plus_one", lambda n: n + 1, "INT")
    try:
        terms = ("plus_one(a.id) = b.id", "plus_one(a.n) > 0")
        assert len(packed(joined(frame, *terms)).collect()) == 5
        assert told(joined(frame, *terms, f"{CAST} = b.n")) == [None, CAST, CAST, None, CAST]
    finally:
        spark.sql("DROP TEMPORARY FUNCTION plus_one")
