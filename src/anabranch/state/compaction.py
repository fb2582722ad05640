"""Which small segments to merge, so that a probe visits few of them.

Segments that lie next to each other in time are merged while the result stays small, both in
rows and in the time it spans: a merged segment expires only when its last row does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from anabranch.state.segment import SegmentRef


@dataclass(frozen=True)
class Compaction:
    """When and how far to merge."""

    fewest: int = 8
    """Merge only runs of at least this many segments: it is rewriting that costs."""
    rows: int = 200_000
    """No merged segment is larger than this."""
    parts: int = 4
    """No merged segment spans more than this part of its stream's window."""

    def choose(self, refs: Sequence[SegmentRef], window: int) -> tuple[SegmentRef, ...]:
        """One run of neighbours worth merging now, oldest first; empty where there is none."""
        ordered = sorted(refs, key=lambda ref: (ref.first, ref.last, ref.path))
        for start in range(len(ordered)):
            run: list[SegmentRef] = []
            rows = 0
            last = ordered[start].last
            for ref in ordered[start:]:
                last = max(last, ref.last)
                span = last - ordered[start].first
                if rows + ref.rows > self.rows or span > max(window // self.parts, 1):
                    break
                run.append(ref)
                rows += ref.rows
            if len(run) >= self.fewest:
                return tuple(run)
        return ()
