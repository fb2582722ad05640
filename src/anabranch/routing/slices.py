"""Cutting the time axis of a stream: pieces that cover all of it, each with one owner.

A strategy speaks of times, never of files: rows that come late fall into the piece of their time.
That the pieces of one axis neither overlap nor leave a gap is what makes results come once.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import numpy as np

from anabranch.errors import QueryError
from anabranch.model.duration import microseconds
from anabranch.state.segment import SegmentRef

BEGINNING, END = -(2**61), 2**61
"""Times before and after all others, with room to add a window to them."""

Range = tuple[int, int]
"""First and last time, both included."""

Owner = TypeVar("Owner")


@dataclass(frozen=True)
class Slices(Generic[Owner]):
    """`owners[i]` has the times from `edges[i - 1]` up to, and without, `edges[i]`.

    >>> cut = Slices((10, 20), (0, 1, 0))
    >>> cut.owner(9), cut.owner(10), cut.owner(25)
    (0, 1, 0)
    >>> list(cut.pieces(15, 30))
    [((10, 19), 1), ((20, 2305843009213693952), 0)]
    """

    edges: tuple[int, ...]
    owners: tuple[Owner, ...]

    def __post_init__(self) -> None:
        if len(self.owners) != len(self.edges) + 1:
            raise AssertionError(f"{len(self.edges)} edges make {len(self.edges) + 1} pieces")
        if any(a >= b for a, b in zip(self.edges, self.edges[1:], strict=False)):
            raise AssertionError(f"edges {self.edges} do not ascend")

    @staticmethod
    def whole(owner: Owner) -> Slices[Owner]:
        """One piece: all times."""
        return Slices((), (owner,))

    def owner(self, time: int) -> Owner:
        return self.owners[bisect_right(self.edges, time)]

    def pieces(self, first: int = BEGINNING, last: int = END) -> Iterator[tuple[Range, Owner]]:
        """The pieces that meet a range of times, each with its owner."""
        at = bisect_right(self.edges, first)
        while at < len(self.owners):
            start = self.edges[at - 1] if at else BEGINNING
            if start > last:
                return
            stop = self.edges[at] - 1 if at < len(self.edges) else END
            yield (start, stop), self.owners[at]
            at += 1

    def held(self, first: int = BEGINNING, last: int = END) -> dict[Owner, list[Range]]:
        """The pieces that meet a range of times, by owner, neighbouring ones as one.

        >>> Slices((10, 20), (0, 0, 1)).held()[1]
        [(20, 2305843009213693952)]
        """
        found: dict[Owner, list[Range]] = {}
        for (start, stop), owner in self.pieces(first, last):
            mine = found.setdefault(owner, [])
            if mine and mine[-1][1] + 1 == start:
                mine[-1] = (mine[-1][0], stop)
            else:
                mine.append((start, stop))
        return found

    @property
    def last_edge(self) -> int:
        return self.edges[-1] if self.edges else BEGINNING

    def cut(self, edge: int, owner: Owner) -> Slices[Owner]:
        """With a further piece, from a time after all edges so far."""
        return Slices((*self.edges, edge), (*self.owners, owner))

    def since(self, horizon: int) -> Slices[Owner]:
        """Without the pieces that end before a time: nothing will ask for them any more.

        The edge at which the piece of that time begins is kept, since its length counts from there.

        >>> Slices((10, 20, 30), (0, 1, 2, 3)).since(25)
        Slices(edges=(20, 30), owners=(1, 2, 3))
        """
        gone = bisect_right(self.edges, horizon) - 1
        return Slices(self.edges[gone:], self.owners[gone:]) if gone > 0 else self

    def given(self, at: int, owner: Owner) -> Slices[Owner]:
        """With another owner for the piece at a position."""
        owners = list(self.owners)
        owners[at] = owner
        return Slices(self.edges, tuple(owners))

    def to_dict(self) -> dict[str, Any]:
        return {"edges": list(self.edges), "owners": list(self.owners)}

    @staticmethod
    def from_dict(saved: Mapping[str, Any]) -> Slices[Any]:
        owners = (tuple(o) if isinstance(o, list) else o for o in saved["owners"])
        return Slices(tuple(saved["edges"]), tuple(owners))


def segment_length(text: str | None) -> int | None:
    """A length that the user has fixed, in microseconds; None where it is to be found."""
    if text is None:
        return None
    length = microseconds(text, "segment")
    if not length:
        raise QueryError(f'segment is {text!r}; write a length like "5 seconds"')
    return length


def united(ranges: Sequence[Range]) -> list[Range]:
    """The same times, as few ranges that neither overlap nor touch.

    >>> united([(5, 9), (0, 3), (4, 6)])
    [(0, 9)]
    """
    found: list[Range] = []
    for first, last in sorted(ranges):
        if found and first <= found[-1][1] + 1:
            found[-1] = (found[-1][0], max(found[-1][1], last))
        else:
            found.append((first, last))
    return found


class Density:
    """How many rows lie where on the time axis, as far as the sizes of segments tell.

    Within a segment rows are taken to lie evenly, so counts are estimates; no result hangs on them.
    """

    def __init__(self, refs: Sequence[SegmentRef]) -> None:
        first = np.array([ref.first for ref in refs], np.int64)
        after = np.array([ref.last + 1 for ref in refs], np.int64)
        rows = np.array([ref.rows for ref in refs], np.float64)
        rate = rows / np.maximum(after - first, 1)
        times = np.concatenate([first, after])
        order = np.argsort(times, kind="stable")
        self._times = times[order]
        slopes = np.cumsum(np.concatenate([rate, -rate])[order])
        steps = np.diff(self._times) * slopes[:-1] if len(times) else np.empty(0)
        self._before = np.concatenate([[0.0], np.cumsum(steps)]) if len(times) else np.empty(0)
        self.rows = float(rows.sum())
        self.first = int(first.min()) if len(refs) else None
        self.last = int(after.max()) - 1 if len(refs) else None

    def before(self, time: int) -> float:
        if not len(self._times):
            return 0.0
        return float(np.interp(time, self._times, self._before))

    def counts(self, times: np.ndarray) -> np.ndarray:
        """Rows before each of many times."""
        if not len(self._times):
            return np.zeros(np.shape(times))
        found: np.ndarray = np.interp(times, self._times, self._before)
        return found

    def between(self, first: int, last: int) -> float:
        """Rows from `first` to `last`, both included."""
        return max(self.before(last + 1) - self.before(first), 0.0)

    def time_at(self, rows: float) -> int:
        """The time before which there are so many rows."""
        return int(np.interp(rows, self._before, self._times))

    def cuts(self, start: int, length: int, most: int) -> Iterator[int]:
        """Times at which segments of a length begin, one after another behind `start`.

        A stretch without rows is passed over, and the length is raised where there would be more
        than `most` of them: after a long backlog, or for a very short length.
        """
        if self.last is None:
            return
        edge = self._rows_from(start + length)
        step = max(length, (self.last - edge) // most + 1)
        while edge <= self.last:
            yield edge
            edge = self._rows_from(edge + step)

    def _rows_from(self, time: int) -> int:
        """The time, or the first after it from which there are rows."""
        if self.last is None or time > self.last or self.between(time, time):
            return time
        return max(self.time_at(self.before(time) + 0.5), time)

    @property
    def rate(self) -> float:
        """Rows per microsecond of the time that they span."""
        if self.first is None or self.last is None:
            return 0.0
        return self.rows / max(self.last - self.first, 1)

    def part(self, length: int) -> float:
        """The part of all rows that a stretch of some length holds, on average."""
        if self.first is None or self.last is None:
            return 1.0
        return min(length / max(self.last - self.first, 1), 1.0)
