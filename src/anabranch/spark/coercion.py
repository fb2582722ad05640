"""How Spark would compare two operands: in which type, and whether a kernel can do it as exactly.

Spark's own rules decide, not a copy of them: a conversion is proposed, written out, and taken if
the analyzer finds that it means the same as what the user wrote.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from pyspark.sql.types import (
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from anabranch.errors import QueryError
from anabranch.spark.analyzer import Analyzer

DIGITS = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 20}
"""As Spark counts the digits of integers beside decimals."""
BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}

_PROPOSED = ("double", "bigint", "timestamp", "date", "string")
"""Types to try beside the one that both operands can be stored in."""


@dataclass(frozen=True)
class Coerced:
    """Operands with their conversion written out, and the type that they have then."""

    sqls: tuple[str, str]
    type: DataType
    """Integers may keep different widths; then it is the type of the first."""


def coerce(
    analyzer: Analyzer, sign: str, sqls: Sequence[str], types: Sequence[DataType], text: str
) -> Coerced | None:
    """Two operands in the type in which Spark compares them; None if that was not found out."""
    left, right = sqls
    if types[0] == types[1] or all(map(is_integer, types)):
        return Coerced((left, right), types[0])
    for name, kind in _proposals(analyzer, sqls, text):
        cast = tuple(
            sql if own == kind else f"CAST({sql} AS {name})"
            for sql, own in zip(sqls, types, strict=True)
        )
        proposed = Coerced((cast[0], cast[1]), kind)
        if _is_lossless(kind, types) or analyzer.same(
            f"({left}) {sign} ({right})", f"{cast[0]} {sign} {cast[1]}"
        ):
            return proposed
    return None


def _proposals(
    analyzer: Analyzer, sqls: Sequence[str], text: str
) -> Iterator[tuple[str, DataType]]:
    try:
        common = analyzer.type_of(f"coalesce({', '.join(sqls)})", text)
    except QueryError:
        pass
    else:
        yield common.simpleString(), common
    for name in _PROPOSED:
        try:
            kind = analyzer.type_of(f"CAST({sqls[0]} AS {name})", text)
            analyzer.type_of(f"CAST({sqls[1]} AS {name})", text)
        except QueryError:
            continue
        yield name, kind


def _is_lossless(kind: DataType, types: Sequence[DataType]) -> bool:
    """Whether decimals and integers all fit into a decimal as they are."""
    if not isinstance(kind, DecimalType):
        return False
    for own in types:
        places = decimal_places(own)
        if places is None or places[1] > kind.scale or places[0] > kind.precision - kind.scale:
            return False
    return True


def decimal_places(kind: DataType) -> tuple[int, int] | None:
    """Digits before and behind the point of an integer or a decimal; None for other types."""
    if isinstance(kind, DecimalType):
        return kind.precision - kind.scale, kind.scale
    digits = DIGITS.get(kind.simpleString())
    return None if digits is None else (digits, 0)


def is_integer(kind: DataType) -> bool:
    """Whether it is one of the four widths of integers."""
    return isinstance(kind, IntegralType)


def is_temporal(kind: DataType) -> bool:
    """Whether it is a date or a timestamp, which are integers to a kernel."""
    return isinstance(kind, TimestampType | TimestampNTZType | DateType)


def is_ordered(kind: DataType) -> bool:
    """Whether the kernel orders values of a type as Spark does, by their bytes or as numbers."""
    return (
        is_integer(kind)
        or is_temporal(kind)
        or isinstance(kind, FloatType | DoubleType | DecimalType)
        or kind.simpleString() == "string"
    )


def is_equatable(kind: DataType) -> bool:
    """Whether the kernel calls values of a type equal where Spark does."""
    return is_ordered(kind) or isinstance(kind, BooleanType | BinaryType)


def is_hashed_alike(kind: DataType) -> bool:
    """Whether Spark gives equal values the same hash. Strings with a collation need not have it."""
    return "collate" not in kind.simpleString() and not (
        isinstance(kind, StringType) and kind.simpleString() != "string"
    )
