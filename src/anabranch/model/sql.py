"""SQL conditions, taken apart: what each conjunct is, and which stream each part belongs to.

A condition is split into conjuncts. One that touches a single stream is a filter; equalities,
comparisons and `abs(a.x - b.x) <= c` between two streams become the terms that have an index;
what is left becomes an expression over operands, each of which belongs to one stream and is
computed by Spark when the row arrives.

sqlglot reads SQL nearly as Spark does. So nothing here is believed before Spark's analyzer has
found that the parts mean what the user wrote (`anabranch.spark.analysis`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal

import sqlglot
from sqlglot import exp

from anabranch.errors import QueryError
from anabranch.model.conjuncts import sides, split
from anabranch.model.dialect import SparkText
from anabranch.model.stability import refuse_unstable
from anabranch.model.terms import Band, Equal, Interval, Kind, Request

DIALECT = SparkText


class UnreadableError(QueryError):
    """SQL that sqlglot does not read; Spark may."""


@dataclass(frozen=True)
class Filter:
    """A condition on the rows of one stream alone."""

    text: str
    stream: int
    sql: str


@dataclass(frozen=True)
class Spanning:
    """SQL over several streams; its single-stream parts are operands: c0, c1 and so on."""

    text: str
    node: exp.Expr
    operands: tuple[str, ...]

    def restored(self) -> str:
        """The expression with its operands back in their places: how it was read."""
        node = self.node.copy()
        for column in [c for c in node.find_all(exp.Column) if not _is_collation(c)]:
            operand = sqlglot.parse_one(self.operands[int(column.name[1:])], read=DIALECT)
            if column is node:
                node = operand
            else:
                column.replace(exp.Paren(this=operand))
        return node.sql(dialect=DIALECT)


@dataclass(frozen=True)
class Scope:
    """The streams that SQL may name."""

    names: tuple[str, ...]

    def parse(self, text: str) -> exp.Expr:
        """Parse one SQL expression in Spark's dialect."""
        try:
            node = sqlglot.parse_one(text, read=DIALECT)
        except sqlglot.errors.SqlglotError as error:
            reason = str(error).splitlines()[0]
            raise UnreadableError(f'"{text}" is not a SQL expression: {reason}') from error
        if node.find(exp.Query, exp.AggFunc, exp.Window):
            raise QueryError(
                f'"{text}" has a subquery, an aggregate or a window function; '
                "write an expression over single rows"
            )
        refuse_unstable(node, text)
        return node

    def streams(self, node: exp.Expr, text: str) -> frozenset[int]:
        """The positions of the streams that an expression touches."""
        return frozenset(self.columns(node, text))

    def columns(self, node: exp.Expr, text: str) -> dict[int, set[str]]:
        """The columns that an expression touches, by the position of their stream."""
        found: dict[int, set[str]] = {}
        for column in node.find_all(exp.Column):
            if len(column.parts) > 1 or not (_is_variable(column) or _is_collation(column)):
                found.setdefault(self._stream(column, text), set()).add(column.parts[1].name)
        return found

    def _stream(self, column: exp.Column, text: str) -> int:
        parts = [part.name for part in column.parts]
        lowered = [name.lower() for name in self.names]
        if len(parts) < 2 or parts[0].lower() not in lowered:
            known = ", ".join(self.names)
            hint = f"{self.names[0]}.{parts[-1]}"
            raise QueryError(
                f'"{text}" names {".".join(parts)}, which is of no stream: '
                f"write stream.column, like {hint} (streams: {known})"
            )
        return lowered.index(parts[0].lower())

    def operand(self, text: str) -> tuple[int, exp.Expr]:
        """An operand: an expression over exactly one stream."""
        node = self.parse(text)
        streams = self.streams(node, text)
        if len(streams) != 1:
            raise QueryError(
                f'"{text}" touches {len(streams)} streams; '
                "an operand is written over the columns of one, like orders.price"
            )
        return next(iter(streams)), node

    def conjuncts(self, text: str) -> list[str]:
        """The conditions that must all hold, as they were written."""
        try:
            return split(text)
        except sqlglot.errors.SqlglotError as error:
            raise UnreadableError(f'"{text}" is not a SQL expression: {error}') from error

    def condition(self, conjuncts: Sequence[str]) -> list[Filter | Request | Spanning]:
        """Conditions as filters, indexed terms and remaining expressions."""
        pieces: list[Filter | Request | Spanning] = []
        for text in conjuncts:
            node = self.parse(text).unnest()
            streams = self.streams(node, text)
            if len(streams) < 2:
                # What names no column is the same for every row: for those of the first stream too.
                pieces.append(Filter(text, next(iter(streams), 0), text))
                continue
            for part in _bounds(node):
                written = text if part is node else part.sql(dialect=DIALECT)
                pieces.append(self._indexed(part, written) or self.spanning(part, written))
        return _intervals(pieces)

    def _indexed(self, node: exp.Expr, text: str) -> Request | None:
        if not isinstance(node, exp.EQ | exp.LT | exp.LTE | exp.GT | exp.GTE):
            return None
        left, right = node.left.unnest(), node.right.unnest()
        words = sides(text)
        if isinstance(node, exp.GT | exp.GTE):
            left, right = right, left
            words = words and (words[1], words[0])
        strict = isinstance(node, exp.LT | exp.GT)
        if not isinstance(node, exp.EQ):
            banded = self._band(left, right, strict=strict, text=text)
            if banded:
                return banded
        if not self._apart(left, right, text):
            return None
        operands = words or (left.sql(dialect=DIALECT), right.sql(dialect=DIALECT))
        kind: Kind = Equal() if isinstance(node, exp.EQ) else Interval(False, True, False, strict)
        return Request(text, kind, operands)

    def _band(self, left: exp.Expr, right: exp.Expr, *, strict: bool, text: str) -> Request | None:
        """`abs(a.x - b.x) <= number`."""
        if not isinstance(left, exp.Abs) or not isinstance(right, exp.Literal):
            return None
        gap = left.this.unnest()
        if right.is_string or not isinstance(gap, exp.Sub):
            return None
        a, b = gap.left.unnest(), gap.right.unnest()
        if not self._apart(a, b, text):
            return None
        operands = (a.sql(dialect=DIALECT), b.sql(dialect=DIALECT))
        written = right.name
        return Request(
            text, Band(Decimal(written), strict, double="e" in written.lower()), operands
        )

    def _apart(self, left: exp.Expr, right: exp.Expr, text: str) -> bool:
        """Whether each side belongs to one stream, and to different ones."""
        a, b = self.streams(left, text), self.streams(right, text)
        return len(a) == 1 and len(b) == 1 and a != b

    def spanning(self, node: exp.Expr, text: str) -> Spanning:
        """Take the largest single-stream parts out of an expression, as operands.

        Where Spark may not come to evaluate a part, in a branch say, it is taken only if that
        cannot fail: operands are computed for every row.
        """
        operands: list[str] = []

        def replace(part: exp.Expr) -> exp.Expr:
            if not isinstance(part, exp.Condition) or isinstance(part, exp.Literal):
                return part
            if len(self.streams(part, text)) != 1 or isinstance(part, exp.Boolean):
                return part
            if not cannot_fail(part) and part.find_ancestor(*_BRANCHES):
                return part
            if not isinstance(part, exp.Column) and part.find_ancestor(exp.Lambda):
                return part  # it may have the lambda's variable in it
            sql = part.sql(dialect=DIALECT)
            if sql not in operands:
                operands.append(sql)
            return exp.column(f"c{operands.index(sql)}")

        return Spanning(text, _outermost(node.copy(), replace), tuple(operands))


def _outermost(node: exp.Expr, replace: Callable[[exp.Expr], exp.Expr]) -> exp.Expr:
    """Replace from the top down, and do not enter what was replaced."""
    replaced = replace(node)
    if replaced is not node:
        return replaced
    for child in list(node.iter_expressions()):
        new = _outermost(child, replace)
        if new is not child:
            child.replace(new)
    return node


def _is_collation(column: exp.Column) -> bool:
    return isinstance(column.parent, exp.DataType | exp.Collate) and column.arg_key != "this"


def _is_variable(column: exp.Column) -> bool:
    """Whether a name is the variable of a lambda around it."""
    scope = column.find_ancestor(exp.Lambda)
    while scope is not None:
        if column.name in {variable.name for variable in scope.expressions}:
            return True
        scope = scope.find_ancestor(exp.Lambda)
    return False


_BRANCHES = (exp.And, exp.Or, exp.Case, exp.If, exp.Coalesce, exp.Lambda, exp.In)
_TOTAL = (
    exp.Column | exp.Identifier | exp.Dot | exp.Literal | exp.Boolean | exp.Null | exp.Paren
    | exp.And | exp.Or | exp.Not | exp.Is | exp.EQ | exp.NEQ | exp.LT | exp.LTE | exp.GT | exp.GTE
    | exp.NullSafeEQ | exp.Coalesce | exp.Lower | exp.Upper | exp.Length | exp.DPipe | exp.Trim
)  # fmt: skip


def cannot_fail(node: exp.Expr) -> bool:
    """Whether an expression has a value for every row: no cast, no overflow, no division."""
    return all(isinstance(part, _TOTAL) for part in node.walk())


def _bounds(node: exp.Expr) -> list[exp.Expr]:
    """`x BETWEEN low AND high` as the two comparisons that Spark makes of it."""
    if not isinstance(node, exp.Between) or node.args.get("symmetric"):
        return [node]
    value, low, high = node.this, node.args["low"], node.args["high"]
    return [
        exp.GTE(this=value.copy(), expression=low.copy()),
        exp.LTE(this=value.copy(), expression=high.copy()),
    ]


def _intervals(
    pieces: Sequence[Filter | Request | Spanning],
) -> list[Filter | Request | Spanning]:
    """Join a lower and an upper bound on the same value, given by one other stream."""
    joined: list[Filter | Request | Spanning] = []
    for piece in pieces:
        partner = next((p for p in joined if _completes(p, piece)), None)
        if partner is None:
            joined.append(piece)
            continue
        assert isinstance(partner, Request)
        assert isinstance(piece, Request)
        # One of them has the common value on the greater side: its other side is the lower bound.
        above, below = (
            (partner, piece) if partner.operands[1] == piece.operands[0] else (piece, partner)
        )
        assert isinstance(above.kind, Interval)
        assert isinstance(below.kind, Interval)
        kind = Interval(True, True, above.kind.high_strict, below.kind.high_strict)
        operands = (below.operands[0], above.operands[0], below.operands[1])
        text = f"{partner.text} AND {piece.text}"
        joined[joined.index(partner)] = Request(text, kind, operands, (partner, piece))
    return joined


def _completes(first: Filter | Request | Spanning, second: Filter | Request | Spanning) -> bool:
    """Whether `x <= high` meets `low <= x`, with both bounds of the same stream."""
    if not isinstance(first, Request) or not isinstance(second, Request):
        return False
    for request in (first, second):
        if not isinstance(request.kind, Interval) or request.kind.has_low:
            return False
    if first.operands[1] == second.operands[0]:
        low, high = first.operands[0], second.operands[1]
    elif second.operands[1] == first.operands[0]:
        low, high = second.operands[0], first.operands[1]
    else:
        return False
    return _table(low) == _table(high)


def _table(operand: str) -> str:
    """The stream of an operand's first column."""
    column = sqlglot.parse_one(operand, read=DIALECT).find(exp.Column)
    assert column is not None
    return column.parts[0].name.lower()
