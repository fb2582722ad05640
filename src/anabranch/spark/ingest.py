"""Ingest: one pass over a batch, which writes its rows as segments and says what it wrote."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as F

from anabranch.errors import TermError
from anabranch.kernel.block import Block, build
from anabranch.kernel.poison import OUTLOOK, row_text, short
from anabranch.kernel.watch import Watch
from anabranch.model.query import TIME, Query
from anabranch.spark.envelope import KEEP, STREAM, Envelope
from anabranch.spark.guard import FAULT
from anabranch.spark.tasks import UNTIMED
from anabranch.spark.worker import settle
from anabranch.state.aside import DEAD, dead_block
from anabranch.state.segment import SegmentRef
from anabranch.state.store import Store
from anabranch.state.under_way import UnderWay

SEGMENT_ROWS = 1 << 20
SEGMENT_BYTES = 256 << 20


@dataclass
class Ingested:
    """What became of the rows of one stream in one batch."""

    arrived: int = 0
    filtered: int = 0
    null_time: int = 0
    null_key: int = 0
    late: int = 0
    dead: int = 0
    greatest: int | None = None
    earliest_late: int | None = None
    segments: list[SegmentRef] = field(default_factory=list)
    late_segments: list[SegmentRef] = field(default_factory=list)
    dead_segments: list[SegmentRef] = field(default_factory=list)

    def add(self, other: Ingested) -> None:
        for name in ("arrived", "filtered", "null_time", "null_key", "late", "dead"):
            setattr(self, name, getattr(self, name) + getattr(other, name))
        if other.greatest is not None:
            known = other.greatest if self.greatest is None else self.greatest
            self.greatest = max(known, other.greatest)
        if other.earliest_late is not None:
            self.note_late(other.earliest_late)
        self.segments += other.segments
        self.late_segments += other.late_segments
        self.dead_segments += other.dead_segments

    def note_late(self, time: int) -> None:
        self.earliest_late = time if self.earliest_late is None else min(self.earliest_late, time)

    def to_json(self, stream: int) -> str:
        return json.dumps({"stream": stream, **asdict(self)})

    @staticmethod
    def from_dict(data: dict[str, Any]) -> Ingested:
        for name in ("segments", "late_segments", "dead_segments"):
            data[name] = [SegmentRef(**ref) for ref in data[name]]
        return Ingested(**data)


@dataclass(frozen=True)
class IngestTask:
    """Runs in Spark's Python workers: rows in, segments written, one description a stream out."""

    query: Query
    envelope: Envelope
    store: Store
    batch: int
    watermark: int | None
    keep_late: bool
    keep_dead: bool = False
    """Whether rows on which an expression fails are set aside; otherwise the batch fails."""

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        counts = [Ingested() for _ in self.query.streams]
        waiting: list[list[pa.Table]] = [[] for _ in self.query.streams]
        watch = Watch()
        for batch in batches:
            if watch.is_due():
                self._renew(sum(count.arrived for count in counts))
            for stream, rows in self.envelope.unpack(batch):
                timely = self._sorted_out(stream, rows, counts[stream])
                if timely.num_rows:
                    waiting[stream].append(timely)
                if _is_full(waiting[stream]):
                    self._write(stream, waiting[stream], counts[stream])
        for stream, tables in enumerate(waiting):
            self._write(stream, tables, counts[stream])
        described = [count.to_json(stream) for stream, count in enumerate(counts) if count.arrived]
        yield pa.RecordBatch.from_arrays([pa.array(described, pa.string())], ["ingested"])

    def _renew(self, rows: int) -> None:
        context = TaskContext.get()
        task = 0 if context is None else context.partitionId()
        UnderWay(self.store.files).renew_read(self.batch, task, rows)

    def _sorted_out(self, stream: int, rows: pa.Table, count: Ingested) -> pa.Table:
        """Set aside rows without a time, rows that are late, and rows that can match nothing."""
        count.arrived += rows.num_rows
        times = rows.column(TIME)
        untimed = times.null_count
        if untimed:
            count.null_time += untimed
            self._set_aside(stream, rows.filter(pc.is_null(times)), count)
            rows = rows.filter(pc.is_valid(times))
            times = rows.column(TIME)
        if self.watermark is not None and rows.num_rows:
            timely = pc.greater_equal(times, self.watermark)
            late = rows.num_rows - int(pc.sum(timely).as_py() or 0)
            if late:
                count.late += late
                count.note_late(int(pc.min(times).as_py()))
                self._set_aside(stream, rows.filter(pc.invert(timely)), count)
                rows = rows.filter(timely)
        if rows.num_rows:
            greatest = int(pc.max(rows.column(TIME)).as_py())
            count.greatest = greatest if count.greatest is None else max(count.greatest, greatest)
        rows = self._without_faults(stream, rows, count)
        before = rows.num_rows
        for name in self.query.never_null(stream):
            if rows.column(name).null_count:
                rows = rows.filter(pc.is_valid(rows.column(name)))
        count.null_key += before - rows.num_rows
        return rows

    def _without_faults(self, stream: int, rows: pa.Table, count: Ingested) -> pa.Table:
        """Set aside rows in which an expression fails, or fail and name the first one."""
        if FAULT not in rows.column_names:
            return rows
        faults = rows.column(FAULT)
        rows = rows.drop_columns(FAULT)
        if faults.null_count == len(faults):
            return rows
        failed = pc.is_valid(faults)
        bad, reasons = rows.filter(failed).combine_chunks(), faults.filter(failed).to_pylist()
        columns = {name: _whole(bad, name) for name in bad.column_names if name != TIME}
        times = bad.column(TIME).to_numpy()
        if not self.keep_dead:
            row = row_text(self.query, stream, int(times[0]), columns, 0)
            raise TermError(short(f"{reasons[0]}. {OUTLOOK}. The row is of {row}"))
        count.dead += len(reasons)
        block = dead_block(columns, times, "ingest", [short(reason) for reason in reasons])
        count.dead_segments.append(self.store.add(self.batch, stream, block, DEAD))
        return rows.filter(pc.invert(failed))

    def _set_aside(self, stream: int, rows: pa.Table, count: Ingested) -> None:
        if self.keep_late and rows.num_rows:
            names = [name for name in rows.column_names if name not in (TIME, FAULT)]
            columns = {name: _whole(rows, name) for name in names}
            times = pc.fill_null(rows.column(TIME), UNTIMED)
            block = Block(columns, times.to_numpy(), {})
            count.late_segments.append(self.store.add(self.batch, stream, block, "late"))

    def _write(self, stream: int, tables: list[pa.Table], count: Ingested) -> None:
        if tables:
            block = build(self.query, stream, pa.concat_tables(tables))
            count.segments.append(self.store.add(self.batch, stream, block))
            tables.clear()


def _whole(rows: pa.Table, name: str) -> pa.Array:
    return rows.column(name).combine_chunks()


def _is_full(tables: list[pa.Table]) -> bool:
    return bool(tables) and (
        sum(table.num_rows for table in tables) >= SEGMENT_ROWS
        or sum(table.nbytes for table in tables) >= SEGMENT_BYTES
    )


def ingest(frame: DataFrame, task: IngestTask, tasks: int) -> list[Ingested]:
    """Run the one pass over a batch; what comes back are descriptions, never rows."""
    streams = range(len(task.query.streams))
    counts = [Ingested() for _ in streams]
    observation = None
    if any(task.query.filters):
        observation = Observation()
        dropped = [(F.col(STREAM) == stream) & ~F.col(KEEP) for stream in streams]
        measured = [
            *(F.count_if(dropped[stream]).alias(f"count{stream}") for stream in streams),
            # A filtered row still shows how far its stream has come.
            *(
                F.max(F.when(dropped[stream], F.col(f"`{TIME}`"))).alias(f"time{stream}")
                for stream in streams
            ),
        ]
        frame = frame.observe(observation, *measured).filter(F.col(KEEP)).drop(KEEP)
    # coalesce: a Python task costs more to start than to feed, so no more of them than slots.
    described = frame.coalesce(tasks).mapInArrow(task, "ingested string")
    for row in described.collect():
        data = json.loads(row["ingested"])
        counts[data.pop("stream")].add(Ingested.from_dict(data))
    if observation is not None:
        observed = observation.get
        for stream in streams:
            count, greatest = observed[f"count{stream}"], observed[f"time{stream}"]
            counts[stream].add(Ingested(arrived=count, filtered=count, greatest=greatest))
    return counts
