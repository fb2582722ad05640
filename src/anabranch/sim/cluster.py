"""The machines of a run, wired up."""

from __future__ import annotations

from dataclasses import dataclass

import simpy

from anabranch.sim.hardware import Hardware
from anabranch.sim.host import JoinHost
from anabranch.sim.network import Network
from anabranch.sim.probing import Prober


@dataclass(frozen=True)
class Cluster:
    """Hosts, the network between them, and the clock that all of it goes by."""

    env: simpy.Environment
    hardware: Hardware
    network: Network
    hosts: list[JoinHost]

    @staticmethod
    def of(hardware: Hardware, prober: Prober) -> Cluster:
        env = simpy.Environment()
        network = Network(env, hardware)
        hosts = []
        for number, machine in enumerate(hardware.machines):
            hosts.append(JoinHost(number, machine, env, network, prober))
            network.attach(number, hosts[-1])
        return Cluster(env, hardware, network, hosts)
