"""How values travel to Python workers and back, where Arrow does not take them as they are."""

from __future__ import annotations

from pyarrow import ArrowException
from pyspark.errors import PySparkException
from pyspark.sql.pandas.types import to_arrow_type
from pyspark.sql.types import DataType, IntegerType, YearMonthIntervalType

from anabranch.errors import QueryError


def packed(sql: str, kind: DataType, text: str) -> tuple[str, DataType]:
    """An expression as it is stored, and its type then."""
    if isinstance(kind, YearMonthIntervalType):
        return f"CAST(CAST({sql} AS INTERVAL MONTH) AS INT)", IntegerType()
    try:
        to_arrow_type(kind, timezone="UTC")
    except (PySparkException, ArrowException, ValueError) as error:
        raise QueryError(
            f"{text}: values of type {kind.simpleString()} cannot be kept, since Arrow does not "
            "carry them to Spark's Python workers. Cast them to another type in the input DataFrame"
        ) from error
    return sql, kind


def unpacked(sql: str, kind: DataType) -> str:
    """A stored value as the type that it had."""
    if isinstance(kind, YearMonthIntervalType):
        return f"CAST(make_ym_interval(0, {sql}) AS {kind.simpleString()})"
    return sql
