"""Terms without an index: every pair in the window is a candidate, and the term decides.

`Expression` is SQL that spans streams in a way no index understands; DuckDB evaluates it on
blocks of candidates. `Match` is a function of the user's.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import duckdb
import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.errors import TermError
from anabranch.kernel.base import Bools, Index, Ints, Pairs, Probe, Target, UnfitError
from anabranch.kernel.columns import numbers
from anabranch.kernel.pairs import everything, ranges
from anabranch.model.query import Term
from anabranch.model.terms import Expression, Match

_SAMPLE_ROWS = 3
_CLOSED = {
    "enable_external_access": "false",
    "autoinstall_known_extensions": "false",
    "autoload_known_extensions": "false",
}
"""An expression sees the rows it is given, and neither files nor the network."""
_connections = threading.local()


class _Unindexed:
    """Blocked nested loop over the rows whose time is in reach."""

    exact = False
    costly = False

    def prepare(self, stream: int, columns: Mapping[int, pa.Array], times: Ints) -> Index | None:
        return None

    def candidates(self, stream: int, target: Target, probe: Probe) -> Iterator[Pairs]:
        return in_reach(target.times, probe)


def in_reach(times: Ints, probe: Probe) -> Iterator[Pairs]:
    """Every probe row beside the rows its window allows; of unordered rows, beside all."""
    if len(times) and bool(np.all(times[:-1] <= times[1:])):
        start = np.searchsorted(times, probe.low, "left")
        stop = np.searchsorted(times, probe.high, "right")
        return ranges(start, stop)
    return everything(len(probe.low), len(times))


class ExpressionKernel(_Unindexed):
    """SQL over several streams, evaluated by DuckDB on blocks of candidates."""

    def __init__(self, term: Term) -> None:
        assert isinstance(term.kind, Expression)
        self._term = term
        self._sql = f"SELECT coalesce(({term.kind.sql}), false) AS holds FROM block"

    def holds(self, columns: Sequence[pa.Array]) -> Bools:
        block = pa.table({f"c{i}": column for i, column in enumerate(columns)})
        connection = _connection()
        try:
            connection.register("block", block)
            answer = connection.execute(self._sql).fetchnumpy()["holds"]
        except duckdb.Error as error:
            raise _unfit(self._term, columns, str(error)) from error
        finally:
            connection.unregister("block")
        return np.ma.filled(answer, False).astype(np.bool_)


class MatchKernel(_Unindexed):
    """A function of the user's, called with one block per column."""

    def __init__(self, term: Term) -> None:
        assert isinstance(term.kind, Match)
        self._term = term
        self._function = term.kind.function

    def holds(self, columns: Sequence[pa.Array]) -> Bools:
        size = len(columns[0])
        known = np.ones(size, np.bool_)
        for column in columns:
            known &= np.asarray(column.is_valid())
        if not known.all():
            answer = np.zeros(size, np.bool_)
            if known.any():
                answer[known] = self.holds([column.filter(pa.array(known)) for column in columns])
            return answer
        try:
            returned = self._function(*(_as_block(column) for column in columns))
        except Exception as error:
            reason = f"it raised {type(error).__name__}: {error}"
            raise _unfit(self._term, columns, reason) from error
        return self._checked(returned, size, columns)

    def _checked(self, returned: Any, size: int, columns: Sequence[pa.Array]) -> Bools:
        if isinstance(returned, pa.Array | pa.ChunkedArray):
            returned = returned.to_numpy(zero_copy_only=False)
        answer = np.asarray(returned)
        if answer.shape != (size,) or answer.dtype != np.bool_:
            reason = (
                f"it returned {answer.dtype} values of shape {answer.shape}; "
                f"it must return Booleans of shape ({size},), one for each row of its arguments"
            )
            raise TermError(_text(self._term, columns, reason))
        return answer


def _as_block(column: pa.Array) -> pa.Array | npt.NDArray[Any]:
    """What a user's function sees: NumPy where a column is plain numbers, Arrow elsewhere."""
    kind = column.type
    if pa.types.is_temporal(kind):
        return column.to_numpy(zero_copy_only=False)
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_boolean(kind):
        return numbers(column)
    return column


def _connection() -> duckdb.DuckDBPyConnection:
    """One connection a thread, single-threaded: tasks share the machine's cores already."""
    connection: duckdb.DuckDBPyConnection | None = getattr(_connections, "duckdb", None)
    if connection is None:
        connection = duckdb.connect(config={"threads": 1, **_CLOSED})
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET lock_configuration = true")
        _connections.duckdb = connection
    return connection


def _unfit(term: Term, columns: Sequence[pa.Array], reason: str) -> UnfitError:
    return UnfitError(_text(term, columns, reason), reason)


def _text(term: Term, columns: Sequence[pa.Array], reason: str) -> str:
    sample = [
        {
            operand.column: column[row].as_py()
            for operand, column in zip(term.operands, columns, strict=True)
        }
        for row in range(min(_SAMPLE_ROWS, len(columns[0])))
    ]
    return f"term {term.text}: {reason}. First rows it was given: {sample}"
