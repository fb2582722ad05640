"""A segment: a block of rows in an immutable file that can be mapped into memory and probed.

The file holds two Arrow IPC streams, one after the other, and a trailer:

    rows     the columns, with the time       (any Arrow reader opens a segment and finds these)
    index    one row of lists, an entry for each index array
    trailer  JSON with the format's version and the length of the first stream
    ending   length of the trailer, checksum of everything before it, and the magic word
"""

from __future__ import annotations

import json
import struct
import zlib
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.errors import CheckpointError
from anabranch.kernel.base import Index
from anabranch.kernel.block import Block
from anabranch.model.query import TIME
from anabranch.state.files import Files

FORMAT = 1
MAGIC = b"ANABSEG1"
_ENDING = struct.Struct("<II8s")


@dataclass(frozen=True)
class SegmentRef:
    """All that the driver knows of a segment: where it is, how large, and what times it spans."""

    path: str
    stream: int
    rows: int
    bytes: int
    first: int
    last: int
    checksum: int

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def write_segment(files: Files, path: str, stream: int, block: Block) -> SegmentRef:
    """Write a block as a segment; it is there whole or not at all, also after a loss of power."""
    sink = pa.BufferOutputStream()
    times = pa.array(block.times, pa.int64())
    rows = pa.RecordBatch.from_arrays([times, *block.columns.values()], [TIME, *block.columns])
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_batch(rows)
    length = sink.tell()
    index = _index_batch(block)
    with pa.ipc.new_stream(sink, index.schema) as writer:
        writer.write_batch(index)
    trailer = json.dumps({"format": FORMAT, "rows": length}).encode()
    sink.write(trailer)
    body = sink.getvalue()
    checksum = _checksum(body, len(trailer))
    ending = _ENDING.pack(len(trailer), checksum, MAGIC)
    files.write(path, b"".join((body, ending)), sync=True)
    size = body.size + _ENDING.size
    return SegmentRef(path, stream, len(block), size, block.first, block.last, checksum)


def read_segment(files: Files, ref: SegmentRef) -> Block:
    """Map a segment. Raises CheckpointError, with its name, unless every byte is as written."""
    try:
        data = files.map(ref.path)
    except FileNotFoundError as error:
        raise _damaged(files, ref, "it is missing") from error
    if data.size != ref.bytes:
        raise _damaged(files, ref, f"it has {data.size} bytes instead of {ref.bytes}")
    end = data.size - _ENDING.size
    trailer_length, checksum, magic = _ENDING.unpack(data.slice(end))
    body = data.slice(0, end)
    if magic != MAGIC or checksum != ref.checksum or _checksum(body, trailer_length) != checksum:
        raise _damaged(files, ref, "its checksum is wrong")
    trailer = json.loads(bytes(data.slice(end - trailer_length, trailer_length)))
    if trailer["format"] != FORMAT:
        raise _damaged(files, ref, f"its format is {trailer['format']}, not {FORMAT}")
    rows = _only_batch(body.slice(0, trailer["rows"]))
    index = _only_batch(body.slice(trailer["rows"]))
    columns = {name: rows.column(name) for name in rows.schema.names}
    times = columns.pop(TIME).to_numpy()
    return Block(columns, times, _indexes(index), name=ref.path)


def _checksum(body: pa.Buffer, trailer_length: int) -> int:
    return zlib.crc32(struct.pack("<I", trailer_length), zlib.crc32(body))


def _only_batch(data: pa.Buffer) -> pa.RecordBatch:
    with pa.ipc.open_stream(data) as reader:
        return reader.read_next_batch()


def _index_batch(block: Block) -> pa.RecordBatch:
    arrays, names = [], []
    for index, entries in block.indexes.items():
        for name, values in entries.items():
            offsets = pa.array([0, len(values)], pa.int64())
            arrays.append(pa.LargeListArray.from_arrays(offsets, pa.array(values)))
            names.append(f"{index}/{name}")
    if not arrays:
        arrays, names = [pa.array([True])], ["none"]
    return pa.RecordBatch.from_arrays(arrays, names)


def _indexes(batch: pa.RecordBatch) -> dict[str, Index]:
    indexes: dict[str, dict[str, np.ndarray]] = {}
    for path in batch.schema.names:
        if "/" in path:
            index, name = path.split("/")
            values = batch.column(path).values.to_numpy(zero_copy_only=False)
            indexes.setdefault(index, {})[name] = values
    return {**indexes}


def _damaged(files: Files, ref: SegmentRef, what: str) -> CheckpointError:
    return CheckpointError(
        f"segment {ref.path} under {files.root} is damaged: {what}. Nothing was joined with it. "
        "Restore the file from a backup, or start from a new checkpoint"
    )
