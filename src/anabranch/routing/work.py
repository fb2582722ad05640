"""How much of a host's time a piece of work will take: learned from the batches before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from anabranch.routing.base import Measured

_KEEP = 0.7


@dataclass
class WorkRate:
    """CPU seconds per pair of rows in reach of each other, and seconds per batch.

    Pairs are those that strategies estimate. An estimate that is always too high by a factor does
    no harm: the seconds per pair come out too low by the same.
    """

    per_pair: float = 1e-8
    batch: float = 1.0
    learned: bool = False
    expected: float = 0.0
    """Pairs of the batch under way."""

    def part(self, pairs: float) -> float:
        """The part of a batch's time that comparing so many pairs takes one host."""
        self.expected += pairs
        return pairs * self.per_pair / max(self.batch, 1e-3)

    def measured(self, measured: Measured) -> None:
        if self.expected > 0 and measured.cpu > 0:
            keep = _KEEP if self.learned else 0.0
            rate = measured.cpu / self.expected
            self.per_pair = keep * self.per_pair + (1 - keep) * rate
            self.batch = keep * self.batch + (1 - keep) * measured.seconds
            self.learned = True
        self.expected = 0.0

    def snapshot(self) -> Mapping[str, Any]:
        return asdict(self)

    def restore(self, saved: Mapping[str, Any]) -> None:
        vars(self).update(saved)
