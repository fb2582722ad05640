"""From what the user wrote to a compiled query, with Spark's own analyzer as the judge of types.

No job runs here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    MapType,
    NumericType,
    StringType,
    TimestampNTZType,
    TimestampType,
)
from sqlglot import exp

from anabranch.errors import QueryError
from anabranch.model.query import Operand, Output, Query, StoredColumn, Term
from anabranch.model.spanning_key import Equality, spanning_key
from anabranch.model.sql import DIALECT, Filter, Scope, Spanning, to_duckdb
from anabranch.model.terms import (
    Alike,
    Band,
    Cosine,
    Equal,
    InnerProduct,
    Interval,
    Jaccard,
    Kind,
    Match,
    Overlap,
    Request,
    Within,
)
from anabranch.spark.analyzer import Analyzer
from anabranch.spark.inputs import Input

Carrier = Callable[[str, str], str]
"""Makes an expression over one stream an output, and names the output."""


@dataclass(frozen=True)
class Finish:
    """What Spark does with the joined columns: conditions only it can decide, and the select."""

    filters: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    """SQL over the query's outputs, and the name it gets."""


@dataclass(frozen=True)
class Compiled:
    """A query that can be run."""

    query: Query
    finish: Finish


@dataclass
class Analysis:
    """Collects stored columns, terms and outputs while a query is taken apart."""

    inputs: Sequence[Input]
    stored: list[dict[str, StoredColumn]] = field(init=False)
    filters: list[list[str]] = field(init=False)
    terms: list[Term] = field(default_factory=list)
    residues: list[Spanning] = field(default_factory=list)
    equalities: list[Equality] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.scope = Scope(tuple(source.name for source in self.inputs))
        self.stored = [{} for _ in self.inputs]
        self.filters = [[] for _ in self.inputs]
        self.type_of = Analyzer(self.inputs).type_of

    # -- stored columns ----------------------------------------------------------------------

    def store(self, sql: str, text: str) -> Operand:
        """Keep an expression over one stream as a column of its segments."""
        stream, node = self.scope.operand(sql)
        kind = self.type_of(sql, text)
        name = self._plain_column(stream, node)
        if name is None:
            known = [c.name for c in self.stored[stream].values() if c.sql == sql]
            name = known[0] if known else f"#{len(self.stored[stream])}"
        self.stored[stream].setdefault(name, StoredColumn(name, sql, kind.json()))
        return Operand(stream, name)

    def _plain_column(self, stream: int, node: exp.Expr) -> str | None:
        if not isinstance(node, exp.Column) or len(node.parts) != 2:
            return None
        wanted = node.parts[1].name
        columns = self.inputs[stream].frame.columns
        exact = [column for column in columns if column == wanted]
        matching = exact or [column for column in columns if column.lower() == wanted.lower()]
        if matching and matching[0].startswith("#"):
            raise QueryError(
                f"column {matching[0]}: names that begin with # are kept for Anabranch"
            )
        return matching[0] if matching else None

    # -- terms -------------------------------------------------------------------------------

    def add(self, request: Request | str) -> None:
        """Add a term, given as SQL or by one of the term functions."""
        if isinstance(request, Request):
            self._add_request(request)
            return
        if not isinstance(request, str):
            raise QueryError(
                f"{request!r} is no term: write SQL text, or use ab.within and the like"
            )
        pieces = self.scope.condition(request)
        if not isinstance(self.type_of(request, request), BooleanType):
            raise QueryError(f'term "{request}" is not a condition: it is neither true nor false')
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
        _check_types(kind, text, types)
        operands = request.operands
        if isinstance(kind, Equal | Interval):
            operands, types = self._common_type(request, types)
            if isinstance(kind, Equal):
                self._add_equal(text, operands, types[0])
                return
        if isinstance(kind, Band) and (not _same_arithmetic(types)):
            if from_sql:
                # Only Spark's own arithmetic decides here; the band, a little wider, finds.
                node = self.scope.parse(text)
                self._add_spanning(self.scope.spanning(node, text))
                kind = Band(kind.width * (1 + 1e-9) + 1e-12)
            operands = tuple(f"CAST({sql} AS DOUBLE)" for sql in operands)
        self.terms.append(Term(text, kind, tuple(self.store(sql, text) for sql in operands)))

    def _common_type(
        self, request: Request, types: Sequence[DataType]
    ) -> tuple[tuple[str, ...], list[DataType]]:
        """Operands cast to the type that Spark would compare them in."""
        if all(kind == types[0] for kind in types) or all(map(_is_integer, types)):
            return request.operands, list(types)
        common = self.type_of(f"coalesce({', '.join(request.operands)})", request.text)
        name = common.simpleString()
        operands = tuple(
            sql if kind == common else f"CAST({sql} AS {name})"
            for sql, kind in zip(request.operands, types, strict=True)
        )
        return operands, [common] * len(types)

    def _add_equal(self, text: str, sqls: Sequence[str], kind: DataType) -> None:
        operands = [self.store(sql, text) for sql in sqls]
        exact = _is_integer(kind) or _is_temporal(kind)
        if not exact:
            operands += [self.store(f"xxhash64({sql})", text) for sql in sqls]
        # Integers of different widths are equal, but their hashes are not.
        hashable = [f"CAST({sql} AS BIGINT)" if _is_integer(kind) else sql for sql in sqls]
        self.equalities.append(
            Equality(len(self.terms), operands[0], operands[1], (hashable[0], hashable[1]), exact)
        )
        self.terms.append(Term(text, Equal(), tuple(operands)))

    def _add_spanning(self, spanning: Spanning) -> None:
        expression = to_duckdb(spanning)
        types = [self.type_of(sql, spanning.text) for sql in spanning.operands]
        if expression is None or not _portable(types):
            self.residues.append(spanning)
            return
        operands = tuple(self.store(sql, spanning.text) for sql in spanning.operands)
        self.terms.append(Term(spanning.text, expression, operands))

    # -- the whole ---------------------------------------------------------------------------

    def compile(self, select: Sequence[str]) -> Compiled:
        """The query with these output columns (all of every stream where there are none)."""
        outputs: list[Operand] = []

        def carried(sql: str, text: str) -> str:
            operand = self.store(sql, text)
            if operand not in outputs:
                outputs.append(operand)
            return f"`o{outputs.index(operand)}`"

        columns = [
            (self._carry(node, text, carried), name) for node, name, text in self._selected(select)
        ]
        filters = [self._substitute(residue, carried) for residue in self.residues]
        names = [name for _, name in columns]
        repeated = {name for name in names if [n.lower() for n in names].count(name.lower()) > 1}
        if repeated:
            raise QueryError(
                f"select names {', '.join(sorted(repeated))} more than once; give each a name of "
                'its own with AS, like "orders.id AS order_id"'
            )
        key, key_terms, key_columns = spanning_key(len(self.inputs), self.equalities)
        if key_columns is not None:
            key = tuple(
                self.store(f"xxhash64({', '.join(sqls)})", "key").column for sqls in key_columns
            )
        query = Query(
            tuple(source.spec for source in self.inputs),
            tuple(tuple(stored.values()) for stored in self.stored),
            tuple(tuple(filters) for filters in self.filters),
            tuple(self.terms),
            tuple(Output(f"o{i}", operand) for i, operand in enumerate(outputs)),
            key,
            key_terms,
        )
        return Compiled(query, Finish(tuple(filters), tuple(columns)))

    def _selected(self, select: Sequence[str]) -> list[tuple[exp.Expr, str, str]]:
        chosen: list[tuple[exp.Expr, str, str]] = []
        if not select:
            return [
                (
                    exp.column(column, table=source.name, quoted=True),
                    f"{source.name}_{column}",
                    column,
                )
                for source in self.inputs
                for column in source.frame.columns
            ]
        for text in select:
            if not isinstance(text, str):
                raise QueryError(
                    f'select takes SQL text like "orders.id AS order_id", not {text!r}'
                )
            node = self.scope.parse(text)
            if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
                chosen += self._star(node, text)
                continue
            name = node.alias_or_name
            inner = node.this if isinstance(node, exp.Alias) else node
            if not name:
                raise QueryError(f'select "{text}": give it a name with AS')
            if not self.scope.streams(inner, text):
                raise QueryError(f'select "{text}" names no column of any stream')
            self.type_of(inner.sql(dialect=DIALECT), text)
            chosen.append((inner, name, text))
        return chosen

    def _star(self, node: exp.Column, text: str) -> list[tuple[exp.Expr, str, str]]:
        source = next((s for s in self.inputs if s.name.lower() == node.table.lower()), None)
        if source is None:
            raise QueryError(f'select "{text}": there is no stream {node.table}')
        return [
            (exp.column(column, table=source.name, quoted=True), column, text)
            for column in source.frame.columns
        ]

    def _carry(self, node: exp.Expr, text: str, carried: Carrier) -> str:
        if len(self.scope.streams(node, text)) == 1:
            return carried(node.sql(dialect=DIALECT), text)
        return self._substitute(self.scope.spanning(node, text), carried)

    def _substitute(self, spanning: Spanning, carried: Carrier) -> str:
        """The expression over output columns, in Spark's dialect."""
        node = spanning.node.copy()
        names = {f"c{i}": carried(sql, spanning.text) for i, sql in enumerate(spanning.operands)}
        for column in list(node.find_all(exp.Column)):
            output = exp.column(names[column.name].strip("`"), quoted=True)
            if column is node:
                node = output
            else:
                column.replace(output)
        return node.sql(dialect=DIALECT)


def _is_integer(kind: DataType) -> bool:
    return isinstance(kind, IntegralType)


def _is_temporal(kind: DataType) -> bool:
    return isinstance(kind, TimestampType | TimestampNTZType | DateType)


def _same_arithmetic(types: Sequence[DataType]) -> bool:
    """Whether NumPy subtracts these as Spark does: integers, or one kind of float."""
    return all(map(_is_integer, types)) or (
        types[0] == types[1] and isinstance(types[0], FloatType | DoubleType)
    )


def _portable(types: Sequence[DataType]) -> bool:
    """Whether DuckDB converts between these as Spark does: strings are not mixed with others."""
    plain = (NumericType, BooleanType, TimestampType, TimestampNTZType, DateType)
    if all(isinstance(kind, StringType) for kind in types):
        return True
    if any(isinstance(kind, DecimalType) for kind in types):
        return False
    return all(isinstance(kind, plain) for kind in types)


def _check_types(kind: Kind, text: str, types: Sequence[DataType]) -> None:
    found = " and ".join(t.simpleString() for t in types)
    if isinstance(kind, Band) and not all(isinstance(t, NumericType) for t in types):
        raise QueryError(f"term {text}: a band compares numbers, and these are {found}")
    if isinstance(kind, Within) and not all(map(_is_vector, types)):
        raise QueryError(f"term {text}: within compares arrays of numbers, and these are {found}")
    vectors = all(map(_is_vector, types))
    weights = all(map(_is_weights, types)) and _same(types, "keyType")
    if isinstance(kind, Cosine | InnerProduct) and not (vectors or weights):
        raise QueryError(
            f"term {text}: it compares two arrays of numbers, or two maps from the same type "
            f"of key to numbers, and these are {found}"
        )
    if isinstance(kind, Alike) and not all(isinstance(t, BinaryType) for t in types):
        raise QueryError(f"term {text}: images are binary columns, and these are {found}")
    if isinstance(kind, Overlap | Jaccard):
        if not all(isinstance(t, ArrayType) for t in types):
            raise QueryError(f"term {text}: it compares arrays, as sets, and these are {found}")
        if not _same(types, "elementType"):
            raise QueryError(
                f"term {text}: the elements must be of one type, and these are {found}"
            )


def _is_vector(kind: DataType) -> bool:
    return isinstance(kind, ArrayType) and isinstance(kind.elementType, NumericType)


def _is_weights(kind: DataType) -> bool:
    return isinstance(kind, MapType) and isinstance(kind.valueType, NumericType)


def _same(types: Sequence[DataType], part: str) -> bool:
    """Whether both have the same type of element or key."""
    return bool(getattr(types[0], part) == getattr(types[1], part))
