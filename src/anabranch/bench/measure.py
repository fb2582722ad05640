"""From the batches of a run to its numbers: rates, percentiles of batch times, and bounds.

**Rate.** Rows of all input streams over the wall-clock time of the *steady-state* batches: from
the end of the last warm-up batch to the end of the last batch with input. Warm-up is the first
batch (the JVM is still compiling, Python workers are starting) and every batch after it until one
full window of event time has arrived (before that the state is smaller than it will be). A
trailing batch without input, in which Spark only cleans its state, is left out as well.

**Bound.** A run that was stopped had finished some batches and was inside another. Had it finished
that one at the moment it was stopped, its rate would be

    (steady rows finished + rows of the batch it was in) / (time since the steady state began)

and it was slower than that: a strict upper bound. A run that never left its warm-up is bounded in
the same way from its start (which forgives it nothing for the warm-up, a few seconds of minutes).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Batch:
    """One micro-batch, as the process that ran it reported it. Times are in seconds."""

    number: int
    rows: int
    start: float
    seconds: float
    results: int = 0
    state_rows: int = 0
    state_bytes: int = 0

    @property
    def end(self) -> float:
        return self.start + self.seconds


@dataclass(frozen=True)
class Run:
    """What is known of one side when it is over, or was stopped."""

    planned: tuple[int, ...]
    """Rows of each batch to come, all streams together."""
    warm: int
    """How many batches of those are warm-up."""
    batches: tuple[Batch, ...]
    started: float | None
    """When it began to join; None where it did not come so far."""
    stopped: float | None = None
    """When it was stopped or failed; None where it went through to the end."""

    @property
    def steady(self) -> tuple[Batch, ...]:
        return tuple(batch for batch in self.batches if batch.number >= self.warm)


@dataclass(frozen=True)
class Percentiles:
    """Batch times in seconds."""

    p50: float
    p90: float
    p99: float


@dataclass(frozen=True)
class Summary:
    """The numbers of one side."""

    rate: float
    """Rows per second (batches per second where a case counts those)."""
    is_bound: bool
    percentiles: Percentiles | None
    results: int
    peak_rows: int
    peak_bytes: int
    batches: int
    error: str | None = None
    detail: dict[str, float] = field(default_factory=dict)


def summarise(run: Run, error: str | None = None) -> Summary:
    """The numbers of a run that is measured in rows per second."""
    rate, is_bound = bound(run) if run.stopped is not None else (steady_rate(run), False)
    return _summary(run, run.steady, rate, is_bound, error)


def summarise_empty(run: Run, streams: int, error: str | None = None) -> Summary:
    """The numbers of a run that is measured by its batches without rows.

    The rate is batches per second at the median; batches of one row per stream are beside it.
    """
    empty = tuple(batch for batch in run.steady if batch.rows == 0)
    single = tuple(batch for batch in run.steady if batch.rows == streams)
    detail = {}
    if empty:
        detail["empty_batch_seconds"] = percentile([batch.seconds for batch in empty], 50)
    if single:
        detail["one_row_batch_seconds"] = percentile([batch.seconds for batch in single], 50)
    median = detail.get("empty_batch_seconds", 0.0)
    summary = _summary(run, empty, 1 / median if median else 0.0, run.stopped is not None, error)
    summary.detail.update(detail)
    return summary


def steady_rate(run: Run) -> float:
    """Rows per second of a run that went through to its end."""
    if not run.steady:
        return 0.0
    begin = _steady_since(run)
    seconds = run.steady[-1].end - begin
    return sum(batch.rows for batch in run.steady) / seconds if seconds > 0 else 0.0


def bound(run: Run) -> tuple[float, bool]:
    """An upper bound of the rate of a run that was stopped, and that it is one.

    A run that failed before it began has no rate at all: 0, which is not a bound.

    Worked by hand: after a warm-up batch that ended at 10 s, one batch of 100 rows took until
    30 s, and the next was still running at 60 s: less than 200 rows in 50 s.

    >>> batches = (Batch(0, 100, 0.0, 10.0), Batch(1, 100, 10.0, 20.0))
    >>> bound(Run((100, 100, 100), 1, batches, started=0.0, stopped=60.0))
    (4.0, True)
    """
    if run.stopped is None:
        raise ValueError("the run went through to its end: it has a rate, not a bound")
    if run.started is None:
        return 0.0, False
    done = len(run.batches)
    steady = done >= run.warm
    begin = _steady_since(run) if steady else run.started
    first = run.warm if steady else 0
    rows = sum(run.planned[first : done + 1])
    return rows / max(run.stopped - begin, 1e-9), True


def _steady_since(run: Run) -> float:
    warm_up = [batch.end for batch in run.batches if batch.number < run.warm]
    return max(warm_up, default=run.started or 0.0)


def percentile(values: Sequence[float], percent: float) -> float:
    """By nearest rank, so that it is always a time that a batch took.

    >>> [percentile([4.0, 1.0, 3.0, 2.0], percent) for percent in (50, 75, 90, 99)]
    [2.0, 3.0, 4.0, 4.0]
    """
    ordered = sorted(values)
    return ordered[max(math.ceil(len(ordered) * percent / 100), 1) - 1]


def _summary(
    run: Run, batches: Sequence[Batch], rate: float, is_bound: bool, error: str | None
) -> Summary:
    seconds = [batch.seconds for batch in batches]
    percentiles = None
    if seconds:
        p50, p90, p99 = (percentile(seconds, percent) for percent in (50, 90, 99))
        percentiles = Percentiles(p50, p90, p99)
    return Summary(
        rate=rate,
        is_bound=is_bound,
        percentiles=percentiles,
        results=sum(batch.results for batch in run.batches),
        peak_rows=max((batch.state_rows for batch in run.batches), default=0),
        peak_bytes=max((batch.state_bytes for batch in run.batches), default=0),
        batches=len(run.batches),
        error=error,
    )
