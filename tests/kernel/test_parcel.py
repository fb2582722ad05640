"""Intermediate results on their way: what goes in comes out, and no row comes out twice."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest

from anabranch.kernel import parcel
from anabranch.kernel.block import Block
from anabranch.kernel.parcel import pack, unpack
from anabranch.kernel.partial import Partial, Refs, merged


def block(name: str, values: Sequence[str | None]) -> Block:
    return Block({"v": pa.array(values)}, np.arange(len(values)), {}, name=name)


A, B, C = block("a", ["x", None, "z"]), block("b", ["1", "2"]), block("c", ["3"])
COLUMNS = {0: ["v"], 1: ["v"]}


def partial(first: Block, rows: Sequence[int], second: Block, others: Sequence[int]) -> Partial:
    refs = {0: Refs((first,), np.array(rows)), 1: Refs((second,), np.array(others))}
    return Partial(refs, np.arange(len(rows)), np.arange(len(rows)) + 10)


def pairs(found: Partial) -> list[tuple[str | None, str | None]]:
    return list(
        zip(found.column(0, "v").to_pylist(), found.column(1, "v").to_pylist(), strict=True)
    )


def packed(found: Partial) -> list[pa.Buffer]:
    return [pa.py_buffer(data) for data in pack(found, COLUMNS)]


def test_a_row_that_comes_in_two_parcels_is_one_again() -> None:
    here, there = partial(A, [0, 1, 2], B, [0, 0, 1]), partial(A, [2, 1], C, [0, 0])
    found = unpack(packed(here) + packed(there), [0, 1])
    assert pairs(found) == [("x", "1"), (None, "1"), ("z", "2"), ("z", "3"), (None, "3")]
    assert found.latest.tolist() == [0, 1, 2, 0, 1]
    assert found.deadline.tolist() == [10, 11, 12, 10, 11]
    (rows,) = found.refs[0].blocks
    assert len(rows) == 3
    (others,) = found.refs[1].blocks
    assert len(others) == 3


def test_equal_rows_of_different_segments_stay_two() -> None:
    twin = block("twin", ["x", None, "z"])
    found = unpack(packed(partial(A, [0], B, [0])) + packed(partial(twin, [0], B, [0])), [0, 1])
    assert pairs(found) == [("x", "1"), ("x", "1")]
    (rows,) = found.refs[0].blocks
    assert len(rows) == 2


def test_rows_are_known_again_after_a_further_hop() -> None:
    once = unpack(packed(partial(A, [0, 2], B, [0, 1])), [0, 1])
    again = unpack(packed(once) + packed(partial(A, [2], C, [0])), [0, 1])
    assert pairs(again) == [("x", "1"), ("z", "2"), ("z", "3")]
    (rows,) = again.refs[0].blocks
    assert len(rows) == 2


def test_a_large_parcel_is_split_and_comes_out_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parcel, "PARCEL_BYTES", 100)
    many = merged([partial(A, [0, 1, 2], B, [0, 1, 0]), partial(A, [1, 2], C, [0, 0])])
    parcels = packed(many)
    assert len(parcels) > 1
    assert pairs(unpack(parcels, [0, 1])) == pairs(many)
