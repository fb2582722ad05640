"""What goes wrong in a cluster: hosts crash and return, links stall and repeat, clocks drift."""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.sim.cluster import Cluster
from anabranch.sim.history import History
from anabranch.sim.messages import Back
from anabranch.sim.network import DIFFUSION, Waits

KINDS = ("crash", "stall", "repeat", "drift")


@dataclass(frozen=True)
class Fault:
    """Something that happens at a time, to a host, or to the link from one operator to another."""

    at: float
    kind: str
    host: int
    other: int = DIFFUSION
    seconds: float = 1.0
    """How long a host is down or a link stalls; for a drift, what the clock shows of a second."""

    def __str__(self) -> str:
        where = f"host {self.host}"
        if self.kind in ("stall", "repeat"):
            where = f"link {self.other} -> {self.host}"
        return f"{self.at:.2f} s: {self.kind} of {where} ({self.seconds:.2f})"


def inflict(fault: Fault, cluster: Cluster, history: History) -> Waits:
    """Let a fault happen when its time has come."""
    env, network = cluster.env, cluster.network
    yield env.timeout(fault.at)
    history.told.append((env.now, str(fault)))
    host = cluster.hosts[fault.host]
    if fault.kind == "crash":
        if host.up:
            host.crash()
            yield env.timeout(fault.seconds)
            host.come_back()
            network.send(fault.host, DIFFUSION, Back(fault.host, host.life))
    elif fault.kind == "stall":
        network.link(fault.other, fault.host).stall(fault.seconds)
    elif fault.kind == "repeat":
        network.link(fault.other, fault.host).reconnect()
    elif fault.kind == "drift":
        host.clock_rate = fault.seconds
    else:
        raise AssertionError(f"there is no fault {fault.kind!r}")
