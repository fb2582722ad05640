"""Decisions as events: what was decided, why, and what is expected of it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any


@dataclass(frozen=True)
class Event:
    """One decision of a policy. `gain` is a prediction, in `unit`; None where there is none."""

    kind: str
    """election, segment, length; placement, route; boundary, ring, move; gather, switch, resize,
    hosts"""
    why: str
    what: Mapping[str, Any] = field(default_factory=dict)
    gain: float | None = None
    unit: str = ""

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)
