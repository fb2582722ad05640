"""Expressions over one stream that fail on some values: which may, and on which rows they do.

Spark has no general way to try an expression, but `try_to_binary` gives null wherever evaluating
its argument fails, whatever that argument is. So a hash of the expressions in question, as text,
says of a row whether they can be evaluated. It is computed inside of a lambda, where Spark does not
look for common parts: otherwise it would evaluate what is tried here, and used elsewhere, once and
before both, and fail. For the same reason no expression is written twice outside of lambdas.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass

import sqlglot
from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import (
    DataType,
    DoubleType,
    FloatType,
    IntegralType,
    NumericType,
    StringType,
    StructType,
)
from sqlglot import exp

from anabranch.kernel.poison import SHOWN, short
from anabranch.model.query import Query, StoredColumn
from anabranch.model.sql import DIALECT
from anabranch.spark.analyzer import quiet
from anabranch.spark.inputs import Input
from anabranch.spark.selection import Finish

_SHOWN = 60
"""Characters of a value that a reason shows."""

_HARMLESS = (
    exp.Column | exp.Identifier | exp.Literal | exp.Boolean | exp.Null | exp.Paren
    | exp.And | exp.Or | exp.Not | exp.Is
)  # fmt: skip
_COMPARISONS = exp.EQ | exp.NEQ | exp.LT | exp.LTE | exp.GT | exp.GTE | exp.NullSafeEQ


FAULT = "#fault"
"""The column that says in words which expression a row fails in; null where it does in none, and
empty where the conditions on its stream drop it."""


@dataclass(frozen=True)
class Guard:
    """How the expressions over one stream are evaluated where they do not fail."""

    keep: StoredColumn
    """The condition on the stream's rows, which is never null."""
    keep_may_fail: bool
    risky: tuple[StoredColumn, ...]
    """The stored columns whose expressions may fail."""
    tried: tuple[StoredColumn, ...]
    """Those of them that Spark lets us try."""

    @staticmethod
    def of(query: Query, stream: int, source: Input) -> Guard:
        schema, filters = source.frame.schema, query.filters[stream]
        joined = " AND ".join(f"({sql})" for sql in filters) or "true"
        keep = StoredColumn("#keep", f"coalesce({joined}, false)", json.dumps("boolean"))
        risky = tuple(column for column in query.stored[stream] if may_fail(column.sql, schema))
        return Guard(
            keep,
            any(may_fail(sql, schema) for sql in filters) and _can_be_tried(keep, source),
            risky,
            tuple(column for column in risky if _can_be_tried(column, source)),
        )

    @property
    def needed(self) -> bool:
        return self.keep_may_fail or bool(self.tried)

    @property
    def fault(self) -> str:
        """SQL of the fault of a row; it is empty where the condition drops the row."""
        cases = [f"WHEN NOT {self.keep.sql} THEN ''"]
        if self.keep_may_fail:
            cases.insert(0, f"WHEN NOT {_succeed([self.keep])} THEN {_words(self.keep)}")
        if self.tried:
            cases.append(f"WHEN {_succeed(self.tried)} THEN NULL")
            cases += [
                f"WHEN NOT {_succeed([column])} THEN {_words(column)}" for column in self.tried
            ]
        return f"CASE {' '.join(cases)} END"

    @property
    def verdict(self) -> str:
        """SQL of whether a row stays: one that fails does, since it is to be told of."""
        return f"NOT (`{FAULT}` <=> '')"

    def value(self, column: StoredColumn) -> str:
        """SQL of a stored column, which is null in rows that fail."""
        if column not in self.risky:
            return column.sql
        return f"CASE WHEN `{FAULT}` IS NULL THEN {column.sql} END"


def may_fail(sql: str, schema: StructType) -> bool:
    """Whether an expression over one stream can fail on any value; True where that is unclear."""
    return not _is_safe(sqlglot.parse_one(sql, read=DIALECT), schema)


def _is_safe(node: exp.Expr, schema: StructType) -> bool:
    children = list(node.iter_expressions())
    if isinstance(node, exp.Column):
        return True
    if isinstance(node, exp.Cast):
        tried = node.sql(dialect=DIALECT).startswith("TRY_")  # sqlglot has one class for both
        return (tried and _is_safe(node.this, schema)) or _widens(_type(node.this, schema), node.to)
    if isinstance(node, _COMPARISONS):
        kinds = {_group(child, schema) for child in children}
        return len(kinds) == 1 and None not in kinds
    if isinstance(node, _HARMLESS) or (isinstance(node, exp.Func) and _name(node) == "xxhash64"):
        return all(_is_safe(child, schema) for child in children)
    return False


def _name(node: exp.Func) -> str:
    return (node.name if isinstance(node, exp.Anonymous) else node.sql_name()).lower()


def _type(node: exp.Expr, schema: StructType) -> DataType | None:
    """The type of a plain column; None of anything else."""
    if not isinstance(node, exp.Column) or len(node.parts) != 2:
        return None
    wanted = node.parts[1].name
    found = [f.dataType for f in schema if f.name.lower() == wanted.lower()]
    return found[0] if len(found) == 1 else None


def _widens(kind: DataType | None, to: exp.DataType) -> bool:
    if to.is_type(exp.DataType.Type.DOUBLE):
        return isinstance(kind, NumericType)
    return bool(to.is_type(exp.DataType.Type.BIGINT)) and isinstance(kind, IntegralType)


def _group(node: exp.Expr, schema: StructType) -> str | None:
    """What kind of value it is, of which two are compared without a conversion that may fail."""
    if isinstance(node, exp.Neg):
        node = node.this
    if isinstance(node, exp.Literal):
        return "text" if node.is_string else "number"
    kind = _type(node, schema)
    if isinstance(kind, IntegralType | FloatType | DoubleType):
        return "number"
    return "text" if isinstance(kind, StringType) else None


def _can_be_tried(column: StoredColumn, source: Input) -> bool:
    """Whether Spark takes it in a lambda; it does not where a Python function is called."""
    row = source.frame.select(F.struct(F.col("*")).alias(source.name))
    return _is_accepted(row, _succeed([column]))


def _is_accepted(frame: DataFrame, sql: str) -> bool:
    try:
        with quiet():
            frame.select(F.expr(sql)).schema  # noqa: B018 - where sessions are remote, this analyzes
    except AnalysisException:
        return False
    return True


def _succeed(columns: Sequence[StoredColumn]) -> str:
    """SQL that is true where all of these can be evaluated, and false where one of them fails."""
    # Spark does not hash maps.
    values = [f"CAST({c.sql} AS STRING)" if '"map"' in c.type else c.sql for c in columns]
    hashed = f"transform(array(0), once -> xxhash64({', '.join(values)}))[0]"
    return f"(try_to_binary(CAST({hashed} AS STRING), 'utf-8') IS NOT NULL)"


def _words(column: StoredColumn) -> str:
    """SQL of a sentence about an expression that fails: it, and the values that it was given."""
    node = sqlglot.parse_one(column.sql, read=DIALECT)
    columns = [c for c in node.find_all(exp.Column) if len(c.parts) > 1]
    names = {c.sql(dialect=DIALECT): c.name for c in columns}
    shown = [_quoted(f"{column.sql} cannot be evaluated")]
    for number, (sql, name) in enumerate(names.items()):
        shown.append(_quoted(f"{', ' if number else ' where '}{name}="))
        shown.append(f"coalesce(left(CAST({sql} AS STRING), {_SHOWN}), 'null')")
    return f"concat({', '.join(shown)})"


def is_about_values(error: Exception) -> bool:
    """Whether Spark failed on data: an overflow, a cast, a division, or what SQL itself raised."""
    return re.search(r"SQLSTATE: (22|P0)", str(error)) is not None


def failing_result(matches: DataFrame, query: Query, finish: Finish) -> str | None:
    """A combination on which a condition or the select fails, in words; None if there is none.

    `matches` has the outputs and the struct columns that the user's SQL names.
    """
    parts = [(sql, sql) for sql in finish.filters] + list(finish.columns)
    cases = []
    for number, (sql, _) in enumerate(parts):
        # As text, since it may be a map.
        tried = _succeed([StoredColumn("", sql, '"map"')])
        cases.append(f"WHEN NOT {tried} THEN {number}")
        if number < len(finish.filters):
            cases.append(f"WHEN NOT coalesce({sql}, false) THEN NULL")
    sql = f"CASE {' '.join(cases)} END"
    if not _is_accepted(matches, sql):
        return None
    search = F.expr(sql).alias("failing")
    outputs = [F.col(f"`{output.name}`") for output in query.outputs]
    found = matches.select(*outputs, search).filter("failing IS NOT NULL").limit(1).collect()
    if not found:
        return None
    *values, number = found[0]
    stored = [{column.name: column.sql for column in columns} for columns in query.stored]
    inputs = {
        f"`{o.name}`": stored[o.operand.stream][o.operand.column].replace("`", "")
        for o in query.outputs
    }
    text = parts[number][0]
    for name, sql in inputs.items():
        text = text.replace(name, sql)
    shown = ", ".join(
        f"{sql}={str(value)[:_SHOWN]}" for sql, value in zip(inputs.values(), values, strict=True)
    )
    return short(f"{short(text, SHOWN // 3)} cannot be evaluated on the result with {shown}")


def _quoted(text: str) -> str:
    return exp.Literal.string(text).sql(dialect=DIALECT)
