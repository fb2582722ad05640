"""Routing: every joinable combination meets on exactly one host, once.

A router sees segments, never tuples, and answers with a share of the work for each host. The
driver asks once a batch, after the batch's rows have become segments and before any is joined.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

from anabranch.state.segment import SegmentRef

Segments = Sequence[Sequence[SegmentRef]]
"""Segments of each stream, by its position."""


@dataclass(frozen=True)
class Share:
    """What one host joins: segments, and of them the partition groups that are its own."""

    host: int
    old: tuple[tuple[SegmentRef, ...], ...]
    new: tuple[tuple[SegmentRef, ...], ...]
    groups: tuple[tuple[int, int], ...] | None = None
    """Ranges of groups, first and one past the last; None for whole segments."""


class Router(Protocol):
    """One strategy."""

    name: str

    def route(self, old: Segments, new: Segments) -> list[Share]:
        """Divide the join of `new` with `old` and with itself over the hosts."""

    def snapshot(self) -> Mapping[str, Any]:
        """What a restart must know to decide alike; goes into the manifest."""


def frozen(segments: Segments) -> tuple[tuple[SegmentRef, ...], ...]:
    """Segments as they are now, for a decision to keep."""
    return tuple(tuple(refs) for refs in segments)
