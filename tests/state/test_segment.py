"""A segment is read back as it was written, or not at all."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from anabranch.errors import CheckpointError
from anabranch.kernel.block import Block
from anabranch.state.files import Files
from anabranch.state.segment import SegmentRef, read_segment, write_segment

PATH = "segments/0/one.seg"

COLUMNS = {
    "text": pa.array(["æ", None, ""], pa.string()),
    "amount": pa.array([Decimal("12.30"), None, Decimal("-0.01")], pa.decimal128(18, 2)),
    "at": pa.array([datetime(2026, 1, 1, tzinfo=UTC), None, None], pa.timestamp("us", "UTC")),
    "tags": pa.array([[1, None], [], None], pa.list_(pa.int64())),
    "weights": pa.array([[("a", 1.5)], None, []], pa.map_(pa.string(), pa.float64())),
    "place": pa.array([{"x": 1, "y": None}, None, {"x": None, "y": "b"}]),
    "raw": pa.array([b"\x00\xff", b"", None], pa.binary()),
    "flag": pa.array([True, None, False]),
    "nothing": pa.nulls(3),
}


def block() -> Block:
    indexes = {
        "key": {"codes": np.array([1, 1, 7], np.int64), "scale": np.array([0.5])},
        "term2": {"empty": np.array([], np.int32)},
    }
    return Block(COLUMNS, np.array([30, 10, 20], np.int64), indexes)


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Files:
    return Files(str(tmp_path_factory.mktemp("store")))


@pytest.fixture
def ref(files: Files) -> SegmentRef:
    """A segment, written anew for every test."""
    return write_segment(files, PATH, 0, block())


def test_every_type_null_and_index_is_read_back_as_it_was_written(
    files: Files, ref: SegmentRef
) -> None:
    found = read_segment(files, ref)
    assert list(found.columns) == list(COLUMNS)
    for name, column in COLUMNS.items():
        assert found.columns[name].type == column.type
        assert found.columns[name].equals(column), name
    assert found.times.tolist() == [30, 10, 20]
    written = block().indexes
    assert {name: set(index) for name, index in found.indexes.items()} == {
        name: set(index) for name, index in written.items()
    }
    for name, index in written.items():
        for part, values in index.items():
            assert found.indexes[name][part].dtype == values.dtype
            assert found.indexes[name][part].tolist() == values.tolist()


def test_its_reference_tells_rows_bytes_and_times(files: Files, ref: SegmentRef) -> None:
    assert (ref.path, ref.stream, ref.rows, ref.first, ref.last) == (PATH, 0, 3, 10, 30)
    assert ref.bytes == len(files.read(PATH))


def test_a_slice_of_a_block_is_written_without_the_rest(files: Files) -> None:
    whole = block()
    sliced = Block(
        {name: column.slice(1, 1) for name, column in whole.columns.items()}, whole.times[1:2], {}
    )
    found = read_segment(files, write_segment(files, "segments/0/slice.seg", 0, sliced))
    assert found.times.tolist() == [10]
    assert {name: column.to_pylist() for name, column in found.columns.items()} == {
        name: column.slice(1, 1).to_pylist() for name, column in COLUMNS.items()
    }


def test_a_block_of_no_rows_is_read_back(files: Files) -> None:
    empty = Block({"x": pa.array([], pa.float64())}, np.array([], np.int64), {})
    found = read_segment(files, write_segment(files, "segments/0/empty.seg", 0, empty))
    assert len(found) == 0
    assert found.columns["x"].type == pa.float64()


def test_any_arrow_reader_finds_the_rows_at_the_start_of_a_segment(
    files: Files, ref: SegmentRef
) -> None:
    with pa.ipc.open_stream(files.read(ref.path)) as reader:
        assert reader.read_next_batch().column("text").to_pylist() == ["æ", None, ""]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(where=st.floats(0, 1, exclude_max=True), flip=st.integers(1, 255))
def test_a_segment_with_any_byte_changed_is_refused_by_name(
    files: Files, ref: SegmentRef, where: float, flip: int
) -> None:
    data = bytearray(files.read(PATH))
    data[int(where * len(data))] ^= flip
    files.write("segments/0/flipped.seg", bytes(data))
    with pytest.raises(CheckpointError, match=r"segments/0/flipped\.seg .* is damaged"):
        read_segment(files, replace(ref, path="segments/0/flipped.seg"))


@pytest.mark.parametrize("from_the_end", range(1, 21))
def test_a_segment_with_a_byte_changed_in_its_ending_is_refused_by_name(
    files: Files, ref: SegmentRef, from_the_end: int
) -> None:
    data = bytearray(files.read(PATH))
    data[-from_the_end] ^= 1
    files.write(PATH, bytes(data))
    with pytest.raises(CheckpointError, match=r"one\.seg .* is damaged"):
        read_segment(files, ref)


@pytest.mark.parametrize("left", [0, 1, 15, 16, 100, -1])
def test_a_segment_cut_short_is_refused_by_name(files: Files, ref: SegmentRef, left: int) -> None:
    Path(files.root, PATH).write_bytes(files.read(PATH)[:left])
    with pytest.raises(CheckpointError, match=r"one\.seg .* is damaged: it has \d+ bytes instead"):
        read_segment(files, ref)


def test_a_missing_segment_is_named(files: Files, ref: SegmentRef) -> None:
    files.delete(PATH)
    with pytest.raises(CheckpointError, match=r"one\.seg .* is damaged: it is missing"):
        read_segment(files, ref)


def test_a_whole_segment_in_the_place_of_another_is_refused(files: Files, ref: SegmentRef) -> None:
    other = replace_times(block())
    assert write_segment(files, PATH, 0, other).bytes == ref.bytes
    with pytest.raises(CheckpointError, match=r"one\.seg .* is damaged"):
        read_segment(files, ref)


def replace_times(of: Block) -> Block:
    return Block(of.columns, of.times + 1, of.indexes)
