"""From the batches of a run to its numbers: rates, percentiles of batch times, and bounds.

**Rate.** Rows of all input streams over the wall-clock time of the *steady-state* batches: from
the end of the last warm-up batch to the end of the last batch with input. Warm-up is the first
batch (the JVM is still compiling, Python workers are starting) and every batch after it until one
full window of event time has arrived (before that the state is smaller than it will be). A
trailing batch without input, in which Spark only cleans its state, is left out as well.

**Bound.** A run that was stopped had finished some batches and was inside another. Had it finished
that one at the moment it was stopped, its rate would be

    (steady rows finished + rows of the batch it was in) / (time since the steady state began)

and it was slower than that: an upper bound. The same from the very start is one too, but for the
few seconds in which the JVM warms up; of the two the smaller is taken, since the first says little
when a run was stopped soon after its warm-up, and nothing when it was stopped within.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace


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
class Rate:
    """Rows per second (batches per second where a case counts those)."""

    value: float
    is_bound: bool = False
    """Whether the true rate is known only to be smaller."""


UNKNOWN = Rate(0.0)


@dataclass(frozen=True)
class Percentiles:
    """Batch times in seconds."""

    p50: float
    p90: float
    p99: float


@dataclass(frozen=True)
class Summary:
    """The numbers of one side."""

    rate: Rate
    percentiles: Percentiles | None
    results: int
    peak_rows: int
    peak_bytes: int
    batches: int
    finished: bool
    """Whether it went through to the end, so that `results` is the whole answer."""
    error: str | None = None
    kinds: Mapping[str, float] = field(default_factory=dict)
    """Median seconds of a batch of each kind, where a case tells kinds apart."""
    stolen: float | None = None
    """Of the CPU time that this machine asked for, the part that its host gave to others."""


def summarise(run: Run, error: str | None = None) -> Summary:
    """The numbers of a run that is measured in rows per second."""
    if run.stopped is None:
        rate = steady_rate(run)
    elif error is not None and not run.batches:
        rate = UNKNOWN  # It broke at once: that says nothing about how fast it would have been.
    else:
        rate = upper_bound(run, run.stopped)
    return _summary(run, run.steady, rate, error)


def summarise_empty(run: Run, streams: int, error: str | None = None) -> Summary:
    """The numbers of a run that is measured by its batches without rows.

    The rate is batches per second at the median; batches of one row per stream are beside it.
    """
    kinds = {"no row": 0, "one row per stream": streams}
    times = {
        kind: [batch.seconds for batch in run.steady if batch.rows == rows]
        for kind, rows in kinds.items()
    }
    medians = {kind: percentile(found, 50) for kind, found in times.items() if found}
    rate = Rate(1 / medians["no row"]) if "no row" in medians else UNKNOWN
    empty = [batch for batch in run.steady if batch.rows == 0]
    return replace(_summary(run, empty, rate, error), kinds=medians)


def steady_rate(run: Run) -> Rate:
    """The rate of a run that went through to its end."""
    steady = run.steady
    if not steady:
        return UNKNOWN
    seconds = steady[-1].end - _steady_since(run)
    return Rate(sum(batch.rows for batch in steady) / seconds) if seconds > 0 else UNKNOWN


def upper_bound(run: Run, stopped: float) -> Rate:
    """What the rate of a run that was stopped is smaller than.

    Worked by hand: after a warm-up batch that ended at 10 s, one batch of 100 rows took until
    30 s, and the next was still running at 60 s: less than 200 rows in 50 s.

    >>> batches = (Batch(0, 100, 0.0, 10.0), Batch(1, 100, 10.0, 20.0))
    >>> upper_bound(Run((100, 100, 100), 1, batches, started=0.0), stopped=60.0)
    Rate(value=4.0, is_bound=True)
    """
    if run.started is None:
        return UNKNOWN
    through = len(run.batches) + 1
    bounds = [sum(run.planned[:through]) / (stopped - run.started)]
    if len(run.batches) >= run.warm and stopped > _steady_since(run):
        bounds.append(sum(run.planned[run.warm : through]) / (stopped - _steady_since(run)))
    return Rate(min(bounds), is_bound=True)


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


def _summary(run: Run, timed: Sequence[Batch], rate: Rate, error: str | None) -> Summary:
    seconds = [batch.seconds for batch in timed]
    percentiles = None
    if seconds:
        percentiles = Percentiles(*(percentile(seconds, percent) for percent in (50, 90, 99)))
    return Summary(
        rate=rate,
        percentiles=percentiles,
        results=sum(batch.results for batch in run.batches),
        peak_rows=max((batch.state_rows for batch in run.batches), default=0),
        peak_bytes=max((batch.state_bytes for batch in run.batches), default=0),
        batches=len(run.batches),
        finished=run.stopped is None,
        error=error,
    )
