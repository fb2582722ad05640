"""The two runtimes agree: the same decisions, and the same results, for the same batches.

The Spark runtime measures CPU time, and the simulator with hardware that takes none has none to
measure. So what a router learns is made alike: it is told of batches that took no time.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import DataFrame, SparkSession

import anabranch as ab
from anabranch.adapt.load import Usage
from anabranch.routing.aligned import AtrRouter
from anabranch.routing.base import Measured, Plan, Situation
from anabranch.routing.coordinated import CtrRouter
from anabranch.routing.partitioned import HashRouter
from anabranch.routing.sliced import PspRouter
from anabranch.routing.strategies import Strategy
from anabranch.sim.hardware import free
from anabranch.sim.pacing import Pacing
from anabranch.sim.queries import Chance
from anabranch.sim.simulation import Setup, Simulation
from anabranch.sim.tuples import Tuples
from anabranch.sim.workload import steady
from tests.streams import file_stream

BATCHES, HOSTS = 5, 3
STRATEGIES: dict[str, Strategy] = {
    "central": "central",
    "hash": "hash",
    "atr": ab.Atr(segment="2 seconds"),
    "ctr": ab.Ctr(hop=0),
    "psp": ab.Psp(hop=0),
}
ROUTERS: dict[str, Any] = {"hash": HashRouter, "atr": AtrRouter, "ctr": CtrRouter, "psp": PspRouter}


def batches(keys: int | None) -> list[dict[str, Tuples]]:
    """Batches of two seconds, of three streams."""
    workload = replace(steady([4, 5, 6], 2.0 * BATCHES, seed=5), keys=keys)
    streams = dict(zip("abc", workload.streams(), strict=True))
    return [
        {
            name: rows.take((rows.arrived >= 2 * batch) & (rows.arrived < 2 * batch + 2))
            for name, rows in streams.items()
        }
        for batch in range(BATCHES)
    ]


def described(plan: Plan) -> Any:
    """What a plan decides, without what it predicts."""
    return plan.hosts, plan.shares, plan.routes, plan.keeps


def unhurried(measured: Measured) -> Measured:
    """The same batch, on hardware that takes no time."""
    return replace(measured, cpu=0.0, sending=0.0, usage={h: Usage() for h in measured.usage})


@pytest.mark.parametrize("name", STRATEGIES)
def test_decisions_and_results_are_the_same(spark: SparkSession, tmp_path: Path, name: str) -> None:
    keys = 4 if name == "hash" else None
    term: Any = Chance(0.3)
    parts = batches(keys)
    plans: list[Any] = []
    router = ROUTERS.get(name)

    def watched(self: Any, situation: Situation) -> Plan:
        plan: Plan = route(self, situation)
        plans.append(described(plan))
        return plan

    def learn_unhurried(self: Any, measured: Measured) -> Any:
        return learn(self, unhurried(measured))

    frames = {
        stream: file_stream(spark, tmp_path / stream, [_table(part[stream]) for part in parts])
        for stream in "abc"
    }
    query = _query(frames, keys, term)
    if router is None:
        _run(query, tmp_path, name)
    else:
        route, learn = router.route, router.learn
        with patch.multiple(router, route=watched, learn=learn_unhurried):
            _run(query, tmp_path, name)
    on_spark, plans = plans, []
    compiled = query.compiled.query
    simulation = Simulation(
        Setup(
            compiled,
            STRATEGIES[name],
            free(HOSTS),
            steady([0, 0, 0], 1.0),
            pacing=Pacing(epoch=2.0, most=1),
            collect=True,
        )
    )
    for at, part in enumerate(parts):
        rows = {position: part[stream] for position, stream in enumerate("abc")}
        simulation.env.process(_handed(simulation, 2.0 * (at + 1), rows))
    if router is not None:
        with patch.multiple(router, route=watched, learn=learn_unhurried):
            simulation.env.run(100)
    else:
        simulation.env.run(100)
    assert plans == on_spark
    assert len(plans) == (0 if name == "central" else BATCHES)
    delivered = spark.read.parquet(str(tmp_path / "out")).select("a", "b", "c").collect()
    simulated = Counter(map(tuple, simulation.fusion.answer(3).tolist()))
    assert Counter(map(tuple, delivered)) == simulated
    assert simulated


def _handed(simulation: Simulation, at: float, rows: Mapping[int, Tuples]) -> Any:
    yield simulation.env.timeout(at)
    simulation.diffusion.collect({s: some for s, some in rows.items() if len(some)})


def _run(query: Any, home: Path, name: str) -> None:
    run = query.start(
        ab.parquet_sink(str(home / "out")),
        checkpoint=str(home / "checkpoint"),
        strategy=STRATEGIES[name],
        hosts=HOSTS,
        trigger="available now",
    )
    run.await_termination()


def _query(frames: Mapping[str, DataFrame], keys: int | None, term: Any) -> Any:
    streams = [
        ab.stream(name, frame, time="ts", window="3 seconds", lateness="0 seconds")
        for name, frame in frames.items()
    ]
    terms = (
        ("a.v = b.v", "b.v = c.v")
        if keys is not None
        else (ab.match(term, "a.v", "b.v"), ab.match(term, "b.v", "c.v"))
    )
    return ab.join(*streams).on(*terms).select("a.id AS a", "b.id AS b", "c.id AS c")


def _table(rows: Tuples) -> pa.Table:
    times = pa.array(rows.times.astype(np.int64), pa.timestamp("us", "UTC"))
    return pa.table({"ts": times, "id": pa.array(rows.ids), "v": pa.array(rows.values)})
