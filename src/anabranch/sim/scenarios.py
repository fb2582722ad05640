"""Runs drawn from seeds, with changes and faults, each checked against the reference.

A seed stands for one run: streams, windows, predicate, strategy, hardware, what is asked for while
it runs, and what goes wrong. Whatever happens, the answer is that of `kernel.reference`: no result
is lost, none is repeated.
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from anabranch.kernel.reference import reference
from anabranch.model.query import TIME, Query
from anabranch.model.terms import Band, Equal, Kind, Match
from anabranch.routing.aligned import Atr
from anabranch.routing.coordinated import Ctr
from anabranch.routing.sliced import Psp
from anabranch.routing.strategies import Strategy
from anabranch.sim.faults import KINDS, Fault
from anabranch.sim.hardware import Costs, Hardware, Machine
from anabranch.sim.pacing import Change, Pacing
from anabranch.sim.queries import VALUE, Chance, join
from anabranch.sim.simulation import Outcome, Setup, simulate
from anabranch.sim.tuples import Tuples
from anabranch.sim.workload import Bursty, Clock, Drifting, Profile, Steady, Workload

STRATEGIES = ("central", "hash", "atr", "ctr", "psp")
_ROWS = {2: 40.0, 3: 20.0, 4: 11.0, 5: 8.0}
"""Rows of each stream, by how many streams there are: the reference is slow."""

Combination = tuple[int, ...]


@dataclass(frozen=True)
class Verdict:
    """What a seed has shown."""

    seed: int
    setup: Setup
    lost: Counter[Combination]
    repeated: Counter[Combination]
    results: int
    finished: bool
    outcome: Outcome

    @property
    def right(self) -> bool:
        return self.finished and not self.lost and not self.repeated

    def __str__(self) -> str:
        name = _name(self.setup.strategy)
        if self.right:
            return f"seed {self.seed}: {name}, {self.results} results, right"
        wrong = [
            "" if self.finished else "it does not come to an end",
            f"{self.lost.total()} lost" if self.lost else "",
            f"{self.repeated.total()} repeated" if self.repeated else "",
        ]
        return f"seed {self.seed}: {name}, {self.results} results, {', '.join(filter(None, wrong))}"


def drawn(seed: int, *, faults: bool) -> Setup:
    """The run that a seed stands for. Strategies take turns."""
    random = np.random.default_rng(seed)
    streams = int(random.choice([2, 3, 3, 4, 5]))
    seconds = 20.0
    strategy_name = STRATEGIES[seed % len(STRATEGIES)]
    query, keys = _query(random, streams, equal=strategy_name == "hash")
    most = int(random.integers(2, 7))
    hosts = int(random.integers(1, most + 1))
    lateness = query.streams[0].lateness / 1e6
    rate = _ROWS[streams] / seconds
    workload = Workload(
        tuple(_profile(random, rate, seconds) for _ in range(streams)),
        seconds,
        seed,
        keys,
        disorder=float(random.choice([0.0, lateness, 2 * lateness + 1])),
        clocks=_clocks(random, streams, lateness, faults=faults),
    )
    return Setup(
        query,
        _strategy(random, strategy_name),
        _hardware(random, most, seed),
        workload,
        hosts,
        Pacing(
            epoch=float(random.choice([0.5, 0.5, 1.0, 3.0])),
            most=int(random.choice([1, 4])),
            in_flight=int(random.choice([1, 4, 64, 64])),
            units=[1, 3, None][int(random.integers(3))],
        ),
        _changes(random, query, strategy_name, most, seconds),
        _faults(random, most, seconds) if faults else (),
        collect=True,
    )


def judged(seed: int, setup: Setup) -> Verdict:
    """Run a setup and compare with the reference."""
    outcome = simulate(setup)
    made = Counter(map(tuple, outcome.answer.tolist()))
    expected = right_answer(setup.query, outcome.history.taken)
    return Verdict(
        seed,
        setup,
        expected - made,
        made - expected,
        outcome.results,
        outcome.finished,
        outcome,
    )


def shrunk(verdict: Verdict) -> Verdict:
    """A smaller run that is wrong as well: without faults and changes that it does not need."""
    smallest = verdict
    for fault in verdict.setup.faults:
        left = tuple(other for other in smallest.setup.faults if other != fault)
        tried = judged(verdict.seed, replace(smallest.setup, faults=left))
        smallest = smallest if tried.right else tried
    for change in verdict.setup.changes:
        fewer = tuple(other for other in smallest.setup.changes if other != change)
        tried = judged(verdict.seed, replace(smallest.setup, changes=fewer))
        smallest = smallest if tried.right else tried
    seconds = smallest.setup.workload.seconds
    while seconds > 2:
        seconds /= 2
        shorter = replace(smallest.setup.workload, seconds=seconds)
        tried = judged(verdict.seed, replace(smallest.setup, workload=shorter))
        smallest = smallest if tried.right else tried
    return smallest


def timeline(verdict: Verdict) -> list[str]:
    """What happened, line by line."""
    lines = [f"{at:8.3f} s  {what}" for at, what in verdict.outcome.history.told]
    for word, results in (("lost", verdict.lost), ("repeated", verdict.repeated)):
        lines += [f"{word}: rows {combination}" for combination in list(results)[:5]]
    return lines


def right_answer(query: Query, taken: list[list[Tuples]]) -> Counter[Combination]:
    """The answer by definition, over the rows that were not late."""
    tables = []
    for pieces in taken:
        rows = Tuples.joined(pieces)
        columns = {TIME: rows.times, "id": rows.ids, VALUE: rows.values}
        tables.append(pa.table({name: pa.array(values) for name, values in columns.items()}))
    answer = reference(query, tables)
    columns_of_ids = [column.to_pylist() for column in answer.columns]
    return Counter(zip(*columns_of_ids, strict=True))


def _query(random: np.random.Generator, streams: int, *, equal: bool) -> tuple[Query, int | None]:
    windows = [float(random.choice([0.0, 2.0, 5.0, 5.0, 8.0, 8.0])) for _ in range(streams)]
    lateness = float(random.choice([0.0, 1.0, 4.0]))
    kinds: list[tuple[Kind, int | None]] = [
        (Match(Chance(float(random.choice([0.2, 0.5, 1.0])))), None),
        (Band(20.0), 100),
        (Equal(), 4),
    ]
    kind, keys = kinds[2] if equal else kinds[int(random.integers(3))]
    pairs = [(at, at + 1) for at in range(streams - 1)]
    if streams > 2 and random.random() < 0.3:
        pairs.append((0, streams - 1))
    return join(windows, kind, pairs, lateness), keys


def _profile(random: np.random.Generator, rate: float, seconds: float) -> Profile:
    kinds: list[Profile] = [
        Steady(rate),
        Bursty(2 * rate, float(random.uniform(0.5, 1)), float(random.choice([4.0, 10.0]))),
        Drifting(2 * rate, 0.0, seconds),
        Drifting(0.0, 2 * rate, seconds),
    ]
    return kinds[int(random.integers(len(kinds)))]


def _clocks(
    random: np.random.Generator, streams: int, lateness: float, *, faults: bool
) -> tuple[Clock, ...]:
    if not faults:
        return ()
    return tuple(
        Clock(random.uniform(0, lateness), float(random.choice([0.0, 0.05, -0.05])))
        for _ in range(streams)
    )


def _strategy(random: np.random.Generator, name: str) -> Strategy:
    segment = [None, "1 second", "3 seconds"][int(random.integers(3))]
    if name == "atr":
        return Atr(segment=segment)
    if name == "ctr":
        optimized = bool(random.integers(2))
        return Ctr(int(random.integers(1, 4)), segment, optimized=optimized, hop=0)
    if name == "psp":
        objective = ("output", "latency")[int(random.integers(2))]
        return Psp(objective, ("passive", "aggressive")[int(random.integers(2))], hop=0)
    return name


def _hardware(random: np.random.Generator, hosts: int, seed: int) -> Hardware:
    sending = float(random.choice([2e-3, 5e-2]))
    costs = Costs(sending, sending, float(random.choice([1e-5, 1e-3, 1e-2])))
    machines = tuple(Machine(random.uniform(1000, 5000)) for _ in range(hosts))
    latency = (1e-4, float(random.choice([1e-3, 0.3, 1.0])))
    return Hardware(machines, costs, (1.0, 100.0), latency, seed)


def _changes(
    random: np.random.Generator, query: Query, name: str, most: int, seconds: float
) -> tuple[Change, ...]:
    changes = []
    for _ in range(int(random.integers(0, 5))):
        kinds = ["rescale", "rescale", "rescale", "switch", "crown" if name == "atr" else "rescale"]
        kind = str(random.choice(kinds))
        hosts = int(random.integers(1, most + 1))
        others = [other for other in STRATEGIES if other != "hash" or query.key is not None]
        strategy = _strategy(random, str(random.choice(others)))
        changes.append(
            Change(random.uniform(0, seconds), kind, hosts, bool(random.integers(2)), strategy)
        )
    return tuple(changes)


def _faults(random: np.random.Generator, hosts: int, seconds: float) -> tuple[Fault, ...]:
    faults = []
    for _ in range(int(random.integers(1, 6))):
        host = int(random.integers(hosts))
        others = [-1, *(other for other in range(hosts) if other != host)]
        faults.append(
            Fault(
                random.uniform(0, seconds),
                str(random.choice(KINDS)),
                host,
                int(random.choice(others)),
                random.uniform(0.1, 5.0),
            )
        )
    return tuple(faults)


def _name(strategy: Strategy) -> str:
    return strategy if isinstance(strategy, str) else type(strategy).__name__.lower()
