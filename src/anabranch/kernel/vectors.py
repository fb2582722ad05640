"""Dense vectors: distance, cosine and inner product, found by matrix products.

Every measure here compares a score with a limit, where

    score(a, b) = x · y - h(x) - h(y)

for vectors x and y made of a and b (moved, or scaled to length 1). A product of two blocks of
rows thus scores all their pairs. It is computed in single precision, twice as fast as double (490
against 225 million pairs/s on one core, 40 dimensions), with a bound on its error: pairs above
the limit by more than the bound match, pairs below it by more do not, and the few between are
decided by the definition itself. The answer is the definition's, to the bit.

The bound, for n terms and the unit roundoff u: a product, in whatever order it is summed, is off
by at most γ_n |x| |y|, γ_n = nu / (1 - nu) (Higham 2002, Eq. 3.5), and rounding x and y to single
precision first adds 2u |x| |y|. The errors of h and of the definition, both in double precision,
are below n u |x|² and n u |y|². All of it is below c (w |x|² + |y|² / w) / 2 for c = 4 (n + 8) u
and any w > 0, a sum of a part for each row, called its margin.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.kernel.base import Bools, Index, Ints, Pairs, Probe, Target, UnfitError
from anabranch.kernel.columns import Reach, Vectors, reach, vectors
from anabranch.kernel.pairs import ranges
from anabranch.model.query import Term
from anabranch.model.terms import Cosine, InnerProduct, Within

Floats = npt.NDArray[np.float64]
Matrix = npt.NDArray[Any]
Scored = tuple[Ints, Ints, Matrix]
"""Positions in a reach, rows of the target, and the scores of these pairs."""

TILE_ROWS, TILE_COLUMNS = 256, 2048
"""A product of this size stays in the cache (2 MB) between being computed and being compared."""

BLOCK_ROWS = 4096
"""Probe rows that share the conversion of a tile's columns."""

SLACK = 512
"""Columns that a block may look at in vain: about the cost of starting another block."""

_BATCH = 1 << 15
"""Scored pairs are decided this many at a time: tiles often have none or a handful."""

_DECIDED_AT_ONCE = 4096
"""Pairs whose vectors are gathered at once, so that they stay in the cache."""


def products(
    near: Reach, block: slice, left: Matrix, cut: Matrix, right: Callable[[int, int], Matrix]
) -> Iterator[Scored]:
    """Pairs in reach whose inner product is at least the `cut` of the left row.

    `left` and `cut` belong to the probe rows of `block`; `right(first, last)` makes the matrix
    of a range of target rows, so that no more than a tile of it exists at a time.
    """
    start, stop = near.start[block], near.stop[block]
    space = np.empty(TILE_ROWS * TILE_COLUMNS, left.dtype)
    for first in range(int(start.min()), int(stop.max()), TILE_COLUMNS):
        last = min(first + TILE_COLUMNS, int(stop.max()))
        other = right(first, last).T
        for row in range(0, len(left), TILE_ROWS):
            piece = slice(row, row + TILE_ROWS)
            if start[piece].min() >= last or stop[piece].max() <= first:
                continue
            part = left[piece]
            scores = space[: len(part) * (last - first)].reshape(len(part), last - first)
            np.matmul(part, other, out=scores)
            hits = np.flatnonzero(scores >= cut[piece, None])
            if len(hits):
                i, j = np.divmod(hits, last - first)
                i, j = i + row, j + first
                inside = (j >= start[i]) & (j < stop[i])
                yield i[inside] + block.start, j[inside], scores.ravel()[hits[inside]]


def batched(pieces: Iterator[Scored]) -> Iterator[Scored]:
    """The same pairs in larger pieces."""
    waiting: list[Scored] = []
    size = 0
    for piece in pieces:
        waiting.append(piece)
        size += len(piece[0])
        if size >= _BATCH:
            yield _joined(waiting)
            waiting, size = [], 0
    if waiting:
        yield _joined(waiting)


def _joined(pieces: list[Scored]) -> Scored:
    i, j, scores = zip(*pieces, strict=True)
    return np.concatenate(i), np.concatenate(j), np.concatenate(scores)


class _Lifted:
    """Rows as the product takes them, with the margins of their scores.

    Rows that nothing can be said about in this precision (infinite, or so large that a product
    might overflow) are `wild`: every pair of theirs is left to the definition.
    """

    def __init__(self, kernel: _VectorKernel, table: Matrix, alive: Bools, how: _Scale) -> None:
        with np.errstate(all="ignore"):  # what comes of infinities is sorted out below
            x = kernel.lift(table.astype(np.float64), how.centre)
            # Empty vectors carry no NaN or infinity: the definition has to say what they are.
            squares = np.einsum("ij,ij->i", x, x) if x.size else np.full(len(x), np.inf)
            terms, info = x.shape[1] + 1, np.finfo(how.dtype)
            self.unit = 4 * (terms + 8) * float(info.eps) / 2
            # What is lost where a product or a rounded element falls below the normal numbers.
            tiny = 2 * terms * float(info.tiny) * (1 + np.sqrt(squares))
            self.margin: Floats = self.unit * how.balance * squares / 2 + tiny
        self.half: Floats = squares / 2 if kernel.halves else np.zeros(len(x))
        self.dead: Bools = np.isnan(squares) | ~alive
        self._large, self._larger = 2.0 ** (info.maxexp * 0.8), 2.0 ** (info.maxexp * 0.95)
        self.wild: Bools = ~self.dead & ~(squares < self._large)
        out = self.dead | self.wild
        if out.any():
            x[out] = 0
            self.half[out] = 0
            self.margin[out] = np.nan  # so that no comparison with it is ever sure
        self.matrix: Matrix = np.empty((len(x), terms), how.dtype)
        self.matrix[:, :-1] = x

    def as_left(self, limit: float) -> Floats:
        """Complete the matrix for the left side and return the score from which it may match."""
        self.matrix[:, -1] = 1
        if abs(limit) < self._large:
            self.margin += self.unit * abs(limit)
            cut = limit + self.half - self.margin
            cut[self.wild] = -np.inf
        else:
            self.margin[:] = np.nan
            cut = np.full(len(self.half), -np.inf)
        cut[self.dead] = np.nan
        return cut

    def as_right(self) -> Matrix:
        last = self.margin - self.half
        # Finite, as infinities times the zeros that BLAS pads with would raise warnings.
        last[self.wild], last[self.dead] = self._larger, -self._larger
        self.matrix[:, -1] = last
        return self.matrix


@dataclass(frozen=True)
class _Scale:
    """The precision, what is taken off every vector, and this side's `w` of the bound."""

    dtype: type[np.floating[Any]]
    centre: Floats
    balance: float


class _VectorKernel(ABC):
    """The driver that the measures share. `holds` and `candidates` agree to the bit."""

    exact = True
    costly = False
    halves = False
    """Whether half of each squared length is taken off the score."""

    def __init__(self, term: Term, limit: float) -> None:
        self._text, self._limit = term.text, limit

    @abstractmethod
    def lift(self, x: Floats, centre: Floats) -> Floats:
        """The vectors whose products are scores. May write to `x`."""

    @abstractmethod
    def decide(self, a: Floats, b: Floats) -> Bools:
        """The definition, of two matrices, row by row. May write to `a`."""

    def balance(self, left: Matrix, right: Matrix) -> float:
        """How margins are shared between the two sides: the `w` of the bound."""
        return 1.0

    def holds(self, columns: Sequence[pa.Array]) -> Bools:
        left, right = vectors(columns[0]), vectors(columns[1])
        both = left.valid & right.valid
        unequal = np.flatnonzero(both & (left.lengths != right.lengths))
        if len(unequal):
            raise self._unequal(left, right, int(unequal[0]), int(unequal[0]))
        answer = np.zeros(len(both), np.bool_)
        for width in np.unique(left.lengths[both]):
            rows = np.flatnonzero(both & (left.lengths == width))
            answer[rows] = self._decided(left.table(width), right.table(width), rows, rows)
        return answer

    def prepare(self, stream: int, columns: Mapping[int, pa.Array], times: Ints) -> Index:
        """Nothing: converting all rows costs as much as scoring them for some 40 probe rows."""
        return {}

    def candidates(self, stream: int, target: Target, probe: Probe) -> Iterator[Pairs]:
        ours, theirs = (vectors(*side.columns.values()) for side in (probe, target))
        near = reach(target.times, probe, ours.valid)
        lengths = ours.lengths[near.probes]
        widths = np.unique(lengths)
        for width in widths:
            self._check_lengths(near.only(lengths == width), ours, theirs, int(width))
        for width in widths:
            yield from self._matching(near.only(lengths == width), ours, theirs, target, int(width))

    def _matching(
        self, near: Reach, ours: Vectors, theirs: Vectors, target: Target, width: int
    ) -> Iterator[Pairs]:
        left, right = ours.table(width), theirs.table(width)
        alive = theirs.valid & (theirs.lengths == width)
        if any(map(_exceeds_doubles, (left, right))):
            # Scores know nothing of integers that no double is equal to: the definition decides.
            for at, j in ranges(near.start, near.stop):
                i = near.probes[at]
                match = alive[j] & self._decided(left, right, i, j)
                yield i[match].astype(np.int32), j[match].astype(np.int32)
            return
        margins = np.empty(len(right))
        centre = target.index.get("centre", np.zeros(0))
        centre = centre if len(centre) == width else np.zeros(width)
        balance = self.balance(left, right)
        dtype: type[np.floating[Any]] = np.float32

        def tile(first: int, last: int) -> Matrix:
            how = _Scale(dtype, centre, 1 / balance)
            lifted = _Lifted(self, right[first:last], alive[first:last], how)
            margins[first:last] = lifted.margin
            return lifted.as_right()

        for block in near.blocks(BLOCK_ROWS, SLACK):
            probes = near.probes[block]
            how = _Scale(dtype, centre, balance)
            lifted = _Lifted(self, left[probes], np.ones(len(probes), np.bool_), how)
            cut = lifted.as_left(self._limit)
            doubtful = 0
            # The next number below, as rounding to single precision may have gone up.
            rounded = np.nextafter(cut.astype(dtype), dtype(-np.inf))
            scored = products(near, block, lifted.matrix, rounded, tile)
            for i, j, scores in batched(scored):
                k = i - block.start
                match = scores >= cut[k] + 2 * (lifted.margin[k] + margins[j])
                doubt = np.flatnonzero(~match)
                doubtful += len(doubt)
                doubt = doubt[alive[j[doubt]]]
                match[doubt] = self._decided(left, right, near.probes[i[doubt]], j[doubt])
                yield near.probes[i[match]].astype(np.int32), j[match].astype(np.int32)
            area = len(probes) * int(near.stop[block].max() - near.start[block].min())
            if doubtful > area / 32:
                dtype = np.float64

    def _decided(self, left: Matrix, right: Matrix, i: Ints, j: Ints) -> Bools:
        answer = np.empty(len(i), np.bool_)
        with np.errstate(all="ignore"):
            for first in range(0, len(i), _DECIDED_AT_ONCE):
                piece = slice(first, first + _DECIDED_AT_ONCE)
                answer[piece] = self.compare(left[i[piece]], right[j[piece]])
        return answer

    def compare(self, a: Matrix, b: Matrix) -> Bools:
        """The definition, of two matrices of numbers of any type."""
        return self.decide(a.astype(np.float64), b.astype(np.float64))

    def _check_lengths(self, near: Reach, ours: Vectors, theirs: Vectors, width: int) -> None:
        other = theirs.valid & (theirs.lengths != width)
        if not other.any():
            return
        before = np.concatenate(([0], np.cumsum(other)))
        clash = np.flatnonzero(before[near.stop] > before[near.start])
        if len(clash):
            first = near.start[clash[0]]
            row = first + int(np.flatnonzero(other[first : near.stop[clash[0]]])[0])
            raise self._unequal(ours, theirs, int(near.probes[clash[0]]), int(row))

    def _unequal(self, left: Vectors, right: Vectors, i: int, j: int) -> UnfitError:
        a, b = (
            side.values[side.starts[row] :][: side.lengths[row]]
            for side, row in ((left, i), (right, j))
        )
        reason = f"vectors of {len(a)} and {len(b)} elements cannot be compared"
        shown = f"{self._text}: {reason}, such as {_sample(a)} and {_sample(b)}"
        return UnfitError(shown, reason, (i, j))


class WithinKernel(_VectorKernel):
    """`sqrt(sum((a - b)²)) <= distance`. The score is minus half of the squared distance."""

    halves = True

    def __init__(self, term: Term) -> None:
        assert isinstance(term.kind, Within)
        self._distance = term.kind.distance
        super().__init__(term, -self._distance * self._distance / 2)

    def prepare(self, stream: int, columns: Mapping[int, pa.Array], times: Ints) -> Index:
        """The mean vector: distances do not change when both sides are moved by it.

        Vectors far from the origin, but close to each other, are then short, and so are their
        margins.
        """
        rows = vectors(*columns.values())
        lengths = np.unique(rows.lengths[rows.valid])
        if len(lengths) != 1:
            return {}
        with np.errstate(all="ignore"):
            centre = rows.table(int(lengths[0]))[rows.valid].mean(axis=0, dtype=np.float64)
        return {"centre": np.nan_to_num(centre, nan=0, posinf=0, neginf=0)}

    def lift(self, x: Floats, centre: Floats) -> Floats:
        x -= centre
        return x

    def compare(self, a: Matrix, b: Matrix) -> Bools:
        if a.dtype.kind != "i" or b.dtype.kind != "i":
            return super().compare(a, b)
        # Integers are subtracted as such: beyond 2⁵³ they would be rounded before.
        gap = a.astype(np.float64) - b.astype(np.float64)
        exact = (a.astype(np.int64) - b.astype(np.int64)).astype(np.float64)
        return self.decide(np.where(np.abs(gap) < 2.0**62, exact, gap), np.zeros_like(gap))

    def decide(self, a: Floats, b: Floats) -> Bools:
        a -= b
        a *= a
        close: Bools = np.sqrt(a.sum(axis=1)) <= self._distance
        return close


class InnerProductKernel(_VectorKernel):
    """`sum(a * b) >= at_least`. The score is the inner product."""

    def __init__(self, term: Term) -> None:
        assert isinstance(term.kind, InnerProduct)
        super().__init__(term, term.kind.at_least)

    def lift(self, x: Floats, centre: Floats) -> Floats:
        return x

    def balance(self, left: Matrix, right: Matrix) -> float:
        # |x| |y| is smallest below (w |x|² + |y|² / w) / 2 where w = |y| / |x|; a sample does.
        with np.errstate(all="ignore"):
            ours, theirs = (
                float(np.median(np.linalg.norm(m[:: len(m) // 256 + 1].astype(np.float64), axis=1)))
                for m in (left, right)
            )
        ratio = theirs / ours if ours > 0 else 1.0
        return ratio if 1e-6 < ratio < 1e6 else 1.0

    def decide(self, a: Floats, b: Floats) -> Bools:
        a *= b
        enough: Bools = a.sum(axis=1) >= self._limit
        return enough


class CosineKernel(_VectorKernel):
    """`sum(a * b) / (|a| |b|) >= at_least`; a zero vector matches nothing."""

    def __init__(self, term: Term) -> None:
        assert isinstance(term.kind, Cosine)
        super().__init__(term, term.kind.at_least)

    def lift(self, x: Floats, centre: Floats) -> Floats:
        squares = np.einsum("ij,ij->i", x, x)
        x /= np.sqrt(squares)[:, None]
        # Where squares leave the normal numbers the definition itself loses digits: ask it.
        x[(squares < 2.0**-900) | (squares > 2.0**900)] = np.inf
        x[squares == 0] = np.nan
        return x

    def decide(self, a: Floats, b: Floats) -> Bools:
        lengths = np.sqrt((a * a).sum(axis=1)) * np.sqrt((b * b).sum(axis=1))
        a *= b
        near: Bools = (lengths > 0) & (a.sum(axis=1) / lengths >= self._limit)
        return near


def _exceeds_doubles(table: Matrix) -> bool:
    """Whether a table has integers that a double may not be equal to."""
    return table.dtype.kind == "i" and bool((np.abs(table.astype(np.float64)) >= 2.0**53).any())


def _sample(vector: Matrix) -> str:
    shown = ", ".join(f"{value:g}" for value in vector[:4])
    return f"[{shown}, …]" if len(vector) > 4 else f"[{shown}]"
