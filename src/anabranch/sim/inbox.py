"""The messages that wait at a host, and which of them comes next."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from anabranch.sim.messages import Order, Passage


@dataclass(frozen=True, eq=False)
class Passages:
    """Passages of one route and hop that wait here: they are dealt with together."""

    key: tuple[Order, int, int]
    waiting: list[Passage] = field(default_factory=list)

    @property
    def epoch(self) -> int:
        return self.key[0].epoch

    @property
    def attempt(self) -> int:
        return self.key[0].attempt

    @property
    def load(self) -> int:
        return sum(passage.load for passage in self.waiting)

    @property
    def rank(self) -> tuple[int, int]:
        """The oldest first, and of one epoch what is nearest to its results."""
        return self.key[0].epoch, -self.key[2]


@dataclass(frozen=True, eq=False)
class Waiting:
    """A message, or passages together, and when it came (the first of them)."""

    message: Any
    came: float


class Inbox:
    """Messages in the order in which they came, but for passages: those are dealt with together."""

    def __init__(self) -> None:
        self._waiting: deque[Waiting] = deque()
        self._passages: dict[tuple[Order, int, int], Passages] = {}
        self.load = 0
        """Tuples that wait to be worked on."""

    def put(self, message: Any, now: float) -> None:
        self.load += message.load
        if not isinstance(message, Passage):
            self._waiting.append(Waiting(message, now))
            return
        key = (message.order, message.route, message.stage)
        together = self._passages.get(key)
        if together is None:
            together = self._passages[key] = Passages(key)
            self._waiting.append(Waiting(together, now))
        together.waiting.append(message)

    def since(self, attempt: int) -> list[Any]:
        """The messages of an attempt, and of those after it."""
        messages = (some.message for some in self._waiting if some.message.attempt >= attempt)
        return [one for message in messages for one in _each(message)]

    def next(self, attempt: int, epoch: int | None) -> Waiting | None:
        """What to deal with next: passages of the oldest epoch, then whatever came first.

        A passage may overtake what the diffusion operator has sent, on another link: it waits until
        the rows of its epoch are here, that is up to `epoch`; None not to wait. This is the
        synchronization that LD07 leaves out. Messages of attempts before are void.
        """
        first: Waiting | None = None
        oldest: Waiting | None = None
        void = []
        for some in self._waiting:
            message = some.message
            if message.attempt < attempt:
                void.append(some)
            elif message.attempt > attempt:
                continue
            elif not isinstance(message, Passages):
                first = some if first is None else first
            elif epoch is not None and message.epoch > epoch:
                continue
            elif oldest is None or message.rank < oldest.message.rank:
                oldest = some
        chosen = oldest if oldest is not None else first
        for some in void if chosen is None else (*void, chosen):
            self._remove(some)
        return chosen

    def _remove(self, some: Waiting) -> None:
        self._waiting.remove(some)
        self.load -= some.message.load
        if isinstance(some.message, Passages):
            del self._passages[some.message.key]


def _each(message: Any) -> Iterator[Any]:
    if isinstance(message, Passages):
        yield from message.waiting
    else:
        yield message
