"""Images are compared pixel by pixel, as the definition says."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import anabranch as ab
from anabranch.kernel.base import Probe, Target
from anabranch.kernel.images import AlikeKernel
from anabranch.kernel.reference import DEFINITIONS
from anabranch.model.query import Operand, Term
from anabranch.model.terms import Alike

VALUES = st.sampled_from([0, 10, 26, 255])
sizes = st.sampled_from([0, 3, 4, 6, 15])
images = st.none() | sizes.flatmap(
    lambda size: st.lists(st.sampled_from([0, 10, 26, 255]), min_size=size, max_size=size).map(
        bytes
    )
)


def kernel(at_least: float = 0.5, tolerance: int = 16) -> AlikeKernel:
    kind = Alike(at_least, tolerance)
    return AlikeKernel(Term("alike", kind, (Operand(0, "i"), Operand(1, "i"))))


@given(
    left=st.lists(images, max_size=6),
    right=st.lists(images, max_size=6),
    at_least=st.sampled_from([0.0, 0.4, 1.0]),
    stream=st.sampled_from([0, 1]),
)
def test_candidates_are_the_pairs_that_the_definition_accepts(
    left: list[bytes | None], right: list[bytes | None], at_least: float, stream: int
) -> None:
    kind = Alike(at_least, 16)
    target, probe = (left, right) if stream == 0 else (right, left)
    times = np.arange(len(target), dtype=np.int64)
    low, high = np.full(len(probe), 1), np.full(len(probe), 3)
    found = kernel(at_least).candidates(
        stream,
        Target({stream: pa.array(target, pa.binary())}, {}, times),
        Probe({1 - stream: pa.array(probe, pa.binary())}, low, high),
    )
    pairs = sorted(
        (int(p), int(r)) for probes, rows in found for p, r in zip(probes, rows, strict=True)
    )
    expected = [
        (p, r)
        for p, mine in enumerate(probe)
        for r, theirs in enumerate(target)
        if 1 <= r <= 3
        and mine is not None
        and theirs is not None
        and DEFINITIONS[Alike](kind, mine, theirs)
    ]
    assert pairs == expected


@given(pairs=st.lists(st.tuples(images, images), min_size=1, max_size=8))
def test_holds_agrees_with_the_definition(pairs: list[tuple[bytes | None, bytes | None]]) -> None:
    left, right = (pa.array(column, pa.binary()) for column in zip(*pairs, strict=True))
    expected = [
        a is not None and b is not None and DEFINITIONS[Alike](Alike(0.5, 16), a, b)
        for a, b in pairs
    ]
    assert kernel().holds([left, right]).tolist() == expected


def test_a_slice_of_a_column_is_compared_by_its_own_rows() -> None:
    column = pa.array([b"\x00" * 6, b"\xff" * 6, b"\x00" * 6], pa.binary())
    assert kernel().holds([column.slice(1, 2), column.slice(0, 2)]).tolist() == [False, False]
    assert kernel().holds([column.slice(2, 1), column.slice(0, 1)]).tolist() == [True]


@pytest.mark.parametrize(("at_least", "tolerance"), [(1.5, 16), (0.5, 300), (0.5, 1.5), (-1, 0)])
def test_arguments_that_mean_nothing_are_refused(at_least: float, tolerance: Any) -> None:
    with pytest.raises(ab.QueryError, match="alike"):
        ab.alike("a.i", "b.i", at_least, tolerance)
