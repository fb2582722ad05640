"""What a kernel is: the definition of a term, and an index that finds candidates for it.

`holds` decides; an index may only propose. Whatever the index finds is checked against `holds`
and against the window (unless the kernel says that its candidates are already exact), so an
index can be loose but never wrong.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.errors import TermError

Bools = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int64]
Rows = npt.NDArray[np.signedinteger[Any]]
Index = Mapping[str, npt.NDArray[Any]]
Pairs = tuple[Rows, Rows]
"""Row numbers in the probe and, beside them, row numbers in the target."""

PAIRS_AT_ONCE = 1 << 18
"""How many candidate pairs a kernel hands out at a time: enough to amortise, little memory."""


class UnfitError(TermError):
    """A term cannot be evaluated because of the values in some of the rows that it was given.

    `reason` says why, in words without the rows; `pair` are the positions, in the probe and in the
    target, of two rows that candidates were sought for in vain.
    """

    def __init__(self, text: str, reason: str, pair: tuple[int, int] | None = None) -> None:
        super().__init__(text)
        self.reason, self.pair = reason, pair


@dataclass(frozen=True)
class Target:
    """Rows of one segment that are probed: a term's columns by operand position, and its index."""

    columns: Mapping[int, pa.Array]
    index: Index
    times: Ints


@dataclass(frozen=True)
class Probe:
    """Rows that look for partners: a term's columns, and the times their partners may have."""

    columns: Mapping[int, pa.Array]
    low: Ints
    high: Ints


class Kernel(Protocol):
    """How one kind of term is evaluated."""

    exact: bool
    """Whether `candidates` yields only pairs for which the term holds."""

    costly: bool
    """Whether a comparison costs so much that no row should be compared twice with another."""

    def holds(self, columns: Sequence[pa.Array]) -> Bools:
        """The definition. One aligned column per operand; a null makes it false.

        Raises UnfitError where the values of some rows cannot be handled.
        """

    def prepare(self, stream: int, columns: Mapping[int, pa.Array], times: Ints) -> Index | None:
        """The index arrays to store with a segment of `stream`; None where there is no index.

        `columns` are the operands of this term that belong to the stream, by position. `times`
        ascend. Called once per segment, when it is written.
        """

    def candidates(self, stream: int, target: Target, probe: Probe) -> Iterator[Pairs]:
        """Pairs that may match, among rows of `stream` (the target) and the probe's rows.

        May yield pairs outside of the times the probe allows; must not miss one inside them.
        At most about PAIRS_AT_ONCE pairs at a time. `probe.columns` are the remaining operands.
        Raises UnfitError, with a pair, before it yields any.
        """
