"""Machines and links: how fast they are, and what a tuple costs them."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from anabranch.adapt.load import Usage

WINDOW_ROWS = 375
"""Rows of a window in LD07's Figure 11: 12.5 tuples a second for 30 s."""
MEAN_MIPS = 3000.0
"""The mean of LD07's hosts: on such a host costs are as stated."""
MEGABYTE = 1 << 20
MEGABIT = 1e6 / 8


@dataclass(frozen=True)
class Costs:
    """CPU seconds of a host of average speed, and the size of a tuple; LD07's by default.

    LD07 gives 1 ms to send or receive a tuple and 10 ms for "one join probing". A probing is taken
    to be that of one tuple with a whole window of its Figure 11; `by_probing` is the other way to
    read it.
    """

    send: float = 1e-3
    receive: float = 1e-3
    pair: float = 10e-3 / WINDOW_ROWS
    """To compare two tuples."""
    result: float = 1e-3
    """To send a result to the fusion operator."""
    tuple_bytes: int = 1000
    probe: float = 0.0
    """To look for partners among the rows of a stream that a host has, if any is in reach."""

    @staticmethod
    def by_probing() -> Costs:
        """LD07's costs, where a probing of what a host has takes 10 ms, however much that is."""
        return Costs(pair=0.0, probe=10e-3)

    def probing(self, probes: int, pairs: int) -> float:
        return probes * self.probe + pairs * self.pair

    @property
    def visit(self) -> float:
        """To send a combination to one more host."""
        return self.send + self.receive + self.probe

    @property
    def of_a_pair(self) -> float:
        """What a pair costs, if all of a window's rows are probed at once."""
        return self.pair + self.probe / WINDOW_ROWS


FREE = Costs(0.0, 0.0, 0.0, 0.0)


@dataclass(frozen=True)
class Machine:
    """A host."""

    mips: float = MEAN_MIPS
    memory: float = 1000.0
    """Megabytes."""

    @property
    def speed(self) -> float:
        return self.mips / MEAN_MIPS


@dataclass(frozen=True)
class Wire:
    """A link in one direction: messages arrive in the order they were sent."""

    mbps: float = 1000.0
    latency: float = 1e-4


@dataclass(frozen=True)
class Hardware:
    """A cluster to be. Links are drawn from a range, each the same whenever it is asked for."""

    machines: tuple[Machine, ...]
    costs: Costs = field(default_factory=Costs)
    mbps: tuple[float, float] = (1000.0, 1000.0)
    latency: tuple[float, float] = (1e-4, 1e-4)
    seed: int = 0

    def wire(self, source: int, target: int) -> Wire:
        if self.mbps[0] == self.mbps[1] and self.latency[0] == self.latency[1]:
            return Wire(self.mbps[0], self.latency[0])
        random = np.random.default_rng([self.seed, source + 2, target + 2])
        return Wire(random.uniform(*self.mbps), random.uniform(*self.latency))

    def capacities(self) -> dict[int, Usage]:
        """What the load model may know of the hosts (LD07, Eq. 1)."""
        bandwidth = sum(self.mbps) / 2 * MEGABIT
        return {
            host: Usage(machine.speed, machine.memory * MEGABYTE, bandwidth)
            for host, machine in enumerate(self.machines)
        }


def ld07(hosts: int, seed: int, costs: Costs | None = None) -> Hardware:
    """LD07's simulated cluster: 1000 to 5000 MIPS, 500 to 1000 MB, 100 to 1000 Mbps."""
    random = np.random.default_rng([seed, 7])
    machines = tuple(
        Machine(random.uniform(1000, 5000), random.uniform(500, 1000)) for _ in range(hosts)
    )
    return Hardware(machines, costs or Costs(), (100.0, 1000.0), (1e-4, 1e-3), seed)


def even(hosts: int, costs: Costs | None = None) -> Hardware:
    """Equal hosts and equal links of a gigabit."""
    return Hardware((Machine(),) * hosts, costs or Costs())


def free(hosts: int) -> Hardware:
    """Hardware that takes no time at all."""
    return Hardware((Machine(),) * hosts, FREE, (1e12, 1e12), (0.0, 0.0))
