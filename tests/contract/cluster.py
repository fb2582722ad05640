"""The tasks of a run, called in this process: real plans, segments and parcels, and no Spark.

A batch takes milliseconds here, so that strategies can be tried with every kind of term, and made
to change their minds at every turn, hundreds of times.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from anabranch.kernel.block import build
from anabranch.kernel.order import steps
from anabranch.kernel.tally import Tally
from anabranch.model.query import Query
from anabranch.report.diffusion import diffusion, measured, partners
from anabranch.routing.base import Plan, Router, Situation, frozen
from anabranch.spark.tasks import PARCEL, HopTask, ShareTask, Work
from anabranch.state.segment import SegmentRef
from anabranch.state.store import Store


class Cluster:
    """Hosts that are served one after the other, in as many partitions as a cluster has slots."""

    def __init__(self, query: Query, directory: Path, router: Router, slots: int = 2) -> None:
        self.query, self.router, self.slots = query, router, slots
        self.store = Store.at(str(directory))
        self.segments: list[list[SegmentRef]] = [[] for _ in query.streams]
        self.watermark: int | None = None
        self.number = 0
        self.partners: dict[tuple[int, ...], float] = {}
        self.selectivities: dict[int, float] = {}
        self.diffusion: dict[str, Any] = {}

    def push(self, tables: Sequence[pa.Table]) -> list[pa.RecordBatch]:
        """Join one table a stream (stored columns and `#time`) with all that is live."""
        new = [self._ingest(stream, rows) for stream, rows in enumerate(tables)]
        situation = Situation(
            self.query,
            self.number,
            self.segments,
            new,
            self.watermark,
            self.selectivities,
            self.partners,
        )
        results: list[pa.RecordBatch] = []
        if any(new):
            plan = self.router.route(situation)
            results = self._carried_out(plan, situation, tables)
            self._learn(plan, situation)
        self.segments = [[*old, *fresh] for old, fresh in zip(self.segments, new, strict=True)]
        self.number += 1
        return results

    def advance(self, watermark: int) -> None:
        """Nothing older will come any more."""
        self.watermark = watermark
        for stream, window in enumerate(self.query.windows):
            self.segments[stream] = [
                ref for ref in self.segments[stream] if ref.last >= watermark - window
            ]

    def resize(self, stream: int, window: int, since: int) -> None:
        streams = list(self.query.streams)
        before = streams[stream]
        streams[stream] = replace(before, resized=(*before.resized, (since, window)))
        self.query = replace(self.query, streams=tuple(streams))

    @property
    def live_rows(self) -> int:
        return sum(ref.rows for refs in self.segments for ref in refs)

    def _ingest(self, stream: int, rows: pa.Table) -> list[SegmentRef]:
        for name in self.query.never_null(stream):
            rows = rows.filter(pc.is_valid(rows.column(name)))
        half = rows.num_rows // 2
        pieces = [piece for piece in (rows.slice(0, half), rows.slice(half)) if piece.num_rows]
        blocks = [build(self.query, stream, piece.combine_chunks()) for piece in pieces]
        return [self.store.add(self.number, stream, block) for block in blocks]

    def _carried_out(
        self, plan: Plan, situation: Situation, tables: Sequence[pa.Table]
    ) -> list[pa.RecordBatch]:
        streams = range(len(self.query.streams))
        live = [sum(ref.rows for ref in situation.all(stream)) for stream in streams]
        schema = pa.schema(
            (o.name, tables[o.operand.stream].schema.field(o.operand.column).type)
            for o in self.query.outputs
        )
        work = Work(
            self.query,
            self.store,
            self.number,
            frozen(situation.old),
            frozen(situation.new),
            plan,
            tuple(steps(self.query, start, live, self.selectivities) for start in streams),
            self.selectivities,
            bytes(schema.serialize()),
            min(plan.hosts, self.slots),
        )
        hosts = [pa.record_batch({"id": pa.array([host])}) for host in range(plan.hosts)]
        if not plan.routes:
            return list(ShareTask(work)(iter(hosts)))
        flow: Iterator[pa.RecordBatch] = iter(hosts)
        for hop in range(plan.hops - 1):
            flow = _shuffled(HopTask(work, hop)(flow), work.places)
        return list(HopTask(work, plan.hops - 1)(flow))

    def _learn(self, plan: Plan, situation: Situation) -> None:
        reports = [json.loads(text) for text in self.store.take_reports(self.number)]
        self.diffusion = diffusion(plan, reports)
        self.router.learn(measured(reports, 1.0, 1, self.router.hosts))
        self.partners.update(partners(plan, situation, reports))
        tally = Tally()
        for report in reports:
            tally.add(report)
        self.selectivities.update(tally.selectivities())


def _shuffled(parcels: Iterator[pa.RecordBatch], places: int) -> Iterator[pa.RecordBatch]:
    """Parcels by the partition they go to, as a shuffle would bring them."""
    table = pa.Table.from_batches(list(parcels), PARCEL)
    for place in range(places):
        yield from table.filter(pc.equal(table.column("place"), place)).to_batches()
