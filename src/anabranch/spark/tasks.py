"""Join tasks: pure functions of committed segments and a plan, run in Spark's Python workers."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pyarrow as pa

from anabranch.kernel.block import Block, build
from anabranch.kernel.order import Step, steps_along
from anabranch.kernel.parcel import needed, pack, unpack
from anabranch.kernel.partial import Partial, merged
from anabranch.kernel.poison import Poison
from anabranch.kernel.probe import ROWS_AT_ONCE, Join
from anabranch.kernel.tally import Tally
from anabranch.kernel.watch import Onlooker
from anabranch.model.query import TIME, Query
from anabranch.routing.base import Box, Plan, Route, Share
from anabranch.routing.reach import reach_of
from anabranch.routing.slices import Range
from anabranch.spark.blocks import Opener, rows_within
from anabranch.spark.worker import settle
from anabranch.state.segment import SegmentRef
from anabranch.state.store import Store
from anabranch.state.under_way import UnderWay

UNTIMED = int(np.iinfo(np.int64).min)
"""Stands for a missing time among rows that were set aside."""

PARCEL = pa.schema(
    [
        ("place", pa.int32()),
        ("host", pa.int32()),
        ("route", pa.int32()),
        ("sender", pa.int32()),
        ("payload", pa.binary()),
    ]
)
"""Rows between two hops: the partition to go to, for whom, on which route, and the parcel."""


@dataclass(frozen=True)
class Merge:
    """Segments to rewrite as one."""

    stream: int
    refs: tuple[SegmentRef, ...]


@dataclass(frozen=True)
class Work:
    """What all tasks of a batch share."""

    query: Query
    store: Store
    batch: int
    old: tuple[tuple[SegmentRef, ...], ...]
    new: tuple[tuple[SegmentRef, ...], ...]
    plan: Plan
    orders: tuple[tuple[Step, ...], ...]
    selectivities: Mapping[int, float]
    schema: bytes
    """Arrow schema of the results, serialized."""
    places: int
    """How many partitions the hosts are served in."""
    merges: Mapping[int, tuple[Merge, ...]] = field(default_factory=dict)
    run: str = ""
    """Which run this is: a worker outlives it, and may serve another over the same files."""
    dead: bool = False
    """Whether rows that a term cannot handle are set aside; otherwise the batch fails."""

    def opener(self) -> Opener:
        opener = Opener(self.store, self.run)
        streams = (*self.old, *self.new)
        opener.forget_others(frozenset(ref.path for refs in streams for ref in refs))
        return opener


class Account:
    """What a host does in one hop: counted, and left for the driver as a report."""

    def __init__(self, work: Work, host: int, hop: int) -> None:
        self.work, self.host, self.hop = work, host, hop
        self.opener = work.opener()
        self.tally = Tally()
        self.counts: Counter[str] = Counter()
        self.found: Counter[str] = Counter()
        """Combinations, by the streams that they were found in, in that order."""
        self.poison = Poison(work.query, self._witnesses, work.dead)
        self.merged: list[dict[str, Any]] = []
        self.cpu = 0.0
        self.sending = 0.0
        self.onlooker = Onlooker(tell=self._renew)

    def _renew(self, counted: Mapping[str, Any]) -> None:
        """Say how far the host has come, while it is at it."""
        under_way = UnderWay(self.work.store.files)
        under_way.renew(self.work.batch, self.host, self.hop, {"host": self.host, **counted})

    def close(self) -> None:
        report = {
            **self.tally.to_dict(),
            "host": self.host,
            "hop": self.hop,
            "cpu": self.cpu,
            "sending": self.sending,
            "fetched": self.opener.fetched,
            "counts": dict(self.counts),
            "found": dict(self.found),
            "merged": self.merged,
            "dead": [[path, row, why] for (_, path, row), why in self.poison.dead.items()],
        }
        self.work.store.report(self.work.batch, f"{self.host}-{self.hop}", json.dumps(report))

    def _witnesses(self, stream: int) -> Iterator[Block]:
        """The live rows of a stream, the newest segment first; on all hosts in the same order."""
        for ref in reversed((*self.work.old[stream], *self.work.new[stream])):
            yield from self.opener.open((ref,))

    def timed(self, work: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Work with its CPU time counted. One thread serves all hosts of a partition in turn."""
        begin = time.thread_time()
        yield from work
        self.cpu += time.thread_time() - begin

    def packing(self, parcels: Iterator[bytes]) -> Iterator[bytes]:
        """Parcels one by one, with the CPU time that it takes to make them counted."""
        while True:
            begin = time.thread_time()
            parcel = next(parcels, None)
            self.sending += time.thread_time() - begin
            if parcel is None:
                return
            yield parcel

    def keep(self) -> None:
        """Count the rows that the host keeps, stream by stream, and the bytes that they take."""
        for stream, ranges in self.work.plan.keeps.get(self.host, {}).items():
            refs = (*self.work.old[stream], *self.work.new[stream])
            for times in ranges:
                for ref in refs:
                    rows = rows_within(self.opener.open((ref,), times), times)
                    self.counts["kept"] += rows
                    self.counts["kept_bytes"] += ref.bytes * rows // max(ref.rows, 1)

    def merge(self) -> None:
        """Rewrite small segments: the background of a batch."""
        for merge in self.work.merges.get(self.host, ()):
            blocks = self.opener.open(merge.refs)
            rows = pa.concat_tables(
                pa.table({TIME: pa.array(block.times), **block.columns}) for block in blocks
            )
            block = build(self.work.query, merge.stream, rows)
            ref = self.work.store.add_merged(self.work.batch, merge.stream, block, merge.refs)
            into = {"from": [ref.path for ref in merge.refs], "into": ref.to_dict()}
            self.merged.append(into)


@dataclass(frozen=True)
class ShareTask:
    """One hop, whole results: serves the hosts whose numbers are in its partition."""

    work: Work

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        shares: dict[int, list[Share]] = {}
        for share in self.work.plan.shares:
            shares.setdefault(share.host, []).append(share)
        for batch in batches:
            for host in batch.column(0).to_pylist():
                if host in shares or host in self.work.plan.keeps:
                    account = Account(self.work, host, 0)
                    for share in shares.get(host, ()):
                        yield from account.timed(self._serve(account, share))
                    account.keep()
                    account.merge()
                    account.close()

    def _serve(self, account: Account, share: Share) -> Iterator[pa.RecordBatch]:
        tally = Tally() if share.counts_only else account.tally
        join = Join(self.work.query, self.work.orders, tally, account.onlooker, account.poison)
        schema = arrow_schema(self.work.schema)
        for at, box in enumerate(share.boxes):
            reach = reach_of(self.work.query, box)
            old, new = (
                [
                    _grouped(account.opener.open(refs, reach.get(stream)), share)
                    for stream, refs in enumerate(segments)
                ]
                for segments in (self.work.old, self.work.new)
            )
            self._count_copies(account, box, reach, old, new, fresh=at in share.fresh)
            for results in join.run(old, new, box):
                if share.counts_only:
                    account.counts["all_results"] += results.num_rows
                else:
                    yield as_schema(results, schema)

    def _count_copies(
        self,
        account: Account,
        box: Box,
        reach: Mapping[int, Range],
        old: list[list[Block]],
        new: list[list[Block]],
        *,
        fresh: bool,
    ) -> None:
        """Rows of streams that a box does not bound are copied here from wherever else they are."""
        if not box:
            return
        for stream in range(len(self.work.query.streams)):
            if stream not in box:
                blocks = [*old[stream], *new[stream]] if fresh else new[stream]
                account.counts["copied"] += rows_within(blocks, reach[stream])


@dataclass(frozen=True)
class HopTask:
    """One hop of routes: the first sets out from segments, the last comes to results.

    In between, parcels come from the hop before and go to the next.
    """

    work: Work
    hop: int

    def __call__(self, batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        settle()
        accounts: dict[int, Account] = {}
        for batch in batches:
            if self.hop == 0:
                for host in batch.column(0).to_pylist():
                    account = Account(self.work, host, self.hop)
                    yield from account.timed(self._set_out(account))
                    account.close()
                continue
            for (host, route), payloads in self._sorted(batch, accounts).items():
                account = accounts[host]
                yield from account.timed(self._arrived(account, route, payloads))
        for account in accounts.values():
            account.close()

    def _sorted(
        self, batch: pa.RecordBatch, accounts: dict[int, Account]
    ) -> dict[tuple[int, int], list[pa.Buffer]]:
        """Parcels by the host they are for and the route they are on."""
        parcels: dict[tuple[int, int], list[pa.Buffer]] = {}
        for row in range(batch.num_rows):
            host, route, sender = (batch.column(c)[row].as_py() for c in (1, 2, 3))
            payload = batch.column(4)[row].as_buffer()
            account = accounts.setdefault(host, Account(self.work, host, self.hop))
            if sender != host:
                account.counts["received_bytes"] += payload.size
            parcels.setdefault((host, route), []).append(payload)
        return parcels

    def _set_out(self, account: Account) -> Iterator[pa.RecordBatch]:
        for number, route in enumerate(self.work.plan.routes):
            visited = route.hops[0]
            if account.host not in visited.hosts(route.reaches[0]):
                continue
            bounds = {route.start: route.times}
            join = self._join(account)
            blocks = account.opener.open(self.work.new[route.start], route.times)
            for block in blocks:
                for seed in join.seeds(route.start, block, bounds):
                    account.counts["probing"] += len(seed)
                    yield from self._extend(account, join, number, route, seed)
        account.keep()
        account.merge()

    def _arrived(
        self, account: Account, number: int, payloads: list[pa.Buffer]
    ) -> Iterator[pa.RecordBatch]:
        route = self.work.plan.routes[number]
        bound = [route.start, *(hop.stream for hop in route.hops[: self.hop])]
        begin = time.thread_time()
        partial = unpack(payloads, bound)
        account.sending += time.thread_time() - begin
        yield from self._extend(account, self._join(account), number, route, partial)

    def _extend(
        self, account: Account, join: Join, number: int, route: Route, partial: Partial
    ) -> Iterator[pa.RecordBatch]:
        """Meet the rows that this host has of the stream visited, then go on or come to an end."""
        order = [visited.stream for visited in route.hops]
        steps = steps_along(self.work.query, route.start, order, self.work.selectivities)
        bound = ",".join(map(str, (route.start, *order[: self.hop + 1])))
        schema = arrow_schema(self.work.schema)
        waiting: list[Partial] = []
        for found in self._met(account, join, route, steps[self.hop], partial):
            account.found[bound] += len(found)
            if self.hop + 1 == len(order):
                self._note(account, route.start, found)
                yield as_schema(join.gather(found), schema)
                continue
            waiting.append(found)
            if sum(map(len, waiting)) >= ROWS_AT_ONCE:
                yield from self._send(account, number, route, steps, merged(waiting))
                waiting = []
        if waiting:
            yield from self._send(account, number, route, steps, merged(waiting))

    def _met(
        self, account: Account, join: Join, route: Route, step: Step, partial: Partial
    ) -> Iterator[Partial]:
        """Combinations with the rows in reach that are this host's own."""
        hop, reach = route.hops[self.hop], route.reaches[self.hop]
        segments = [self.work.old[hop.stream]]
        if hop.stream < route.start:  # as `visible_to` has it
            segments.append(self.work.new[hop.stream])
        for times in hop.slices.held(*reach).get(account.host, ()):
            window = (max(times[0], reach[0]), min(times[1], reach[1]))
            visible: list[list[Block]] = [[] for _ in self.work.query.streams]
            visible[hop.stream] = [b for s in segments for b in account.opener.open(s, window)]
            yield from join.extend(partial, (step,), visible, {hop.stream: times})

    def _send(
        self,
        account: Account,
        number: int,
        route: Route,
        steps: tuple[Step, ...],
        found: Partial,
    ) -> Iterator[pa.RecordBatch]:
        """Parcels for every host that has rows in reach on the next hop."""
        following = self.hop + 1
        receivers = route.hops[following].hosts(route.reaches[following])
        bound = [route.start, *(hop.stream for hop in route.hops[:following])]
        columns = needed(self.work.query, bound, steps[following:])
        others = sum(host != account.host for host in receivers)
        account.counts["sent"] += len(found) * others
        account.counts["packed"] += len(found) * len(receivers)
        for parcel in account.packing(pack(found, columns)):
            account.counts["sent_bytes"] += len(parcel) * others
            for host in receivers:
                row = [host % self.work.places, host, number, account.host, parcel]
                arrays = [pa.array([v], t) for v, t in zip(row, PARCEL.types, strict=True)]
                yield pa.RecordBatch.from_arrays(arrays, schema=PARCEL)

    def _join(self, account: Account) -> Join:
        return Join(
            self.work.query, self.work.orders, account.tally, account.onlooker, account.poison
        )

    def _note(self, account: Account, start: int, found: Partial) -> None:
        refs = found.refs[start]
        for at, block in enumerate(refs.blocks):
            rows = refs.rows if refs.which is None else refs.rows[refs.which == at]
            counts = np.bincount(rows, minlength=len(block)).astype(np.int64)
            account.tally.probed(self.work.query, start, block, counts)


def _grouped(blocks: list[Block], share: Share) -> list[Block]:
    """Of each block the groups of keys that are the host's own."""
    if share.groups is None:
        return blocks
    slices = []
    for block in blocks:
        starts = block.group_starts()
        for first, last in share.groups:
            if starts[last] > starts[first]:
                slices.append(block.keyed(int(starts[first]), int(starts[last])))
    return slices


def as_schema(results: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The same rows with the types that Spark expects."""
    columns = [
        column if column.type == field.type else column.cast(field.type)
        for column, field in zip(results.columns, schema, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, schema=schema)


def arrow_schema(serialized: bytes) -> pa.Schema:
    """A schema that came with the task."""
    return pa.ipc.read_schema(pa.py_buffer(serialized))
