"""The m-way windowed join of what is new with what was there: every combination once.

With old rows `S_j` and new rows `Δ_j`, the results that a batch adds are the disjoint union over
`i` of `Δ_i ⋈ (S_j ∪ Δ_j for j < i) ⋈ (S_j for j > i)`. Each of these is one probe: new rows of
stream `i` visit the other streams one after the other, carrying row numbers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from anabranch.kernel.base import Ints, Pairs, Probe, Rows, UnfitError
from anabranch.kernel.block import KEY, Block
from anabranch.kernel.columns import numbers
from anabranch.kernel.equality import find
from anabranch.kernel.general import in_reach
from anabranch.kernel.kernels import kernels_of
from anabranch.kernel.once import Once
from anabranch.kernel.order import Step
from anabranch.kernel.partial import Partial, Refs, merged
from anabranch.kernel.poison import Poison
from anabranch.kernel.tally import Tally
from anabranch.kernel.watch import Onlooker
from anabranch.kernel.window import Window
from anabranch.model.query import Query

ROWS_AT_ONCE = 1 << 17
"""Partial results that are carried on together: enough to amortise a step, little memory."""

Bounds = Mapping[int, tuple[int, int]]
"""First and last time, both included, of the rows of a stream that take part; of others all do."""

Blocks = Sequence[Sequence[Block]]
"""Blocks of each stream, by its position."""


@dataclass
class Join:
    """One task's join: a pure function of blocks, which counts what it does in `tally`."""

    query: Query
    orders: Sequence[Sequence[Step]]
    """For each stream, the steps of the probe that starts with its new rows."""
    tally: Tally = field(default_factory=Tally)
    onlooker: Onlooker | None = None
    poison: Poison | None = None
    """What is done about rows that a term cannot handle; by default the run fails and names one."""

    def __post_init__(self) -> None:
        self._probing: tuple[int, Block, Ints] | None = None
        self._poison = self.poison or Poison(self.query)
        self._kernels = kernels_of(self.query)
        self._windows = [Window(stream) for stream in self.query.streams]

    def run(
        self, old: Blocks, new: Blocks, bounds: Bounds | None = None
    ) -> Iterator[pa.RecordBatch]:
        """The results that `new` adds to `old` within the bounds, as batches of the outputs."""
        for start in range(len(self.query.streams)):
            visible = visible_to(start, old, new)
            if all(visible[step.stream] for step in self.orders[start]):
                for block in new[start]:
                    yield from self._probe(start, block, visible, bounds or {})

    def _probe(
        self, start: int, block: Block, visible: Blocks, bounds: Bounds
    ) -> Iterator[pa.RecordBatch]:
        fan_out = np.zeros(len(block), np.int64)
        self._probing = start, block, fan_out
        for seed in self.seeds(start, block, bounds):
            for result in self.extend(seed, self.orders[start], visible, bounds):
                hits = result.refs[start].rows
                lowest = int(hits.min())
                counts = np.bincount(hits - lowest)
                fan_out[lowest : lowest + len(counts)] += counts
                yield self.gather(result)
        self._probing = None
        self.tally.probed(self.query, start, block, fan_out)

    def seeds(self, start: int, block: Block, bounds: Bounds) -> Iterator[Partial]:
        """The rows of a block that set out to find partners, some at a time."""
        chosen = np.arange(len(block))
        if start in bounds and not (
            bounds[start][0] <= block.first and block.last <= bounds[start][1]
        ):
            first, last = bounds[start]
            chosen = np.flatnonzero((block.times >= first) & (block.times <= last))
        for first in range(0, len(chosen), ROWS_AT_ONCE):
            rows = chosen[first : first + ROWS_AT_ONCE]
            times = block.times[rows]
            deadline = self._windows[start].end(times)
            yield Partial({start: Refs((block,), rows)}, times, deadline)

    def extend(
        self, partial: Partial, steps: Sequence[Step], visible: Blocks, bounds: Bounds
    ) -> Iterator[Partial]:
        """Combinations with one more row for each step, among the blocks in reach."""
        if not steps:
            yield partial
            return
        step, later = steps[0], steps[1:]
        low = partial.latest - self._windows[step.stream].longest
        high = partial.deadline
        if step.stream in bounds:
            low = np.maximum(low, bounds[step.stream][0])
            high = np.minimum(high, bounds[step.stream][1])
        reach = (int(low.min()), int(high.max()))
        seeker = self._seeker(step, partial, low, high)
        pending: list[Partial] = []
        size = 0
        for block in visible[step.stream]:
            if block.last < reach[0] or block.first > reach[1] or not len(block):
                continue
            self._count_reach(step, len(partial) * len(block))
            for probes, rows in self._candidates(step, partial, block, seeker):
                found = self._check(step, partial, block, (low, high), probes, rows)
                if self.onlooker is not None and self.onlooker.is_due():
                    self.onlooker.look(self.query, self._so_far(), partial, probes)
                if found is None:
                    continue
                pending.append(found)
                size += len(found)
                if size >= ROWS_AT_ONCE:
                    yield from self.extend(merged(pending), later, visible, bounds)
                    pending, size = [], 0
        if pending:
            yield from self.extend(merged(pending), later, visible, bounds)

    def _so_far(self) -> Tally:
        """The counts with those of the block that is being probed, which end with the block."""
        if self._probing is None:
            return self.tally
        start, block, fan_out = self._probing
        counts = self.tally.copy()
        counts.probed(self.query, start, block, fan_out)
        return counts

    def _seeker(self, step: Step, partial: Partial, low: Ints, high: Ints) -> Once | Probe:
        """What looks for partners: every combination or, where that is costly, every row once."""
        if step.index is None:
            if self.query.key is None:
                return Probe({}, low, high)
            stream = next(iter(partial.refs))
            return Probe({0: partial.column(stream, self.query.key[stream])}, low, high)
        bound = {
            position: operand
            for position, operand in enumerate(self.query.terms[step.index].operands)
            if operand.stream != step.stream
        }
        if self._kernels[step.index].costly:
            ((position, operand),) = bound.items()
            return Once(partial.refs[operand.stream], position, operand.column, low, high)
        columns = {
            position: partial.column(operand.stream, operand.column)
            for position, operand in bound.items()
        }
        return Probe(columns, low, high)

    def _candidates(
        self, step: Step, partial: Partial, block: Block, seeker: Once | Probe
    ) -> Iterator[Pairs]:
        if step.index is not None:
            kernel = self._kernels[step.index]
            target = block.target(step.index, self.query.terms[step.index], step.stream)
            if isinstance(seeker, Once):
                return seeker.spread(kernel.candidates(step.stream, target, seeker.probe))
            return self._poison.propose(step, block, target, seeker, partial.refs)
        assert isinstance(seeker, Probe)
        if self.query.key is not None:
            keys, stored = seeker.columns[0], block.columns[self.query.key[step.stream]]
            index = block.indexes[KEY]
            return find(index, numbers(keys), seeker.low, seeker.high, numbers(stored))
        return in_reach(block.times, seeker)

    def _check(
        self,
        step: Step,
        partial: Partial,
        block: Block,
        reach: tuple[Ints, Ints],
        probes: Rows,
        rows: Rows,
    ) -> Partial | None:
        """The candidates that lie in the window and satisfy every term decided here."""
        probes = probes.astype(np.intp, copy=False)
        rows = rows.astype(np.intp, copy=False)
        times = block.times[rows]
        window = self._windows[step.stream]
        inside = (times >= reach[0][probes]) & (times <= reach[1][probes])
        if window.varies:
            inside &= window.end(times) >= partial.latest[probes]
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
            try:
                holds = self._kernels[position].holds(columns)
            except UnfitError:
                members = {
                    stream: Refs((block,), rows)
                    if stream == step.stream
                    else partial.refs[stream].take(probes)
                    for stream in self.query.terms[position].streams
                }
                holds = self._poison.decide(position, members)
            compared = len(probes)
            probes, rows, times = _kept(holds, probes, rows, times)
            self.tally.decided(position, compared, len(probes))
        if not len(probes):
            return None
        if len(partial.refs) + 1 == len(self._windows):
            return partial.complete(step.stream, block, probes, rows)
        return partial.bind(step.stream, block, probes, rows, times, window.end(times))

    def _count_reach(self, step: Step, pairs: int) -> None:
        if step.index is not None:
            self.tally.reached(step.index, pairs)
        elif self.query.key is not None:
            for position in step.checks:
                if position in self.query.key_terms:
                    self.tally.reached(position, pairs)

    def gather(self, result: Partial) -> pa.RecordBatch:
        """The output columns of whole combinations."""
        outputs = self.query.outputs
        columns = [result.refs[o.operand.stream].column(o.operand.column) for o in outputs]
        return pa.RecordBatch.from_arrays(columns, [output.name for output in outputs])


def visible_to(start: int, old: Blocks, new: Blocks) -> list[list[Block]]:
    """What new rows of a stream may meet: new rows only of the streams before their own.

    Of two new rows that match, one finds the other, and not both each other.
    """
    return [[*old[stream], *(new[stream] if stream < start else ())] for stream in range(len(old))]


def _kept(keep: np.ndarray, probes: Rows, rows: Rows, times: Ints) -> tuple[Rows, Rows, Ints]:
    if keep.all():
        return probes, rows, times
    return probes[keep], rows[keep], times[keep]
