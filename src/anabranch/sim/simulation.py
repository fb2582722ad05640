"""A run on a simulated cluster, from its sources to its results."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import inf

import numpy as np

from anabranch.model.query import Query
from anabranch.routing.strategies import Strategy
from anabranch.sim.cluster import Cluster
from anabranch.sim.diffusion import Diffusion
from anabranch.sim.faults import Fault, inflict
from anabranch.sim.fusion import Fusion
from anabranch.sim.hardware import Hardware
from anabranch.sim.history import History
from anabranch.sim.network import DIFFUSION, FUSION, Waits
from anabranch.sim.pacing import Change, Pacing
from anabranch.sim.probing import Prober
from anabranch.sim.tuples import Ints, Tuples
from anabranch.sim.workload import Workload

LONGEST = 5e3
"""Seconds after which a run that should end is given up."""


@dataclass(frozen=True)
class Setup:
    """All that a run depends on: the same setup gives the same run, tuple by tuple."""

    query: Query
    strategy: Strategy
    hardware: Hardware
    workload: Workload
    hosts: int | None = None
    """Hosts in use at the beginning; None: all."""
    pacing: Pacing = field(default_factory=Pacing)
    changes: tuple[Change, ...] = ()
    faults: tuple[Fault, ...] = ()
    ahead: float = 0.0
    """Seconds of rows that wait at the beginning already: a backlog."""
    until: float | None = None
    """When to stop; None: when all is done."""
    collect: bool = False
    """Whether to keep every result, to check them."""
    synchronized: bool = True
    """False: combinations do not wait for the rows of their epoch, as in LD07's CTR."""
    patience: float = inf
    """Seconds that rows wait at a host for being compared; then they are shed, and results lost."""


@dataclass(frozen=True)
class Outcome:
    """What came of a run."""

    seconds: float
    results: int
    """Delivered, whole epochs at a time."""
    answer: Ints
    made: np.ndarray
    """Results that were made in each second."""
    waited: np.ndarray
    """By second, how long their rows had waited for them, in sum."""
    kept: np.ndarray
    """Rows in all hosts' memories, second by second."""
    busy: tuple[float, ...]
    """CPU seconds of each host."""
    messages: int
    tuples: int
    """Tuples that were sent between operators, without results."""
    shed: int
    """Combinations that hosts did not compare, as they were too late."""
    finished: bool
    history: History

    def throughput(self, since: float = 0.0) -> float:
        """Results made in a second, from a time on."""
        made = self.made[int(since) :]
        if self.finished:  # nothing was left to do
            made = np.trim_zeros(made, "b")
        return float(made.sum() / max(len(made), 1))

    def traffic(self) -> float:
        """Tuples sent for each tuple that was routed."""
        return self.tuples / max(self.routed, 1)

    @property
    def routed(self) -> int:
        """Tuples that were not late."""
        return sum(len(rows) for pieces in self.history.taken for rows in pieces)

    def response(self, since: float = 0.0) -> float:
        """Mean seconds from the arrival of a row to its results."""
        made, waited = self.made[int(since) :].sum(), self.waited[int(since) :].sum()
        return float(waited / made) if made else 0.0

    def state(self, since: float = 0.0) -> float:
        """Mean number of rows in memory."""
        kept = self.kept[int(since) :]
        return float(kept.mean()) if len(kept) else 0.0


class Simulation:
    """The operators of one run, wired up."""

    def __init__(self, setup: Setup) -> None:
        self.setup = setup
        self.cluster = Cluster.of(setup.hardware, Prober(setup.query, collect=setup.collect))
        self.env, self.network = self.cluster.env, self.cluster.network
        self.hosts = self.cluster.hosts
        for host in self.hosts:
            host.synchronized = setup.synchronized
            host.patience = setup.patience
        self.fusion = Fusion(self.env, self.network)
        self.diffusion = Diffusion(
            self.cluster,
            setup.query,
            setup.strategy,
            setup.hosts or len(self.hosts),
            setup.pacing,
            setup.changes,
        )
        self.network.attach(DIFFUSION, self.diffusion)
        self.network.attach(FUSION, self.fusion)
        self.kept: list[int] = []

    def run(self) -> Outcome:
        env, setup = self.env, self.setup
        env.process(self._feed())
        env.process(self._sample())
        for fault in setup.faults:
            env.process(inflict(fault, self.cluster, self.diffusion.history))
        done = env.process(self._until_finished())
        env.run(done if setup.until is None else setup.until)
        return self._outcome()

    def _feed(self) -> Waits:
        """Hand over what has arrived, once an epoch."""
        epoch, ahead = self.setup.pacing.epoch, self.setup.ahead
        streams = self.setup.workload.streams()
        last = max((float(s.arrived[-1]) for s in streams if len(s)), default=0.0)
        for number in range(int(last / epoch) + 1):
            begin, end = number * epoch, (number + 1) * epoch
            if end - ahead > self.env.now:
                yield self.env.timeout(end - ahead - self.env.now)
            rows = {
                at: replace(some, arrived=np.maximum(some.arrived - ahead, 0.0))
                for at, stream in enumerate(streams)
                if len(some := _arrived(stream, begin, end))
            }
            if rows:
                self.diffusion.collect(rows)
        self.diffusion.close()
        yield self.env.timeout(0.0)

    def _until_finished(self) -> Waits:
        while not self.diffusion.finished and self.env.now < LONGEST:
            yield self.env.timeout(self.setup.pacing.epoch)

    def _sample(self) -> Waits:
        while True:
            self.kept.append(sum(host.kept for host in self.hosts))
            yield self.env.timeout(1.0)

    def _outcome(self) -> Outcome:
        seconds = int(np.ceil(self.env.now)) or 1
        made, waited = np.zeros(seconds + 1), np.zeros(seconds + 1)
        for second, count in self.fusion.made.items():
            made[second], waited[second] = count, self.fusion.waited[second]
        return Outcome(
            self.env.now,
            self.fusion.results,
            self.fusion.answer(len(self.setup.query.streams)),
            made[:seconds],
            waited[:seconds],
            np.array(self.kept),
            tuple(host.busy for host in self.hosts),
            self.network.messages,
            self.network.tuples,
            sum(host.shed for host in self.hosts),
            self.diffusion.finished,
            self.diffusion.history,
        )


def simulate(setup: Setup) -> Outcome:
    """Run a setup to its end."""
    return Simulation(setup).run()


def _arrived(stream: Tuples, begin: float, end: float) -> Tuples:
    first, after = np.searchsorted(stream.arrived, [begin, end])
    return stream.take(slice(int(first), int(after)))
