"""The m-way windowed join of what is new with what was there: every combination once.

With old rows `S_j` and new rows `Δ_j`, the results that a batch adds are the disjoint union over
`i` of `Δ_i ⋈ (S_j ∪ Δ_j for j < i) ⋈ (S_j for j > i)`. Each of these is one probe: new rows of
stream `i` visit the other streams one after the other, carrying row numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from anabranch.kernel.base import Ints, Pairs, Probe, Rows
from anabranch.kernel.block import KEY, Block
from anabranch.kernel.columns import numbers
from anabranch.kernel.equality import find
from anabranch.kernel.general import in_reach
from anabranch.kernel.kernels import kernels_of
from anabranch.kernel.order import Step
from anabranch.kernel.partial import Partial, Refs, merged
from anabranch.kernel.tally import Tally
from anabranch.model.query import Query

ROWS_AT_ONCE = 1 << 17
"""Partial results that are carried on together: enough to amortise a step, little memory."""


@dataclass
class Join:
    """One task's join: a pure function of blocks, which counts what it does in `tally`."""

    query: Query
    orders: Sequence[Sequence[Step]]
    """For each stream, the steps of the probe that starts with its new rows."""
    tally: Tally = field(default_factory=Tally)

    def __post_init__(self) -> None:
        self._kernels = kernels_of(self.query)
        self._windows = self.query.windows

    def run(
        self, old: Sequence[Sequence[Block]], new: Sequence[Sequence[Block]]
    ) -> Iterator[pa.RecordBatch]:
        """The results that `new` adds to `old`, as batches of the query's outputs."""
        for start in range(len(self.query.streams)):
            visible = [
                [*old[stream], *(new[stream] if stream < start else ())]
                for stream in range(len(self.query.streams))
            ]
            if all(visible[step.stream] for step in self.orders[start]):
                for block in new[start]:
                    yield from self._probe(start, block, visible)

    def _probe(
        self, start: int, block: Block, visible: Sequence[Sequence[Block]]
    ) -> Iterator[pa.RecordBatch]:
        fan_out = np.zeros(len(block), np.int64)
        for first in range(0, len(block), ROWS_AT_ONCE):
            rows = np.arange(first, min(first + ROWS_AT_ONCE, len(block)))
            times = block.times[rows]
            seed = Partial({start: Refs((block,), rows)}, times, times + self._windows[start])
            for result in self._extend(seed, self.orders[start], visible):
                hits = result.refs[start].rows
                lowest = int(hits.min())
                counts = np.bincount(hits - lowest)
                fan_out[lowest : lowest + len(counts)] += counts
                yield self._gather(result)
        self.tally.probed(self.query, start, block, fan_out)

    def _extend(
        self, partial: Partial, steps: Sequence[Step], visible: Sequence[Sequence[Block]]
    ) -> Iterator[Partial]:
        if not steps:
            yield partial
            return
        step, later = steps[0], steps[1:]
        low = partial.latest - self._windows[step.stream]
        reach = (int(low.min()), int(partial.deadline.max()))
        probe = self._probe_side(step, partial, low)
        pending: list[Partial] = []
        size = 0
        for block in visible[step.stream]:
            if block.last < reach[0] or block.first > reach[1] or not len(block):
                continue
            self._count_reach(step, len(partial) * len(block))
            for probes, rows in self._candidates(step, block, probe):
                found = self._check(step, partial, block, low, probes, rows)
                if found is None:
                    continue
                pending.append(found)
                size += len(found)
                if size >= ROWS_AT_ONCE:
                    yield from self._extend(merged(pending), later, visible)
                    pending, size = [], 0
        if pending:
            yield from self._extend(merged(pending), later, visible)

    def _probe_side(self, step: Step, partial: Partial, low: Ints) -> Probe:
        columns: dict[int, pa.Array] = {}
        if step.index is not None:
            columns = {
                position: partial.column(operand.stream, operand.column)
                for position, operand in enumerate(self.query.terms[step.index].operands)
                if operand.stream != step.stream
            }
        elif self.query.key is not None:
            stream = next(iter(partial.refs))
            columns = {0: partial.column(stream, self.query.key[stream])}
        return Probe(columns, low, partial.deadline)

    def _candidates(self, step: Step, block: Block, probe: Probe) -> Iterator[Pairs]:
        if step.index is not None:
            kernel = self._kernels[step.index]
            target = block.target(step.index, self.query.terms[step.index], step.stream)
            return kernel.candidates(step.stream, target, probe)
        if self.query.key is not None:
            return find(block.indexes[KEY], numbers(probe.columns[0]), probe.low, probe.high)
        return in_reach(block.times, probe)

    def _check(
        self, step: Step, partial: Partial, block: Block, low: Ints, probes: Rows, rows: Rows
    ) -> Partial | None:
        """The candidates that lie in the window and satisfy every term decided here."""
        probes = probes.astype(np.intp, copy=False)
        rows = rows.astype(np.intp, copy=False)
        times = block.times[rows]
        inside = (times >= low[probes]) & (times <= partial.deadline[probes])
        probes, rows, times = _kept(inside, probes, rows, times)
        for position in step.checks:
            if not len(probes):
                return None
            exact = position == step.index and self._kernels[position].exact
            if exact or position in self.query.key_terms:
                self.tally.decided(position, len(probes), len(probes))
                continue
            columns = [
                block.columns[operand.column].take(pa.array(rows))
                if operand.stream == step.stream
                else partial.column(operand.stream, operand.column).take(pa.array(probes))
                for operand in self.query.terms[position].operands
            ]
            holds = self._kernels[position].holds(columns)
            compared = len(probes)
            probes, rows, times = _kept(holds, probes, rows, times)
            self.tally.decided(position, compared, len(probes))
        if not len(probes):
            return None
        if len(partial.refs) + 1 == len(self._windows):
            return partial.complete(step.stream, block, probes, rows)
        return partial.bind(step.stream, block, self._windows[step.stream], probes, rows, times)

    def _count_reach(self, step: Step, pairs: int) -> None:
        if step.index is not None:
            self.tally.reached(step.index, pairs)
        elif self.query.key is not None:
            for position in step.checks:
                if position in self.query.key_terms:
                    self.tally.reached(position, pairs)

    def _gather(self, result: Partial) -> pa.RecordBatch:
        outputs = self.query.outputs
        columns = [result.refs[o.operand.stream].column(o.operand.column) for o in outputs]
        return pa.RecordBatch.from_arrays(columns, [output.name for output in outputs])


def _kept(keep: np.ndarray, probes: Rows, rows: Rows, times: Ints) -> tuple[Rows, Rows, Ints]:
    if keep.all():
        return probes, rows, times
    return probes[keep], rows[keep], times[keep]
