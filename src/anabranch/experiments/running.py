"""Measuring points: in parallel, and not again what has been measured already."""

from __future__ import annotations

import hashlib
import json
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path
from typing import Any

import numpy as np

from anabranch.experiments.figure import Experiment, Measured, Point
from anabranch.sim.scenarios import right_answer
from anabranch.sim.simulation import Outcome, Setup, simulate

METRICS = ("throughput", "response", "state", "traffic", "balance", "routing", "lost")

Numbers = dict[str, Any]


def measure(setup: Setup, since: float) -> Numbers:
    """Run a setup; its numbers from a time on."""
    outcome = simulate(setup)
    busy = np.array(outcome.busy)
    return {
        "throughput": outcome.throughput(since),
        "response": outcome.response(since),
        "state": outcome.state(since),
        "traffic": outcome.traffic(),
        "balance": float(busy.mean() / busy.max()) if busy.max() else 1.0,
        "lost": _lost(setup, outcome),
        "routing": outcome.history.routing / max(outcome.routed, 1) * 1e6,
        "series": {
            "made": outcome.made.tolist(),
            "response": [
                float(w / m) if m else None
                for w, m in zip(outcome.waited, outcome.made, strict=True)
            ],
        },
    }


def _lost(setup: Setup, outcome: Outcome) -> float:
    """The part of the answer that is not there, in percent; 0 where results were only counted."""
    if not setup.collect:
        return 0.0
    expected = right_answer(setup.query, outcome.history.taken)
    made = Counter(map(tuple, outcome.answer.tolist()))
    return 100 * (expected - made).total() / max(expected.total(), 1)


class Cache:
    """Numbers by what they are of: the setup, and the code that they were made with."""

    def __init__(self, directory: Path) -> None:
        self._directory = directory
        self._code = _code()

    def path(self, setup: Setup, since: float) -> Path:
        text = f"{self._code} {since} {setup!r}"
        return self._directory / f"{hashlib.sha256(text.encode()).hexdigest()[:24]}.json"

    def get(self, path: Path) -> Numbers | None:
        return json.loads(path.read_text()) if path.exists() else None

    def put(self, path: Path, numbers: Numbers) -> None:
        self._directory.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(numbers))


def measure_all(
    experiments: Sequence[Experiment],
    seeds: Sequence[int],
    cache: Cache,
    advance: Callable[[int, int], None],
    *,
    quick: bool,
) -> dict[tuple[str, str, float, int], Numbers]:
    """Numbers by experiment, series, x and seed. `advance` hears how many are done, of how many."""
    wanted = [
        (experiment, point, seed)
        for experiment in experiments
        for point in experiment.points
        if not quick or experiment.quick(point)
        for seed in seeds
    ]
    found: dict[tuple[str, str, float, int], Numbers] = {}
    with ProcessPoolExecutor(os.cpu_count(), get_context("fork")) as pool:
        under_way = {}
        for experiment, point, seed in wanted:
            name = (experiment.key, point.series, point.x, seed)
            setup = point.setup(seed)
            path = cache.path(setup, point.since)
            known = cache.get(path)
            if known is not None:
                found[name] = known
            else:
                under_way[pool.submit(measure, setup, point.since)] = name, path
        advance(len(found), len(wanted))
        for future in as_completed(under_way):
            name, path = under_way[future]
            found[name] = future.result()
            cache.put(path, found[name])
            advance(len(found), len(wanted))
    return found


def by_metric(
    experiment: Experiment, found: dict[tuple[str, str, float, int], Numbers]
) -> dict[str, Measured]:
    """The numbers of one experiment, metric by metric."""
    return {
        metric: Measured(
            {
                (point.series, point.x): values
                for point in experiment.points
                if (values := list(_values(experiment, point, metric, found)))
            }
        )
        for metric in METRICS
    }


def _values(
    experiment: Experiment,
    point: Point,
    metric: str,
    found: dict[tuple[str, str, float, int], Numbers],
) -> Iterator[float]:
    for (key, series, x, _), numbers in sorted(found.items()):
        if (key, series, x) == (experiment.key, point.series, point.x):
            yield numbers[metric]


def _code() -> str:
    """A name for the code that numbers depend on."""
    digest = hashlib.sha256()
    for source in sorted(Path(__file__).parents[1].rglob("*.py")):
        if "experiments" not in source.parts or source.name == Path(__file__).name:
            digest.update(source.read_bytes())
    return digest.hexdigest()[:16]
