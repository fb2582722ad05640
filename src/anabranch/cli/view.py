"""What a command shows of a run: a live panel on a terminal, a line per batch elsewhere.

Everything here works on `run.progress`, plain data, and on times that are passed in; only
`follow` knows a running query and a clock.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import partial
from typing import Any, Protocol

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table

Progress = Mapping[str, Any]

POLL_SECONDS = 0.2
KEPT = 48
"""Batches in the panel's sparkline."""
RATE_OVER = 10.0
"""Seconds that a rate is taken over: long enough to be calm, short enough to follow a change."""
TELL_EVERY = 10.0
"""Seconds that a batch goes on between two lines about it, where lines are printed."""
BARS = "▁▂▃▄▅▆▇█"


class Followed(Protocol):
    """What `follow` needs of a running query."""

    @property
    def progress(self) -> Progress: ...

    def await_termination(self, timeout: float | None = None, /) -> bool: ...


@dataclass(frozen=True)
class Seen:
    """A progress, and when it was looked at, in seconds since the epoch."""

    at: float
    progress: Progress


@dataclass
class History:
    """The last batches of a run, oldest first; two looks at the same batch are one."""

    batches: deque[Seen] = field(default_factory=lambda: deque(maxlen=KEPT))
    under_way: Progress | None = None
    """The batch that is not committed yet."""

    def add(self, progress: Progress, at: float) -> bool:
        """Whether another batch has been committed."""
        self.under_way = progress.get("under_way")
        if self.batches and self.batches[-1].progress["batches"] == progress["batches"]:
            return False
        self.batches.append(Seen(at, progress))
        return True

    @property
    def last(self) -> Seen:
        return self.batches[-1]

    def rate(self, count: Callable[[Progress], int]) -> float | None:
        """How fast a counter has grown lately, per second; None while there is nothing to tell."""
        now = self.last
        recent = [seen for seen in self.batches if now.at - seen.at <= RATE_OVER]
        # A batch may take longer than that; then the one before it is what to compare with.
        since = recent[0] if len(recent) > 1 else list(self.batches)[-2:][0]
        if since.at >= now.at:
            return None
        return (count(now.progress) - count(since.progress)) / (now.at - since.at)


def follow(
    run: Followed,
    console: Console,
    title: str,
    until: Callable[[], bool] = lambda: False,
    clock: Callable[[], float] = time.time,
) -> None:
    """Show a run until it ends by itself, or until `until` says that we have seen enough."""
    history = History()
    history.add(run.progress, clock())
    with _shown(console, history, title) as show:
        while True:
            ended = run.await_termination(POLL_SECONDS)
            show(committed=history.add(run.progress, clock()))
            if ended or until():
                return


class Show(Protocol):
    """Called after each look at a run: has another batch been committed?"""

    def __call__(self, *, committed: bool) -> None: ...


@contextmanager
def _shown(console: Console, history: History, title: str) -> Iterator[Show]:
    told = Told()

    def print_line(*, committed: bool) -> None:
        now = history.under_way
        if committed:
            console.print(line(history), soft_wrap=True, highlight=False)
        elif now is not None and told.is_due(now):
            console.print(under_way(now), soft_wrap=True, highlight=False)

    def draw(*, committed: bool) -> None:
        if committed or history.under_way is not None:
            live.update(panel(history, title), refresh=True)

    if not console.is_terminal:
        yield print_line
        return
    with Live(panel(history, title), console=console, auto_refresh=False) as live:
        yield draw


@dataclass
class Told:
    """When a log was last told of a batch under way."""

    batch: int = -1
    seconds: float = 0.0

    def is_due(self, now: Progress) -> bool:
        """Whether a batch is worth a line again: it has gone on for another while."""
        since = self.seconds if self.batch == now["batch"] else 0.0
        if now["seconds"] - since < TELL_EVERY:
            return False
        self.batch, self.seconds = now["batch"], now["seconds"]
        return True


def under_way(now: Progress) -> str:
    """The batch that goes on, in a line."""
    parts = [f"batch {now['batch']} under way: {now['phase']}, {now['seconds']:.0f} s"]
    if now["rows"]:
        parts.append(f"{now['rows']:,} rows")
    if now["tasks"]:
        parts.append(f"{now['results']:,} matches so far")
    return ", ".join(parts)


def line(history: History) -> str:
    """The last batch in one line, for logs and pipes."""
    seen, before = history.last, list(history.batches)[-2:][0]
    now = seen.progress
    rows = _arrived(now) - _arrived(before.progress)
    late = sum(stream["late"] for stream in now["streams"].values())
    parts = [
        f"batch {now['batch']}: {now['seconds']:.2f} s",
        f"{rows:,} rows",
        f"{now['results']:,} matches ({now['results_total']:,} in all)",
        f"state {now['state_rows']:,} rows, {size(now['state_bytes'])}",
        f"watermark {_watermark(now, seen.at)}",
    ]
    return ", ".join(parts + [f"{late:,} late"] * bool(late))


def panel(history: History, title: str) -> RenderableType:
    """Everything that is worth watching, as one panel."""
    seen = history.last
    now = seen.progress
    seconds = [each.progress["seconds"] for each in history.batches if each.progress["batches"]]
    facts = Table.grid(padding=(0, 2))
    facts.add_column(style="dim")
    facts.add_column()
    facts.add_row("batch time", f"{spark(seconds)}  {_times(seconds)}")
    matches = history.rate(lambda each: each["results_total"])
    facts.add_row("matches", f"{now['results_total']:,}  {_per_second(matches)}")
    facts.add_row(
        "state",
        f"{now['state_rows']:,} rows, {size(now['state_bytes'])} in {now['segments']:,} segments",
    )
    facts.add_row("watermark", _watermark(now, seen.at))
    facts.add_row("now", "waiting" if history.under_way is None else under_way(history.under_way))
    subtitle = f"{now['strategy']} on {now['hosts']} hosts, batch {now['batch']:,}"
    if not now["batches"]:
        subtitle = "starting"
    return Panel(Group(_streams(history), "", facts), title=title, subtitle=subtitle)


def _streams(history: History) -> Table:
    seen = history.last
    table = Table(box=None, expand=True, header_style="dim", pad_edge=False)
    table.add_column("stream")
    for heading in ("rows/s", "arrived", "live", "late", "watermark"):
        table.add_column(heading, justify="right")
    for name, stream in seen.progress["streams"].items():
        rate = history.rate(partial(_arrived, name=name))
        table.add_row(
            f"{name} (idle)" if stream["idle"] else name,
            "-" if rate is None else f"{rate:,.0f}",
            f"{stream['arrived']:,}",
            f"{stream['live']:,}",
            f"[red]{stream['late']:,}[/red]" if stream["late"] else "0",
            clock_time(stream["watermark"], seen.at),
        )
    return table


def spark(values: Sequence[float]) -> str:
    """Values as bars, from zero to the greatest of them.

    >>> spark([0.0, 1.0, 2.0, 4.0])
    '▁▂▄█'
    """
    most = max(values, default=0.0)
    return "".join(
        BARS[int(value / most * (len(BARS) - 1))] if most else BARS[0] for value in values
    )


def size(count: int) -> str:
    """A number of bytes as people read it.

    >>> size(999), size(1_500), size(3_140_000)
    ('999 B', '1.5 kB', '3.1 MB')
    """
    amount, unit = float(count), "B"
    for larger in ("kB", "MB", "GB", "TB"):
        if amount < 1000:
            break
        amount, unit = amount / 1000, larger
    return f"{count} B" if unit == "B" else f"{amount:.1f} {unit}"


def clock_time(iso: str | None, at: float) -> str:
    """A time in UTC, and how long ago that was where it was less than an hour.

    >>> now = datetime(2026, 1, 1, 12, 0, 2, tzinfo=UTC).timestamp()
    >>> clock_time("2026-01-01T12:00:00+00:00", now)
    '12:00:00 (2.0 s ago)'
    >>> clock_time("2025-01-01T12:00:00+00:00", now)
    '2025-01-01 12:00:00'
    """
    if iso is None:
        return "-"
    try:
        moment = datetime.fromisoformat(iso)
    except ValueError:  # a time that no calendar has a name for is passed on as it is
        return iso
    moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
    ago = at - moment.timestamp()
    if abs(ago) >= 3600:
        return f"{moment:%Y-%m-%d %H:%M:%S}"
    return f"{moment:%H:%M:%S} ({ago:.1f} s ago)"


def _watermark(progress: Progress, at: float) -> str:
    held = progress["held_back_by"]
    return clock_time(progress["watermark"], at) + (f", held back by {held}" if held else "")


def _arrived(progress: Progress, name: str | None = None) -> int:
    streams: Mapping[str, Progress] = progress["streams"]
    return sum(stream["arrived"] for key, stream in streams.items() if name in (None, key))


def _times(seconds: Sequence[float]) -> str:
    if not seconds:
        return "waiting for the first batch"
    median = sorted(seconds)[len(seconds) // 2]
    return f"{seconds[-1]:.2f} s, median {median:.2f} s, longest {max(seconds):.2f} s"


def _per_second(rate: float | None) -> str:
    return "" if rate is None else f"({rate:,.0f} per second)"
