"""The masters of ATR, one after another: which stream is elected, and which results are whose."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from anabranch.routing.base import Box
from anabranch.routing.slices import BEGINNING, END, Range, Slices

NEAR = 1.1
"""Copies up to so many times the fewest are as good: rates are estimates."""


@dataclass(frozen=True)
class Election:
    """What an election is about: windows and rates of the streams, and the length of a segment."""

    windows: Sequence[int]
    rates: Sequence[float]
    length: int
    links: Sequence[int] = ()
    """How many terms each stream is part of."""

    def copies(self, master: int) -> float:
        """Eq. 2: extra copies of slave rows per unit of time, `Σ (W_i + W_M) / T · r_i`.

        >>> Election([10, 10], [2.0, 3.0], length=20).copies(master=0)
        3.0
        """
        return sum(
            (window + self.windows[master]) / self.length * rate
            for stream, (window, rate) in enumerate(zip(self.windows, self.rates, strict=True))
            if stream != master
        )

    def winner(self) -> int:
        """The master for which Eq. 2 is least; of near equals the one with the most terms.

        Rows find their way past the master first, if a term leads there; otherwise slaves are
        compared with each other again for every segment.
        """
        copies = [self.copies(master) for master in range(len(self.windows))]
        links = self.links or [0] * len(copies)
        near = [master for master, count in enumerate(copies) if count <= NEAR * min(copies)]
        return min(near, key=lambda master: (-links[master], copies[master], master))

    def pays(self, master: int, margin: float) -> bool:
        """Whether to change it: for clearly fewer copies, or for more terms at hardly more."""
        copies = [self.copies(stream) for stream in range(len(self.windows))]
        if min(copies) < (1 - margin) * copies[master]:
            return True
        winner, links = self.winner(), self.links or [0] * len(copies)
        return links[winner] > links[master] and copies[winner] <= NEAR * copies[master]


@dataclass(frozen=True)
class Reign:
    """A master's time: from `since` on, with its segments."""

    master: int
    since: int
    slices: Slices[int]

    def to_dict(self) -> dict[str, Any]:
        return {"master": self.master, "since": self.since, "slices": self.slices.to_dict()}

    @staticmethod
    def from_dict(saved: Mapping[str, Any]) -> Reign:
        return Reign(saved["master"], saved["since"], Slices.from_dict(saved["slices"]))


def parts(reigns: Sequence[Reign]) -> list[tuple[Box, int]]:
    """The boxes of successive masters, each with its host: they cover all, and share nothing.

    >>> reigns = [
    ...     Reign(0, BEGINNING, Slices((10,), (0, 1))),
    ...     Reign(1, 20, Slices((30,), (2, 3))),
    ... ]
    >>> for box, host in parts(reigns):
    ...     print({s: (max(f, 0), min(l, 99)) for s, (f, l) in sorted(box.items())}, host)
    {0: (0, 9)} 0
    {0: (10, 19)} 1
    {0: (20, 99), 1: (0, 19)} 1
    {0: (20, 99), 1: (20, 29)} 2
    {0: (20, 99), 1: (30, 99)} 3
    """
    boxes: list[tuple[Box, int]] = []
    left: Box = {}
    """What the reigns before leave over."""
    for position, reign in enumerate(reigns):
        following = reigns[position + 1] if position + 1 < len(reigns) else None
        until = END if following is None else following.since - 1
        for (first, last), host in reign.slices.pieces(reign.since, until):
            times = (max(first, reign.since), min(last, until))
            boxes.append((_within(left, reign.master, times), host))
        if following is not None:
            # Rows of this master after its time that meet earlier rows of the next: marked tuples.
            host = reign.slices.owner(until)
            left = _within(left, reign.master, (following.since, END))
            boxes.append((_within(left, following.master, (BEGINNING, until)), host))
    return [
        (box, host) for box, host in boxes if all(first <= last for first, last in box.values())
    ]


def _within(box: Box, stream: int, times: Range) -> Box:
    first, last = box.get(stream, (BEGINNING, END))
    return {**box, stream: (max(first, times[0]), min(last, times[1]))}
