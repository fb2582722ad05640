"""What the user changes while a join runs: taken up between two batches, in the order asked for."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from anabranch.adapt.events import Event
from anabranch.model.query import Query, Stream
from anabranch.routing.slices import BEGINNING
from anabranch.state.files import Files
from anabranch.state.requests import RESIZE, Request, ask, asked


class Inbox:
    """Requests that wait for a batch. Users ask in their own threads."""

    def __init__(self, files: Files, under_way: int) -> None:
        self._files = files
        self._under_way = under_way
        self._taken: list[Request] = []
        self._asking = threading.Lock()

    def ask(self, kind: str, what: Mapping[str, Any]) -> None:
        """Keep a request for the batch after the one under way."""
        with self._asking:
            ask(self._files, kind, what, since=self._under_way + 1)

    def take(self, batch: int) -> list[Request]:
        """What was asked for before this batch began."""
        with self._asking:
            self._under_way = batch
            waiting = asked(self._files)
        taken = [request for request in waiting if request.since <= batch]
        self._taken += taken
        return taken

    def committed(self) -> None:
        """What was taken has come true."""
        for request in self._taken:
            self._files.delete(request.path)
        self._taken = []

    def drop_outdated(self) -> None:
        """Strategy and hosts are as this start says; a window that was promised stays so."""
        for request in asked(self._files):
            if request.kind != RESIZE:
                self._files.delete(request.path)


def resized(
    query: Query, position: int, window: int, since: int | None, greatest: int | None
) -> tuple[Query, Event]:
    """Rows of a stream have another window, from a time on that none of them has reached."""
    stream = query.streams[position]
    earliest = BEGINNING if greatest is None else greatest + 1
    begin = earliest if since is None else max(since, earliest)
    kept = tuple(change for change in stream.resized if change[0] < begin)
    if begin == BEGINNING:
        changed = replace(stream, window=window, resized=())
    else:
        changed = replace(stream, resized=(*kept, (begin, window)))
    what = {"stream": stream.name, "before": stream.latest, "after": window, "since": begin}
    why = "as asked for"
    if since is not None and since < begin:
        why = f"as asked for since {since}, but rows had come further by then"
    return _with(query, position, changed), Event("resize", why, what)


def windows_of(query: Query) -> dict[str, Any]:
    """Windows with their changes, for the manifest."""
    return {s.name: [s.window, [list(change) for change in s.resized]] for s in query.streams}


def with_windows(query: Query, saved: Mapping[str, Any]) -> Query:
    """The query with windows as a manifest has them."""
    for position, stream in enumerate(query.streams):
        if stream.name in saved:
            window, changes = saved[stream.name]
            changed = replace(stream, window=window, resized=tuple(map(tuple, changes)))
            query = _with(query, position, changed)
    return query


def settled(query: Query, watermark: int | None) -> Query:
    """Without the changes that are over: the last row from before them has expired."""
    if watermark is None:
        return query
    return replace(query, streams=tuple(s.settled(watermark) for s in query.streams))


def _with(query: Query, position: int, stream: Stream) -> Query:
    streams = list(query.streams)
    streams[position] = stream
    return replace(query, streams=tuple(streams))
