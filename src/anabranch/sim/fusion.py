"""The fusion operator: collects results, and delivers each epoch's once, whole."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import simpy

from anabranch.sim.messages import Commit, Committed, Reset, Results
from anabranch.sim.network import DIFFUSION, FUSION, Network
from anabranch.sim.tuples import Ints


@dataclass
class _Waiting:
    """Results of one epoch and attempt that are not delivered yet."""

    messages: int = 0
    expected: int | None = None
    count: int = 0
    ids: list[Ints] = field(default_factory=list)


class Fusion:
    """Takes results in any order; what belongs to an attempt that was given up is forgotten."""

    def __init__(self, env: simpy.Environment, network: Network) -> None:
        self._env, self._network = env, network
        self._attempt = 0
        self._waiting: dict[tuple[int, int], _Waiting] = defaultdict(_Waiting)
        self._committed: set[int] = set()
        self.delivered: list[Ints] = []
        self.results = 0
        self.made: dict[int, int] = defaultdict(int)
        """Results by the second in which they came in."""
        self.waited: dict[int, float] = defaultdict(float)
        """By second, the sum of the times from a row's arrival to its results."""

    def receive(self, source: int, message: Any) -> None:
        if isinstance(message, Reset):
            self._attempt = message.attempt
            for key in [key for key in self._waiting if key[1] < message.attempt]:
                del self._waiting[key]
            return
        order = message.order
        if order.attempt < self._attempt:
            return
        if order.epoch in self._committed:
            if isinstance(message, Commit):  # it was not heard of the first time
                self._tell(order.epoch)
            return
        waiting = self._waiting[order.epoch, order.attempt]
        if isinstance(message, Results):
            self._note(message)
            waiting.messages += 1
            waiting.count += message.count
            if message.ids is not None:
                waiting.ids.append(message.ids)
        else:
            assert isinstance(message, Commit)
            waiting.expected = message.results
        if waiting.messages == waiting.expected:
            self._deliver(order.epoch, waiting)
            del self._waiting[order.epoch, order.attempt]

    def _note(self, message: Results) -> None:
        second = int(self._env.now)
        self.made[second] += message.count
        self.waited[second] += self._env.now * message.count - message.arrivals

    def _deliver(self, epoch: int, waiting: _Waiting) -> None:
        self._committed.add(epoch)
        self.results += waiting.count
        self.delivered += waiting.ids
        self._tell(epoch)

    def _tell(self, epoch: int) -> None:
        self._network.send(FUSION, DIFFUSION, Committed(epoch))

    def answer(self, streams: int) -> Ints:
        """All results that were delivered, one row each."""
        if not self.delivered:
            return np.empty((0, streams), np.int64)
        return np.concatenate(self.delivered)
