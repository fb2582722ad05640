"""Maps of weights, that is sparse vectors: inner product and cosine by an inverted index.

The index adds up |a| · |b| over the keys that two maps share, which is never less than the inner
product and equal to it where no weight is negative. Being a sum of what is not negative, it is
known but for a relative error of c = 4 (n + 8) u, n terms and u the unit roundoff: pairs below
the limit by more are dropped, and pairs above it by more match if no weight is negative. The
definition decides the others; it adds in the order of the left map's entries, so that its answer
does not depend on what else it is asked at the same time.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.kernel.base import PAIRS_AT_ONCE, Bools, Index, Ints, Pairs, Probe, Target
from anabranch.kernel.columns import Items, items, lists, reach, stacked
from anabranch.kernel.pairs import ranges
from anabranch.kernel.sets import Meeting, check_types, inverted, looked_up
from anabranch.kernel.vectors import Scored, batched
from anabranch.model.query import Term
from anabranch.model.terms import Cosine, InnerProduct

Floats = npt.NDArray[np.float64]

_TINY = 1e-300
"""More than what is lost where numbers fall below the normal ones."""


class _WeightedKernel(ABC):
    """The driver that both measures share. `holds` and `candidates` agree to the bit."""

    exact = True
    costly = False

    def __init__(self, term: Term, at_least: float) -> None:
        self._text, self._at_least = term.text, at_least

    @abstractmethod
    def scale(self, left: Floats, right: Floats) -> Floats:
        """What an inner product is divided by, from the lengths of both; 0 matches nothing."""

    def holds(self, columns: Sequence[pa.Array]) -> Bools:
        left, right = lists(columns[0]), lists(columns[1])
        check_types(self._text, left, right)
        found, rows = items(stacked(left, right)), len(left.valid)
        weights = _weights(found)
        width = max(len(found.values), 1)
        cut = int(np.searchsorted(found.rows, rows))
        entry = found.rows * width + found.member
        order = np.argsort(entry[cut:])
        sought = entry[:cut] + rows * width
        place = np.searchsorted(entry[cut:], sought, sorter=order)
        place = cut + order[np.minimum(place, len(order) - 1)] if len(order) else place
        shared = np.flatnonzero(entry[place] == sought) if len(order) else place[:0]
        with np.errstate(all="ignore"):
            terms = weights[shared] * weights[place[shared]]
            inner = np.bincount(found.rows[shared], terms, minlength=rows)
            lengths = _lengths(found)
            scale = self.scale(lengths[:rows], lengths[rows:])
            answer: Bools = (scale > 0) & (inner / scale >= self._at_least)
        return answer & left.valid & right.valid

    def prepare(self, stream: int, columns: Mapping[int, pa.Array], times: Ints) -> Index:
        found = items(lists(*columns.values()))
        return {**inverted(found), "lengths": _lengths(found)}

    def candidates(self, stream: int, target: Target, probe: Probe) -> Iterator[Pairs]:
        ours, theirs = (lists(*side.columns.values()) for side in (probe, target))
        check_types(self._text, ours, theirs)
        if self._at_least <= 0:
            # Maps that share no key, of which there is no list, have an inner product of 0.
            near = reach(target.times, probe, ours.valid)
            for i, j in ranges(near.start, near.stop):
                yield from self._decided(target, probe, near.probes[i], j.astype(np.int64))
            return
        found = items(ours)
        item = looked_up(target, theirs, found.values)[found.member]
        hopeful = np.zeros(len(found.sizes), np.bool_)
        hopeful[found.rows[item >= 0]] = True
        signed = bool((_weights(found) < 0).any() or (target.index["weights"] < 0).any())
        bounded = replace(
            target, index={**target.index, "weights": _bound(target.index["weights"])}
        )
        near = reach(target.times, probe, hopeful)
        meeting = Meeting(near, bounded, replace(found, weights=_bound(_weights(found))), item)
        lengths = _lengths(found)[near.probes], target.index["lengths"]
        unit = 4 * (int(found.sizes.max(initial=0)) + 8) * 2.0**-53
        for block in meeting.blocks():
            least = np.zeros(block.left.shape[0])
            pieces = (self._likely(piece, lengths, unit) for piece in block.sparse(least))
            for i, j, sure in batched(pieces):
                doubt = sure == 0 if not signed else np.ones(len(i), np.bool_)
                yield near.probes[i[~doubt]].astype(np.int32), j[~doubt].astype(np.int32)
                yield from self._decided(target, probe, near.probes[i[doubt]], j[doubt])

    def _likely(self, piece: Scored, lengths: tuple[Floats, Floats], unit: float) -> Scored:
        """The pairs that may match; 1 beside those that do if no weight is negative, else 0."""
        i, j, most = piece
        with np.errstate(all="ignore"):
            limit = self._at_least * self.scale(lengths[0][i], lengths[1][j])
            maybe = ~(most * (1 + unit) + _TINY < limit)
            sure = (most * (1 - unit) - _TINY >= limit) & np.isfinite(most)
        return i[maybe], j[maybe], sure[maybe]

    def _decided(self, target: Target, probe: Probe, i: Ints, j: Ints) -> Iterator[Pairs]:
        step = PAIRS_AT_ONCE // 8
        for first in range(0, len(i), step):
            a, b = i[first : first + step], j[first : first + step]
            sides = {
                **{at: column.take(pa.array(a)) for at, column in probe.columns.items()},
                **{at: column.take(pa.array(b)) for at, column in target.columns.items()},
            }
            keep = self.holds([sides[at] for at in sorted(sides)])
            yield a[keep].astype(np.int32), b[keep].astype(np.int32)


class InnerProductKernel(_WeightedKernel):
    """The sum of `a[k] * b[k]` over the keys that both have is at least `at_least`."""

    def __init__(self, term: Term) -> None:
        assert isinstance(term.kind, InnerProduct)
        super().__init__(term, term.kind.at_least)

    def scale(self, left: Floats, right: Floats) -> Floats:
        return np.ones(len(left))


class CosineKernel(_WeightedKernel):
    """The inner product over both lengths is at least `at_least`; no length, no match."""

    def __init__(self, term: Term) -> None:
        assert isinstance(term.kind, Cosine)
        super().__init__(term, term.kind.at_least)

    def scale(self, left: Floats, right: Floats) -> Floats:
        return left * right


def _weights(found: Items) -> Floats:
    assert found.weights is not None
    return found.weights


def _lengths(found: Items) -> Floats:
    with np.errstate(all="ignore"):
        squares = np.bincount(found.rows, _weights(found) ** 2, minlength=len(found.sizes))
        return np.sqrt(squares)


def _bound(weights: Floats) -> Floats:
    """Magnitudes; a NaN may be anything."""
    magnitudes: Floats = np.abs(weights)
    return np.nan_to_num(magnitudes, nan=np.inf, posinf=np.inf)
