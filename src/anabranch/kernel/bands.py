"""Bands: `abs(left - right) <= width`, found in a sorted index and decided exactly.

The index holds float64, whose rounding keeps the order of values; it is searched with a margin for
the rounding of values and sums. What decides is the arithmetic of the values' own type: integers
and decimals are subtracted as integers of one scale, floats as Spark subtracts them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.kernel.base import Bools, Index, Ints, Pairs, Probe, Target
from anabranch.kernel.columns import numbers
from anabranch.kernel.ordered import between, both_known, floats, sorted_index
from anabranch.kernel.pairs import everything
from anabranch.model.query import Term
from anabranch.model.terms import Band

_ROUNDING = 1e-6
"""Margin relative to a band's width: more than float32 differences are rounded by."""
_ULPS = 1e-12
"""Margin relative to a value: more than the rounding of 38 digits to a double."""
_DIGITS = 18
"""Decimal digits that 64 bits always hold."""


class BandKernel:
    """`abs(left - right) <= width`."""

    exact = False
    costly = False

    def __init__(self, term: Term) -> None:
        assert isinstance(term.kind, Band)
        self._band = term.kind
        width = term.kind.width
        self._width = width if isinstance(width, Decimal) else Decimal(repr(float(width)))
        self._streams = tuple(operand.stream for operand in term.operands)

    def holds(self, columns: Sequence[pa.Array]) -> Bools:
        left, right = columns
        if pa.types.is_decimal(left.type):
            near = self._near_decimals(left, right)
        elif pa.types.is_integer(left.type):
            near = self._near_integers(*(numbers(c).astype(np.int64) for c in columns), scale=0)
        else:
            near = self._near_floats(numbers(left), numbers(right))
        return both_known(near, columns)

    def _near_floats(self, left: npt.NDArray[Any], right: npt.NDArray[Any]) -> Bools:
        with np.errstate(invalid="ignore", over="ignore"):
            # Subtracted in their own width, as Spark does, and compared with a double.
            gap = np.abs(left - right).astype(np.float64)
        width = float(self._width)
        if self._band.loose:
            return np.asarray(gap <= _reach(width, np.maximum(np.abs(left), np.abs(right))))
        return np.asarray(gap < width if self._band.strict else gap <= width)

    def _near_integers(self, left: Ints, right: Ints, *, scale: int) -> Bools:
        limit = self._limit(scale)
        if self._band.wraps is not None:
            return _wrapped_gap(left, right, self._band.wraps) <= limit
        if limit < 0:
            return np.zeros(len(left), np.bool_)
        a, b = left.view(np.uint64), right.view(np.uint64)
        # Modulo 2⁶⁴ the difference of the greater and the lesser is the true one.
        gap = np.where(left >= right, a - b, b - a)
        return np.asarray(gap <= np.uint64(min(limit, 2**64 - 1)))

    def _near_decimals(self, left: pa.Array, right: pa.Array) -> Bools:
        scale = max(left.type.scale, right.type.scale)
        digits = max(kind.precision - kind.scale + scale for kind in (left.type, right.type))
        if digits <= _DIGITS:
            return self._near_integers(_unscaled(left, scale), _unscaled(right, scale), scale=scale)
        wide = pa.decimal256(75, scale)  # a difference has one digit more, and 76 are the most
        gap = pc.abs(pc.subtract(left.cast(wide), right.cast(wide)))
        limit = min(self._limit(scale), 10**75 - 1)
        width = pa.scalar(Decimal(limit).scaleb(-scale, _WIDE), gap.type)
        return np.asarray(pc.fill_null(pc.less_equal(gap, width), False))

    def _limit(self, scale: int) -> int:
        """The greatest difference inside of the band, in units of the scale."""
        scaled = self._width.scaleb(scale, _WIDE)
        if self._band.strict:
            return int(scaled.to_integral_value(ROUND_CEILING, _WIDE)) - 1
        return int(scaled.to_integral_value(ROUND_FLOOR, _WIDE))

    def prepare(self, stream: int, columns: Mapping[int, pa.Array], times: Ints) -> Index:
        return sorted_index(floats(columns[self._streams.index(stream)]))

    def candidates(self, stream: int, target: Target, probe: Probe) -> Iterator[Pairs]:
        (position,) = probe.columns
        values = floats(probe.columns[position])
        if self._may_wrap(target.index["values"], values):
            yield from everything(len(probe.low), len(target.times))
            return
        # An infinite value is at distance NaN from itself, and NaN from everything: no partners.
        reach = _reach(float(self._width), np.abs(values))
        with np.errstate(invalid="ignore"):
            yield from between(target.index, values - reach, values + reach)

    def _may_wrap(self, targets: npt.NDArray[Any], values: npt.NDArray[Any]) -> bool:
        """Whether any difference might leave the type, and come back on the other side."""
        if self._band.wraps is None or not len(targets) or not len(values):
            return False
        farthest = max(targets[-1] - values.min(), values.max() - targets[0])
        return bool(farthest * (1 + _ROUNDING) >= 2.0 ** (self._band.wraps - 1))


_WIDE = Context(prec=200)


def _reach(width: float, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    return width * (1 + _ROUNDING) + values * _ULPS


def _wrapped_gap(left: Ints, right: Ints, bits: int) -> Ints:
    """`abs(left - right)` in so many bits: it wraps around, and of the least value stays so."""
    kind = np.dtype(f"i{bits // 8}")
    with np.errstate(over="ignore"):
        return np.asarray(np.abs(left.astype(kind) - right.astype(kind)).astype(np.int64))


def _unscaled(column: pa.Array, scale: int) -> Ints:
    """Decimals of at most 18 digits as integers: so many units of 10 to the minus scale."""
    wide = column.cast(pa.decimal128(38, column.type.scale))
    buffer = wide.buffers()[1]
    words = np.frombuffer(buffer, np.int64)[2 * wide.offset : 2 * (wide.offset + len(wide)) : 2]
    values = words * np.int64(10 ** (scale - column.type.scale))
    if wide.null_count:
        values = np.where(np.asarray(wide.is_valid()), values, np.int64(0))
    return values
