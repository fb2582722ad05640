"""Types of columns, and the values that are drawn for them: mostly those at an edge of something.

Values are SQL text, so that a case can be printed and run anywhere. Numbers come from one pool for
all types, so that equal values of different types meet.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal

SMALL = ("0", "1", "2", "3", "-1", "5", "0.5", "1.5", "0.01", "0.1", "-0.5", "10")
EDGE = (
    "127", "-128", "32767", "-32768", "2147483647", "-2147483648", "16777216", "16777217",
    "9007199254740992", "9007199254740993", "9223372036854775807", "9223372036854775806",
    "-9223372036854775808", "2090799856460215927", "9108235421083095925", "0.3", "0.25", "2.5",
    "18708736.95", "18708736.96", "0.00001", "99999.99", "12345678901234567890123456.78",
    "12345678901234567890123456.79", "9999999999999999999999999999.9999999999", "1e18", "1e-7",
    "NaN", "Infinity", "-Infinity", "-0.0", "4.9e-324", "2.2250738585072014e-308", "1.4e-45",
    "1.7976931348623157e308", "3.4028234663852886e38", "0.99999999999999999999",
)  # fmt: skip
LONG = "x" * 300
STRINGS = (
    "", "a", "A", "b", "ab", "aB", "AB", "a ", " a", "o'k", "ok", "\u00e9", "e\u0301", "\u00c9",
    "\u00df", "ss", "SS", "\u0130", "i\u0307", "I", "\u0131", "\U0001d4b3", "\uffee", "a\\b",
    "a%", "%", "_", "01", "1", "1.0", " 1", "1e0", "-0", "NaN", "true", "2026-01-01", "2026-1-1",
    "2026-03-29 02:30:00", LONG, LONG + "y",
)  # fmt: skip
COLLATIONS = ("UTF8_LCASE", "UNICODE", "UNICODE_CI", "UNICODE_CI_AI", "UTF8_BINARY_RTRIM", "de_CI")
DATES = (
    "0001-01-01", "9999-12-31", "1970-01-01", "1969-12-31", "1582-10-15", "1582-10-04",
    "2026-01-01", "2026-01-31", "2026-02-28", "2026-03-28", "2026-03-29", "2026-10-25",
    "2026-11-01", "+10000-01-01", "+5881580-07-11", "-0001-01-01",
)  # fmt: skip
TIMESTAMPS = (
    "0001-01-01 00:00:00", "9999-12-31 23:59:59.999999", "1970-01-01 00:00:00",
    "1969-12-31 23:59:59.999999", "2026-01-01 00:00:00", "2026-01-01 00:00:00.000001",
    "2026-03-28 02:30:00", "2026-03-29 01:30:00", "2026-03-29 02:30:00", "2026-03-29 03:30:00",
    "2026-10-25 01:30:00", "2026-10-25 02:30:00", "2026-11-01 01:30:00", "2026-03-08 02:30:00",
    "1582-10-04 12:00:00", "1900-01-01 00:00:00", "+294247-01-09 04:00:54", "-0001-01-01 00:00:00",
    "+20000-01-01 00:00:00",
)  # fmt: skip
WRITTEN: dict[str, tuple[str, ...]] = {
    "boolean": ("true", "false"),
    "binary": ("X''", "X'00'", "X'FF'", "X'0001'", "X'61'"),
    "array<double>": (
        "array()", "array(0D)", "array(-0D)", "array(1D)", "array(1D, 2D)", "array(double('NaN'))",
        "array(NULL)", "array(double('NaN'), 1D)", "array(double('Infinity'))",
    ),
    "array<bigint>": (
        "array()", "array(1)", "array(1, 2)", "array(NULL)", "array(1, NULL)", "array(0)",
        "array(9007199254740993)", "array(9007199254740992)",
    ),
    "array<string>": ("array()", "array('')", "array('a')", "array('A')", "array('a', NULL)"),
    "struct<x:double,y:string>": (
        "struct(0D, 'a')", "struct(-0D, 'a')", "struct(double('NaN'), '')", "struct(NULL, 'a')",
        "struct(1D, NULL)", "struct(1D, 'A')",
    ),
    "map<string,bigint>": ("map()", "map('a', 1)", "map('a', NULL)", "map('', 2, 'a', 1)"),
    "interval day to second": (
        "INTERVAL '0' SECOND", "INTERVAL '25' HOUR", "INTERVAL '1 01:00:00' DAY TO SECOND",
        "INTERVAL '-1' DAY", "INTERVAL '1' DAY", "INTERVAL '0.000001' SECOND",
        "INTERVAL '106751991' DAY",
    ),
    "interval year to month": (
        "INTERVAL '14' MONTH", "INTERVAL '1-2' YEAR TO MONTH", "INTERVAL '0' MONTH",
        "INTERVAL '-1' MONTH", "INTERVAL '1' YEAR",
    ),
}  # fmt: skip

INTEGERS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}
FLOATS = ("float", "double")
DECIMALS = ("decimal(5,5)", "decimal(9,2)", "decimal(10,0)", "decimal(18,6)", "decimal(20,2)",
            "decimal(38,0)", "decimal(38,2)", "decimal(38,10)", "decimal(38,20)")  # fmt: skip
NUMBERS = (*INTEGERS, *FLOATS, *DECIMALS)
TIMES = ("date", "timestamp", "timestamp_ntz")
FAMILIES: dict[str, tuple[str, ...]] = {
    "number": NUMBERS,
    "string": ("string", "string", *(f"string collate {name}" for name in COLLATIONS)),
    "time": TIMES,
    **{name: (name,) for name in WRITTEN},
}
"""Types that are drawn for each other: a family's columns are compared most."""


@dataclass(frozen=True)
class Column:
    """A column of a stream."""

    name: str
    type: str
    family: str


def family_of(kind: str) -> str:
    return next(name for name, kinds in FAMILIES.items() if kind in kinds)


def quoted(text: str) -> str:
    """A string as a literal of Spark's."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    if text.startswith(LONG):
        return f"concat(repeat('x', {len(LONG)}), '{text[len(LONG) :]}')"
    return f"'{escaped}'"


def few(chance: random.Random, family: str) -> list[str]:
    """The values of one case: few, so that they meet."""
    if family == "number":
        return chance.sample(SMALL, 3) + chance.sample(EDGE, 3)
    pools: dict[str, Sequence[str]] = {
        "string": [quoted(text) for text in STRINGS],
        "time": (*DATES, *TIMESTAMPS),
    }
    pool = list(pools.get(family) or WRITTEN[family])
    chosen = chance.sample(pool, min(len(pool), 5))
    if family == "time":
        # A moment, and the midnight before it.
        chosen += [text.split(" ")[0] for text in chosen[:2]]
    return chosen


def literals(kind: str, values: Sequence[str]) -> list[str]:
    """Those of the values that a type has, as SQL."""
    if kind in NUMBERS:
        values = [text for text in values if _fits(text, kind)] or ["0"]
        return [f"CAST('{text}' AS {kind})" for text in values]
    if kind in TIMES:
        # The last date is far beyond the last timestamp.
        values = [text for text in values if kind == "date" or "+5881580" not in text]
        return [f"CAST('{_of_time(text, kind)}' AS {kind})" for text in values]
    if kind.startswith("string"):
        _, _, collation = kind.partition(" collate ")
        return [f"{text} COLLATE {collation}" if collation else text for text in values]
    if kind.startswith("struct"):
        return [f"CAST({text} AS {kind})" for text in values]
    return [f"CAST({text} AS {kind})" if "array" in kind or "map" in kind else text
            for text in values]  # fmt: skip


def null(kind: str) -> str:
    return f"CAST(NULL AS {kind})"


def _of_time(text: str, kind: str) -> str:
    return text.split(" ", maxsplit=1)[0] if kind == "date" else text


def _fits(text: str, kind: str) -> bool:
    if kind in FLOATS:
        return True
    number = Decimal(text)
    if not number.is_finite():
        return False
    if kind in INTEGERS:
        limit = 2 ** (INTEGERS[kind] - 1)
        return "." not in text and "e" not in text and -limit <= number < limit
    precision, scale = (int(part) for part in kind[8:-1].split(","))
    return abs(number) < Decimal(10) ** (precision - scale) - 1
