"""What becomes of joined rows: residues of the condition, and the columns of the select.

Spark evaluates both in the user's own words, over one struct column per stream, as if it had joined
the rows itself. A selected column of one stream needs no struct: it is carried as it is.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from sqlglot import exp

from anabranch.errors import QueryError
from anabranch.model.query import Operand, Output
from anabranch.model.sql import DIALECT, Scope, UnreadableError, cannot_fail
from anabranch.spark.analyzer import Analyzer
from anabranch.spark.carriage import unpacked
from anabranch.spark.inputs import Input


@dataclass(frozen=True)
class Residue:
    """A condition that Spark decides on joined rows, and the columns it names, by stream."""

    text: str
    columns: Mapping[int, frozenset[str]] | None = None
    """None where they are not known: then all are carried."""


@dataclass(frozen=True)
class Finish:
    """What Spark does with the joined columns."""

    rows: tuple[tuple[str, tuple[tuple[str, str], ...]], ...]
    """Struct columns to make: a stream, and its columns, each with the SQL that gives it."""
    filters: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    """SQL over outputs or struct columns, and the name it gets."""


@dataclass
class Selection:
    """Collects the outputs that a select and the residues need."""

    inputs: Sequence[Input]
    scope: Scope
    analyzer: Analyzer
    store: Callable[[str, str], Operand]
    resolve: Callable[[int, str], str | None]
    outputs: list[Operand] = field(default_factory=list)
    rows: dict[int, dict[str, str]] = field(default_factory=dict)

    def finish(
        self, select: Sequence[str], residues: Sequence[Residue]
    ) -> tuple[Finish, tuple[Output, ...]]:
        """How joined rows are finished, and the outputs that this takes."""
        columns = [column for text in select for column in self._selected(text)]
        columns = columns if select else self._everything()
        self._check_names([name for _, name in columns])
        for residue in residues:
            self._need(residue.columns)
        rows = tuple(
            (self.inputs[stream].name, tuple(named.items()))
            for stream, named in sorted(self.rows.items())
        )
        finish = Finish(rows, tuple(residue.text for residue in residues), tuple(columns))
        outputs = tuple(Output(_name(at), operand) for at, operand in enumerate(self.outputs))
        return finish, outputs

    def _check_names(self, names: Sequence[str]) -> None:
        same = names if self.analyzer.case_sensitive else [name.lower() for name in names]
        repeated = {name for name, key in zip(names, same, strict=True) if same.count(key) > 1}
        if repeated:
            raise QueryError(
                f"select names {', '.join(sorted(repeated))} more than once; give each a name of "
                'its own with AS, like "orders.id AS order_id"'
            )

    def _everything(self) -> list[tuple[str, str]]:
        return [
            (self._carried(stream, column), f"{source.name}_{column}")
            for stream, source in enumerate(self.inputs)
            for column in source.frame.columns
        ]

    def _selected(self, text: str) -> list[tuple[str, str]]:
        if not isinstance(text, str):
            raise QueryError(f'select takes SQL text like "orders.id AS order_id", not {text!r}')
        try:
            node = self.scope.parse(text)
        except UnreadableError:
            self._need(None)
            return [(text, self.analyzer.name_of(text))]
        if isinstance(node, exp.Column) and isinstance(node.this, exp.Star):
            return self._star(node, text)
        inner = node.this if isinstance(node, exp.Alias) else node
        if not node.alias_or_name:
            raise QueryError(f'select "{text}": give it a name with AS')
        found = self.scope.columns(inner, text)
        sql = inner.sql(dialect=DIALECT)
        self.analyzer.type_of(sql, text)
        name = self.analyzer.name_of(text)
        if not self.analyzer.same(text, sql):
            self._need(None)
            return [(text, name)]
        if len(found) == 1 and cannot_fail(inner):
            return [(self._carry(sql, text), name)]
        self._need({stream: self._resolved(stream, names) for stream, names in found.items()})
        return [(sql, name)]

    def _resolved(self, stream: int, names: set[str]) -> frozenset[str]:
        resolved = {self.resolve(stream, name) for name in names}
        if None in resolved:
            return frozenset(self.inputs[stream].frame.columns)
        return frozenset(name for name in resolved if name is not None)

    def _star(self, node: exp.Column, text: str) -> list[tuple[str, str]]:
        for stream, source in enumerate(self.inputs):
            if source.name.lower() == node.table.lower():
                return [(self._carried(stream, name), name) for name in source.frame.columns]
        raise QueryError(f'select "{text}": there is no stream {node.table}')

    def _need(self, columns: Mapping[int, frozenset[str]] | None) -> None:
        """Carry columns into the struct of their stream; all of every stream where unknown."""
        if columns is None:
            columns = {
                stream: frozenset(source.frame.columns) for stream, source in enumerate(self.inputs)
            }
        for stream, names in columns.items():
            for name in sorted(names):
                self.rows.setdefault(stream, {})[name] = self._carried(stream, name)

    def _carried(self, stream: int, column: str) -> str:
        node = exp.column(column, table=self.inputs[stream].name, quoted=True)
        return self._carry(node.sql(dialect=DIALECT), column)

    def _carry(self, sql: str, text: str) -> str:
        """Make an expression over one stream an output; the SQL that reads it."""
        operand = self.store(sql, text)
        if operand not in self.outputs:
            self.outputs.append(operand)
        output = f"`{_name(self.outputs.index(operand))}`"
        return unpacked(output, self.analyzer.type_of(sql, text))


def _name(position: int) -> str:
    """The name of an output: no stream can have it."""
    return f"#o{position}"
