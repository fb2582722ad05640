"""Looking on while a join goes on: a batch that explodes must not do so in the dark."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from anabranch.kernel.base import Rows
from anabranch.kernel.partial import Partial
from anabranch.kernel.tally import Tally, described_row
from anabranch.model.query import Query

EVERY = 2.0
"""Seconds from one look to the next: a batch that takes less is never looked at."""


@dataclass
class Watch:
    """Says when two more seconds are over; to ask costs no more than to look at a clock."""

    clock: Callable[[], float] = time.monotonic
    _next: float = field(init=False)

    def __post_init__(self) -> None:
        self._next = self.clock() + EVERY

    def is_due(self) -> bool:
        now = self.clock()
        if now < self._next:
            return False
        self._next = now + EVERY
        return True


@dataclass
class Onlooker(Watch):
    """Passes on how far a join has come."""

    tell: Callable[[Mapping[str, Any]], None] = field(kw_only=True)

    def look(self, query: Query, tally: Tally, partial: Partial, probes: Rows) -> None:
        """Tell what is counted so far, and for which row most of these candidates are compared."""
        self.tell(
            {
                "results": tally.results,
                "compared": sum(tally.compared.values()),
                "multiplying": tally.multiplying,
                "comparing": _most_compared(query, partial, probes),
            }
        )


def _most_compared(query: Query, partial: Partial, probes: Rows) -> list[dict[str, Any]]:
    """The row from which most of these candidates set out."""
    if not len(probes):
        return []
    start, refs = next(iter(partial.refs.items()))
    of_block = np.zeros(len(refs), np.int64) if refs.which is None else refs.which
    places = np.stack([of_block[probes], refs.rows[probes]])
    distinct, counts = np.unique(places, axis=1, return_counts=True)
    most = int(counts.argmax())
    block, row = refs.blocks[int(distinct[0, most])], int(distinct[1, most])
    return [described_row(query, start, block, row, int(counts[most]))]
