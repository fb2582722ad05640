"""The driver's part of a batch: ingest, route, join, hand to the sink, commit."""

from __future__ import annotations

import json
import logging
import time
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from anabranch.adapt.events import Event
from anabranch.errors import CheckpointError, TermError
from anabranch.kernel.order import Step
from anabranch.kernel.tally import Tally
from anabranch.model.query import Query
from anabranch.model.watermark import Seen, advance, expired_before
from anabranch.report.diffusion import diffusion, measured
from anabranch.report.lateness import greatest_share, late_sentence, needed_after
from anabranch.report.progress import COUNTED, progress
from anabranch.report.statistics import Statistics
from anabranch.routing.base import Plan, Router, Situation, frozen, probe_orders
from anabranch.routing.strategies import router_for, strategy_of
from anabranch.spark.analysis import Compiled
from anabranch.spark.changes import Inbox, resized, settled, windows_of, with_windows
from anabranch.spark.envelope import Envelope
from anabranch.spark.frames import (
    Finisher,
    HostFrames,
    arrow_bytes,
    dead_rows,
    joined,
    late_rows,
    result_schema,
)
from anabranch.spark.guard import failing_result, is_about_values
from anabranch.spark.ingest import Ingested, IngestTask, ingest
from anabranch.spark.sinks import Sink, delivered
from anabranch.spark.tasks import Merge, Work
from anabranch.state.aside import without_dead
from anabranch.state.compaction import Compaction
from anabranch.state.driver_checkpoint import record_sources
from anabranch.state.eventlog import EventLog
from anabranch.state.manifest import Manifest, without_expired
from anabranch.state.offsets import sources_that_gave
from anabranch.state.recovery import recover
from anabranch.state.requests import RESCALE, RESIZE, SWITCH
from anabranch.state.segment import SegmentRef
from anabranch.state.store import Store
from anabranch.state.under_way import UnderWay

_log = logging.getLogger("anabranch")

EVENTS_SHOWN = 20
"""Decisions of the last batch that progress shows; the event log has them all."""


SWEEP_EVERY = 100
"""Batches after which leftovers of tasks that Spark ran again are looked for: a listing."""


def wall_clock() -> int:
    """Microseconds since 1970."""
    return time.time_ns() // 1000


@dataclass(frozen=True)
class Done:
    """A batch that was joined and delivered, and waits to be committed."""

    situation: Situation
    digest: str
    ingested: list[Ingested]
    plan: Plan | None
    reports: list[dict[str, Any]]
    orders: tuple[tuple[Step, ...], ...]
    events: list[Event]


@dataclass
class Runtime:
    """One run of a query over a store. `process` is called with one batch after the other."""

    spark: SparkSession
    compiled: Compiled
    carried: Query
    """The query with every column that ingest carries: more than is stored, for other sinks."""
    store: Store
    router: Router
    sink: Sink
    late: Sink | None
    dead: Sink | None
    static: DataFrame | None
    static_streams: tuple[int, ...]
    slots: int
    clock: Callable[[], int] = wall_clock
    compaction: Compaction = field(default_factory=Compaction)
    late_warning: float | None = None
    """The share of late rows of a stream from which a warning is logged; None: never."""

    def __post_init__(self) -> None:
        self.query = self.compiled.query
        self.envelope = Envelope.of(self.carried)
        streams = len(self.query.streams)
        driven = len(self.static_streams) < streams
        latest = recover(self.store, streams, driven=driven)
        if latest is None:
            self.manifest = Manifest.empty(streams)
            self.inbox = Inbox(self.store.files, self._begun())
        else:
            self.manifest = latest
            self.inbox = Inbox(self.store.files, self._begun())
            self.inbox.drop_outdated()
            self.query = with_windows(self.query, latest.policy.get("windows", {}))
            if latest.policy.get("strategy") == self.router.name:
                self.router.restore(latest.policy["router"])
        self._log = EventLog(self.store.files, self.manifest.batch)
        self._hosts = HostFrames(self.slots)
        self._finisher = Finisher(self.compiled.finish)
        self._run = uuid.uuid4().hex
        self._ended: int | None = None
        self._waited = 0
        self._warned = False
        self._began = 0
        self.under_way = UnderWay(self.store.files)
        self.under_way.clear()

    def _begun(self) -> int:
        """The last batch that may have reached a sink: what is asked from now on is not for it."""
        following = self.manifest.batch + 1
        return following if self.store.offsets_digest(following) else self.manifest.batch

    def process(self, frame: DataFrame | None, batch: int) -> None:
        """Take one batch from source to sink, and commit it. A committed batch is not repeated."""
        digest = "" if frame is None else self.store.offsets_digest(batch)
        if not self._is_next(batch, digest):
            self._deliver_dead()
            return
        started = time.monotonic()
        # The time that the job was down is not one in which it waited for rows.
        self._began = self.clock()
        self._waited = 0 if self._ended is None else max(self._began - self._ended, 0)
        phases: dict[str, float] = {}
        events = self._take_requests(batch)
        if frame is not None:
            self.spark = frame.sparkSession  # the stream's own copy, which sinks see as well
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
            self.dead is not None,
        )
        ingested = ingest(frame, task, self.slots)
        phases["ingest"] = time.monotonic() - started
        situation = self._situation(batch, ingested)
        plan = self.router.route(situation) if any(situation.new) else None
        orders = probe_orders(situation, plan)
        reports: list[dict[str, Any]] = []
        if self.manifest.batch < 0 or (plan is not None and _may_match(situation)):
            self._describe(batch, "join", sum(count.arrived for count in ingested))
            self._deliver(self._join(situation, plan or Plan(1), orders), batch)
            reports = [json.loads(text) for text in self.store.take_reports(batch)]
        if self.late is not None and any(count.late_segments for count in ingested):
            self._describe(batch, "late rows", sum(count.arrived for count in ingested))
            set_aside = [ref for count in ingested for ref in count.late_segments]
            self.late(late_rows(self.spark, self.store, self.carried, set_aside), batch)
        phases["join"] = time.monotonic() - started - phases["ingest"]
        if plan is not None:
            events += plan.events
        done = Done(situation, digest, ingested, plan, reports, orders, events)
        self._commit(done, started, phases)
        self._deliver_dead()

    def _is_next(self, batch: int, digest: str) -> bool:
        """Whether a batch follows the last one; False for that one again, which Spark missed."""
        last = self.manifest.batch
        if batch == last + 1:
            return True
        if batch == last and digest == self.manifest.digest:
            return False
        raise CheckpointError(
            f"Spark came with batch {batch} where the checkpoint {self.store.files.root} has "
            f"committed batch {last}"
            + (", which had other rows" if batch == last else "")
            + ": going on would lose results or repeat them. Restore the whole checkpoint from one "
            "backup, or start from a new checkpoint"
        )

    def bounded_answer(self) -> DataFrame:
        """The whole answer over static inputs: ingested now, joined when it is asked for."""
        assert self.static is not None
        task = IngestTask(self.query, self.envelope, self.store, 0, None, keep_late=False)
        ingested = ingest(self.static, task, self.slots)
        situation = self._situation(0, ingested)
        plan = self.router.route(situation) if _may_match(situation) else Plan(1)
        return self._finisher.apply(self._join(situation, plan, probe_orders(situation, plan)))

    # -- the plan of a batch -----------------------------------------------------------------

    def _situation(self, batch: int, ingested: list[Ingested]) -> Situation:
        known = Statistics.of(self.manifest.policy)
        return Situation(
            self.query,
            batch,
            self.manifest.segments,
            tuple(tuple(count.segments) for count in ingested),
            self.manifest.watermark,
            known.selectivities,
            known.partners,
        )

    def _merges(self, plan: Plan) -> dict[int, tuple[Merge, ...]]:
        """Small segments to rewrite, in the background of the hosts' joins."""
        merges: dict[int, tuple[Merge, ...]] = {}
        hosts = [share.host for share in plan.shares] or list(range(plan.hosts))
        for stream, window in enumerate(self.query.windows):
            chosen = self.compaction.choose(self.manifest.segments[stream], window)
            if chosen:
                host = hosts[stream % len(hosts)]
                merges[host] = (*merges.get(host, ()), Merge(stream, chosen))
        return merges

    def _join(
        self, situation: Situation, plan: Plan, orders: tuple[tuple[Step, ...], ...]
    ) -> DataFrame:
        schema = result_schema(self.query)
        work = Work(
            self.query,
            self.store,
            situation.batch,
            frozen(situation.old),
            frozen(situation.new),
            plan,
            orders,
            situation.selectivities,
            arrow_bytes(self.spark, schema),
            min(plan.hosts, self.slots),
            self._merges(plan),
            self._run,
            self.dead is not None,
        )
        hosts = self._hosts.of(self.spark, plan.hosts)
        return joined(hosts, work, schema)

    def _deliver(self, matches: DataFrame, batch: int) -> None:
        """Hand results to the sink; if an expression over them fails, say which, and on what."""
        try:
            self.sink(self._finisher.apply(matches), batch)
        except Exception as error:
            if is_about_values(error):
                named = failing_result(
                    self._finisher.with_rows(matches), self.query, self.compiled.finish
                )
                if named is not None:
                    raise TermError(named) from error
            raise

    # -- commit ------------------------------------------------------------------------------

    def _commit(self, done: Done, started: float, phases: dict[str, float]) -> None:
        batch = done.situation.batch
        ingested, reports, events = done.ingested, done.reports, done.events
        tally = Tally()
        for report in reports:
            tally.add(report)
        merged = [merge for report in reports for merge in report["merged"]]
        live, dead = self._without_dead(done, merged)
        seen = self._seen(batch, ingested)
        watermark = advance(self.query.streams, seen, self.manifest.watermark).value
        segments = tuple(
            without_expired(_after_merges(refs, merged), expired_before(watermark, window))
            for refs, window in zip(live, self.query.windows, strict=True)
        )
        counters = self._counted(ingested, tally)
        counters["seconds"] = time.monotonic() - started
        counters["phases"] = phases
        counters["diffusion"] = diffusion(done.plan, reports)
        if reports:
            rows = sum(ref.rows for count in ingested for ref in count.segments)
            places = min(self.router.hosts, self.slots)
            events += self.router.learn(measured(reports, counters["seconds"], rows, places))
        counters["events"] = [event.to_dict() for event in events][-EVENTS_SHOWN:]
        self._log.add(batch, [event.to_dict() for event in events])
        self.query = settled(self.query, watermark)
        learned = Statistics.of(self.manifest.policy).after(
            tally, done.plan, done.situation, reports
        )
        policy = {
            "router": self.router.snapshot(),
            "hosts": self.router.hosts,
            "strategy": self.router.name,
            "windows": windows_of(self.query),
            "static_read": True,
            **learned.to_policy(),
            "orders": {
                stream.name: [
                    self.query.streams[step.stream].name for step in done.orders[position]
                ]
                for position, stream in enumerate(self.query.streams)
            },
        }
        sources = record_sources(self.store.files, self.manifest.sources)
        committed = Manifest(
            batch, segments, seen, watermark, counters, policy, done.digest, sources, dead
        )
        self.store.commit(committed, self.manifest)
        if batch % SWEEP_EVERY == 0:
            self.store.sweep(committed)
        for count in ingested:
            for ref in count.late_segments:
                self.store.files.delete(ref.path)
        self.inbox.committed()
        self.under_way.clear()
        self.manifest = committed
        self._ended = self.clock()
        self._warn_of_late_rows()

    def _without_dead(
        self, done: Done, merged: list[dict[str, Any]]
    ) -> tuple[list[list[SegmentRef]], tuple[SegmentRef, ...]]:
        """The live segments of each stream without rows that were set aside, and those rows.

        A segment that has such rows is not merged yet.
        """
        found: dict[str, dict[int, str]] = {}
        for report in done.reports:
            for path, row, reason in report["dead"]:
                found.setdefault(path, {}).setdefault(row, reason)
        for merge in [merge for merge in merged if not found.keys().isdisjoint(merge["from"])]:
            merged.remove(merge)
            self.store.files.delete(merge["into"]["path"])
        live: list[list[SegmentRef]] = []
        dead = [ref for count in done.ingested for ref in count.dead_segments]
        for old, count in zip(self.manifest.segments, done.ingested, strict=True):
            refs = [*old, *count.segments]
            count.dead += sum(len(found.get(ref.path, ())) for ref in refs)
            kept, gone = without_dead(self.store, self.query, done.situation.batch, refs, found)
            live.append(kept)
            dead += gone
        if found:
            self.store.files.forget_copies(ref.path for refs in live for ref in refs)
        return live, tuple(dead)

    def _deliver_dead(self) -> None:
        """Hand the rows that the last batch set aside to their sink.

        They are committed before, unlike results: whichever rows a repeated batch would blame,
        those that have left the state are the ones that are delivered.
        """
        if not self.manifest.dead:
            return
        if self.dead is None:
            raise CheckpointError(
                f"batch {self.manifest.batch} of the checkpoint {self.store.files.root} has set "
                "rows aside that its sink has not taken; start with dead=… as before"
            )
        self._describe(self.manifest.batch, "rows set aside")
        rows = dead_rows(self.spark, self.store, self.carried, self.manifest)
        self.dead(rows, self.manifest.batch)

    def _seen(self, batch: int, ingested: list[Ingested]) -> tuple[Seen, ...]:
        gave = [count.arrived > 0 for count in ingested]
        if any(stream.idle is not None for stream in self.query.streams):
            moved = sources_that_gave(self.store.files, batch)
            read = [p for p in range(len(gave)) if p not in self.static_streams]
            if moved is not None and len(moved) == len(read):
                for position, of_source in zip(read, moved, strict=True):
                    gave[position] |= of_source
            elif moved is not None:
                # Of a stream that unites several sources it is not known which are its own.
                gave = [True] * len(gave)
        return tuple(
            before.after(
                count.greatest,
                self._waited,
                gave=gave[position],
                complete=position in self.static_streams,
            )
            for position, (before, count) in enumerate(
                zip(self.manifest.seen, ingested, strict=True)
            )
        )

    def _warn_of_late_rows(self) -> None:
        """Say once that results are missing, where nobody has asked to be shown the rows."""
        if self.late is not None or self.late_warning is None or self._warned:
            return
        if greatest_share(self.manifest.counters["streams"]) > self.late_warning:
            self._warned = True
            _log.warning(
                "%s start(..., late=sink) keeps such rows; late_warning=None ends this warning.",
                late_sentence(progress(self.query, self.manifest)),
            )

    def _counted(self, ingested: list[Ingested], tally: Tally) -> dict[str, Any]:
        before = self.manifest.counters
        total = Tally()
        if "tally" in before:
            total.add(before["tally"])
        total.add(tally.to_dict())
        streams = {
            stream.name: {
                name: before.get("streams", {}).get(stream.name, {}).get(name, 0)
                + getattr(count, name)
                for name in COUNTED
            }
            for stream, count in zip(self.query.streams, ingested, strict=True)
        }
        late = [count.earliest_late for count in ingested if count.earliest_late is not None]
        needed = needed_after(
            before.get("lateness", {}),
            self.query.streams,
            self.manifest.seen,
            min(late, default=None),
        )
        return {
            "lateness": needed,
            "batches": before.get("batches", 0) + 1,
            "results": tally.results,
            "streams": streams,
            "delivered": delivered((self.sink, self.late, self.dead), before.get("delivered", {})),
            "tally": total.to_dict(),
        }

    # -- what the user asks for while it runs ------------------------------------------------

    def _take_requests(self, batch: int) -> list[Event]:
        """Take up what was asked for before this batch began."""
        events: list[Event] = []
        for request in self.inbox.take(batch):
            what = request.what
            if request.kind == RESIZE:
                position = [stream.name for stream in self.query.streams].index(what["stream"])
                greatest = self.manifest.seen[position].greatest
                self.query, event = resized(
                    self.query, position, what["window"], what["since"], greatest
                )
                events.append(event)
            elif request.kind == RESCALE:
                events += self.router.rescale(what["hosts"], at_once=what["at_once"])
            elif request.kind == SWITCH:
                before = self.router
                self.router = router_for(self.query, strategy_of(what["strategy"]), what["hosts"])
                change = {"before": before.name, "after": self.router.name}
                events.append(Event("switch", "as asked for", change))
        return events

    def _describe(self, batch: int, step: str, rows: int = 0) -> None:
        self.under_way.begin(batch, step, self._began, rows)
        names = " ⋈ ".join(stream.name for stream in self.query.streams)
        self.spark.sparkContext.setJobDescription(f"{names}: batch {batch}, {step}")


def _may_match(situation: Situation) -> bool:
    """Whether any combination can come of this batch: something is new, and no stream is empty."""
    streams = range(len(situation.new))
    return any(situation.new) and all(situation.all(stream) for stream in streams)


def _after_merges(refs: list[SegmentRef], merged: list[dict[str, Any]]) -> list[SegmentRef]:
    """The segments with each merged run replaced by what it was merged into."""
    for merge in merged:
        gone = set(merge["from"])
        if gone <= {ref.path for ref in refs}:
            refs = [ref for ref in refs if ref.path not in gone]
            refs.append(SegmentRef(**merge["into"]))
    return refs
