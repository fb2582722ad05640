"""The manifest: what is true after a batch. Whatever no manifest names does not exist."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from anabranch.model.watermark import Seen
from anabranch.state.segment import SegmentRef

NO_BATCH = -1


@dataclass(frozen=True)
class Manifest:
    """Live segments of each stream, how far time has come, and everything counted so far."""

    batch: int
    segments: tuple[tuple[SegmentRef, ...], ...]
    seen: tuple[Seen, ...]
    watermark: int | None = None
    counters: Mapping[str, Any] = field(default_factory=dict)
    policy: Mapping[str, Any] = field(default_factory=dict)
    """What the strategy and the probe order have learned; the restarted batch decides alike."""
    digest: str = ""
    """Of Spark's file of the batch's offsets; empty where all inputs are static."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Spark's files of what its sources have read, with their digests."""
    dead: tuple[SegmentRef, ...] = ()
    """Rows that the batch set aside; they are there until the next batch is committed."""

    @property
    def live_rows(self) -> tuple[int, ...]:
        return tuple(sum(ref.rows for ref in refs) for refs in self.segments)

    def paths(self) -> frozenset[str]:
        return frozenset(ref.path for ref in self.named())

    def named(self) -> list[SegmentRef]:
        """All segments that are there because of this manifest."""
        return [*(ref for refs in self.segments for ref in refs), *self.dead]

    def to_json(self) -> str:
        return json.dumps(
            {
                "batch": self.batch,
                "segments": [[ref.to_dict() for ref in refs] for refs in self.segments],
                "seen": [asdict(seen) for seen in self.seen],
                "watermark": self.watermark,
                "counters": self.counters,
                "policy": self.policy,
                "digest": self.digest,
                "sources": self.sources,
                "dead": [ref.to_dict() for ref in self.dead],
            }
        )

    @staticmethod
    def from_json(text: str | bytes) -> Manifest:
        data = json.loads(text)
        return Manifest(
            data["batch"],
            tuple(tuple(SegmentRef(**ref) for ref in refs) for refs in data["segments"]),
            tuple(Seen(**seen) for seen in data["seen"]),
            data["watermark"],
            data["counters"],
            data["policy"],
            data["digest"],
            data["sources"],
            tuple(SegmentRef(**ref) for ref in data["dead"]),
        )

    @staticmethod
    def empty(streams: int) -> Manifest:
        """Before the first batch."""
        return Manifest(NO_BATCH, ((),) * streams, (Seen(None),) * streams)


def without_expired(refs: Sequence[SegmentRef], horizon: int | None) -> tuple[SegmentRef, ...]:
    """The segments that a future row can still meet."""
    return tuple(ref for ref in refs if horizon is None or ref.last >= horizon)
