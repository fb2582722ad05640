"""Intervals, and what they share with bands: a sorted index searched for a range of values.

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
from anabranch.model.terms import Interval

Floats = npt.NDArray[np.float64]

_ULPS = 1e-12
"""Margin relative to values that were subtracted: more than any rounding on the way."""
_ULP = 1e-15
"""Margin relative to a value: some four times the rounding to a double."""


def sorted_index(values: Floats) -> Index:
    """Values in order, and the rows that have them."""
    order = np.argsort(values, kind="stable")
    return {"values": values[order], "rows": order.astype(np.int32)}


def between(index: Index, low: Floats, high: Floats) -> Iterator[Pairs]:
    """Rows whose value lies between two bounds, for each pair of bounds."""
    values, rows = index["values"], index["rows"]
    start = np.searchsorted(values, low, "left")
    stop = np.searchsorted(values, high, "right")
    for probes, positions in ranges(start, stop):
        yield probes, rows[positions]


def floats(column: pa.Array) -> Floats:
    """Any numbers as float64."""
    return numbers(column).astype(np.float64, copy=False)


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
            return sorted_index(_ranked(columns[0]))
        if self._low is None or self._high is None:
            (bound,) = columns
            return sorted_index(_ranked(columns[bound]))
        low, high = _ranked(columns[self._low]), _ranked(columns[self._high])
        with np.errstate(invalid="ignore"):
            widths = high - low
        widest = float(np.max(widths, initial=0.0)) if not np.isnan(widths).any() else np.inf
        return {**sorted_index(low), "widest": np.array([widest])}

    def candidates(self, stream: int, target: Target, probe: Probe) -> Iterator[Pairs]:
        if not target.index:
            yield from everything(len(probe.low), len(target.times))
        elif stream == self._value_stream:
            yield from between(target.index, *_widened(*self._bounds(probe)))
        else:
            value = _ranked(probe.columns[0])
            low = np.full(len(value), -np.inf)
            high = np.full(len(value), np.inf)
            if self._low is not None and self._high is not None:
                with np.errstate(invalid="ignore"):
                    widest = target.index["widest"][0]
                    low = value - widest * (1 + _ULPS) - np.abs(value) * _ULPS
                low = np.where(np.isnan(low), -np.inf, low)
                high = value
            elif self._low is not None:
                high = value
            else:
                low = value
            yield from between(target.index, *_widened(low, high))

    def _bounds(self, probe: Probe) -> tuple[Floats, Floats]:
        size = len(probe.low)
        low = np.full(size, -np.inf) if self._low is None else _ranked(probe.columns[self._low])
        high = np.full(size, np.inf) if self._high is None else _ranked(probe.columns[self._high])
        return low, high


def _widened(low: Floats, high: Floats) -> tuple[Floats, Floats]:
    """Bounds with room for decimals, which are not always rounded to the nearest double."""
    with np.errstate(invalid="ignore"):
        wider = low - np.abs(low) * _ULP, high + np.abs(high) * _ULP
    return np.where(np.isinf(low), low, wider[0]), np.where(np.isinf(high), high, wider[1])


def compare(left: pa.Array, right: pa.Array, *, lower: bool, strict: bool) -> Bools:
    """`left >= right` (lower) or `left <= right`, as Spark orders values: NaN is greatest."""
    if pa.types.is_floating(left.type) or pa.types.is_floating(right.type):
        a, b = numbers(left), numbers(right)
        if not lower:
            a, b = b, a
        nan = np.isnan(a)
        above = (a > b) | (nan & ~np.isnan(b)) if strict else (a >= b) | nan
        return both_known(above, (left, right))
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
    values = floats(column)
    return np.where(np.isnan(values), np.inf, values)


def both_known(answer: Bools, columns: Sequence[pa.Array]) -> Bools:
    """An answer that is false wherever one of the columns is null."""
    for column in columns:
        if column.null_count:
            answer = answer & np.asarray(column.is_valid())
    return answer
