"""Bands and intervals: a sorted index searched for a range of values.

Values are searched as float64, whose rounding keeps their order, with a margin for the rounding
of sums; the definition then decides on the values as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from anabranch.kernel.base import Bools, Index, Ints, Pairs, Probe, Target
from anabranch.kernel.columns import numbers
from anabranch.kernel.pairs import everything, ranges
from anabranch.model.query import Term
from anabranch.model.terms import Band, Interval

Floats = npt.NDArray[np.float64]

_ROUNDING = 1e-6
"""Margin relative to a band's width: more than float32 differences are rounded by."""


def _sorted_index(values: Floats) -> Index:
    order = np.argsort(values, kind="stable")
    return {"values": values[order], "rows": order.astype(np.int32)}


def _between(index: Index, low: Floats, high: Floats) -> Iterator[Pairs]:
    values, rows = index["values"], index["rows"]
    start = np.searchsorted(values, low, "left")
    stop = np.searchsorted(values, high, "right")
    for probes, positions in ranges(start, stop):
        yield probes, rows[positions]


def _floats(column: pa.Array) -> Floats:
    return numbers(column).astype(np.float64, copy=False)


class BandKernel:
    """`abs(left - right) <= width`."""

    exact = False
    costly = False

    def __init__(self, term: Term) -> None:
        assert isinstance(term.kind, Band)
        self._band = term.kind
        self._streams = tuple(operand.stream for operand in term.operands)

    def holds(self, columns: Sequence[pa.Array]) -> Bools:
        left, right = (_wide(numbers(column)) for column in columns)
        with np.errstate(invalid="ignore", over="ignore"):
            gap = np.abs(left - right)
        if gap.dtype.kind == "f":
            gap = gap.astype(np.float64)  # subtract as Spark does, compare with a double
        near = gap < self._band.width if self._band.strict else gap <= self._band.width
        if left.dtype.kind == "i":
            # Where an integer difference overflows, it is out of every band.
            near &= np.abs(left.astype(np.float64) - right) < 2.0**63
        return _known(near, columns)

    def prepare(self, stream: int, columns: Mapping[int, pa.Array], times: Ints) -> Index:
        return _sorted_index(_floats(columns[self._streams.index(stream)]))

    def candidates(self, stream: int, target: Target, probe: Probe) -> Iterator[Pairs]:
        (position,) = probe.columns
        values = _floats(probe.columns[position])
        # An infinite value is at distance NaN from itself, and NaN from everything: no partners.
        reach = self._band.width * (1 + _ROUNDING) + np.abs(values) * 1e-12
        with np.errstate(invalid="ignore"):
            yield from _between(target.index, values - reach, values + reach)


_COMPARE: dict[tuple[bool, bool], Callable[..., Any]] = {
    (True, False): pc.greater_equal,
    (True, True): pc.greater,
    (False, False): pc.less_equal,
    (False, True): pc.less,
}


class IntervalKernel:
    """A value of one stream between bounds that another stream gives."""

    exact = False
    costly = False

    def __init__(self, term: Term) -> None:
        assert isinstance(term.kind, Interval)
        self._interval = term.kind
        self._value_stream = term.operands[0].stream
        self._low = 1 if term.kind.has_low else None
        self._high = len(term.operands) - 1 if term.kind.has_high else None

    def holds(self, columns: Sequence[pa.Array]) -> Bools:
        inside = np.ones(len(columns[0]), np.bool_)
        if self._low is not None:
            strict = self._interval.low_strict
            inside &= compare(columns[0], columns[self._low], lower=True, strict=strict)
        if self._high is not None:
            strict = self._interval.high_strict
            inside &= compare(columns[0], columns[self._high], lower=False, strict=strict)
        return inside

    def prepare(self, stream: int, columns: Mapping[int, pa.Array], times: Ints) -> Index | None:
        if any(not _numeric(column.type) for column in columns.values()):
            return None
        if stream == self._value_stream:
            return _sorted_index(_ranked(columns[0]))
        if self._low is None or self._high is None:
            (bound,) = columns
            return _sorted_index(_ranked(columns[bound]))
        low, high = _ranked(columns[self._low]), _ranked(columns[self._high])
        with np.errstate(invalid="ignore"):
            widths = high - low
        widest = float(np.max(widths, initial=0.0)) if not np.isnan(widths).any() else np.inf
        return {**_sorted_index(low), "widest": np.array([widest])}

    def candidates(self, stream: int, target: Target, probe: Probe) -> Iterator[Pairs]:
        if not target.index:
            yield from everything(len(probe.low), len(target.times))
        elif stream == self._value_stream:
            yield from _between(target.index, *self._bounds(probe))
        else:
            value = _ranked(probe.columns[0])
            low = np.full(len(value), -np.inf)
            high = np.full(len(value), np.inf)
            if self._low is not None and self._high is not None:
                with np.errstate(invalid="ignore"):
                    low = (
                        value - target.index["widest"][0] * (1 + _ROUNDING) - np.abs(value) * 1e-12
                    )
                low = np.where(np.isnan(low), -np.inf, low)
                high = value
            elif self._low is not None:
                high = value
            else:
                low = value
            yield from _between(target.index, low, high)

    def _bounds(self, probe: Probe) -> tuple[Floats, Floats]:
        size = len(probe.low)
        low = np.full(size, -np.inf) if self._low is None else _ranked(probe.columns[self._low])
        high = np.full(size, np.inf) if self._high is None else _ranked(probe.columns[self._high])
        return low, high


def compare(left: pa.Array, right: pa.Array, *, lower: bool, strict: bool) -> Bools:
    """`left >= right` (lower) or `left <= right`, as Spark orders values: NaN is greatest."""
    if pa.types.is_floating(left.type) or pa.types.is_floating(right.type):
        a, b = numbers(left), numbers(right)
        if not lower:
            a, b = b, a
        nan = np.isnan(a)
        above = (a > b) | (nan & ~np.isnan(b)) if strict else (a >= b) | nan
        return _known(above, (left, right))
    answer = _COMPARE[lower, strict](left, right)
    return np.asarray(pc.fill_null(answer, False))


def _numeric(kind: pa.DataType) -> bool:
    return bool(
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_temporal(kind)
    )


def _ranked(column: pa.Array) -> Floats:
    """Values as float64 in Spark's order: NaN ranks with the greatest."""
    values = _floats(column)
    return np.where(np.isnan(values), np.inf, values)


def _wide(values: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """Integers as int64, so that a difference of small ones cannot wrap around."""
    return values.astype(np.int64) if values.dtype.kind in "iub" else values


def _known(answer: Bools, columns: Sequence[pa.Array]) -> Bools:
    for column in columns:
        if column.null_count:
            answer = answer & np.asarray(column.is_valid())
    return answer
