"""Sets and maps of weights: the definition on literal cases, and the index against it."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from anabranch.errors import TermError
from anabranch.kernel import columns, sets, weighted
from anabranch.kernel.base import Kernel
from anabranch.model.query import Operand, Term
from anabranch.model.terms import Cosine, InnerProduct, Jaccard, Overlap
from tests.kernel import pairs
from tests.kernel.pairs import Pairs, Reach

INTS, TEXTS = pa.list_(pa.int64()), pa.list_(pa.string())
WEIGHTS = pa.map_(pa.string(), pa.float64())
NAN, INF = float("nan"), float("inf")


def kernel(kind: Overlap | Jaccard | Cosine | InnerProduct) -> Kernel:
    term = Term("alike(a.s, b.s)", kind, (Operand(0, "s"), Operand(1, "s")))
    match kind:
        case Overlap():
            return sets.OverlapKernel(term)
        case Jaccard():
            return sets.JaccardKernel(term)
        case Cosine():
            return weighted.CosineKernel(term)
        case InnerProduct():
            return weighted.InnerProductKernel(term)


def found(kind: Any, left: pa.Array, right: pa.Array, reach: Reach = None) -> Pairs:
    return pairs.found(kernel(kind), left, right, reach)


def expected(kind: Any, left: pa.Array, right: pa.Array, reach: Reach = None) -> Pairs:
    return pairs.expected(kernel(kind), left, right, reach)


@pytest.mark.parametrize(
    ("kind", "left", "right", "answer"),
    [
        (Overlap(2), [1, 2, 3], [2, 3, 4], True),
        (Overlap(3), [1, 2, 3], [2, 3, 4], False),
        (Overlap(2), [1, 1, 1], [1, 1], False),
        (Overlap(1), [None, 1], [None, 2], False),
        (Overlap(1), [], [], False),
        (Overlap(1), None, [1], False),
        (Jaccard(0.5), [1, 2, 3], [2, 3, 4], True),
        (Jaccard(0.51), [1, 2, 3], [2, 3, 4], False),
        (Jaccard(1), [1, 2, 2], [2, 1, None], True),
        (Jaccard(0.1), [], [], False),
        (Jaccard(0.1), [None], [None], False),
        (Jaccard(1 / 3), [1, 2], [2, 3], True),
    ],
)
def test_the_definition_of_sets(kind: Any, left: Any, right: Any, answer: bool) -> None:
    pair = pa.array([left], INTS), pa.array([right], INTS)
    assert kernel(kind).holds(pair).tolist() == [answer]
    assert found(kind, *pair) == ([(0, 0)] if answer else [])


@pytest.mark.parametrize(
    ("kind", "left", "right", "answer"),
    [
        (InnerProduct(11), {"a": 1, "b": 2}, {"b": 4, "a": 3}, True),
        (InnerProduct(11), {"a": 1, "b": 2}, {"b": 4, "c": 3}, False),
        (InnerProduct(1), {"a": 1e20, "b": -1e20, "c": 1}, {"a": 1, "b": 1, "c": 1}, True),
        (InnerProduct(0), {"a": 1}, {"b": 1}, True),
        (InnerProduct(0), {}, {}, True),
        (InnerProduct(-1), None, {}, False),
        (InnerProduct(0.5), {"a": None, "b": 1}, {"a": 1, "b": 1}, True),
        (InnerProduct(0.5), {"a": NAN, "b": 1}, {"b": 1}, True),
        (InnerProduct(0.5), {"a": NAN, "b": 1}, {"a": 1, "b": 1}, False),
        (InnerProduct(0.5), {"a": INF}, {"a": 1}, True),
        (Cosine(0.7), {"a": 1}, {"a": 1, "b": 1}, True),
        (Cosine(0.71), {"a": 1}, {"a": 1, "b": 1}, False),
        (Cosine(-1), {"a": 0}, {"a": 1}, False),
        (Cosine(-1), {}, {"a": 1}, False),
        (Cosine(-1), {"b": 1}, {"a": 1}, True),
    ],
)
def test_the_definition_of_weighted_sets(kind: Any, left: Any, right: Any, answer: bool) -> None:
    pair = [
        pa.array([None if side is None else list(side.items())], WEIGHTS) for side in (left, right)
    ]
    assert kernel(kind).holds(pair).tolist() == [answer]
    assert found(kind, pair[0], pair[1]) == ([(0, 0)] if answer else [])


@pytest.mark.parametrize(
    ("kind", "one", "two", "three"),
    [
        (pa.int16(), 1, 2, 3),
        (pa.string(), "x", "", "ü"),
        (pa.large_string(), "x", "", "ü"),
        (pa.binary(), b"x", b"", b"\x00"),
        (pa.float32(), 0.5, NAN, 0.0),
        (pa.decimal128(10, 2), Decimal("1.25"), Decimal("0.00"), Decimal("-1.25")),
        (pa.date32(), *(dt.date(2020, 1, day) for day in (1, 2, 3))),
        (pa.timestamp("us", "UTC"), *(dt.datetime(2020, 1, d, tzinfo=dt.UTC)
                                      for d in (1, 2, 3))),
        (pa.bool_(), True, False, None),
    ],
)  # fmt: skip
def test_items_may_have_any_plain_type(kind: pa.DataType, one: Any, two: Any, three: Any) -> None:
    left = pa.array([[three], [one, two], [two, three, two], None], pa.list_(kind)).slice(1)
    right = pa.array([[two, one], [one, one], [], [None, two]], pa.large_list(kind))
    assert found(Overlap(1), left, right) == [(0, 0), (0, 1), (0, 3), (1, 0), (1, 3)]
    assert found(Overlap(2), left, right) == [(0, 0)]


def test_equal_items_of_different_width_are_equal() -> None:
    assert found(Overlap(1), pa.array([[7]], pa.list_(pa.int8())), pa.array([[7]], INTS)) == [
        (0, 0)
    ]
    zeros = pa.array([[0.0]], pa.list_(pa.float32())), pa.array([[-0.0]], pa.list_(pa.float64()))
    assert found(Overlap(1), *zeros) == [(0, 0)]
    assert kernel(Overlap(1)).holds(zeros).tolist() == [True]


def test_items_that_are_never_equal_are_refused() -> None:
    pair = pa.array([[1]], INTS), pa.array([["1"]], TEXTS)
    with pytest.raises(TermError, match="elements of type int64 and string are never equal"):
        kernel(Overlap(1)).holds(pair)
    with pytest.raises(TermError, match=r"alike\(a\.s, b\.s\): elements of type"):
        found(Overlap(1), *pair)


def test_codes_of_text_stay_the_same_for_ever() -> None:
    code, certain = columns.codes(pa.array(["", "a", "ab", "ba", "anabranch"]))
    assert not certain
    assert code.tolist() == [
        0,
        -7981336187696101345,
        -1686020268085061295,
        -6373338898429737848,
        42414367730355959,
    ]


def test_items_with_the_same_hash_stay_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(columns, "_hashed", lambda values: np.zeros(len(values), np.int64))
    left = pa.array([["a", "b"], ["c"], ["d", "a", "c"]], TEXTS)
    right = pa.array([["b"], ["a", "b", "c"], ["e", "f"], ["d"]], TEXTS)
    assert found(Overlap(1), left, right) == [(0, 0), (0, 1), (1, 1), (2, 1), (2, 3)]
    assert found(Overlap(2), left, right) == [(0, 1), (2, 1)]
    assert found(Jaccard(0.5), left, right) == [(0, 0), (0, 1), (2, 1)]


def test_only_rows_in_reach_are_found_whatever_the_order_of_the_probe() -> None:
    same = pa.array([[1, 2]] * 6, INTS)
    reach = [(4, 5), (0, 1), (9, 12), (3, 2), (-5, -1), (2, 9)]
    assert found(Overlap(2), same, same, reach) == [
        (0, 4), (0, 5), (1, 0), (1, 1), (5, 2), (5, 3), (5, 4), (5, 5),
    ]  # fmt: skip


@pytest.mark.parametrize("cost", [0.0, 1e9], ids=["sparse", "dense"])
@pytest.mark.parametrize("kind", [Overlap(1), Overlap(3), Jaccard(0.25), Jaccard(0.6), Jaccard(1)])
def test_sparse_and_dense_counting_agree_with_the_definition(
    kind: Any, cost: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sets, "SPARSE_NS", cost)
    monkeypatch.setattr(sets, "BLOCK_ROWS", 32)
    monkeypatch.setattr(sets, "SLACK", 8)
    monkeypatch.setattr(sets, "PAIRS_AT_ONCE", 500)
    rng = np.random.default_rng(3)
    left, right = (
        pa.array([rng.zipf(1.5, rng.integers(0, 7)).clip(0, 30).tolist() for _ in range(n)], INTS)
        for n in (90, 120)
    )
    low = rng.integers(-20, 130, 90)
    reach = [(int(a), int(a + b)) for a, b in zip(low, rng.integers(0, 60, 90), strict=True)]
    assert found(kind, left, right, reach) == expected(kind, left, right, reach)


ITEMS = st.one_of(st.integers(-2, 4), st.sampled_from([1 << 62, -(1 << 63)]), st.none())
KINDS = st.one_of(
    st.builds(Overlap, st.integers(1, 4)),
    st.builds(Jaccard, st.sampled_from([1e-9, 0.2, 0.25, 1 / 3, 0.5, 2 / 3, 0.75, 1.0])),
)


@given(data=st.data(), kind=KINDS, text=st.booleans(), dense=st.booleans())
@settings(max_examples=150, deadline=None)
def test_the_index_of_sets_finds_exactly_what_the_definition_says(
    data: st.DataObject, kind: Any, text: bool, dense: bool
) -> None:
    rows = st.lists(st.one_of(st.none(), st.lists(ITEMS, max_size=6)), min_size=1, max_size=7)
    left, right = (pa.array(data.draw(rows), INTS) for _ in range(2))
    if text:
        left, right = left.cast(TEXTS), right.cast(TEXTS)
    bound = st.tuples(st.integers(-1, 7), st.integers(-1, 7))
    reach = data.draw(st.lists(bound, min_size=len(left), max_size=len(left)))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sets, "SPARSE_NS", 1e9 if dense else 0.0)
        assert found(kind, left, right, reach) == expected(kind, left, right, reach)


NUMBERS = st.one_of(
    st.sampled_from([0.0, 0.1, 0.3, 1.0, 2.0, 3.0]),
    st.sampled_from([-1.0, 1e20, -1e20, 1e-170, 1e-310, 1e200, NAN, INF, None]),
    st.floats(0, 10),
)
WEIGHTED_KINDS = st.one_of(
    st.builds(Cosine, st.one_of(st.sampled_from([-1.0, 0.0, 0.5, 1.0]), st.floats(-1, 1))),
    st.builds(
        InnerProduct,
        st.one_of(st.sampled_from([0.0, 0.01, 1.0, -3.0, 1e-320, 1e200, INF]), st.floats(-5, 50)),
    ),
)


@given(data=st.data(), kind=WEIGHTED_KINDS)
@settings(max_examples=150, deadline=None)
def test_the_index_of_weights_finds_exactly_what_the_definition_says(
    data: st.DataObject, kind: Any
) -> None:
    row = st.dictionaries(st.sampled_from("abcdef"), NUMBERS, max_size=6)
    rows = st.lists(st.one_of(st.none(), row), min_size=1, max_size=7)
    left, right = (
        pa.array([None if r is None else list(r.items()) for r in data.draw(rows)], WEIGHTS)
        for _ in range(2)
    )
    bound = st.tuples(st.integers(-1, 7), st.integers(-1, 7))
    reach = data.draw(st.lists(bound, min_size=len(left), max_size=len(left)))
    assert found(kind, left, right, reach) == expected(kind, left, right, reach)


@given(data=st.data(), kind=WEIGHTED_KINDS)
@settings(max_examples=50, deadline=None)
def test_the_definition_of_weights_does_not_depend_on_what_else_is_asked(
    data: st.DataObject, kind: Any
) -> None:
    row = st.dictionaries(st.sampled_from("abcdef"), NUMBERS, max_size=6)
    rows = st.lists(row, min_size=5, max_size=5)
    left, right = (pa.array([list(r.items()) for r in data.draw(rows)], WEIGHTS) for _ in "ab")
    how = kernel(kind)
    alone = [bool(how.holds([left.slice(i, 1), right.slice(i, 1)])[0]) for i in range(5)]
    assert how.holds([left, right]).tolist() == alone
