"""The join of a host: combinations meet rows of one more stream, whole arrays at a time."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from anabranch.kernel.order import Step
from anabranch.kernel.tally import Tally
from anabranch.model.query import Query
from anabranch.sim.queries import holds
from anabranch.sim.tuples import Combos, Tuples

PAIRS_AT_ONCE = 1 << 21
"""Pairs whose terms are decided together: little memory, and long enough arrays."""


@dataclass(frozen=True)
class Found:
    """What some rows gave: the combinations, how many, and how often rows were compared.

    Whole results may be counted only (`combos` is None): of many millions nobody needs them all.
    """

    combos: Combos | None
    count: int
    compared: int
    probes: int = 0
    """Combinations that had any row in reach."""
    arrivals: float = 0.0
    """The sum over results of when their starting rows came in."""


class Prober:
    """Extends combinations stream by stream, as the steps of the kernels' orders have it."""

    def __init__(self, query: Query, *, collect: bool) -> None:
        self.query, self.collect = query, collect
        self._windows = query.windows

    def seeds(self, start: int, rows: Tuples) -> Combos:
        """Rows of a stream that set out to find partners."""
        shape = (len(rows), len(self._windows))
        ids, values = np.full(shape, -1, np.int64), np.zeros(shape, np.int64)
        ids[:, start], values[:, start] = rows.ids, rows.values
        return Combos(ids, values, rows.times, rows.times + self._windows[start], rows.arrived)

    def extend(self, combos: Combos, step: Step, rows: Tuples, tally: Tally) -> Found:
        """Combinations with one more row each; `rows` are in the order of time."""
        first = rows.times.searchsorted(combos.latest - self._windows[step.stream])
        after = np.maximum(rows.times.searchsorted(combos.deadline, "right"), first)
        compared, probes = int((after - first).sum()), int(np.count_nonzero(after > first))
        last = not self.collect and np.count_nonzero(combos.ids[:1] < 0) == 1
        parts: list[Combos] = []
        count, arrivals = 0, 0.0
        if compared:
            for piece, mask, columns in self._matches(combos, step, rows, (first, after), tally):
                if last:
                    each = np.count_nonzero(mask, axis=1)
                    count += int(each.sum())
                    arrivals += float(each @ piece.arrived)
                    continue
                which, row = np.nonzero(mask)
                count += len(which)
                parts.append(self._bound(piece.take(which), step.stream, rows, row + columns))
        if last:
            return Found(None, count, compared, probes, arrivals)
        found = Combos.joined(parts) if parts else combos.take(slice(0, 0))
        return Found(found, count, compared, probes, float(found.arrived.sum()))

    def _matches(
        self,
        combos: Combos,
        step: Step,
        rows: Tuples,
        reach: tuple[np.ndarray, np.ndarray],
        tally: Tally,
    ) -> Iterator[tuple[Combos, np.ndarray, int]]:
        """Some combinations at a time, which rows they match, and the first of these rows."""
        first, after = reach
        start, stop = int(first.min()), int(after.max())
        size = max(PAIRS_AT_ONCE // (stop - start), 1)
        columns = np.arange(start, stop)
        values = rows.values[start:stop]
        for begin in range(0, len(combos), size):
            piece = combos.take(slice(begin, begin + size))
            lowest, beyond = first[begin : begin + size], after[begin : begin + size]
            mask = (columns >= lowest[:, None]) & (columns < beyond[:, None])
            for position in step.checks:
                before = int(np.count_nonzero(mask))
                term = self.query.terms[position]
                left, right = (
                    values[None, :]
                    if operand.stream == step.stream
                    else piece.values[:, operand.stream, None]
                    for operand in term.operands
                )
                mask &= holds(term.kind, left, right)
                tally.decided(position, before, int(np.count_nonzero(mask)))
            yield piece, mask, start

    def _bound(self, found: Combos, stream: int, rows: Tuples, row: np.ndarray) -> Combos:
        found.ids[:, stream], found.values[:, stream] = rows.ids[row], rows.values[row]
        times = rows.times[row]
        return Combos(
            found.ids,
            found.values,
            np.maximum(found.latest, times),
            np.minimum(found.deadline, times + self._windows[stream]),
            found.arrived,
        )
