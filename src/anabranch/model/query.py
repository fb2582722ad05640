"""The compiled query: what every other part works from. Plain, frozen, picklable data."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace

from anabranch.model.terms import Expression, Kind

TIME = "#time"
"""The stored column that holds a row's event time, in microseconds since the epoch."""


@dataclass(frozen=True)
class Stream:
    """One input of the join. Durations are in microseconds."""

    name: str
    time: str
    window: int
    lateness: int
    idle: int | None = None
    """How long the run waits for rows before it goes on without this stream; None: for ever."""
    resized: tuple[tuple[int, int], ...] = ()
    """Times from which rows have another window, ascending, each with that window."""

    @property
    def longest(self) -> int:
        """The longest window that any row of the stream has."""
        return max([self.window, *(window for _, window in self.resized)])

    @property
    def latest(self) -> int:
        """The window that new rows have."""
        return self.resized[-1][1] if self.resized else self.window

    def window_at(self, time: int) -> int:
        """The window of a row: it is decided by the row's own time."""
        return next((w for since, w in reversed(self.resized) if time >= since), self.window)

    def settled(self, watermark: int) -> Stream:
        """Without the changes that are over: when no row from before them can be live any more.

        Such rows may lie in live segments for as long as the longest window.
        """
        over = [window for since, window in self.resized if watermark - self.longest > since]
        if not over:
            return self
        return replace(self, window=over[-1], resized=self.resized[len(over) :])


@dataclass(frozen=True)
class StoredColumn:
    """A column kept in a stream's segments: plain, or computed once when the row arrives."""

    name: str
    sql: str
    type: str
    """Its type, as Spark writes types in JSON."""

    @property
    def is_map(self) -> bool:
        kind = json.loads(self.type)
        return isinstance(kind, dict) and kind["type"] == "map"


@dataclass(frozen=True)
class Operand:
    """A stored column of one stream, by the stream's position."""

    stream: int
    column: str


@dataclass(frozen=True)
class Term:
    """One conjunct of the condition, bound to stored columns."""

    text: str
    kind: Kind
    operands: tuple[Operand, ...]

    @property
    def streams(self) -> frozenset[int]:
        return frozenset(operand.stream for operand in self.operands)


@dataclass(frozen=True)
class Output:
    """A column of the result that is a stored column of one stream."""

    name: str
    operand: Operand


@dataclass(frozen=True)
class Query:
    """Streams, the terms between them, and what is stored and put out.

    `key` names, for each stream, the stored 64-bit column that is equal on all streams in every
    result (the equality that spans them all), or is None where there is none.
    """

    streams: tuple[Stream, ...]
    stored: tuple[tuple[StoredColumn, ...], ...]
    filters: tuple[tuple[str, ...], ...]
    terms: tuple[Term, ...]
    outputs: tuple[Output, ...]
    key: tuple[str, ...] | None = None
    key_terms: tuple[int, ...] = ()
    """Positions of the terms that an exact key already decides."""

    def never_null(self, stream: int) -> list[str]:
        """Columns in which a null matches nothing; an SQL expression may see that otherwise."""
        return sorted(
            {
                operand.column
                for term in self.terms
                if not isinstance(term.kind, Expression)
                for operand in term.operands
                if operand.stream == stream
            }
        )

    @property
    def windows(self) -> tuple[int, ...]:
        """How long a row of each stream may be needed, at most."""
        return tuple(stream.longest for stream in self.streams)
