"""Queries to simulate: streams with one number each, and terms between pairs of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import numpy.typing as npt

from anabranch.errors import QueryError
from anabranch.model.query import Operand, Output, Query, StoredColumn, Stream, Term
from anabranch.model.terms import Band, Equal, Kind, Match

SECOND = 1_000_000
VALUE = "v"

_MIX = np.uint64(0x9E37_79B9_7F4A_7C15)
_STIR = np.uint64(0xBF58_476D_1CE4_E5B9)


@dataclass(frozen=True)
class Chance:
    """Whether two rows match: as if by chance, yet the same whoever asks (PSP09, 8.2)."""

    selectivity: float

    def __call__(self, left: Any, right: Any) -> Any:
        a, b = np.asarray(left).view(np.uint64), np.asarray(right).view(np.uint64)
        mixed = (a * _MIX) ^ b
        mixed ^= mixed >> np.uint64(29)
        mixed *= _STIR
        mixed >>= np.uint64(32)
        return mixed < np.uint64(round(self.selectivity * 2**32))


def holds(kind: Kind, left: npt.NDArray[Any], right: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Decide a term on whole arrays, of shapes that fit each other."""
    if isinstance(kind, Match):
        return np.asarray(kind.function(left, right), np.bool_)
    if isinstance(kind, Band):
        gap = np.abs(left - right)
        return np.asarray(gap < kind.width if kind.strict else gap <= kind.width)
    if isinstance(kind, Equal):
        return np.asarray(left == right)
    raise QueryError(f"a simulation knows equality, bands and functions, not {kind}")


def join(
    windows: Sequence[float],
    kind: Kind,
    pairs: Sequence[tuple[int, int]],
    lateness: float = 0.0,
) -> Query:
    """Streams a, b, c … with windows in seconds, and a term between each of some pairs."""
    names = "abcdefghi"[: len(windows)]
    streams = tuple(
        Stream(name, "ts", round(window * SECOND), round(lateness * SECOND))
        for name, window in zip(names, windows, strict=True)
    )
    stored = (StoredColumn("id", "id", '"long"'), StoredColumn(VALUE, VALUE, '"long"'))
    terms = tuple(
        Term(f"{names[a]}.v ~ {names[b]}.v", kind, (Operand(a, VALUE), Operand(b, VALUE)))
        for a, b in pairs
    )
    outputs = tuple(Output(name, Operand(at, "id")) for at, name in enumerate(names))
    spans = isinstance(kind, Equal) and len({*sum(pairs, ())}) == len(names)
    return Query(
        streams,
        (stored,) * len(names),
        ((),) * len(names),
        terms,
        outputs,
        key=(VALUE,) * len(names) if spans else None,
        key_terms=tuple(range(len(terms))) if spans else (),
    )


def clique(windows: Sequence[float], selectivity: float, lateness: float = 0.0) -> Query:
    """A selectivity between every two streams, as LD07 has it."""
    pairs = list(combinations(range(len(windows)), 2))
    return join(windows, Match(Chance(selectivity)), pairs, lateness)


def chain(windows: Sequence[float], selectivity: float, lateness: float = 0.0) -> Query:
    """A selectivity at every step of a probe, as PSP09 has it."""
    pairs = [(at, at + 1) for at in range(len(windows) - 1)]
    return join(windows, Match(Chance(selectivity)), pairs, lateness)
