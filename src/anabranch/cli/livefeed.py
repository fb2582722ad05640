"""Feeds made live: a thread that appends their rows to directories as time goes by."""

from __future__ import annotations

import threading
import time
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Self

import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.errors import AnabranchError
from anabranch.feeds import MICROSECONDS, Feed

TICK_SECONDS = 0.5
DISORDER = 5
"""Of so many rows one comes a tick after its time, and so behind younger ones."""


class LiveFeeds:
    """Writes each feed into a directory of its own while the `with` block lasts.

    Event times are those of the clock. A file appears whole or not at all: it is written
    elsewhere and renamed, so that a stream never reads half of it.
    """

    def __init__(self, feeds: Sequence[Feed], root: Path, seconds: float) -> None:
        self.written: Counter[str] = Counter()
        self._feeds = feeds
        self._root = root
        self._ticks = max(1, round(seconds / TICK_SECONDS))
        self._halt = threading.Event()
        self._ended = threading.Event()
        self._failure: Exception | None = None
        self._thread = threading.Thread(target=self._work, name="live feeds", daemon=True)
        for directory in (root / "staging", *map(self.directory, feeds)):
            directory.mkdir(parents=True)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *exception: object) -> None:
        self._halt.set()
        self._thread.join()

    def directory(self, feed: Feed) -> Path:
        """Where a feed's files appear."""
        return self._root / feed.name

    def wait(self) -> None:
        """Wait until all is written."""
        self._ended.wait()

    @property
    def ended(self) -> bool:
        """Whether all is written; raises where the writing itself has failed."""
        if self._failure is not None:
            raise AnabranchError(f"the live feeds broke off: {self._failure}") from self._failure
        return self._ended.is_set()

    def _work(self) -> None:
        try:
            self._write(origin=time.time_ns() // 1000)
        except Exception as error:  # noqa: BLE001 - a thread's errors are lost unless kept
            self._failure = error
        self._ended.set()

    def _write(self, origin: int) -> None:
        held = {feed.name: feed.tick(0, 0.0) for feed in self._feeds}
        for tick in range(self._ticks):
            # Rows are written when the time that they speak of is over.
            due = origin / MICROSECONDS + (tick + 1) * TICK_SECONDS
            if self._halt.wait(max(0.0, due - time.time())):
                return
            for feed in self._feeds:
                rows = feed.tick(tick, TICK_SECONDS, origin)
                straggles = rows["id"].to_numpy() % DISORDER == 0
                self._append(feed, tick, [held[feed.name], rows.filter(pa.array(~straggles))])
                held[feed.name] = rows.filter(pa.array(straggles))
        for feed in self._feeds:
            self._append(feed, self._ticks, [held[feed.name]])

    def _append(self, feed: Feed, tick: int, rows: Sequence[pa.Table]) -> None:
        table = pa.concat_tables(rows)
        staged = self._root / "staging" / f"{feed.name}-{tick:06}.parquet"
        pq.write_table(table, staged)
        staged.rename(self.directory(feed) / staged.name)
        self.written[feed.name] += table.num_rows
