"""The view works on plain progress data: no Spark, no clock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from io import StringIO
from typing import Any

import pytest
from rich.console import Console

from anabranch.cli.view import History, Told, clock_time, follow, line, panel

NOON = datetime(2026, 5, 4, 12, 0, 0, tzinfo=UTC).timestamp()


def progress(batches: int, *, rows: int = 0, results: int = 0, late: int = 0) -> dict[str, Any]:
    """The progress after so many batches that each brought `rows` rows of each stream."""
    stream = {
        "arrived": rows * batches,
        "late": late,
        "null_time": 0,
        "filtered": 0,
        "null_key": 0,
        "live": rows,
        "watermark": "2026-05-04T11:59:58+00:00" if batches else None,
        "idle": False,
    }
    return {
        "batch": batches - 1,
        "batches": batches,
        "seconds": 0.25 * batches,
        "results": results,
        "results_total": results * batches,
        "strategy": "hash",
        "hosts": 2,
        "watermark": "2026-05-04T11:59:58+00:00" if batches else None,
        "held_back_by": "clicks" if batches else None,
        "state_rows": 2 * rows,
        "state_bytes": 2_500_000,
        "segments": 4,
        "streams": {"orders": dict(stream), "clicks": dict(stream, idle=batches == 0)},
        "terms": {},
    }


def history(*batches: int, **numbers: int) -> History:
    """One look a second, from noon on."""
    seen = History()
    for second, count in enumerate(batches):
        seen.add(progress(count, **numbers), NOON + second)
    return seen


def drawn(history: History) -> str:
    console = Console(width=100, file=StringIO(), record=True)
    console.print(panel(history, "a job"))
    return console.export_text()


def test_a_line_says_what_the_last_batch_did() -> None:
    assert line(history(0, 1, rows=1500, results=7)) == (
        "batch 0: 0.25 s, 3,000 rows, 7 matches (7 in all), state 3,000 rows, 2.5 MB, "
        "watermark 11:59:58 (3.0 s ago), held back by clicks"
    )


def test_a_line_mentions_late_rows_where_there_are_any() -> None:
    assert line(history(0, 1, rows=10, late=2)).endswith("4 late")


def test_a_line_counts_the_rows_of_batches_that_were_not_looked_at() -> None:
    assert "60 rows" in line(history(1, 4, rows=10))


def test_two_looks_at_one_batch_are_one() -> None:
    assert [seen.progress["batches"] for seen in history(0, 0, 1, 1, 2).batches] == [0, 1, 2]


def test_a_rate_is_taken_over_the_last_ten_seconds() -> None:
    seen = history(*range(30))
    assert seen.rate(lambda each: each["batches"] ** 2) == (29**2 - 19**2) / 10


def test_a_rate_reaches_back_over_one_long_batch() -> None:
    seen = history(0)
    seen.add(progress(1, rows=600), NOON + 60)
    assert seen.rate(lambda each: each["streams"]["orders"]["arrived"]) == 10.0


def test_there_is_no_rate_before_the_first_batch() -> None:
    assert history(0).rate(lambda each: each["batches"]) is None


def test_the_panel_shows_rates_times_matches_state_and_watermark() -> None:
    text = drawn(history(0, 1, 2, 3, rows=1200, results=50))
    for part in (
        "a job",
        "1,200",
        "3,600",
        "▃▅█  0.75 s, median 0.50 s, longest 0.75 s",
        "150  (50 per second)",
        "2,400 rows, 2.5 MB in 4 segments",
        "11:59:58 (5.0 s ago), held back by clicks",
        "hash on 2 hosts, batch 2",
    ):
        assert part in text


def test_a_time_beyond_the_calendar_is_shown_as_it_is() -> None:
    assert clock_time("9e18 µs since 1970", NOON) == "9e18 µs since 1970"


def test_the_panel_is_drawn_before_the_first_batch() -> None:
    text = drawn(history(0))
    assert "waiting for the first batch" in text
    assert "clicks (idle)" in text


def joining(batch: int, seconds: float, *, tasks: int = 1) -> dict[str, Any]:
    """A batch under way."""
    return {
        "batch": batch,
        "phase": "join",
        "seconds": seconds,
        "rows": 40_000,
        "tasks": tasks,
        "results": 123_456_789,
    }


def test_the_panel_shows_what_is_under_way_and_for_how_long() -> None:
    seen = history(0, 1)
    assert "waiting" in drawn(seen)
    assert not seen.add({**progress(1), "under_way": joining(1, 34.4)}, NOON)
    expected = "batch 1 under way: join, 34 s, 40,000 rows, 123,456,789 matches so far"
    assert expected in drawn(seen)
    seen.add({**progress(1), "under_way": joining(1, 1.0, tasks=0)}, NOON)
    assert "batch 1 under way: join, 1 s, 40,000 rows  " in drawn(seen), "results are unknown yet"


def test_a_log_is_told_of_a_long_batch_every_ten_seconds() -> None:
    told = Told()
    times = [(0, 3.0), (0, 11.0), (0, 15.0), (0, 21.5), (1, 4.0), (1, 10.0)]
    worth_a_line = [told.is_due(joining(batch, seconds)) for batch, seconds in times]
    assert worth_a_line == [False, True, False, True, False, True]


class Played:
    """A run that gives out prepared progresses, one per poll, and then has ended."""

    def __init__(self, *batches: int) -> None:
        self._rest: Iterator[int] = iter(batches)
        self.progress: Mapping[str, Any] = progress(0)

    def await_termination(self, timeout: float | None = None, /) -> bool:
        assert timeout is not None
        following = next(self._rest, None)
        if following is not None:
            self.progress = progress(following, rows=10)
        return following is None


@pytest.mark.parametrize("terminal", [False, True])
def test_following_a_run_ends_with_it(terminal: bool) -> None:
    out = StringIO()
    console = Console(file=out, width=100, force_terminal=terminal)
    follow(Played(1, 1, 2), console, "a job", clock=lambda: NOON)
    if terminal:
        assert "hash on 2 hosts, batch 1" in out.getvalue()
    else:
        assert [text.split(":")[0] for text in out.getvalue().splitlines()] == [
            "batch 0",
            "batch 1",
        ]


def test_following_a_run_ends_when_enough_was_seen() -> None:
    run = Played(*range(1, 100))
    console = Console(file=StringIO())
    follow(run, console, "a job", until=lambda: run.progress["batches"] == 3, clock=lambda: NOON)
    assert run.progress["batches"] == 3
