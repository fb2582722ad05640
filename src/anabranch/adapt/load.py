"""How busy each host is: LD07's load value, from what was measured.

    w = ω1 · cpu + ω2 · memory + ω3 · bandwidth      (Eq. 1)

Each part is usage over capacity. A simulation knows its capacities; a cluster does not say, so the
greatest usage that any host has shown stands for them, and a host that takes longer for its work
than was expected counts as that much slower. Where batches overlap, a host's CPU is as busy as the
work that it has not come to yet.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field, replace
from functools import cached_property
from typing import Any

from anabranch.errors import QueryError

_KEEP = 0.5
"""How much of what was known of a host still counts beside a new measurement."""
_FASTEST = 4.0
"""No host is taken to be more than so many times as fast, or as slow, as expected."""


@dataclass(frozen=True)
class Weights:
    """How much each resource counts. They sum to 1."""

    cpu: float = 0.8
    memory: float = 0.1
    bandwidth: float = 0.1

    def __post_init__(self) -> None:
        parts = (self.cpu, self.memory, self.bandwidth)
        if min(parts) < 0 or abs(sum(parts) - 1) > 1e-9:
            raise QueryError(
                f"the weights of cpu, memory and bandwidth are {parts}: none may be negative, "
                "and they sum to 1"
            )


@dataclass(frozen=True)
class Usage:
    """What a host used: CPU seconds and bytes moved per second, and bytes kept."""

    cpu: float = 0.0
    memory: float = 0.0
    bandwidth: float = 0.0


@dataclass
class Loads:
    """The load of every host, with the work that was placed there since it was measured."""

    hosts: int
    weights: Weights = field(default_factory=Weights)
    capacities: Mapping[int, Usage] = field(default_factory=dict)
    """Where they are known, as in a simulation."""
    _used: dict[int, Usage] = field(default_factory=dict)
    _greatest: Usage = field(default_factory=Usage)
    _placed: dict[int, float] = field(default_factory=dict)
    _waiting: Mapping[int, float] = field(default_factory=dict)
    """Work from batches before, as a part of a batch's time."""
    _pace: dict[int, float] = field(default_factory=dict)
    """CPU that a host has needed for what was expected to take 1."""

    def measured(self, host: int, usage: Usage, *, tells_pace: bool = True) -> None:
        """Take in a measurement; what was expected of the host is settled by it.

        `tells_pace` is whether it was long enough to say how fast the host is.
        """
        placed = self._placed.pop(host, 0.0)
        if tells_pace and placed > 0 and usage.cpu > 0:
            pace = min(max(usage.cpu / placed, 1 / _FASTEST), _FASTEST)
            self._pace[host] = _KEEP * self._pace.get(host, pace) + (1 - _KEEP) * pace
        before = self._used.get(host, usage)
        self._used[host] = Usage(
            _KEEP * before.cpu + (1 - _KEEP) * usage.cpu,
            _KEEP * before.memory + (1 - _KEEP) * usage.memory,
            _KEEP * before.bandwidth + (1 - _KEEP) * usage.bandwidth,
        )
        known = self._greatest
        self._greatest = Usage(
            max(known.cpu, usage.cpu),
            max(known.memory, usage.memory),
            max(known.bandwidth, usage.bandwidth),
        )

    def expect(self, host: int, cpu: float) -> None:
        """Count work that has just been given to a host, as a part of its CPU."""
        self._placed[host] = self._placed.get(host, 0.0) + cpu

    def settle(self, waiting: Mapping[int, float] | None = None) -> None:
        """A new batch begins: nothing is placed yet, and hosts are idle but for what waits."""
        self._placed.clear()
        self._waiting = waiting or {}
        self._used = {host: replace(used, cpu=0.0) for host, used in self._used.items()}

    def value(self, host: int) -> float:
        """Eq. 1."""
        used = self._used.get(host, Usage())
        capacity = self.capacities.get(host, self._greatest)
        return (
            self.weights.cpu * _ratio(used.cpu, capacity.cpu)
            + self.weights.memory * _ratio(used.memory, capacity.memory)
            + self.weights.bandwidth * _ratio(used.bandwidth, capacity.bandwidth)
            + self.weights.cpu * self.busy_with(host, 0.0)
        )

    def busy_with(self, host: int, cpu: float) -> float:
        """The part of its time that a host needs for what was placed there, and so much more."""
        placed = (self._placed.get(host, 0.0) + cpu) * self.slowness(host)
        return placed + self._waiting.get(host, 0.0)

    @property
    def mean_waiting(self) -> float:
        """Work from batches before, of the average host."""
        return sum(self._waiting.values()) / self.hosts

    def slowness(self, host: int) -> float:
        """How long a host takes for its work, of what the hosts take on average."""
        if host in self.capacities:
            return self._mean_speed / self.capacities[host].cpu
        if host not in self._pace:
            return 1.0
        return self._pace[host] * len(self._pace) / sum(self._pace.values())

    @cached_property
    def _mean_speed(self) -> float:
        return sum(known.cpu for known in self.capacities.values()) / len(self.capacities)

    def least(self, among: Iterable[int] | None = None) -> int:
        """The least-loaded host; of equals the first."""
        return min(among if among is not None else range(self.hosts), key=self._rank)

    def ordered(self) -> list[int]:
        """All hosts, the least loaded first."""
        return sorted(range(self.hosts), key=self._rank)

    def _rank(self, host: int) -> tuple[float, int]:
        return self.value(host), host

    def snapshot(self) -> dict[str, Any]:
        """For the manifest; `restore` takes it back."""
        return {
            "used": {str(host): asdict(usage) for host, usage in self._used.items()},
            "greatest": asdict(self._greatest),
            "pace": {str(host): pace for host, pace in self._pace.items()},
        }

    def restore(self, saved: Mapping[str, Any]) -> None:
        self._used = {int(host): Usage(**usage) for host, usage in saved["used"].items()}
        self._greatest = Usage(**saved["greatest"])
        self._pace = {int(host): pace for host, pace in saved["pace"].items()}


def _ratio(used: float, capacity: float) -> float:
    return used / capacity if capacity > 0 else 0.0
