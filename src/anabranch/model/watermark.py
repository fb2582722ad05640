"""How far event time has come: the point behind which no row is expected any more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anabranch.model.query import Stream


@dataclass(frozen=True)
class Seen:
    """What has been seen of one stream: its greatest time, and when rows last arrived.

    `arrived_at` is in microseconds of the runtime's clock. A complete stream (a bounded input
    that has been read whole) holds nothing back.
    """

    greatest: int | None
    arrived_at: int
    complete: bool = False


@dataclass(frozen=True)
class Watermark:
    """The watermark, which stream holds it back, and which ones are idle."""

    value: int | None
    held_back_by: str | None
    idle: tuple[str, ...]


def own_watermark(stream: Stream, seen: Seen) -> int | None:
    """The watermark of one stream alone: its greatest time less its lateness."""
    return None if seen.greatest is None else seen.greatest - stream.lateness


def advance(
    streams: Sequence[Stream], seen: Sequence[Seen], previous: int | None, now: int
) -> Watermark:
    """The least watermark of the streams that are not idle or complete; it never goes back.

    A stream from which nothing has arrived for its `idle` time does not count until rows arrive
    again; those that are then behind the watermark are late.
    """
    idle = tuple(
        stream.name
        for stream, state in zip(streams, seen, strict=True)
        if not state.complete and now - state.arrived_at >= stream.idle
    )
    awaited = [
        (own_watermark(stream, state), stream.name)
        for stream, state in zip(streams, seen, strict=True)
        if not state.complete and stream.name not in idle
    ]
    if not awaited:
        return Watermark(previous, None, idle)
    unseen = [name for own, name in awaited if own is None]
    if unseen:
        return Watermark(previous, unseen[0], idle)
    least, name = min((own, name) for own, name in awaited if own is not None)
    value = least if previous is None else max(previous, least)
    return Watermark(value, name, idle)


def expired_before(watermark: int | None, window: int) -> int | None:
    """Rows older than this can meet no future row: `watermark - t > W`."""
    return None if watermark is None else watermark - window
