"""An epoch: the rows of a stretch of time, the plan for them, and how far it has come."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from anabranch.kernel.order import Step
from anabranch.routing.base import Plan, Router, Situation
from anabranch.sim.messages import Order, Unit
from anabranch.sim.tuples import Tuples


@dataclass
class Progress:
    """How much of an epoch is done in the attempt under way.

    The messages of a stage are all known once every message of the stage before is dealt with. So
    an epoch is over when, stage after stage, as many are dealt with as were sent.
    """

    order: Order | None = None
    sent: list[int] = field(default_factory=lambda: [0])
    done: list[int] = field(default_factory=lambda: [0])
    units: list[Unit] = field(default_factory=list)
    """Cycles of a ring that have not ended."""
    results: int = 0
    reports: list[Mapping[str, Any]] = field(default_factory=list)
    begun: bool = False
    dispatched: bool = False
    """Whether all that the diffusion operator has to send is sent."""

    def dealt_with(self, stage: int, messages: int, spawned: int) -> None:
        while len(self.sent) <= stage + 1:
            self.sent.append(0)
            self.done.append(0)
        self.done[stage] += messages
        self.sent[stage + 1] += spawned

    @property
    def over(self) -> bool:
        return self.dispatched and not self.units and self.sent == self.done


@dataclass(eq=False)
class Epoch:
    """What a micro-batch is on Spark. Its plan is made once, however often it is tried."""

    number: int
    rows: Mapping[int, Tuples]
    situation: Situation
    router: Router
    plan: Plan
    steps: tuple[tuple[Step, ...], ...]
    along: tuple[tuple[Step, ...], ...]
    ring: tuple[int, ...]
    """The hosts that it goes round, if it does."""
    pairs: float = 0.0
    """Pairs that its router expects to be compared."""
    quiet: bool = False
    """Whether its rows are only kept, and look for nobody: windows are filled in this way."""
    progress: Progress = field(default_factory=Progress)
    committed: bool = False

    @property
    def settled(self) -> bool:
        """Delivered, and not being repeated: then its rows may still be on their way."""
        return self.committed and (self.progress.over or not self.progress.begun)

    @property
    def size(self) -> int:
        return sum(map(len, self.rows.values()))

    def order(self, attempt: int, safe: int | None) -> Order:
        return Order(self.number, attempt, self.plan, self.steps, self.along, safe, self.ring)
