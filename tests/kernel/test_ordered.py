"""Bands and intervals against their definitions, on awkward numbers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from anabranch.kernel.bands import BandKernel
from anabranch.kernel.base import Probe, Target
from anabranch.kernel.ordered import IntervalKernel
from anabranch.kernel.reference import DEFINITIONS
from anabranch.model.query import Operand, Term
from anabranch.model.terms import Band, Interval

floats = st.one_of(
    st.floats(-10, 10).map(lambda x: round(x, 1)),
    st.sampled_from([0.1, 0.2, 0.3, 0.30000000000000004, 1e300, -1e300, 5e-324]),
    st.sampled_from([float("inf"), float("-inf"), float("nan"), -0.0]),
)
columns = st.lists(floats, min_size=1, max_size=12)


def found(kernel: Any, stream: int, mine: dict[int, Any], others: dict[int, Any]) -> set[Any]:
    """Pairs (other row, row of the stream) that are proposed and hold."""
    rows = len(next(iter(mine.values())))
    size = len(next(iter(others.values())))
    times = np.zeros(rows, np.int64)
    index = kernel.prepare(stream, mine, times) or {}
    probe = Probe(others, np.zeros(size, np.int64), np.zeros(size, np.int64))
    pairs = set()
    for probes, targets in kernel.candidates(stream, Target(mine, index, times), probe):
        both = {p: column.take(pa.array(targets)) for p, column in mine.items()}
        both |= {p: column.take(pa.array(probes)) for p, column in others.items()}
        holds = kernel.holds([both[position] for position in sorted(both)])
        pairs |= {(int(p), int(t)) for p, t, h in zip(probes, targets, holds, strict=True) if h}
    return pairs


@given(columns, columns, st.sampled_from([0.0, 0.1, 0.2, 1.0, 1e300]), st.booleans())
def test_a_band_finds_what_its_definition_says(
    left: list[float], right: list[float], width: float, strict: bool
) -> None:
    kind = Band(width, strict)
    kernel = BandKernel(Term("band", kind, (Operand(0, "x"), Operand(1, "x"))))
    a, b = pa.array(left), pa.array(right)
    wanted = {
        (i, j)
        for i, x in enumerate(left)
        for j, y in enumerate(right)
        if DEFINITIONS[Band](kind, x, y)
    }
    assert found(kernel, 1, {1: b}, {0: a}) == wanted
    assert found(kernel, 0, {0: a}, {1: b}) == {(j, i) for i, j in wanted}


@given(
    columns,
    st.lists(st.tuples(floats, floats), min_size=1, max_size=12),
    st.tuples(st.booleans(), st.booleans(), st.booleans(), st.booleans()),
)
def test_an_interval_finds_what_its_definition_says(
    values: list[float], bounds: list[tuple[float, float]], shape: tuple[bool, bool, bool, bool]
) -> None:
    kind = Interval(*shape)
    if not (kind.has_low or kind.has_high):
        return
    sides = [side for side, wanted in enumerate((kind.has_low, kind.has_high)) if wanted]
    operands = (Operand(0, "v"), *(Operand(1, f"b{side}") for side in sides))
    kernel = IntervalKernel(Term("interval", kind, operands))
    value = pa.array(values)
    limits = {1 + i: pa.array([b[side] for b in bounds]) for i, side in enumerate(sides)}
    wanted = {
        (j, i)
        for i, x in enumerate(values)
        for j, b in enumerate(bounds)
        if DEFINITIONS[Interval](kind, x, *(b[side] for side in sides))
    }
    assert found(kernel, 0, {0: value}, limits) == wanted
    assert found(kernel, 1, limits, {0: value}) == {(i, j) for j, i in wanted}


def test_the_last_bit_is_the_expressions_own() -> None:
    kernel = BandKernel(Term("band", Band(0.1), (Operand(0, "x"), Operand(1, "x"))))
    # 0.3 - 0.2 is 0.09999999999999998, and 0.2 - 0.1 is 0.1: both hold; 0.4 - 0.3 is more.
    left, right = pa.array([0.3, 0.2, 0.4]), pa.array([0.2, 0.1, 0.3])
    assert kernel.holds([left, right]).tolist() == [True, True, 0.4 - 0.3 <= 0.1]


def test_integers_too_far_apart_for_64_bits_are_out_of_every_band() -> None:
    kernel = BandKernel(Term("band", Band(10), (Operand(0, "x"), Operand(1, "x"))))
    far = [pa.array([2**63 - 1, 5]), pa.array([-(2**63) + 3, 7])]
    assert kernel.holds(far).tolist() == [False, True]


@pytest.mark.parametrize("words", [["a", "b", "c"], ["", "ä", "z"]])
def test_strings_have_an_order_too(words: list[str]) -> None:
    kernel = IntervalKernel(
        Term("interval", Interval(False, True), (Operand(0, "s"), Operand(1, "s")))
    )
    column = pa.array(words)
    wanted = {(j, i) for i, x in enumerate(words) for j, y in enumerate(words) if x <= y}
    assert found(kernel, 0, {0: column}, {1: column}) == wanted
