"""The account of a host's work."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from anabranch.kernel.tally import Tally


@dataclass
class Doing:
    """What a host does for one message, counted as the join tasks on Spark count it."""

    host: int
    hop: int
    cpu: float = 0.0
    sending: float = 0.0
    results: int = 0
    counts: Counter[str] = field(default_factory=Counter)
    found: Counter[str] = field(default_factory=Counter)
    tally: Tally = field(default_factory=Tally)

    def report(self) -> dict[str, Any]:
        return {
            **self.tally.to_dict(),
            "host": self.host,
            "hop": self.hop,
            "cpu": self.cpu,
            "sending": self.sending,
            "fetched": 0,
            "counts": self.counts,
            "found": self.found,
        }
