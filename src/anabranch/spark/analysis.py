"""From what the user wrote to a compiled query, with Spark's own analyzer as the judge.

A condition is taken apart and its parts become terms with an index, where the analyzer agrees that
they mean the same; whatever is left over is a residue, which Spark decides on joined rows, in the
user's own words. No job runs here.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal

from pyspark.sql.types import BooleanType, DataType, DoubleType, FloatType
from sqlglot import exp

from anabranch.errors import QueryError
from anabranch.model.portable import duckdb_sql
from anabranch.model.query import Operand, Query, StoredColumn, Term
from anabranch.model.spanning_key import Equality, spanning_key
from anabranch.model.sql import Filter, Scope, Spanning, UnreadableError
from anabranch.model.terms import Band, Equal, Expression, Interval, Kind, Match, Request
from anabranch.spark.analyzer import Analyzer
from anabranch.spark.carriage import packed
from anabranch.spark.coercion import (
    BITS,
    coerce,
    decimal_places,
    is_equatable,
    is_hashed_alike,
    is_integer,
    is_ordered,
    is_temporal,
)
from anabranch.spark.inputs import Input
from anabranch.spark.selection import Finish, Residue, Selection
from anabranch.spark.termtypes import check_types

DECIMAL_DIGITS = 38
"""As many as a decimal of Spark's can have; with more, it rounds."""
EXACT_DOUBLE = 2**53
"""Integers up to this have a double of their own."""


@dataclass(frozen=True)
class Compiled:
    """A query that can be run."""

    query: Query
    finish: Finish


@dataclass
class Analysis:
    """Collects stored columns, terms and residues while a query is taken apart."""

    inputs: Sequence[Input]
    stored: list[dict[str, StoredColumn]] = field(default_factory=list)
    filters: list[list[str]] = field(default_factory=list)
    terms: list[Term] = field(default_factory=list)
    residues: list[Residue] = field(default_factory=list)
    equalities: list[Equality] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.scope = Scope(tuple(source.name for source in self.inputs))
        self.stored = [dict(columns) for columns in self.stored] or [{} for _ in self.inputs]
        self.filters = self.filters or [[] for _ in self.inputs]
        self.analyzer = Analyzer(self.inputs)

    def type_of(self, sql: str, text: str) -> DataType:
        return self.analyzer.type_of(sql, text)

    # -- stored columns ----------------------------------------------------------------------

    def store(self, sql: str, text: str) -> Operand:
        """Keep an expression over one stream as a column of its segments."""
        stream, node = self.scope.operand(sql)
        name = self._plain_column(stream, node)
        sql, kind = packed(sql, self.type_of(sql, text), text)
        if name is None:
            known = [c.name for c in self.stored[stream].values() if c.sql == sql]
            name = known[0] if known else f"#{len(self.stored[stream])}"
        self.stored[stream].setdefault(name, StoredColumn(name, sql, kind.json()))
        return Operand(stream, name)

    def _plain_column(self, stream: int, node: exp.Expr) -> str | None:
        if not isinstance(node, exp.Column) or len(node.parts) != 2:
            return None
        name = self.resolve(stream, node.parts[1].name)
        if name is not None and name.startswith("#"):
            raise QueryError(f"column {name}: names that begin with # are kept for Anabranch")
        return name

    def resolve(self, stream: int, wanted: str) -> str | None:
        """A column of a stream, by its name as Spark would find it."""
        columns = self.inputs[stream].frame.columns
        exact = [column for column in columns if column == wanted]
        if not exact and not self.analyzer.case_sensitive:
            exact = [column for column in columns if column.lower() == wanted.lower()]
        return exact[0] if exact else None

    # -- terms -------------------------------------------------------------------------------

    def add(self, request: Request | str) -> None:
        """Add a term, given as SQL or by one of the term functions."""
        if isinstance(request, Request):
            self._add_request(request)
            return
        if not isinstance(request, str):
            raise QueryError(
                f"{request!r} is not a term: write SQL text, or use ab.within and the like"
            )
        try:
            conjuncts = self.scope.conjuncts(request)
            pieces = self.scope.condition(conjuncts)
        except UnreadableError:
            conjuncts, pieces = [], []
        if not isinstance(self.type_of(request, request), BooleanType):
            raise QueryError(f'term "{request}" is not a condition: it is neither true nor false')
        named = any(self.scope.streams(self.scope.parse(text), text) for text in conjuncts)
        if pieces and not named:
            raise QueryError(f'"{request}" names no column: it is the same for every row')
        again = " AND ".join(f"({text})" for text in conjuncts)
        if not pieces or (len(conjuncts) > 1 and not self.analyzer.same(request, again)):
            # It was misread: Spark has it as it is.
            self.residues.append(Residue(request))
            return
        for piece in pieces:
            if isinstance(piece, Filter):
                self.filters[piece.stream].append(piece.sql)
            elif isinstance(piece, Request):
                self._add_request(piece, from_sql=True)
            else:
                self._add_spanning(piece)

    def _add_request(self, request: Request, *, from_sql: bool = False) -> None:
        kind, text = request.kind, request.text
        streams = {self.scope.operand(sql)[0] for sql in request.operands}
        if len(streams) < 2 or (len(streams) > 2 and not isinstance(kind, Match)):
            raise QueryError(f"term {text}: it must compare columns of two different streams")
        types = [self.type_of(sql, text) for sql in request.operands]
        if isinstance(kind, Equal):
            self._add_equal(request, types, from_sql=from_sql)
        elif isinstance(kind, Interval):
            self._add_interval(request, types)
        elif isinstance(kind, Band) and from_sql:
            self._add_band(request, types)
        else:
            check_types(kind, text, types)
            if isinstance(kind, Band):
                request = self._band_of_ours(request, types)
            self._add_term(text, request.kind, request.operands)

    def _add_term(self, text: str, kind: Kind, sqls: Sequence[str]) -> None:
        operands = tuple(self.store(sql, text) for sql in sqls)
        self.terms.append(Term(text, kind, operands))

    def _add_equal(self, request: Request, types: Sequence[DataType], *, from_sql: bool) -> None:
        text, (left, right) = request.text, request.operands
        condition = f"({left}) = ({right})"
        if from_sql and not self._means(text, condition):
            return
        if not isinstance(self.type_of(condition, text), BooleanType):
            raise QueryError(f"term {text}: these cannot be compared")
        coerced = coerce(self.analyzer, "=", request.operands, types, text)
        if coerced is None or not is_equatable(coerced.type):
            self._residue(condition)
            if coerced is None or not is_hashed_alike(coerced.type):
                return
            # The kernel finds what has the same hash; Spark decides.
            hashes = [f"xxhash64({sql})" for sql in coerced.sqls]
            self._equality(text, hashes, hashes, exact=True)
            return
        if is_integer(coerced.type) or is_temporal(coerced.type):
            # Integers of different widths are equal, but their hashes are not.
            wide = is_integer(coerced.type)
            hashed = [f"CAST({sql} AS BIGINT)" if wide else sql for sql in coerced.sqls]
            self._equality(text, coerced.sqls, hashed, exact=True)
            return
        hashes = [f"xxhash64({sql})" for sql in coerced.sqls]
        self._equality(text, [*coerced.sqls, *hashes], coerced.sqls, exact=False)

    def _equality(
        self, text: str, sqls: Sequence[str], hashed: Sequence[str], *, exact: bool
    ) -> None:
        operands = [self.store(sql, text) for sql in sqls]
        pair = (hashed[0], hashed[1])
        self.equalities.append(Equality(len(self.terms), operands[0], operands[1], pair, exact))
        self.terms.append(Term(text, Equal(), tuple(operands)))

    def _add_interval(self, request: Request, types: Sequence[DataType]) -> None:
        kind, text = request.kind, request.text
        assert isinstance(kind, Interval)
        alike = all(own == types[0] for own in types) or all(map(is_integer, types))
        if request.parts and not alike:
            # Spark converts each pair of them on its own.
            for part in request.parts:
                self._add_request(part, from_sql=True)
            return
        sqls: Sequence[str] = request.operands
        if not request.parts and not self._means(text, self._comparison(request)):
            return
        common: DataType | None = types[0]
        if not alike:
            sign = "<" if kind.high_strict else "<="
            coerced = coerce(self.analyzer, sign, sqls, types, text)
            sqls, common = (coerced.sqls, coerced.type) if coerced else (sqls, None)
        if common is None or not is_ordered(common):
            for part in request.parts or (request,):
                self._residue(part.text)
            return
        self._add_term(text, kind, sqls)

    def _comparison(self, request: Request) -> str:
        assert isinstance(request.kind, Interval)
        low, high = request.operands
        return f"({low}) {'<' if request.kind.high_strict else '<='} ({high})"

    def _means(self, text: str, read: str) -> bool:
        """Whether a conjunct was read rightly; if not, Spark decides it as it is written."""
        if self.analyzer.same(text, read):
            return True
        self._residue(text)
        return False

    def _add_band(self, request: Request, types: Sequence[DataType]) -> None:
        """`abs(a.x - b.y) <= width`, as SQL means it."""
        kind, text, (left, right) = request.kind, request.text, request.operands
        assert isinstance(kind, Band)
        sign, width = "<" if kind.strict else "<=", _written(kind)
        if not self._means(text, f"abs(({left}) - ({right})) {sign} {width}"):
            return
        if all(map(is_integer, types)) and (not kind.double or kind.width <= EXACT_DOUBLE):
            bits = max(BITS[own.simpleString()] for own in types)
            wraps = None if self.analyzer.ansi else bits
            self._add_term(text, replace(kind, wraps=wraps), request.operands)
            return
        if types[0] == types[1] and isinstance(types[0], FloatType | DoubleType):
            self._add_term(text, kind, request.operands)
            return
        if not kind.double and _subtracts_exactly(types, kind):
            self._add_term(text, kind, _as_decimals(request.operands, types))
            return
        doubles = tuple(
            sql if isinstance(own, DoubleType) else f"CAST({sql} AS DOUBLE)"
            for sql, own in zip((left, right), types, strict=True)
        )
        if self.analyzer.same(text, f"abs({doubles[0]} - {doubles[1]}) {sign} {width}"):
            self._add_term(text, kind, doubles)
            return
        self._residue(text)
        if all(self.analyzer.accepts(sql) for sql in doubles):
            self._add_term(text, replace(kind, loose=True), doubles)

    def _band_of_ours(self, request: Request, types: Sequence[DataType]) -> Request:
        """`ab.band`: by exact arithmetic where both have it, otherwise by that of doubles."""
        kind = request.kind
        assert isinstance(kind, Band)
        same_floats = types[0] == types[1] and isinstance(types[0], FloatType | DoubleType)
        if all(map(is_integer, types)) or same_floats:
            return request
        if all(decimal_places(own) is not None for own in types):
            return replace(request, operands=_as_decimals(request.operands, types))
        doubles = tuple(f"CAST({sql} AS DOUBLE)" for sql in request.operands)
        return replace(request, operands=doubles)

    def _add_spanning(self, spanning: Spanning) -> None:
        if not all(self.analyzer.accepts(sql) for sql in spanning.operands):
            self._residue(spanning.text)
            return
        read = spanning.restored()
        if read != spanning.text and not self._means(spanning.text, read):
            return
        types = [self.type_of(sql, spanning.text) for sql in spanning.operands]
        names = [kind.simpleString() for kind in types]
        sql = duckdb_sql(spanning.node, names, ansi=self.analyzer.ansi)
        if sql is None:
            self._residue(spanning.text)
            return
        self._add_term(spanning.text, Expression(sql), spanning.operands)

    def _residue(self, text: str) -> None:
        """Leave a condition to Spark, with the columns that it names."""
        found = self.scope.columns(self.scope.parse(text), text)
        self.residues.append(Residue(text, self._resolved(found)))

    def _resolved(self, found: Mapping[int, set[str]]) -> Mapping[int, frozenset[str]] | None:
        columns: dict[int, frozenset[str]] = {}
        for stream, names in found.items():
            resolved = [self.resolve(stream, name) for name in names]
            if None in resolved:
                return None
            columns[stream] = frozenset(name for name in resolved if name is not None)
        return columns

    # -- the whole ---------------------------------------------------------------------------

    def compile(self, select: Sequence[str]) -> Compiled:
        """The query with these output columns (all of every stream where there are none)."""
        own = replace(self)  # what the select stores is its own
        selection = Selection(own.inputs, own.scope, own.analyzer, own.store, own.resolve)
        finish, outputs = selection.finish(select, own.residues)
        key, key_terms, key_columns = spanning_key(len(own.inputs), own.equalities)
        if key_columns is not None:
            key = tuple(
                own.store(f"xxhash64({', '.join(sqls)})", "key").column for sqls in key_columns
            )
        query = Query(
            tuple(source.spec for source in own.inputs),
            tuple(tuple(stored.values()) for stored in own.stored),
            tuple(tuple(filters) for filters in own.filters),
            tuple(own.terms),
            outputs,
            key,
            key_terms,
        )
        return Compiled(query, finish)


def _written(band: Band) -> str:
    """The width as a literal of the kind that it was written as."""
    return f"{band.width:e}" if band.double else f"{Decimal(band.width):f}"


def _subtracts_exactly(types: Sequence[DataType], band: Band) -> bool:
    """Whether the difference of two decimals, and the width beside it, have few enough digits."""
    places = [decimal_places(kind) for kind in types]
    if places[0] is None or places[1] is None:
        return False
    before = max(places[0][0], places[1][0]) + 1
    behind = max(places[0][1], places[1][1])
    _, digits, exponent = Decimal(band.width).as_tuple()
    assert isinstance(exponent, int)
    width_behind = max(-exponent, 0)
    width_before = max(len(digits) + exponent, 0)
    return max(before, width_before) + max(behind, width_behind) <= DECIMAL_DIGITS


def _as_decimals(sqls: Sequence[str], types: Sequence[DataType]) -> tuple[str, ...]:
    """Operands as decimals: integers have no places behind the point."""
    cast = []
    for sql, kind in zip(sqls, types, strict=True):
        places = decimal_places(kind)
        assert places is not None
        cast.append(f"CAST({sql} AS DECIMAL({places[0]}, 0))" if is_integer(kind) else sql)
    return tuple(cast)
