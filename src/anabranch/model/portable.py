"""Which SQL means the same in DuckDB as in Spark, and how it is written there.

What is here was compared with Spark on drawn values (`tests/fuzz`). Whatever is not here is left to
Spark: that is slower, and right. Every conversion between types is written out, so that DuckDB
decides about none; what depends on a time zone, on a collation, on precision or on rounding is not
here, and neither is what Spark refuses or wraps where DuckDB does otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from sqlglot import exp

INTEGERS = ("tinyint", "smallint", "int", "bigint")
"""From narrow to wide: of two, Spark calculates in the wider."""
COMPARED = (*INTEGERS, "double", "string", "date", "timestamp", "timestamp_ntz", "boolean")
"""Types of operands. Strings are those that compare by bytes."""

_NAMES = {
    "tinyint": "TINYINT",
    "smallint": "SMALLINT",
    "int": "INTEGER",
    "bigint": "BIGINT",
    "double": "DOUBLE",
}
_DECIMAL = "decimal literal"
"""A literal with a point: a decimal in Spark, which becomes a double beside one."""

_COMPARISONS: dict[type[exp.Expr], str] = {
    exp.EQ: "=",
    exp.NEQ: "<>",
    exp.LT: "<",
    exp.LTE: "<=",
    exp.GT: ">",
    exp.GTE: ">=",
    exp.NullSafeEQ: "IS NOT DISTINCT FROM",
}
_ARITHMETIC: dict[type[exp.Expr], str] = {exp.Add: "+", exp.Sub: "-", exp.Mul: "*"}


class NotPortableError(Exception):
    """Spark and DuckDB may differ in this."""


@dataclass(frozen=True)
class Typed:
    """A part of an expression in DuckDB's dialect, and its type in Spark."""

    sql: str
    type: str

    def to(self, kind: str) -> str:
        """The same, converted to a wider type."""
        if self.type == kind:
            return self.sql
        if self.type == _DECIMAL and kind == "double":
            return double(self.sql)
        return f"CAST({self.sql} AS {_NAMES[kind]})"


def double(text: str) -> str:
    """A number as a literal that DuckDB reads as a double, and not as a decimal first."""
    written = repr(float(text))
    return written if "e" in written else f"{written}e0"


def duckdb_sql(node: exp.Expr, types: Sequence[str], *, ansi: bool) -> str | None:
    """A condition over the operands c0, c1 … for DuckDB; None where Spark must decide.

    `types` are Spark's names of the operands' types. Without `ansi` integers wrap around.
    """
    try:
        written = _Writer(types, ansi).write(node)
    except NotPortableError:
        return None
    return written.sql if written.type == "boolean" else None


@dataclass(frozen=True)
class _Writer:
    types: Sequence[str]
    ansi: bool
    sure: bool = True
    """Whether Spark evaluates this part for every row.

    In a branch it may be spared an overflow that DuckDB would run into.
    """

    def write(self, node: exp.Expr) -> Typed:
        write = _WRITERS.get(type(node))
        if write is None:
            raise NotPortableError
        return write(self, node)

    @property
    def branch(self) -> _Writer:
        return replace(self, sure=False)

    def operand(self, node: exp.Expr) -> Typed:
        kind = self.types[int(node.name[1:])]
        if kind not in COMPARED:
            raise NotPortableError
        return Typed(node.name, kind)

    def literal(self, node: exp.Expr) -> Typed:
        text = node.name
        if node.is_string:
            return Typed(exp.Literal.string(text).sql(dialect="duckdb"), "string")
        if not text.isdecimal():
            return Typed(text, _DECIMAL) if "e" not in text.lower() else _double_literal(text)
        kind = "int" if int(text) < 2**31 else "bigint"
        if int(text) >= 2**63:
            raise NotPortableError
        return Typed(f"CAST({text} AS {_NAMES[kind]})", kind)

    def boolean(self, node: exp.Expr) -> Typed:
        return Typed("true" if node.this else "false", "boolean")

    def paren(self, node: exp.Expr) -> Typed:
        inner = self.write(node.this)
        return Typed(f"({inner.sql})", inner.type)

    def connector(self, node: exp.Expr) -> Typed:
        sign = "AND" if isinstance(node, exp.And) else "OR"
        parts = [self.condition(part) for part in (node.this, node.expression)]
        return Typed(f"({parts[0]} {sign} {parts[1]})", "boolean")

    def negation(self, node: exp.Expr) -> Typed:
        return Typed(f"(NOT {self.condition(node.this)})", "boolean")

    def condition(self, node: exp.Expr) -> str:
        written = self.branch.write(node)
        if written.type != "boolean":
            raise NotPortableError
        return written.sql

    def comparison(self, node: exp.Expr) -> Typed:
        left, right = (self.write(part) for part in (node.this, node.expression))
        return self._compared(left, _COMPARISONS[type(node)], right)

    def _compared(self, left: Typed, sign: str, right: Typed) -> Typed:
        kind = _common(left.type, right.type)
        return Typed(f"({left.to(kind)} {sign} {right.to(kind)})", "boolean")

    def between(self, node: exp.Expr) -> Typed:
        if node.args.get("symmetric"):
            raise NotPortableError
        value, low, high = (self.write(node.args[name]) for name in ("this", "low", "high"))
        bounds = [self._compared(value, ">=", low).sql, self._compared(value, "<=", high).sql]
        return Typed(f"({' AND '.join(bounds)})", "boolean")

    def member(self, node: exp.Expr) -> Typed:
        value = self.branch.write(node.this)
        choices = [self.branch.write(choice) for choice in node.expressions]
        if not choices or any(choice.type != value.type for choice in choices):
            raise NotPortableError
        return Typed(f"({value.sql} IN ({', '.join(c.sql for c in choices)}))", "boolean")

    def null_test(self, node: exp.Expr) -> Typed:
        if not isinstance(node.expression, exp.Null):
            raise NotPortableError
        return Typed(f"({self.branch.write(node.this).sql} IS NULL)", "boolean")

    def arithmetic(self, node: exp.Expr) -> Typed:
        left, right = (self.write(part) for part in (node.this, node.expression))
        kind = self._calculated(_common(left.type, right.type))
        return Typed(f"({left.to(kind)} {_ARITHMETIC[type(node)]} {right.to(kind)})", kind)

    def signed(self, node: exp.Expr) -> Typed:
        inner = self.write(node.this)
        if isinstance(node, exp.Neg) and isinstance(node.this, exp.Literal):
            if inner.type == _DECIMAL:
                return Typed(f"-{inner.sql}", _DECIMAL)
            return Typed(f"(-{inner.sql})", inner.type)
        kind = self._calculated(inner.type)
        return Typed(f"(-{inner.sql})" if isinstance(node, exp.Neg) else f"abs({inner.sql})", kind)

    def _calculated(self, kind: str) -> str:
        if kind == "double" or (kind in INTEGERS and self.ansi and self.sure):
            return kind
        raise NotPortableError

    def case(self, node: exp.Expr) -> Typed:
        if node.this is not None or node.args.get("default") is None:
            raise NotPortableError
        parts = [(self.condition(part.this), part.args["true"]) for part in node.args["ifs"]]
        values = [self.branch.write(value) for _, value in parts]
        default = self.branch.write(node.args["default"])
        if any(value.type != default.type for value in values) or default.type == _DECIMAL:
            raise NotPortableError
        pairs = zip(parts, values, strict=True)
        whens = " ".join(f"WHEN {when} THEN {value.sql}" for (when, _), value in pairs)
        return Typed(f"(CASE {whens} ELSE {default.sql} END)", default.type)

    def coalesce(self, node: exp.Expr) -> Typed:
        parts = [self.branch.write(part) for part in (node.this, *node.expressions)]
        if any(part.type != parts[0].type for part in parts) or parts[0].type == _DECIMAL:
            raise NotPortableError
        return Typed(f"coalesce({', '.join(part.sql for part in parts)})", parts[0].type)


def _common(left: str, right: str) -> str:
    """The type in which Spark compares or calculates with two; as for these, DuckDB could too."""
    if left == right and left != _DECIMAL:
        return left
    if left in INTEGERS and right in INTEGERS:
        return max(left, right, key=INTEGERS.index)
    numbers = {left, right}
    if "double" in numbers and numbers <= {*INTEGERS, "double", _DECIMAL}:
        return "double"
    raise NotPortableError


def _double_literal(text: str) -> Typed:
    return Typed(double(text), "double")


_WRITERS: Mapping[type[exp.Expr], Callable[[_Writer, exp.Expr], Typed]] = {
    exp.Column: _Writer.operand,
    exp.Literal: _Writer.literal,
    exp.Boolean: _Writer.boolean,
    exp.Paren: _Writer.paren,
    exp.And: _Writer.connector,
    exp.Or: _Writer.connector,
    exp.Not: _Writer.negation,
    exp.Is: _Writer.null_test,
    exp.In: _Writer.member,
    exp.Between: _Writer.between,
    exp.Neg: _Writer.signed,
    exp.Abs: _Writer.signed,
    exp.Case: _Writer.case,
    exp.Coalesce: _Writer.coalesce,
    **dict.fromkeys(_COMPARISONS, _Writer.comparison),
    **dict.fromkeys(_ARITHMETIC, _Writer.arithmetic),
}
