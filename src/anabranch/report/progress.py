"""Progress: the numbers of a run after its last batch, as one plain dictionary."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from anabranch.kernel.tally import Tally
from anabranch.model.duration import readable
from anabranch.model.query import Query
from anabranch.model.watermark import advance, expired_before, held_by_silence, own_watermark
from anabranch.report.lateness import late_rows_of
from anabranch.state.manifest import Manifest, without_expired

COUNTED = ("arrived", "filtered", "null_time", "null_key", "late", "dead")
"""What is counted of the rows of each stream."""


def readable_time(microseconds: int | None) -> str | None:
    """A time as ISO text; None for none."""
    if microseconds is None:
        return None
    try:
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)).isoformat()
    except OverflowError:
        return f"{microseconds} µs since 1970"


def progress(
    query: Query, manifest: Manifest, under_way: Mapping[str, Any] | None = None
) -> dict[str, Any]:
    """Totals since the checkpoint began; `seconds` and `results` are those of the last batch.

    `under_way` is the batch that is not committed yet: see `report/under_way.py`.
    """
    counters = manifest.counters
    mark = advance(query.streams, manifest.seen, manifest.watermark)
    live = manifest.live_rows
    streams: dict[str, Any] = {}
    for position, stream in enumerate(query.streams):
        counted: Mapping[str, int] = counters.get("streams", {}).get(stream.name, {})
        own = own_watermark(stream, manifest.seen[position])
        streams[stream.name] = {
            **{name: counted.get(name, 0) for name in COUNTED},
            "live": live[position],
            "window": readable(stream.latest),
            "watermark": readable_time(own),
            "idle": stream.name in mark.idle,
            "silent": manifest.seen[position].silent,
        }
    tally = Tally()
    if "tally" in counters:
        tally.add(counters["tally"])
    return {
        "batch": manifest.batch,
        "batches": counters.get("batches", 0),
        "seconds": counters.get("seconds", 0.0),
        "phases": dict(counters.get("phases", {})),
        "results": counters.get("results", 0),
        "results_total": tally.results,
        "under_way": None if under_way is None else dict(under_way),
        "strategy": manifest.policy.get("strategy"),
        "hosts": manifest.policy.get("hosts", 0),
        "diffusion": dict(counters.get("diffusion", {})),
        "events": list(counters.get("events", [])),
        "orders": manifest.policy.get("orders", {}),
        "watermark": readable_time(manifest.watermark),
        "held_back_by": mark.held_back_by,
        "held_by_silence": _held_by_silence(query, manifest),
        "state_rows": sum(live),
        "state_bytes": sum(ref.bytes for refs in manifest.segments for ref in refs),
        "segments": sum(len(refs) for refs in manifest.segments),
        "late": late_rows_of(query.streams, streams, counters.get("lateness", {})),
        "streams": streams,
        "terms": {
            term.text: {
                "reach": tally.reach[position],
                "compared": tally.compared[position],
                "matched": tally.matched[position],
            }
            for position, term in enumerate(query.terms)
        },
        "multiplying": [
            {**entry, "time": readable_time(entry["time"])} for entry in tally.multiplying
        ],
    }


def _held_by_silence(query: Query, manifest: Manifest) -> dict[str, Any]:
    """The state that would have expired, had the streams that are silent now not held it."""
    names, watermark = held_by_silence(query.streams, manifest.seen, manifest.watermark)
    held = [
        ref
        for refs, window in zip(manifest.segments, query.windows, strict=True)
        for ref in set(refs) - set(without_expired(refs, expired_before(watermark, window)))
    ]
    return {
        "streams": list(names),
        "rows": sum(ref.rows for ref in held) if names else 0,
        "bytes": sum(ref.bytes for ref in held) if names else 0,
    }
