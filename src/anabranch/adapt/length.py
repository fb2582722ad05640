"""LD07's search for the segment length: sample `T ± ΔT`, and climb while performance improves.

Longer segments are copied less, shorter ones balance better; where the best lies depends on the
query, the rates and the machines, so it is measured.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

STEADY, UP, DOWN = "steady", "up", "down"


@dataclass
class LengthSearch:
    """One search over time. `measured` is called with the performance of each batch."""

    length: int
    least: int = 1
    step: float = 0.5
    """ΔT, as a part of the length."""
    batches: int = 3
    """How many batches a length is tried for; the best of them counts, as noise only slows."""
    better: float = 1.05
    """By how much a length must do better to be taken."""
    rest: int = 40
    """How many batches until the next search, once a length is found."""
    _phase: str = UP
    _base: int = 0
    _best: float = 0.0
    _seen: list[float] = field(default_factory=list)
    _moved: bool = False
    _waited: int = 0

    def __post_init__(self) -> None:
        self._base = self._base or self.length

    def measured(self, performance: float) -> str | None:
        """Take in a batch; a sentence, if the length changes because of it."""
        if self._phase == STEADY:
            self._waited += 1
            if self._waited >= self.rest:
                self._begin()
            return None
        self._seen.append(performance)
        if len(self._seen) < self.batches:
            return None
        reached, self._seen = max(self._seen), []
        if not self._best:
            self._best = reached
            return self._try(UP, "the first sample")
        if reached > self.better * self._best:
            why = f"{reached:,.0f} rows/s, after {self._best:,.0f}"
            self._base, self._best, self._moved = self.length, reached, True
            return self._try(self._phase, why)
        if self._phase == UP and not self._moved:
            return self._try(DOWN, f"longer gave {reached:,.0f} rows/s, not {self._best:,.0f}")
        self._phase, self._waited = STEADY, 0
        return self._to(self._base, f"{self._best:,.0f} rows/s is the most that was seen")

    def _begin(self) -> None:
        self._phase, self._base, self._best, self._moved = UP, self.length, 0.0, False
        self._seen, self._waited = [], 0

    def _try(self, phase: str, why: str) -> str | None:
        self._phase = phase
        factor = 1 + self.step if phase == UP else 1 / (1 + self.step)
        return self._to(max(round(self._base * factor), self.least), why)

    def _to(self, length: int, why: str) -> str | None:
        if length == self.length:
            return None
        self.length = length
        return why

    def snapshot(self) -> dict[str, Any]:
        return asdict(self)

    @staticmethod
    def restored(saved: Mapping[str, Any]) -> LengthSearch:
        return LengthSearch(**saved)
