"""The driver's part of a batch: ingest, route, join, hand to the sink, commit."""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import StringType, StructField, StructType, TimestampType

from anabranch.kernel.order import Step, steps
from anabranch.kernel.tally import Tally
from anabranch.model.query import Query
from anabranch.model.watermark import Seen, advance, expired_before
from anabranch.report.progress import COUNTED
from anabranch.routing.base import Router, Share
from anabranch.spark.analysis import Compiled
from anabranch.spark.envelope import Envelope, spark_type
from anabranch.spark.ingest import Ingested, IngestTask, ingest
from anabranch.spark.sinks import Sink
from anabranch.spark.tasks import JoinTask, LateTask, Merge
from anabranch.state.compaction import Compaction
from anabranch.state.manifest import Manifest, without_expired
from anabranch.state.segment import SegmentRef
from anabranch.state.store import Store

_FORGET = 0.8
"""How much of what was measured of a term's selectivity still counts after another batch."""


def wall_clock() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000


@dataclass
class Runtime:
    """One run of a query over a store. `process` is called with one batch after the other."""

    spark: SparkSession
    compiled: Compiled
    carried: Query
    """The query with every column that ingest carries: more than is stored, for a late sink."""
    store: Store
    router: Router
    sink: Sink
    late: Sink | None
    static: DataFrame | None
    static_streams: tuple[int, ...]
    slots: int
    clock: Callable[[], int] = wall_clock
    compaction: Compaction = field(default_factory=Compaction)

    def __post_init__(self) -> None:
        self.query = self.compiled.query
        self.envelope = Envelope.of(self.carried)
        latest = self.store.latest()
        now = self.clock()
        if latest is None:
            self.manifest = Manifest.empty(len(self.query.streams), now)
        else:
            self.manifest = latest.resumed(now)
        self.store.sweep(self.manifest)
        self._hosts: dict[int, DataFrame] = {}
        self._run = uuid.uuid4().hex

    def process(self, frame: DataFrame | None, batch: int) -> None:
        """Take one batch from source to sink, and commit it. A committed batch is not repeated."""
        if batch <= self.manifest.batch:
            return
        started = time.monotonic()
        phases: dict[str, float] = {}
        if self.static is not None and not self.manifest.policy.get("static_read"):
            frame = self.static if frame is None else frame.unionAll(self.static)
        assert frame is not None
        self._describe(batch, "ingest")
        task = IngestTask(
            self.query,
            self.envelope,
            self.store,
            batch,
            self.manifest.watermark,
            self.late is not None,
        )
        ingested = ingest(frame, task, self.slots)
        phases["ingest"] = time.monotonic() - started
        shares = self._shares(ingested)
        tally = Tally()
        merged: list[dict[str, Any]] = []
        orders = self._orders(ingested)
        if shares or self.manifest.batch < 0:
            self._describe(batch, "join")
            self.sink(self._join(batch, shares, orders), batch)
            for share in shares:
                report = self.store.take_report(batch, share.host)
                if report is not None:
                    tally.add(report)
                    merged += json.loads(report)["merged"]
        if self.late is not None and any(count.late_segments for count in ingested):
            self._describe(batch, "late rows")
            self.late(self._late_frame(ingested), batch)
        phases["join"] = time.monotonic() - started - phases["ingest"]
        self._commit(batch, ingested, tally, merged, orders, started, phases)

    def bounded_answer(self) -> DataFrame:
        """The whole answer over static inputs: ingested now, joined when it is asked for."""
        assert self.static is not None
        task = IngestTask(self.query, self.envelope, self.store, 0, None, keep_late=False)
        ingested = ingest(self.static, task, self.slots)
        return self._join(0, self._shares(ingested), self._orders(ingested))

    # -- the plan of a batch -----------------------------------------------------------------

    def _shares(self, ingested: list[Ingested]) -> list[Share]:
        """Who joins what; nobody, if no combination can come of this batch."""
        new = [count.segments for count in ingested]
        old = self.manifest.segments
        if not any(new) or not all(o or n for o, n in zip(old, new, strict=True)):
            return []
        return self.router.route(old, new)

    def _orders(self, ingested: list[Ingested]) -> tuple[tuple[Step, ...], ...]:
        live = [
            rows + sum(ref.rows for ref in count.segments)
            for rows, count in zip(self.manifest.live_rows, ingested, strict=True)
        ]
        measured = {int(p): s for p, s in self.manifest.policy.get("selectivities", {}).items()}
        return tuple(
            steps(self.query, start, live, measured) for start in range(len(self.query.streams))
        )

    def _merges(self, shares: list[Share]) -> dict[int, tuple[Merge, ...]]:
        """Small segments to rewrite, in the background of the hosts' joins."""
        merges: dict[int, tuple[Merge, ...]] = {}
        for stream, window in enumerate(self.query.windows):
            chosen = self.compaction.choose(self.manifest.segments[stream], window)
            if chosen and shares:
                host = shares[stream % len(shares)].host
                merges[host] = (*merges.get(host, ()), Merge(stream, chosen))
        return merges

    # -- the join as a DataFrame ---------------------------------------------------------------

    def _join(
        self, batch: int, shares: list[Share], orders: tuple[tuple[Step, ...], ...]
    ) -> DataFrame:
        fields = [
            StructField(
                output.name,
                spark_type(
                    next(
                        column.type
                        for column in self.query.stored[output.operand.stream]
                        if column.name == output.operand.column
                    )
                ),
            )
            for output in self.query.outputs
        ]
        schema = StructType(fields)
        task = JoinTask(
            self.query,
            self.store,
            batch,
            orders,
            {share.host: share for share in shares},
            self._arrow(schema),
            self._merges(shares),
            self._run,
        )
        hosts = max((share.host for share in shares), default=0) + 1
        joined = self._hosts_frame(hosts).mapInArrow(task, schema)
        for condition in self.compiled.finish.filters:
            joined = joined.filter(condition)
        columns = [F.expr(sql).alias(name) for sql, name in self.compiled.finish.columns]
        return joined.select(*columns)

    def _hosts_frame(self, hosts: int) -> DataFrame:
        """One row a host, and no more partitions than slots; kept, so that a host stays put."""
        if hosts not in self._hosts:
            self._hosts[hosts] = self.spark.range(0, hosts, 1, min(hosts, self.slots)).persist()
        return self._hosts[hosts]

    def _late_frame(self, ingested: list[Ingested]) -> DataFrame:
        structs = [
            StructField(
                stream.name,
                StructType(
                    [
                        StructField(column.name, spark_type(column.type))
                        for column in self.carried.stored[position]
                        if not column.name.startswith("#")
                    ]
                ),
            )
            for position, stream in enumerate(self.query.streams)
        ]
        described = [StructField("stream", StringType()), StructField("reason", StringType())]
        schema = StructType([*described, StructField("time", TimestampType()), *structs])
        task = LateTask(
            self.store,
            tuple(stream.name for stream in self.query.streams),
            tuple(ref for count in ingested for ref in count.late_segments),
            self._arrow(schema),
        )
        return self.spark.range(1).coalesce(1).mapInArrow(task, schema)

    def _arrow(self, schema: StructType) -> bytes:
        """The Arrow schema that Spark expects for a schema of its own, serialized for tasks."""
        timezone = self.spark.conf.get("spark.sql.session.timeZone")
        return bytes(to_arrow_schema(schema, timezone=timezone).serialize())

    # -- commit ------------------------------------------------------------------------------

    def _commit(
        self,
        batch: int,
        ingested: list[Ingested],
        tally: Tally,
        merged: list[dict[str, Any]],
        orders: tuple[tuple[Step, ...], ...],
        started: float,
        phases: dict[str, float],
    ) -> None:
        now = self.clock()
        seen = tuple(
            _seen(before, count, now, complete=position in self.static_streams)
            for position, (before, count) in enumerate(
                zip(self.manifest.seen, ingested, strict=True)
            )
        )
        watermark = advance(self.query.streams, seen, self.manifest.watermark, now).value
        segments = tuple(
            without_expired(
                _after_merges([*old, *count.segments], merged), expired_before(watermark, window)
            )
            for old, count, window in zip(
                self.manifest.segments, ingested, self.query.windows, strict=True
            )
        )
        counters = self._counted(ingested, tally)
        counters["seconds"] = time.monotonic() - started
        counters["phases"] = phases
        policy = {
            **self.router.snapshot(),
            "strategy": self.router.name,
            "static_read": True,
            **self._measured(tally),
            "orders": {
                stream.name: [self.query.streams[step.stream].name for step in orders[position]]
                for position, stream in enumerate(self.query.streams)
            },
        }
        committed = Manifest(batch, segments, seen, watermark, counters, policy)
        self.store.commit(committed, self.manifest)
        for count in ingested:
            for ref in count.late_segments:
                self.store.files.delete(ref.path)
        self.manifest = committed

    def _counted(self, ingested: list[Ingested], tally: Tally) -> dict[str, Any]:
        before = self.manifest.counters
        total = Tally()
        if "tally" in before:
            total.add(before["tally"])
        total.add(tally.to_json())
        streams = {
            stream.name: {
                name: before.get("streams", {}).get(stream.name, {}).get(name, 0)
                + getattr(count, name)
                for name in COUNTED
            }
            for stream, count in zip(self.query.streams, ingested, strict=True)
        }
        return {
            "batches": before.get("batches", 0) + 1,
            "results": tally.results,
            "streams": streams,
            "tally": total.to_json(),
        }

    def _measured(self, tally: Tally) -> dict[str, Any]:
        """Selectivities, in which older batches count for less and less."""
        before = self.manifest.policy.get("selectivities", {})
        fresh = tally.selectivities()
        merged = {int(p): s for p, s in before.items()}
        for position, value in fresh.items():
            known = merged.get(position, value)
            merged[position] = known * _FORGET + value * (1 - _FORGET)
        return {"selectivities": merged}

    def _describe(self, batch: int, step: str) -> None:
        names = " ⋈ ".join(stream.name for stream in self.query.streams)
        self.spark.sparkContext.setJobDescription(f"{names}: batch {batch}, {step}")


def _seen(before: Seen, count: Ingested, now: int, *, complete: bool) -> Seen:
    if count.greatest is None:
        return replace(before, complete=complete)
    greatest = count.greatest if before.greatest is None else max(before.greatest, count.greatest)
    return Seen(greatest, now, complete)


def _after_merges(refs: list[SegmentRef], merged: list[dict[str, Any]]) -> list[SegmentRef]:
    """The segments with each merged run replaced by what it was merged into."""
    for merge in merged:
        gone = set(merge["from"])
        if gone <= {ref.path for ref in refs}:
            refs = [ref for ref in refs if ref.path not in gone]
            refs.append(SegmentRef(**merge["into"]))
    return refs
