"""The definition of the answer, slow and plain: the oracle that every other path is tested against.

A combination `(s_1, …, s_n)` is in the answer if for every pair of its rows
`t_j - t_i <= W_i` and `t_i - t_j <= W_j`, and every term holds. Nothing here is shared with the
fast path, except that SQL expressions and the user's functions are evaluated by their kernels,
since these *are* their definition.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Any

import pyarrow as pa

from anabranch.kernel.kernels import kernels_of
from anabranch.model.query import TIME, Query, Term
from anabranch.model.terms import (
    Alike,
    Band,
    Cosine,
    Equal,
    Expression,
    InnerProduct,
    Interval,
    Jaccard,
    Match,
    Overlap,
    Within,
)

Row = dict[str, Any]


def reference(query: Query, tables: Sequence[pa.Table]) -> pa.Table:
    """Every result of the query over whole streams (tables of stored columns and `#time`)."""
    streams: list[list[Row]] = [table.to_pylist() for table in tables]
    combinations: list[tuple[int, ...]] = [(row,) for row in range(len(streams[0]))]
    for stream in range(1, len(streams)):
        combinations = [
            (*combination, row)
            for combination in combinations
            for row in range(len(streams[stream]))
            if _in_window(query, streams, combination, row)
        ]
        for position, term in enumerate(query.terms):
            if max(term.streams) == stream:
                combinations = _satisfying(query, position, term, tables, streams, combinations)
    columns = {
        output.name: tables[output.operand.stream]
        .column(output.operand.column)
        .take(pa.array([c[output.operand.stream] for c in combinations], pa.int64()))
        for output in query.outputs
    }
    return pa.Table.from_arrays(list(columns.values()), list(columns))


def _in_window(
    query: Query, streams: list[list[Row]], combination: tuple[int, ...], row: int
) -> bool:
    stream = len(combination)
    time = streams[stream][row][TIME]
    for other, other_row in enumerate(combination):
        other_time = streams[other][other_row][TIME]
        if time is None or other_time is None:
            return False
        if time - other_time > query.streams[other].window_at(other_time):
            return False
        if other_time - time > query.streams[stream].window_at(time):
            return False
    return True


def _satisfying(
    query: Query,
    position: int,
    term: Term,
    tables: Sequence[pa.Table],
    streams: list[list[Row]],
    combinations: list[tuple[int, ...]],
) -> list[tuple[int, ...]]:
    if not combinations:
        return []
    if isinstance(term.kind, Expression | Match):
        columns = [
            tables[operand.stream]
            .column(operand.column)
            .take(pa.array([c[operand.stream] for c in combinations]))
            .combine_chunks()
            for operand in term.operands
        ]
        holds = kernels_of(query)[position].holds(columns)
        return [c for c, keep in zip(combinations, holds, strict=True) if keep]
    definition = DEFINITIONS[type(term.kind)]
    kept = []
    for combination in combinations:
        values = [streams[o.stream][combination[o.stream]][o.column] for o in term.operands]
        if all(value is not None for value in values) and definition(term.kind, *values):
            kept.append(combination)
    return kept


def _nan(value: Any) -> bool:
    return isinstance(value, float) and math.isnan(value)


def _equal(_: Equal, left: Any, right: Any, *_hashes: Any) -> bool:
    return bool(left == right) or (_nan(left) and _nan(right))


def _band(kind: Band, left: Any, right: Any) -> bool:
    gap = abs(left - right)
    if not isinstance(gap, float):
        exact = Decimal(kind.width)
        return bool(gap < exact if kind.strict else gap <= exact)
    width = float(kind.width)
    if kind.loose:
        return bool(gap <= width * (1 + 1e-6) + max(abs(left), abs(right)) * 1e-12)
    return bool(gap < width if kind.strict else gap <= width)


def _at_most(left: Any, right: Any, *, strict: bool) -> bool:
    """Order as Spark has it: NaN is greater than everything else, and equal to itself."""
    if _nan(left) or _nan(right):
        return _nan(right) and not (strict and _nan(left))
    return bool(left < right if strict else left <= right)


def _interval(kind: Interval, value: Any, *bounds: Any) -> bool:
    low = bounds[0] if kind.has_low else None
    high = bounds[-1] if kind.has_high else None
    return (not kind.has_low or _at_most(low, value, strict=kind.low_strict)) and (
        not kind.has_high or _at_most(value, high, strict=kind.high_strict)
    )


def _within(kind: Within, left: list[float], right: list[float]) -> bool:
    if None in left or None in right:
        return False
    return math.sqrt(sum((a - b) ** 2 for a, b in zip(left, right, strict=True))) <= kind.distance


def _product(left: Any, right: Any) -> float | None:
    """The inner product of two arrays, or of two maps of weights (lists of pairs)."""
    if (left and isinstance(left[0], tuple)) or (right and isinstance(right[0], tuple)):
        weights = {key: weight for key, weight in right if weight is not None}
        return math.fsum(
            weight * weights[key] for key, weight in left if weight is not None and key in weights
        )
    if None in left or None in right:
        return None
    return float(sum(a * b for a, b in zip(left, right, strict=True)))


def _inner_product(kind: InnerProduct, left: Any, right: Any) -> bool:
    product = _product(left, right)
    return product is not None and product >= kind.at_least


def _cosine(kind: Cosine, left: Any, right: Any) -> bool:
    product, left_square, right_square = (
        _product(left, right),
        _product(left, left),
        _product(right, right),
    )
    if not left_square or not right_square or product is None:
        return False
    return product / (math.sqrt(left_square) * math.sqrt(right_square)) >= kind.at_least


def _overlap(kind: Overlap, left: list[Any], right: list[Any]) -> bool:
    return len((set(left) & set(right)) - {None}) >= kind.at_least


def _jaccard(kind: Jaccard, left: list[Any], right: list[Any]) -> bool:
    a, b = set(left) - {None}, set(right) - {None}
    return bool(a and b) and len(a & b) / len(a | b) >= kind.at_least


def _alike(kind: Alike, left: bytes, right: bytes) -> bool:
    if len(left) != len(right) or not left or len(left) % 3:
        return False
    pixels = [
        all(abs(left[at + c] - right[at + c]) <= kind.tolerance for c in range(3))
        for at in range(0, len(left), 3)
    ]
    return sum(pixels) >= kind.at_least * len(pixels)


DEFINITIONS: dict[type, Callable[..., bool]] = {
    Equal: _equal,
    Band: _band,
    Interval: _interval,
    Within: _within,
    Cosine: _cosine,
    InnerProduct: _inner_product,
    Overlap: _overlap,
    Jaccard: _jaccard,
    Alike: _alike,
}
