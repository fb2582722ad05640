"""How far event time has come: the point behind which no row is expected any more."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from anabranch.model.query import Stream


@dataclass(frozen=True)
class Seen:
    """What has been seen of one stream: its greatest time, and for how long it has been silent.

    A complete stream (a bounded input that has been read whole) holds nothing back.
    """

    greatest: int | None
    silent: int = 0
    """Batches in a row, up to the last one, to which the stream's source gave nothing."""
    waited: int = 0
    """Microseconds between those batches in which the run had nothing to do but wait.

    Neither the time of batches counts, nor the wait before the first of them: the source may
    have had rows then that nobody had asked it for. The last batch has asked it: it had none.
    """
    complete: bool = False

    def after(self, greatest: int | None, waited: int, *, gave: bool, complete: bool) -> Seen:
        """The same after a batch that began when the run had waited for so long."""
        known = [time for time in (self.greatest, greatest) if time is not None]
        latest = max(known, default=None)
        if gave:
            return Seen(latest, complete=complete)
        since = self.waited + waited if self.silent else 0
        return Seen(latest, self.silent + 1, since, complete)


@dataclass(frozen=True)
class Watermark:
    """The watermark, which stream holds it back, and which ones are idle."""

    value: int | None
    held_back_by: str | None
    idle: tuple[str, ...]


def own_watermark(stream: Stream, seen: Seen) -> int | None:
    """The watermark of one stream alone: its greatest time less its lateness."""
    return None if seen.greatest is None else seen.greatest - stream.lateness


def is_idle(stream: Stream, seen: Seen) -> bool:
    """Whether the run goes on without a stream: only where its `idle` time says so."""
    silent = seen.silent > 0 and not seen.complete
    return silent and stream.idle is not None and seen.waited >= stream.idle


def advance(streams: Sequence[Stream], seen: Sequence[Seen], previous: int | None) -> Watermark:
    """The least watermark of the streams that are not idle or complete; it never goes back.

    A stream that is idle does not count until it gives rows again; those that are then behind
    the watermark are late.
    """
    both = list(zip(streams, seen, strict=True))
    idle = tuple(stream.name for stream, state in both if is_idle(stream, state))
    awaited = [
        (own_watermark(stream, state), stream.name)
        for stream, state in both
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


def held_by_silence(
    streams: Sequence[Stream], seen: Sequence[Seen], previous: int | None
) -> tuple[tuple[str, ...], int | None]:
    """The silent streams that hold the watermark back, and what it would be without them."""
    going = [replace(state, complete=state.complete or state.silent > 0) for state in seen]
    without = advance(streams, going, previous).value
    holding = []
    for stream, state in zip(streams, seen, strict=True):
        own = own_watermark(stream, state)
        waits = state.silent > 0 and not state.complete and not is_idle(stream, state)
        if waits and without is not None and (own is None or own < without):
            holding.append(stream.name)
    return tuple(holding), without


def expired_before(watermark: int | None, window: int) -> int | None:
    """Rows older than this can meet no future row: `watermark - t > W`."""
    return None if watermark is None else watermark - window
