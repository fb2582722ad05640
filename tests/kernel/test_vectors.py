"""Dense vectors: the definition on small literal cases, and the index against the definition."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from anabranch.errors import TermError
from anabranch.kernel import vectors
from anabranch.kernel.base import Kernel
from anabranch.kernel.vectors import CosineKernel, InnerProductKernel, WithinKernel
from anabranch.model.query import Operand, Term
from anabranch.model.terms import Cosine, InnerProduct, Within
from tests.kernel import pairs
from tests.kernel.pairs import Pairs, Reach

NAN, INF = float("nan"), float("inf")
DOUBLES = pa.list_(pa.float64())
Row = list[float | None] | None


def kernel(kind: Within | Cosine | InnerProduct) -> Kernel:
    term = Term("near(a.v, b.v)", kind, (Operand(0, "v"), Operand(1, "v")))
    match kind:
        case Within():
            return WithinKernel(term)
        case Cosine():
            return CosineKernel(term)
        case InnerProduct():
            return InnerProductKernel(term)


def holds(kind: Any, left: Row, right: Row) -> bool:
    columns = [pa.array([left], DOUBLES), pa.array([right], DOUBLES)]
    return bool(kernel(kind).holds(columns)[0])


def found(kind: Any, left: pa.Array, right: pa.Array, reach: Reach = None) -> Pairs:
    return pairs.found(kernel(kind), left, right, reach)


def expected(kind: Any, left: pa.Array, right: pa.Array, reach: Reach = None) -> Pairs:
    return pairs.expected(kernel(kind), left, right, reach)


@pytest.mark.parametrize(
    ("kind", "left", "right", "answer"),
    [
        (Within(5), [0, 0], [3, 4], True),
        (Within(4.999999), [0, 0], [3, 4], False),
        (Within(0), [0.1, 0.2], [0.1, 0.2], True),
        (Within(0), [], [], True),
        (Within(1), [NAN], [NAN], False),
        (Within(INF), [INF], [1], True),
        (Within(INF), [INF], [INF], False),
        (Within(9), None, [1], False),
        (Within(9), [1, None], [1, 1], False),
        (InnerProduct(11), [1, 2], [3, 4], True),
        (InnerProduct(11.5), [1, 2], [3, 4], False),
        (InnerProduct(1), [INF], [2], True),
        (InnerProduct(-1), [INF], [0], False),
        (InnerProduct(0), [], [], True),
        (Cosine(1), [1, 0], [7, 0], True),
        (Cosine(0), [1, 0], [0, 1], True),
        (Cosine(0.5), [1, 0], [1, 1], True),
        (Cosine(0.8), [1, 0], [1, 1], False),
        (Cosine(-1), [0, 0], [1, 1], False),
    ],
)
def test_the_definition(kind: Any, left: Row, right: Row, answer: bool) -> None:
    assert holds(kind, left, right) == answer
    one, two = pa.array([left], DOUBLES), pa.array([right], DOUBLES)
    assert found(kind, one, two) == ([(0, 0)] if answer else [])


@pytest.mark.parametrize("item", [pa.float32(), pa.float64(), pa.int32(), pa.int64()])
@pytest.mark.parametrize("make", [pa.list_, pa.large_list, lambda item: pa.list_(item, 2)])
def test_all_layouts_of_a_column_mean_the_same(item: pa.DataType, make: Any) -> None:
    rows = [[9, 9], [0, 0], [3, 4], None, [6, 8], [3, None]]
    column = pa.array(rows, make(item)).slice(1)
    assert found(Within(5), column, column) == [
        (0, 0), (0, 1), (1, 0), (1, 1), (1, 3), (3, 1), (3, 3),
    ]  # fmt: skip


def test_vectors_of_unequal_length_are_refused_with_both_lengths_and_a_sample() -> None:
    left, right = pa.array([[1.0, 2.0]], DOUBLES), pa.array([[0.5] * 6], DOUBLES)
    message = (
        r"near\(a\.v, b\.v\): vectors of 2 and 6 elements cannot be compared, "
        r"such as \[1, 2\] and \[0\.5, 0\.5, 0\.5, 0\.5, …\]"
    )
    with pytest.raises(TermError, match=message):
        kernel(Within(1)).holds([left, right])
    with pytest.raises(TermError, match=message):
        found(Within(1), left, right)


def test_vectors_of_unequal_length_that_never_meet_are_fine() -> None:
    left = pa.array([[1.0], [1.0, 2.0], None], DOUBLES)
    right = pa.array([[1.5], [1.0, None], [1.5, 2.0], [9.0, 9.0]], DOUBLES)
    reach = [(0, 1), (1, 3), (0, 3)]
    assert found(Within(1), left, right, reach) == [(0, 0), (1, 2)]


def test_only_rows_in_reach_are_found_whatever_the_order_of_the_probe() -> None:
    same = pa.array([[1.0]] * 6, DOUBLES)
    reach = [(4, 5), (0, 1), (9, 12), (3, 2), (-5, -1), (2, 9)]
    assert found(Within(0), same, same, reach) == [
        (0, 4), (0, 5), (1, 0), (1, 1), (5, 2), (5, 3), (5, 4), (5, 5),
    ]  # fmt: skip


def test_pairs_exactly_at_the_distance_are_decided_by_the_definition() -> None:
    rng = np.random.default_rng(7)
    points = rng.normal(size=(40, 5))
    column = pa.array(list(points), DOUBLES)
    for other in range(1, 16):
        distance = float(np.sqrt(((points[0] - points[other]) ** 2).sum()))
        for limit in (np.nextafter(distance, 0), distance, np.nextafter(distance, INF)):
            kind = Within(float(limit))
            assert found(kind, column[:1], column) == expected(kind, column[:1], column)


def test_vectors_far_from_the_origin_are_told_apart() -> None:
    rng = np.random.default_rng(8)
    column = pa.array(list(1e7 + rng.integers(0, 9, size=(300, 2)) / 8), DOUBLES)
    kind = Within(0.25)
    i, j = np.divmod(np.arange(300 * 300), 300)
    together = kernel(kind).holds([column.take(pa.array(i)), column.take(pa.array(j))])
    answer = list(zip(i[together].tolist(), j[together].tolist(), strict=True))
    assert found(kind, column, column) == answer


def test_single_precision_gives_way_to_double_where_it_decides_too_little(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(vectors, "BLOCK_ROWS", 64)
    rng = np.random.default_rng(9)
    left = rng.random((300, 3)) * 1e-4
    right = np.r_[rng.random((399, 3)) * 1e-4, [[1e6, 0, 0]]]
    pairs = found(Within(5e-6), pa.array(list(left), DOUBLES), pa.array(list(right), DOUBLES))
    distance = np.sqrt(((left[:, None] - right[None, :]) ** 2).sum(axis=2))
    assert pairs == [(i, j) for i, j in np.argwhere(distance <= 5e-6).tolist()]
    assert len(pairs) > 10


@pytest.mark.parametrize(
    "kind", [Within(1.2), Within(2.4), Cosine(0.6), InnerProduct(3.0), InnerProduct(-0.1)]
)
def test_many_tiles_find_what_the_definition_says(
    kind: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(vectors, "TILE_ROWS", 16)
    monkeypatch.setattr(vectors, "TILE_COLUMNS", 32)
    monkeypatch.setattr(vectors, "BLOCK_ROWS", 64)
    monkeypatch.setattr(vectors, "SLACK", 8)
    rng = np.random.default_rng(10)
    left, right = (pa.array(list(rng.normal(size=(n, 6))), DOUBLES) for n in (150, 200))
    low = rng.integers(-50, 220, 150)
    reach = [(int(a), int(a + b)) for a, b in zip(low, rng.integers(0, 90, 150), strict=True)]
    assert found(kind, left, right, reach) == expected(kind, left, right, reach)


def numbers() -> st.SearchStrategy[float]:
    """Few distinct ones, so that ties are common, and the extremes of all kinds."""
    common = st.sampled_from([0.0, -0.0, 1.0, 0.1, 0.3, -2.0, 3.0, 1e-3])
    extreme = st.sampled_from([NAN, INF, -INF, 1e-320, 1e-170, 3e-39, 1e20, 1e155, -1e200, 1e308])
    return st.one_of(common, common, extreme, st.floats(-10, 10), st.floats(width=32))


def columns(width: int) -> st.SearchStrategy[list[Row]]:
    vector = st.lists(st.one_of(numbers(), numbers(), numbers(), st.none()),
                      min_size=width, max_size=width)  # fmt: skip
    plain = st.lists(numbers(), min_size=width, max_size=width)
    return st.lists(st.one_of(st.none(), vector, plain, plain), min_size=1, max_size=7)


KINDS = st.one_of(
    st.builds(Within, st.one_of(st.sampled_from([0.0, 0.1, 1.0, 5.0, 1e-160, 1e155, INF]),
                                st.floats(0, 20))),
    st.builds(Cosine, st.one_of(st.sampled_from([-1.0, 0.0, 0.5, 1.0]), st.floats(-1, 1))),
    st.builds(InnerProduct, st.one_of(st.sampled_from([0.0, 0.01, 1.0, -INF, 1e300, 1e-320]),
                                      st.floats(-50, 50))),
)  # fmt: skip


@given(data=st.data(), kind=KINDS, width=st.integers(0, 10))
@settings(max_examples=150, deadline=None)
def test_the_index_finds_exactly_what_the_definition_says(
    data: st.DataObject, kind: Any, width: int
) -> None:
    left = pa.array(data.draw(columns(width)), DOUBLES)
    right = pa.array(data.draw(columns(width)), DOUBLES)
    bound = st.tuples(st.integers(-1, 7), st.integers(-1, 7))
    reach = data.draw(st.lists(bound, min_size=len(left), max_size=len(left)))
    assert found(kind, left, right, reach) == expected(kind, left, right, reach)


@given(scale=st.integers(-300, 300), seed=st.integers(0, 1 << 30), kind=KINDS)
@example(scale=-160, seed=1, kind=Cosine(0.5))
@settings(max_examples=60, deadline=None)
def test_vectors_of_any_magnitude_are_compared_as_the_definition_says(
    scale: int, seed: int, kind: Any
) -> None:
    rng = np.random.default_rng(seed)
    factors = 10.0 ** (scale + rng.integers(-4, 4, (8, 1)))
    column = pa.array(list(rng.integers(-3, 4, (8, 3)) * factors), DOUBLES)
    match kind:
        case Within():
            kind = Within(abs(kind.distance) * 10.0**scale)
        case InnerProduct():
            kind = InnerProduct(kind.at_least * 10.0 ** max(min(2 * scale, 300), -300))
    assert found(kind, column, column) == expected(kind, column, column)


@pytest.mark.parametrize("width", [1, 3, 8, 9, 40, 129, 300])
def test_the_definition_of_a_pair_does_not_depend_on_what_else_is_asked(width: int) -> None:
    rng = np.random.default_rng(width)
    left, right = rng.normal(size=(2, 50, width))
    pair = pa.array(list(left), DOUBLES), pa.array(list(right), DOUBLES)
    distances = np.array([np.sqrt(((a - b) ** 2).sum()) for a, b in zip(left, right, strict=True)])
    for limit in (*distances[:3], *np.nextafter(distances[:3], 0)):
        assert kernel(Within(float(limit))).holds(pair).tolist() == (distances <= limit).tolist()
