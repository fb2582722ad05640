"""Links between the operators: in order, and each message taken once however often it comes."""

from __future__ import annotations

from collections import deque
from collections.abc import Generator
from typing import Any, Protocol

import simpy

from anabranch.sim.hardware import MEGABIT, Hardware, Wire

Waits = Generator[simpy.Event, Any, None]
"""A process: what it waits for, one event after the other."""

DIFFUSION, FUSION = -1, -2
"""Where tuples come from and results go to; hosts are numbered from 0."""

_REMEMBERED = 4
"""Messages of a link that a reconnect may deliver again."""


class Node(Protocol):
    """An end of links."""

    def receive(self, source: int, message: Any) -> None:
        """Take a message that has arrived."""


class Link:
    """One direction between two operators: first in, first out."""

    def __init__(self, env: simpy.Environment, wire: Wire, source: int, target: Node) -> None:
        self._env, self._wire, self._source, self._target = env, wire, source, target
        self._free = 0.0
        self._arrival = 0.0
        self._sent = 0
        self._under_way: deque[tuple[int, Any]] = deque()
        self._recent: deque[tuple[int, Any]] = deque(maxlen=_REMEMBERED)

    def send(self, message: Any, size: float) -> None:
        """Put a message on its way; `size` in bytes."""
        self._sent += 1
        now = self._env.now
        self._free = max(self._free, now) + size / (self._wire.mbps * MEGABIT)
        self._arrival = max(self._arrival, self._free + self._wire.latency)
        self._recent.append((self._sent, message))
        self._under_way.append((self._sent, message))
        self._deliver(self._sent, self._arrival - now)

    def stall(self, seconds: float) -> None:
        """Nothing that is sent from now on arrives before so many seconds have passed."""
        self._arrival = max(self._arrival, self._env.now + seconds)

    def reconnect(self) -> None:
        """The last messages come again: their sender has not heard that they arrived."""
        for number, _ in self._recent:
            self._arrival = max(self._arrival, self._env.now + self._wire.latency)
            self._deliver(number, self._arrival - self._env.now)

    def _deliver(self, number: int, delay: float) -> None:
        arrival = self._env.timeout(delay)
        assert arrival.callbacks is not None
        arrival.callbacks.append(lambda _: self._arrived(number))

    def _arrived(self, number: int) -> None:
        """Take what was sent up to here, in that order; what comes again was taken before."""
        while self._under_way and self._under_way[0][0] <= number:
            self._target.receive(self._source, self._under_way.popleft()[1])


class Network:
    """All links of a cluster, made when they are first used."""

    def __init__(self, env: simpy.Environment, hardware: Hardware) -> None:
        self._env, self._hardware = env, hardware
        self.costs = hardware.costs
        self._nodes: dict[int, Node] = {}
        self._links: dict[tuple[int, int], Link] = {}
        self.messages = 0
        self.tuples = 0
        """Sent so far, without results."""

    def attach(self, number: int, node: Node) -> None:
        self._nodes[number] = node

    def link(self, source: int, target: int) -> Link:
        known = self._links.get((source, target))
        if known is None:
            wire = self._hardware.wire(source, target)
            known = Link(self._env, wire, source, self._nodes[target])
            self._links[source, target] = known
        return known

    def send(self, source: int, target: int, message: Any, tuples: int = 0) -> None:
        """Send a message with so many tuples in it. A host that sends to itself sends nothing."""
        if source == target:
            self._nodes[target].receive(source, message)
            return
        self.messages += 1
        if target != FUSION:
            self.tuples += tuples
        self.link(source, target).send(message, tuples * self.costs.tuple_bytes)
