"""What a run leaves behind to look at."""

from __future__ import annotations

from dataclasses import dataclass, field

from anabranch.adapt.events import Event
from anabranch.routing.base import Plan
from anabranch.sim.tuples import Tuples


@dataclass
class History:
    """Decisions, events and counts of one run."""

    plans: list[Plan] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    told: list[tuple[float, str]] = field(default_factory=list)
    late: int = 0
    taken: list[list[Tuples]] = field(default_factory=list)
    """Rows of each stream that were not late: what the answer is about."""
    processed: int = 0
    """Rows whose epochs are committed."""
    resets: int = 0
    routing: float = 0.0
    """Real seconds that the router took: it is the one thing here that is not simulated."""
