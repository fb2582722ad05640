"""Late rows: how many there are, and which lateness would have kept them.

With `G_k` the greatest time of stream `k` before a batch, and `L_k` its lateness, the watermark of
the batch is at most `G_k - L_k`, for each stream that was never idle. So a row of any stream with
time `t` is kept if one stream has a lateness of at least `G_k - t`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anabranch.model.duration import readable
from anabranch.model.query import Stream
from anabranch.model.watermark import Seen, is_idle

SECOND = 1_000_000

Needed = Mapping[str, int | None]
"""By stream, the lateness that would have kept every late row; None where none would have."""


def needed_after(
    needed: Needed, streams: Sequence[Stream], seen: Sequence[Seen], earliest: int | None
) -> dict[str, int | None]:
    """The same after a batch whose earliest late row has this time; None: it had no late row.

    `seen` is what had been seen before the batch. A stream that was idle does not bound the
    watermark, which may have gone on without it.
    """
    after: dict[str, int | None] = {}
    for stream, state in zip(streams, seen, strict=True):
        least = needed.get(stream.name, 0)
        if state.complete or is_idle(stream, state) or least is None:
            after[stream.name] = None
        elif earliest is None or state.greatest is None:
            after[stream.name] = least
        else:
            after[stream.name] = max(least, state.greatest - earliest)
    return after


def late_rows_of(
    streams: Sequence[Stream], counted: Mapping[str, Mapping[str, int]], needed: Needed
) -> dict[str, Any]:
    """Late rows in all, their share, and the smallest change of one lateness that keeps them."""
    late = sum(counts["late"] for counts in counted.values())
    arrived = sum(counts["arrived"] for counts in counted.values())
    changes = [
        (lateness - stream.lateness, position)
        for position, stream in enumerate(streams)
        if (lateness := needed.get(stream.name)) is not None
    ]
    found: dict[str, Any] = {"rows": late, "share": late / max(arrived, 1)}
    if late and changes:
        stream = streams[min(changes)[1]]
        lateness = needed[stream.name]
        assert lateness is not None
        found |= {
            "stream": stream.name,
            "lateness": readable(_whole_seconds(lateness)),
            "lateness_now": readable(stream.lateness),
        }
    return found


def greatest_share(counted: Mapping[str, Mapping[str, int]]) -> float:
    """The share of late rows of the stream that has the greatest."""
    return max(counts["late"] / max(counts["arrived"], 1) for counts in counted.values())


def late_sentence(progress: Mapping[str, Any]) -> str | None:
    """What there is to say of late rows; None where there are none."""
    late = progress["late"]
    if not late["rows"]:
        return None
    arrived = sum(s["arrived"] for s in progress["streams"].values())
    of_each = ", ".join(
        f"{s['late']:,} of {name}" for name, s in progress["streams"].items() if s["late"]
    )
    share = f"{late['share']:.1%}".replace("%", " %") if late["share"] >= 0.001 else "< 0.1 %"
    counts = (
        f"{share} of the rows ({late['rows']:,} of {arrived:,}: {of_each}) came behind the "
        "watermark and were not joined."
    )
    if "stream" not in late:
        return (
            f"{counts} No lateness alone would have kept them all, since streams were idle: raise "
            "their idle time, or leave it out."
        )
    return (
        f"{counts} A lateness of {late['lateness']} on {late['stream']} alone would have kept them "
        f"all (it has {late['lateness_now']})."
    )


def _whole_seconds(duration: int) -> int:
    """Rounded up, if it is longer than a second: nobody sets a lateness to the microsecond."""
    return duration if duration < SECOND else -(-duration // SECOND) * SECOND
