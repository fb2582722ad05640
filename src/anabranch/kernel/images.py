"""Images compared pixel by pixel (PSP09, section 8.1): an expensive predicate, made vectorised.

An image is a binary value of red, green and blue, a byte each, pixel after pixel. Two pixels are
alike if none of the three differs by more than a tolerance; two images match if they have as many
pixels, and enough of these are alike.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.kernel.base import Bools, Index, Ints, Pairs, Probe, Target
from anabranch.kernel.columns import known
from anabranch.model.query import Term
from anabranch.model.terms import Alike

CHANNELS = 3
AT_ONCE = 1 << 20
"""Bytes of images that are compared in one go: what stays in the cache of a core."""

Pixels = npt.NDArray[np.uint8]


class AlikeKernel:
    """A nested loop over the rows in reach: every pair is looked at, none is copied."""

    exact = True
    costly = True

    def __init__(self, term: Term) -> None:
        assert isinstance(term.kind, Alike)
        self._kind = term.kind

    def holds(self, columns: Sequence[pa.Array]) -> Bools:
        left, right = Images(columns[0]), Images(columns[1])
        answer = np.zeros(len(left.sizes), np.bool_)
        comparable = np.flatnonzero((left.sizes == right.sizes) & (left.sizes > 0))
        for row in comparable.tolist():
            answer[row] = self._alike(left.image(row), right.image(row)[None, :])[0]
        return answer

    def prepare(self, stream: int, columns: Mapping[int, pa.Array], times: Ints) -> Index | None:
        return None

    def candidates(self, stream: int, target: Target, probe: Probe) -> Iterator[Pairs]:
        ((position, column),) = target.columns.items()
        theirs, ours = Images(column), Images(probe.columns[1 - position])
        start = np.searchsorted(target.times, probe.low, "left")
        stop = np.searchsorted(target.times, probe.high, "right")
        for size in np.unique(ours.sizes[ours.sizes > 0]):
            rows = np.flatnonzero(theirs.sizes == size)
            if len(rows):
                matrix = theirs.matrix(rows, int(size))
                first, last = np.searchsorted(rows, start), np.searchsorted(rows, stop)
                for row in np.flatnonzero(ours.sizes == size).tolist():
                    found = self._among(ours.image(row), matrix[first[row] : last[row]])
                    if len(found):
                        yield np.full(len(found), row), rows[found + first[row]]

    def _among(self, image: Pixels, others: Pixels) -> Ints:
        """The positions of the images that are like one."""
        step = max(AT_ONCE // max(len(image), 1), 1)
        found = [
            np.flatnonzero(self._alike(image, others[at : at + step])) + at
            for at in range(0, len(others), step)
        ]
        return np.concatenate(found) if found else np.empty(0, np.int64)

    def _alike(self, image: Pixels, others: Pixels) -> Bools:
        gap = np.maximum(others, image) - np.minimum(others, image)
        near = (gap <= self._kind.tolerance).reshape(len(others), -1, CHANNELS)
        pixels = near[:, :, 0] & near[:, :, 1] & near[:, :, 2]
        count = np.count_nonzero(pixels, axis=1)
        return np.asarray(count >= self._kind.at_least * pixels.shape[1])


class Images:
    """A binary column as images; what is null, empty or no whole number of pixels has size 0."""

    def __init__(self, column: pa.Array) -> None:
        kind = column.type
        if not pa.types.is_large_binary(kind):
            column = column.cast(pa.large_binary())
        valid = known(column)
        _, offsets, data = column.buffers()
        self._offsets: Ints = np.frombuffer(offsets, np.int64, len(column) + 1, column.offset * 8)
        self._bytes: npt.NDArray[Any] = np.frombuffer(data if data is not None else b"", np.uint8)
        sizes = np.diff(self._offsets)
        self.sizes: Ints = np.where(valid & (sizes % CHANNELS == 0), sizes, 0)

    def image(self, row: int) -> Pixels:
        return self._bytes[self._offsets[row] : self._offsets[row + 1]]

    def matrix(self, rows: Ints, size: int) -> Pixels:
        """Images of one size, a row each; a view, where they lie one after the other."""
        first, last = int(rows[0]), int(rows[-1]) + 1
        start, stop = int(self._offsets[first]), int(self._offsets[last])
        if last - first == len(rows) and stop - start == size * len(rows):
            return self._bytes[start:stop].reshape(len(rows), size)
        return np.stack([self.image(row) for row in rows])
