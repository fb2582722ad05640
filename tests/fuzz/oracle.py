"""Spark's own answer: a batch join of all streams, with the windows written out as conditions."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from pyspark.sql import DataFrame, Row
from pyspark.sql import functions as F

from anabranch.spark.builder import Joined, JoinQuery
from anabranch.spark.inputs import Input

Rows = Counter[str]
"""Rows as a multiset. By their text: a NaN is not equal to itself in Python."""


def spark_answer(
    query: Joined | JoinQuery, terms: Sequence[str], select: Sequence[str]
) -> DataFrame:
    """The query as Spark alone would join it, over the same static inputs."""
    joined = in_windows(query.inputs)
    for term in terms:
        joined = joined.filter(F.expr(term))
    return joined.selectExpr(*select)


def in_windows(inputs: Sequence[Input]) -> DataFrame:
    """All combinations of rows that the windows allow, as one struct per stream."""
    joined: DataFrame | None = None
    for source in inputs:
        rows = source.frame.select(F.struct(F.col("*")).alias(source.name))
        joined = rows if joined is None else joined.crossJoin(rows)
    assert joined is not None
    times = {
        source.name: F.unix_micros(F.col(source.name).getField(source.spec.time).cast("timestamp"))
        for source in inputs
    }
    for one in inputs:
        for other in inputs:
            if one is not other:
                joined = joined.filter(times[other.name] - times[one.name] <= one.spec.window)
    return joined


def counted(frame: DataFrame) -> Rows:
    """What a frame holds."""
    return Counter(_text(row) for row in frame.collect())


def _text(value: Any) -> str:
    if isinstance(value, Row):
        return "(" + ", ".join(_text(part) for part in value) + ")"
    return repr(value)
