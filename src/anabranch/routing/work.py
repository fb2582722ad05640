"""What work costs: a part of a host's time, learned from the batches before."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from anabranch.adapt.ring import Prices
from anabranch.routing.base import Measured

_KEEP = 0.7


@dataclass
class WorkRate:
    """CPU seconds per pair of rows in reach of each other, and seconds per batch.

    Pairs are those that strategies estimate. An estimate that is always too high by a factor does
    no harm: the seconds per pair come out too low by the same.
    """

    per_pair: float = 1e-8
    per_sent: float = 2e-6
    """CPU seconds to pack a row for another host, and to unpack it there."""
    per_message: float = 1e-3
    """Seconds of a batch that are no host's work, for each new row and host."""
    batch: float = 1.0
    learned: bool = False
    expected: float = 0.0
    """Pairs of the batch under way."""
    before: float = 0.0
    """Pairs of the batch before."""

    def part(self, pairs: float) -> float:
        """The part of a batch's time that comparing so many pairs will take one host."""
        self.expect(pairs)
        return self.would_take(pairs)

    def expect(self, pairs: float) -> None:
        """Note pairs that the batch under way will compare."""
        self.expected += pairs

    def would_take(self, pairs: float, sent: float = 0.0) -> float:
        """The same for pairs, and rows to send, that a plan is only considered with."""
        return (pairs * self.per_pair + sent * self.per_sent) / max(self.batch, 1e-3)

    def parts(self, seconds: Mapping[int, float]) -> dict[int, float]:
        """Seconds of work that wait on hosts, as parts of a batch's time."""
        return {host: waiting / max(self.batch, 1e-3) for host, waiting in seconds.items()}

    def measured(self, measured: Measured) -> None:
        if self.expected > 0 and measured.cpu > 0:
            idle = max(measured.seconds - measured.cpu / measured.places, 0.0)
            visits = max(measured.rows * len(measured.usage), 1)
            comparing = max(measured.cpu - measured.sending, 0.0)
            self.per_pair = self._mixed(self.per_pair, comparing / self.expected)
            self.per_message = self._mixed(self.per_message, idle / visits)
            if measured.sent:
                self.per_sent = self._mixed(self.per_sent, measured.sending / measured.sent)
            self.batch = self._mixed(self.batch, measured.seconds)
            self.learned = True
        self.before, self.expected = self.expected, 0.0

    def _mixed(self, known: float, fresh: float) -> float:
        return _KEEP * known + (1 - _KEEP) * fresh if self.learned else fresh

    @property
    def prices(self) -> Prices:
        """The same by the names of PSP09's Table 1."""
        return Prices(self.per_pair, self.per_sent, self.per_message)

    def snapshot(self) -> Mapping[str, Any]:
        return asdict(self)

    def restore(self, saved: Mapping[str, Any]) -> None:
        vars(self).update(saved)
