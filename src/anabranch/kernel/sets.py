"""Sets: how many distinct elements two arrays have in common, counted by an inverted index.

An item has a 64-bit code: integers, floats and times are their own, and others are hashed. The
index lists, for each item of a segment, the rows that have it, in the order of rows and thus of
time. Two items with one hash stay two items: a probe's items are looked up by code, and those
that are hashed are then compared with the real item, once for each distinct item and not for
each pair. So the counts are exact, and nothing is left to be checked.

Counts come from a product of two matrices of zeros and ones, one row for each set and a column
for each item. Measured on one core, sets of about 5 of k items, Zipf distributed, pairs/s:

    k = 100     dense, in BLAS 256 M    sparse 102 M
    k = 1 000   dense           37 M    sparse 210 M

A sparse product costs some 8 ns for each item that a pair shares; a dense one 1 ns and 25 ps for
each item there is, shared or not. The cheaper one is taken, block by block.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from scipy import sparse

from anabranch.errors import TermError
from anabranch.kernel.base import PAIRS_AT_ONCE, Bools, Index, Ints, Pairs, Probe, Target
from anabranch.kernel.columns import (
    Items,
    Lists,
    Reach,
    canonical,
    codes,
    items,
    lists,
    reach,
    stacked,
)
from anabranch.kernel.vectors import BLOCK_ROWS, SLACK, Scored, batched, products
from anabranch.model.query import Term
from anabranch.model.terms import Jaccard, Overlap

Floats = npt.NDArray[np.float64]

SPARSE_NS, DENSE_NS, DENSE_ITEM_NS = 8.0, 1.0, 0.025
"""The costs above: of a shared item, of a pair, and of a pair and item."""


def inverted(found: Items) -> dict[str, npt.NDArray[Any]]:
    """The index of a column: codes of its items in order, and the rows that have each item."""
    code, certain = codes(found.values)
    order = np.argsort(code, kind="stable")
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    item = rank[found.member]
    entries = np.argsort(item, kind="stable")
    starts = np.searchsorted(item[entries], np.arange(len(order) + 1))
    index: dict[str, npt.NDArray[Any]] = {
        "codes": code[order],
        "starts": starts,
        "rows": found.rows[entries].astype(np.int32),
    }
    if not certain:
        # Where in its row the real item stands, for the first row of its list.
        index["places"] = found.places[entries[starts[:-1]]].astype(np.int32)
    if found.weights is not None:
        index["weights"] = found.weights[entries]
    return index


class Meeting:
    """The entries of probe rows, beside the lists of the target's index that they meet."""

    def __init__(self, near: Reach, target: Target, found: Items, item: Ints) -> None:
        """`item` is the position of each entry's item in the target's index, or -1."""
        self.near, self._rows, self._height = near, target.index["rows"], len(target.times)
        self._starts, self._weights = target.index["starts"], target.index.get("weights")
        self._keys: Ints | None = None
        position = np.full(len(found.sizes), -1)
        position[near.probes] = np.arange(len(near))
        entries = np.flatnonzero((item >= 0) & (position[found.rows] >= 0))
        entries = entries[np.argsort(position[found.rows[entries]], kind="stable")]
        self._item = item[entries]
        order = position[found.rows[entries]]
        self._bounds: Ints = np.searchsorted(order, np.arange(len(near) + 1))
        self._data = None if found.weights is None else found.weights[entries]

    def blocks(self) -> Iterator[Block]:
        for rows in self.near.blocks(BLOCK_ROWS, SLACK):
            yield self._block(rows)

    def _block(self, rows: slice) -> Block:
        """The part of the lists that some probe rows meet, in the target rows they reach."""
        first = int(self.near.start[rows].min())
        last = int(self.near.stop[rows].max())
        bounds = self._bounds[rows.start : rows.stop + 1]
        entries = slice(bounds[0], bounds[-1])
        items, local = np.unique(self._item[entries], return_inverse=True)
        begin, end = self._starts[items], self._starts[items + 1]
        if first > 0 or last < self._height:
            if self._keys is None:
                lists = np.repeat(np.arange(len(self._starts) - 1), np.diff(self._starts))
                self._keys = lists * self._height + self._rows
            begin = np.searchsorted(self._keys, items * self._height + first)
            end = np.searchsorted(self._keys, items * self._height + last)
        counts = end - begin
        edges = np.concatenate(([0], np.cumsum(counts)))
        places = np.arange(edges[-1]) + np.repeat(begin - edges[:-1], counts)
        shape = (len(items), last - first)
        right = _sparse(self._weights, places, self._rows[places] - first, edges, shape)
        shape = (len(bounds) - 1, len(items))
        left = _sparse(self._data, entries, local, bounds - bounds[0], shape)
        shared = np.concatenate(([0], np.cumsum(counts[local])))[bounds - bounds[0]]
        return Block(self.near, rows, first, left, right, shared)


@dataclass(frozen=True)
class Block:
    """Two sparse matrices, probe rows × items and items × target rows."""

    near: Reach
    rows: slice
    first: int
    left: Any
    right: Any
    shared: Ints
    """How many items the rows before each one share with target rows, pair by pair."""

    @property
    def area(self) -> int:
        return int(self.left.shape[0] * self.right.shape[1])

    def sparse(self, least: Floats) -> Iterator[Scored]:
        """Products, at least the probe row's `least`, of pairs that share an item in reach."""
        row, rows = 0, self.left.shape[0]
        while row < rows:
            last = int(np.searchsorted(self.shared, self.shared[row] + PAIRS_AT_ONCE, "right")) - 1
            last = min(max(last, row + 1), rows)
            scores = self.left[row:last] @ self.right
            # Most pairs end here, so this has to be the cheapest test.
            few = (
                least[row]
                if np.ptp(least[row:last]) == 0
                else np.repeat(least[row:last], np.diff(scores.indptr))
            )
            kept = np.flatnonzero(~(scores.data < few))
            i = np.searchsorted(scores.indptr, kept, "right") + (row + self.rows.start - 1)
            j = scores.indices[kept].astype(np.int64) + self.first
            inside = (j >= self.near.start[i]) & (j < self.near.stop[i])
            yield i[inside], j[inside], scores.data[kept[inside]]
            row = last


def _sparse(
    weights: Floats | None, places: Any, columns: Ints, edges: Ints, shape: tuple[int, int]
) -> Any:
    data = np.ones(len(columns), np.float32) if weights is None else weights[places]
    return sparse.csr_matrix((data, columns, edges), shape)


def looked_up(target: Target, parts: Lists, values: pa.Array) -> Ints:
    """For each value its position in the target's index, or -1."""
    code, certain = codes(values)
    start = np.searchsorted(target.index["codes"], code, "left")
    count = np.searchsorted(target.index["codes"], code, "right") - start
    asked = np.repeat(np.arange(len(code)), count)
    item = np.arange(len(asked)) + np.repeat(start - np.cumsum(count) + count, count)
    if not certain and len(asked):
        row = target.index["rows"][target.index["starts"][item]]
        real = parts.elements.take(pa.array(parts.starts[row] + target.index["places"][item]))
        same = np.asarray(pc.equal(canonical(real), values.take(pa.array(asked))))
        asked, item = asked[same], item[same]
    found = np.full(len(values), -1)
    found[asked] = item
    return found


class _SetKernel(ABC):
    """The driver that both measures share; the counts are exact, so `candidates` are too."""

    exact = True
    costly = False

    def __init__(self, term: Term, base: float, share: float) -> None:
        """A count is enough only if it is at least `base + share * (both sizes)`, or nearly."""
        self._text, self._base, self._share = term.text, base, share

    @abstractmethod
    def enough(self, common: Floats, left: Ints, right: Ints) -> Bools:
        """The definition, of the sizes of an intersection and of the two sets."""

    def holds(self, columns: Sequence[pa.Array]) -> Bools:
        left, right = lists(columns[0]), lists(columns[1])
        check_types(self._text, left, right)
        found, rows = items(stacked(left, right)), len(left.valid)
        width = max(len(found.values), 1)
        above = found.rows < rows
        entry = found.rows * width + found.member
        both = np.intersect1d(entry[above], entry[~above] - rows * width, assume_unique=True)
        common = np.bincount(both // width, minlength=rows).astype(np.float64)
        return self.enough(common, found.sizes[:rows], found.sizes[rows:])

    def prepare(self, stream: int, columns: Mapping[int, pa.Array], times: Ints) -> Index:
        found = items(lists(*columns.values()))
        return {**inverted(found), "sizes": found.sizes.astype(np.int32)}

    def candidates(self, stream: int, target: Target, probe: Probe) -> Iterator[Pairs]:
        ours, theirs = (lists(*side.columns.values()) for side in (probe, target))
        check_types(self._text, ours, theirs)
        found = items(ours)
        item = looked_up(target, theirs, found.values)[found.member]
        known_here = np.bincount(found.rows[item >= 0], minlength=len(found.sizes))
        # No partner can share more than what the target knows, nor be smaller than that.
        hopeful = self.enough(known_here.astype(np.float64), found.sizes, known_here)
        meeting = Meeting(reach(target.times, probe, hopeful), target, found, item)
        sizes = target.index["sizes"].astype(np.int64)
        own_sizes = found.sizes[meeting.near.probes]
        for block in meeting.blocks():
            for i, j, common in batched(self._counts(block, own_sizes, sizes)):
                keep = self.enough(common.astype(np.float64), own_sizes[i], sizes[j])
                yield meeting.near.probes[i[keep]].astype(np.int32), j[keep].astype(np.int32)

    def _counts(self, block: Block, ours: Ints, theirs: Ints) -> Iterator[Scored]:
        largest = int(max(ours.max(initial=0), theirs.max(initial=0)))
        width = block.left.shape[1]
        dense = block.area * (DENSE_NS + DENSE_ITEM_NS * width) < SPARSE_NS * block.shared[-1]
        # Single precision: the error of a count stays below 1/4, so that rounding repairs it.
        if not dense or 2 * largest * (width + 4) >= 1 << 22:
            # A partner that shares c items has c items or more: c >= share * (size + c).
            least = (self._base + self._share * ours[block.rows]) / (1 - self._share) - 0.5
            yield from block.sparse(least.astype(np.float64))
            return
        left = np.ones((block.left.shape[0], width + 1), np.float32)
        left[:, :-1] = block.left.toarray()
        cut = self._base + self._share * ours[block.rows] - 0.5
        lists_by_row = block.right.T.tocsr()

        def tile(first: int, last: int) -> npt.NDArray[Any]:
            right = np.empty((last - first, width + 1), np.float32)
            right[:, :-1] = lists_by_row[first - block.first : last - block.first].toarray()
            right[:, -1] = -self._share * theirs[first:last]
            return right

        for i, j, score in products(block.near, block.rows, left, cut.astype(np.float32), tile):
            yield i, j, np.rint(score + self._share * theirs[j])


class OverlapKernel(_SetKernel):
    """`|A ∩ B| >= at_least`."""

    def __init__(self, term: Term) -> None:
        assert isinstance(term.kind, Overlap)
        self._at_least = term.kind.at_least
        super().__init__(term, self._at_least, 0.0)

    def enough(self, common: Floats, left: Ints, right: Ints) -> Bools:
        return common >= self._at_least


class JaccardKernel(_SetKernel):
    """`|A ∩ B| / |A ∪ B| >= at_least`; an empty set matches nothing."""

    def __init__(self, term: Term) -> None:
        assert isinstance(term.kind, Jaccard)
        self._at_least = term.kind.at_least
        # c / (a + b - c) >= t is c >= t / (1 + t) · (a + b)
        super().__init__(term, 0.0, self._at_least / (1 + self._at_least))

    def enough(self, common: Floats, left: Ints, right: Ints) -> Bools:
        union = np.maximum(left + right - common, 1)
        similar: Bools = (common > 0) & (common / union >= self._at_least)
        return similar


def check_types(text: str, left: Lists, right: Lists) -> None:
    """Refuse elements of types that are never equal, such as numbers and strings."""
    a, b = left.elements, right.elements
    if canonical(a[:0]).type != canonical(b[:0]).type:
        raise TermError(f"{text}: elements of type {a.type} and {b.type} are never equal; cast one")
