"""Arrow columns as NumPy arrays, without a copy wherever the memory already fits."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from anabranch.errors import TermError
from anabranch.kernel.base import Bools, Ints, Probe

_FACTOR = 0x9E37_79B9_7F4A_7C15
"""Any odd number with many bits set: of the polynomial that hashes text."""


def numbers(array: pa.Array) -> npt.NDArray[Any]:
    """A column of numbers, Booleans or times as NumPy; a null becomes 0.

    Integers and floats keep their width, times are 64-bit integers in the column's own unit,
    decimals become doubles. The result shares memory with the column unless it has nulls or
    changes its type, so callers must not write to it.
    """
    kind = array.type
    if pa.types.is_dictionary(kind):
        return numbers(array.dictionary_decode())
    if pa.types.is_decimal(kind):
        return numbers(array.cast(pa.float64()))
    if pa.types.is_null(kind):
        return np.zeros(len(array), np.int64)
    if pa.types.is_boolean(kind):
        filled = array.fill_null(pa.scalar(value=False)) if array.null_count else array
        return np.asarray(filled.to_numpy(zero_copy_only=False))
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        width = np.dtype(kind.to_pandas_dtype())
    elif pa.types.is_temporal(kind) and kind.bit_width in (32, 64):
        width = np.dtype(f"i{kind.bit_width // 8}")
    else:
        raise TermError(f"a column of type {kind} is not a number, a Boolean or a time")
    buffer = array.buffers()[1]
    if buffer is None or len(array) == 0:
        values = np.zeros(len(array), width)
    else:
        values = np.frombuffer(buffer, width, len(array), array.offset * width.itemsize)
    if array.null_count:
        # Under a null the buffer may hold anything, a NaN among them.
        values = np.where(known(array), values, width.type(0))
    return values.astype(np.int64, copy=False) if pa.types.is_temporal(kind) else values


def known(array: pa.Array) -> Bools:
    """Where a column is not null."""
    return np.asarray(array.is_valid().to_numpy(zero_copy_only=False))


@dataclass(frozen=True)
class Lists:
    """A column of lists or maps: the elements of row `r` are `starts[r] … starts[r + 1] - 1`."""

    elements: pa.Array
    weights: pa.Array | None
    """The values of a map, beside its keys, which are the elements."""
    starts: Ints
    valid: Bools

    @property
    def lengths(self) -> Ints:
        return np.diff(self.starts)

    @property
    def rows(self) -> Ints:
        """The row of each element."""
        return np.repeat(np.arange(len(self.valid)), self.lengths)


def lists(array: pa.Array) -> Lists:
    """Take a column of lists, of any of Arrow's layouts, or of maps apart."""
    kind = array.type
    weights = None
    if pa.types.is_fixed_size_list(kind):
        width = kind.list_size
        starts = np.arange(array.offset, array.offset + len(array) + 1, dtype=np.int64) * width
        elements = array.values
    elif pa.types.is_map(kind):
        starts = numbers(array.offsets).astype(np.int64)
        elements, weights = array.keys, array.items
    elif pa.types.is_list(kind) or pa.types.is_large_list(kind):
        starts = numbers(array.offsets).astype(np.int64)
        elements = array.values
    else:
        raise TermError(f"a column of type {kind} holds no arrays and no maps")
    first, count = int(starts[0]), int(starts[-1] - starts[0])
    if weights is not None:
        weights = weights.slice(first, count)
    return Lists(elements.slice(first, count), weights, starts - first, known(array))


def stacked(upper: Lists, lower: Lists) -> Lists:
    """One column below the other, so that equal elements of both are one item."""
    weights = None
    if upper.weights is not None and lower.weights is not None:
        pair = (
            pa.array(numbers(w).astype(np.float64), mask=~known(w))
            for w in (upper.weights, lower.weights)
        )
        weights = pa.concat_arrays(pair)
    return Lists(
        pa.concat_arrays([canonical(upper.elements), canonical(lower.elements)]),
        weights,
        np.concatenate((upper.starts, lower.starts[1:] + upper.starts[-1])),
        np.concatenate((upper.valid, lower.valid)),
    )


@dataclass(frozen=True)
class Vectors:
    """A column of vectors. One that is null, or has a null element, is not valid."""

    values: npt.NDArray[Any]
    starts: Ints
    lengths: Ints
    valid: Bools

    def table(self, width: int) -> npt.NDArray[Any]:
        """All rows as a matrix of this width; a row that has another length is 0."""
        if bool((self.lengths == width).all()):
            return self.values.reshape(len(self.valid), width)
        fits = np.flatnonzero(self.lengths == width)
        table = np.zeros((len(self.valid), width), self.values.dtype)
        table[fits] = self.values[self.starts[fits, None] + np.arange(width)]
        return table


def vectors(array: pa.Array) -> Vectors:
    """A column of arrays of numbers; no copy where every row has the same length."""
    parts = lists(array)
    valid = parts.valid
    if parts.elements.null_count:
        bad = np.flatnonzero(~known(parts.elements))
        valid = valid.copy()
        valid[np.searchsorted(parts.starts, bad, "right") - 1] = False
    return Vectors(numbers(parts.elements), parts.starts[:-1], parts.lengths, valid)


@dataclass(frozen=True)
class Items:
    """A column of sets: its distinct items, and an entry for every item of every row.

    Entries are in the order of rows and, within a row, in the order they have there.
    """

    values: pa.Array
    member: Ints
    """For each entry, the position of its item in `values`."""
    rows: Ints
    places: Ints
    """For each entry, where it stands among the elements of its row."""
    weights: npt.NDArray[np.float64] | None
    sizes: Ints
    """For each row, how many entries it has."""


def items(parts: Lists) -> Items:
    """The entries of a column of arrays or maps.

    Null elements and null weights are no entries; of equal elements of a row the first is one.
    """
    there = parts.valid[parts.rows] & known(parts.elements)
    if parts.weights is not None:
        there &= known(parts.weights)
    entries = np.flatnonzero(there)
    elements = canonical(parts.elements)
    if len(entries) < len(elements):
        elements = elements.take(pa.array(entries))
    encoded = elements.dictionary_encode()
    member = numbers(encoded.indices).astype(np.int64)
    rows = parts.rows[entries]
    first = np.unique(rows * len(encoded.dictionary) + member, return_index=True)[1]
    if len(first) < len(rows):
        first.sort()
        entries, member, rows = entries[first], member[first], rows[first]
    weights = None
    if parts.weights is not None:
        weights = numbers(parts.weights)[entries].astype(np.float64)
    sizes = np.bincount(rows, minlength=len(parts.valid))
    places = entries - parts.starts[rows]
    return Items(encoded.dictionary, member, rows, places, weights, sizes)


def canonical(elements: pa.Array) -> pa.Array:
    """Elements in a type that equal elements share, whatever their width."""
    kind = elements.type
    if pa.types.is_null(kind) or (pa.types.is_integer(kind) and not pa.types.is_uint64(kind)):
        return elements.cast(pa.int64())
    if pa.types.is_floating(kind):
        # As in Spark, -0.0 equals 0.0 and every NaN equals every other.
        values = numbers(elements).astype(np.float64) + 0.0
        values[np.isnan(values)] = np.nan
        return pa.array(values, mask=~known(elements))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind) or pa.types.is_string_view(kind):
        return elements.cast(pa.large_string())
    if pa.types.is_binary(kind) or pa.types.is_binary_view(kind):
        return elements.cast(pa.large_binary())
    if pa.types.is_decimal(kind):
        return elements.cast(pa.decimal256(76, kind.scale))
    if pa.types.is_nested(kind):
        raise TermError(f"elements of type {kind} cannot be compared; make strings of them")
    return elements


def codes(values: pa.Array) -> tuple[Ints, bool]:
    """A 64-bit code for each value, the same on every machine; and whether no two share one."""
    kind = values.type
    if pa.types.is_floating(kind):
        return numbers(values).view(np.int64), True
    if pa.types.is_integer(kind) or pa.types.is_boolean(kind) or pa.types.is_temporal(kind):
        return numbers(values).astype(np.int64), True
    if pa.types.is_decimal(kind):
        values = values.cast(pa.large_string())
    return _hashed(values.cast(pa.large_binary())), False


def _hashed(values: pa.Array) -> Ints:
    """The polynomial of each value's bytes, modulo 2⁶⁴. It need not be perfect, but stable."""
    offsets = np.frombuffer(values.buffers()[1], np.int64)[values.offset :][: len(values) + 1]
    lengths = np.diff(offsets)
    if not len(values) or not lengths.max():
        return lengths
    raw = np.frombuffer(values.buffers()[2], np.uint8)[offsets[0] : offsets[-1]]
    offsets = offsets - offsets[0]
    powers = np.cumprod(np.full(int(lengths.max()), _FACTOR, np.uint64))
    place = np.arange(len(raw)) - np.repeat(offsets[:-1], lengths)
    sums = np.concatenate((np.zeros(1, np.uint64), np.cumsum((raw + np.uint64(1)) * powers[place])))
    code = sums[offsets[1:]] - sums[offsets[:-1]]
    mixed: Ints = (code ^ (code >> np.uint64(29))).view(np.int64)
    return mixed


@dataclass(frozen=True)
class Reach:
    """Which target rows each probe row may meet in time: `start … stop - 1`, a range of rows.

    Only probe rows that may meet some are here, in the order of `start`, so that neighbours
    look at the same part of the target.
    """

    probes: Ints
    start: Ints
    stop: Ints

    def __len__(self) -> int:
        return len(self.probes)

    def only(self, keep: Bools) -> Reach:
        return Reach(self.probes[keep], self.start[keep], self.stop[keep])

    def blocks(self, rows: int, slack: int) -> Iterator[slice]:
        """Neighbours whose ranges begin close to each other, at most `rows` at a time.

        "Close" is the width of a range, or `slack` where that is more: no more than half of a
        block is outside of the reach of its rows, and no block is so small that there is in
        effect a loop over rows.
        """
        first = 0
        while first < len(self):
            near = max(slack, int(self.stop[first] - self.start[first]))
            last = np.searchsorted(self.start, self.start[first] + near, "right")
            last = min(int(last), first + rows)
            yield slice(first, last)
            first = last


def reach(times: Ints, probe: Probe, among: Bools) -> Reach:
    """The reach of the probe rows `among` all, in a target with ascending times."""
    start = np.searchsorted(times, probe.low, "left")
    stop = np.searchsorted(times, probe.high, "right")
    probes = np.flatnonzero(among & (start < stop))
    if bool((np.diff(start[probes]) < 0).any()):
        probes = probes[np.argsort(start[probes], kind="stable")]
    return Reach(probes, start[probes], stop[probes])
