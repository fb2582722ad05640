"""Equality: a sorted index of 64-bit codes, the key's hash in front and the time behind.

A code holds the upper 40 bits of a mixed 64-bit key and, in its lower 24 bits, the row's time in
steps of the segment's span. Sorted codes thus answer "this key, between these times" with two
binary searches, and a range of codes is a range of keys, which is what partition groups are.
Different keys may have the same 40 bits, so the whole keys decide.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.kernel.base import Bools, Index, Ints, Pairs, Probe, Target
from anabranch.kernel.columns import numbers
from anabranch.kernel.pairs import ranges
from anabranch.model.query import Term

Codes = npt.NDArray[np.uint64]

TIME_BITS = 24
_TIME_STEPS = (1 << TIME_BITS) - 1
_KEY_MASK = np.uint64(~_TIME_STEPS & 0xFFFF_FFFF_FFFF_FFFF)
GROUPS = 256
"""Partition groups: the upper 8 bits of a code."""


def mix(keys: Ints) -> Codes:
    """Spread 64-bit keys evenly (the finalizer of SplitMix64): distinct keys stay distinct."""
    x = keys.astype(np.int64, copy=False).view(np.uint64)
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58_476D_1CE4_E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D0_49BB_1331_11EB)
    mixed: Codes = x ^ (x >> np.uint64(31))
    return mixed


def code_index(keys: Ints, times: Ints) -> tuple[npt.NDArray[np.intp], Index]:
    """The order that sorts the rows by code, and the index of the rows in that order."""
    origin = int(times.min()) if len(times) else 0
    span = int(times.max()) - origin if len(times) else 0
    scale = np.array([origin, max(0, span.bit_length() - TIME_BITS)], np.int64)
    codes = _codes(mix(keys), times, scale)
    order = np.argsort(codes)
    codes = codes[order]
    collide = np.array([_collide(codes, keys[order])])
    return order, {"codes": codes, "scale": scale, "collide": collide}


def _collide(codes: Codes, keys: Ints) -> bool:
    """Whether different keys have the same 40 bits; in the order of codes they are neighbours."""
    same = (codes[1:] ^ codes[:-1]) <= np.uint64(_TIME_STEPS)
    return bool((same & (keys[1:] != keys[:-1])).any())


def find(
    index: Index, keys: Ints, low: Ints, high: Ints, stored: Ints | None = None
) -> Iterator[Pairs]:
    """Positions in the index with each key, at times between `low` and `high` (or nearly so).

    `stored` are the keys in the order of the index. Without them, rows with the same 40 bits are
    found too, and the caller compares.
    """
    mixed = mix(keys)
    codes, scale = index["codes"], index["scale"]
    start = np.searchsorted(codes, _codes(mixed, low, scale), "left")
    stop = np.searchsorted(codes, _codes(mixed, high, scale), "right")
    if stored is None or not len(stored):
        yield from ranges(start, stop)
    elif not index["collide"][0]:
        # All rows in a range have one key: the first tells.
        met = stored[np.minimum(start, len(stored) - 1)] == keys
        yield from ranges(start, np.where(met, stop, start))
    else:
        for probes, positions in ranges(start, stop):
            met = stored[positions] == keys[probes]
            yield probes[met], positions[met]


def group_bounds(codes: Codes) -> Ints:
    """Where each partition group begins in sorted codes; one more entry for the end."""
    edges = np.arange(GROUPS, dtype=np.uint64) << np.uint64(64 - GROUPS.bit_length() + 1)
    starts = np.searchsorted(codes, edges, "left")
    return np.append(starts, len(codes)).astype(np.int64)


def _codes(mixed: Codes, times: Ints, scale: Ints) -> Codes:
    steps = np.clip((times - scale[0]) >> scale[1], 0, _TIME_STEPS).astype(np.uint64)
    codes: Codes = (mixed & _KEY_MASK) | steps
    return codes


def equals(left: pa.Array, right: pa.Array) -> Bools:
    """Equality as Spark has it: null equals nothing, NaN equals NaN, and -0.0 equals 0.0."""
    if pa.types.is_floating(left.type) and pa.types.is_floating(right.type):
        a, b = numbers(left), numbers(right)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
    else:
        same = np.asarray(pc.fill_null(pc.equal(left, right), False))
    if left.null_count or right.null_count:
        known = np.asarray(pc.and_(pc.is_valid(left), pc.is_valid(right)))
        same = same & known
    bools: Bools = same
    return bools


class EqualKernel:
    """`left = right`. Operands: left, right and, unless those are integers, their hashes."""

    exact = False
    costly = False

    def __init__(self, term: Term) -> None:
        self._operands = term.operands

    def holds(self, columns: Sequence[pa.Array]) -> Bools:
        return equals(columns[0], columns[1])

    def prepare(self, stream: int, columns: Mapping[int, pa.Array], times: Ints) -> Index:
        order, index = code_index(numbers(columns[self._code(stream)]), times)
        return {**index, "rows": order.astype(np.int32)}

    def candidates(self, stream: int, target: Target, probe: Probe) -> Iterator[Pairs]:
        keys = numbers(probe.columns[self._code(stream, other=True)])
        rows = target.index["rows"]
        for probes, positions in find(target.index, keys, probe.low, probe.high):
            yield probes, rows[positions]

    def _code(self, stream: int, *, other: bool = False) -> int:
        """The position of the operand that is indexed: the last one of the stream."""
        positions = [
            position
            for position, operand in enumerate(self._operands)
            if (operand.stream == stream) != other
        ]
        return positions[-1]
