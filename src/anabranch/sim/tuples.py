"""Tuples in columns: rows of one stream, and combinations on their way past the streams."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Ints = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Which = npt.NDArray[np.intp] | npt.NDArray[np.bool_] | slice


@dataclass(frozen=True)
class Tuples:
    """Rows of one stream: what they are, when they are from, and when they came in."""

    ids: Ints
    times: Ints
    values: Ints
    arrived: Floats

    def __len__(self) -> int:
        return len(self.ids)

    def take(self, which: Which) -> Tuples:
        return Tuples(self.ids[which], self.times[which], self.values[which], self.arrived[which])

    def within(self, first: int, last: int) -> Tuples:
        return self.take((self.times >= first) & (self.times <= last))

    @staticmethod
    def none() -> Tuples:
        empty = np.empty(0, np.int64)
        return Tuples(empty, empty, empty, np.empty(0))

    @staticmethod
    def joined(parts: Sequence[Tuples]) -> Tuples:
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return Tuples.none()
        return Tuples(
            np.concatenate([part.ids for part in parts]),
            np.concatenate([part.times for part in parts]),
            np.concatenate([part.values for part in parts]),
            np.concatenate([part.arrived for part in parts]),
        )


@dataclass(frozen=True)
class Combos:
    """Combinations of rows, one column a stream; of streams not visited yet the id is -1."""

    ids: Ints
    values: Ints
    latest: Ints
    """The greatest time of a combination's rows."""
    deadline: Ints
    """The last time that a further row may have: the least of a row's time and its window."""
    arrived: Floats
    """When the row that set out came in: from there on its results are waited for."""

    def __len__(self) -> int:
        return len(self.latest)

    def take(self, which: Which) -> Combos:
        return Combos(
            self.ids[which],
            self.values[which],
            self.latest[which],
            self.deadline[which],
            self.arrived[which],
        )

    @staticmethod
    def joined(parts: Sequence[Combos]) -> Combos:
        if len(parts) == 1:
            return parts[0]
        return Combos(
            np.concatenate([part.ids for part in parts]),
            np.concatenate([part.values for part in parts]),
            np.concatenate([part.latest for part in parts]),
            np.concatenate([part.deadline for part in parts]),
            np.concatenate([part.arrived for part in parts]),
        )
