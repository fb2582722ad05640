"""Intermediate results on their way to another host, as bytes.

A parcel holds combinations of rows by number, and beside them each row that occurs, once, with the
columns that later steps or the output will ask for: however often a row has matched, it travels
once. The format is a series of Arrow IPC streams: one a bound stream, then the combinations.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
import pyarrow as pa

from anabranch.kernel.base import Ints, Rows
from anabranch.kernel.block import ROW, SEGMENT, Block
from anabranch.kernel.order import Step
from anabranch.kernel.partial import Partial, Refs
from anabranch.model.query import TIME, Query

PARCEL_BYTES = 32 << 20
"""Larger ones are split: a parcel is held in memory whole, by Spark and by its receiver."""


def needed(query: Query, bound: Sequence[int], left: Sequence[Step]) -> dict[int, list[str]]:
    """The columns of bound streams that the steps left, or the output, will ask for."""
    wanted: dict[int, set[str]] = {stream: set() for stream in bound}
    for output in query.outputs:
        if output.operand.stream in wanted:
            wanted[output.operand.stream].add(output.operand.column)
    for step in left:
        for position in step.checks:
            for operand in query.terms[position].operands:
                if operand.stream in wanted:
                    wanted[operand.stream].add(operand.column)
    if query.key is not None and left:
        wanted[bound[0]].add(query.key[bound[0]])
    return {stream: sorted(columns) for stream, columns in wanted.items()}


def pack(partial: Partial, columns: Mapping[int, Sequence[str]]) -> Iterator[bytes]:
    """One parcel or, where it would be large, several."""
    pieces = {stream: _distinct(refs, columns[stream]) for stream, refs in partial.refs.items()}
    size = sum(rows.nbytes for rows, _ in pieces.values())
    if size > PARCEL_BYTES and len(partial) > 1:
        half = len(partial) // 2
        yield from pack(partial.part(0, half), columns)
        yield from pack(partial.part(half, len(partial)), columns)
        return
    sink = pa.BufferOutputStream()
    for rows, _ in pieces.values():
        _write(sink, rows)
    numbers = {f"r{stream}": pa.array(index) for stream, (_, index) in pieces.items()}
    times = {"latest": pa.array(partial.latest), "deadline": pa.array(partial.deadline)}
    arrays = {**numbers, **times}
    _write(sink, pa.RecordBatch.from_arrays(list(arrays.values()), list(arrays)))
    yield sink.getvalue().to_pybytes()


def unpack(parcels: Sequence[pa.Buffer], bound: Sequence[int]) -> Partial:
    """The combinations of parcels, over one block a stream: a row that came twice is one again."""
    sources = [pa.BufferReader(parcel) for parcel in parcels]
    united = {stream: _united([_read(source) for source in sources]) for stream in bound}
    combinations = [_read(source) for source in sources]
    refs = {}
    for stream, (block, places) in united.items():
        column = f"r{stream}"
        rows = [
            place[numbers.column(column).to_numpy()]
            for place, numbers in zip(places, combinations, strict=True)
        ]
        refs[stream] = Refs((block,), np.concatenate(rows))
    latest, deadline = (
        np.concatenate([numbers.column(name).to_numpy() for numbers in combinations])
        for name in ("latest", "deadline")
    )
    return Partial(refs, latest, deadline)


def _united(parts: Sequence[pa.RecordBatch]) -> tuple[Block, list[Rows]]:
    """The rows of one stream from all parcels, each once; and where those of each parcel are."""
    if len(parts) == 1:
        return _block(parts[0]), [np.arange(parts[0].num_rows)]
    rows = pa.Table.from_batches(parts).unify_dictionaries().combine_chunks()
    number = rows.column(SEGMENT).chunk(0).indices.to_numpy().astype(np.int64) << 40
    number += rows.column(ROW).chunk(0).to_numpy()
    _, first, place = np.unique(number, return_index=True, return_inverse=True)
    (block,) = rows.take(pa.array(first)).combine_chunks().to_batches()
    edges = np.cumsum([part.num_rows for part in parts])[:-1]
    return _block(block), np.split(place, edges)


def _distinct(refs: Refs, columns: Sequence[str]) -> tuple[pa.RecordBatch, Rows]:
    """The rows that occur, once each, and for every combination the number of its own."""
    index = np.empty(len(refs), np.int32)
    pieces: list[list[pa.Array]] = []
    count = 0
    for at, block in enumerate(refs.blocks):
        mine = slice(None) if refs.which is None else np.flatnonzero(refs.which == at)
        rows, numbers = np.unique(refs.rows[mine], return_inverse=True)
        if not len(rows):
            continue
        index[mine] = numbers + count
        count += len(rows)
        taken = pa.array(rows)
        pieces.append(
            [
                pa.array(block.times[rows]),
                *_identity(block, taken),
                *(block.columns[name].take(taken) for name in columns),
            ]
        )
    tables = [pa.RecordBatch.from_arrays(piece, [TIME, SEGMENT, ROW, *columns]) for piece in pieces]
    (together,) = pa.Table.from_batches(tables).unify_dictionaries().combine_chunks().to_batches()
    return together, index


def _identity(block: Block, rows: pa.Array) -> tuple[pa.Array, pa.Array]:
    """By segment and number, what a row is known by wherever it goes."""
    if SEGMENT in block.columns:  # it came in a parcel itself
        return block.columns[SEGMENT].take(rows), block.columns[ROW].take(rows)
    assert block.name, "rows of a block without a name cannot be told apart from others"
    segment = pa.DictionaryArray.from_arrays(np.zeros(len(rows), np.int32), [block.name])
    return segment, rows.cast(pa.int64())


def _block(rows: pa.RecordBatch) -> Block:
    times: Ints = rows.column(TIME).to_numpy()
    columns = {name: rows.column(name) for name in rows.schema.names if name != TIME}
    return Block(columns, times, {})


def _write(sink: pa.BufferOutputStream, batch: pa.RecordBatch) -> None:
    with pa.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)


def _read(source: pa.BufferReader) -> pa.RecordBatch:
    (batch,) = pa.ipc.open_stream(source)  # to its end, where the next stream begins
    return batch
