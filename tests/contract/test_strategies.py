"""Every strategy, made to change its mind between any two batches, gives the reference answer."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from hypothesis import HealthCheck, Phase, event, given, settings
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from anabranch.kernel.reference import reference
from anabranch.model.query import TIME, Query
from anabranch.routing.adaptive import HOP
from anabranch.routing.aligned import Atr, AtrRouter
from anabranch.routing.base import Router
from anabranch.routing.coordinated import Ctr, CtrRouter
from anabranch.routing.sliced import Psp
from anabranch.routing.strategies import STRATEGIES, Strategy, router_for
from anabranch.spark.builder import JoinQuery
from anabranch.spark.oracle import finished, stored_tables
from tests.contract import running
from tests.contract.cluster import Cluster
from tests.contract.drawing import Case, cases
from tests.streams import Answer, counted

covered: Counter[str] = Counter()
changes: Counter[str] = Counter()
CHANGES = ("nothing", "restart", "switch", "rescale", "at once", "resize", "master", "length")

# To shrink a failure would take many Spark jobs; its blob repeats it.
slow = settings(
    max_examples=15,
    suppress_health_check=list(HealthCheck),
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)


def options(draw: st.DrawFn, query: Query) -> list[Strategy]:
    """The strategies that the query allows, with any options."""
    names = [stream.name for stream in query.streams]
    segment = draw(st.sampled_from([None, "1 second", "5 seconds"]))
    master = draw(st.sampled_from([None, *names]))
    hop = draw(st.sampled_from([0.0, 0.0, HOP]))  # small as these batches are, they take all hops
    strategies: list[Strategy] = [
        "central",
        Atr(segment=segment, master=master),
        Ctr(draw(st.integers(1, 3)), segment, optimized=draw(st.booleans()), hop=hop),
        Psp(draw(st.sampled_from(["output", "latency"])), hop=hop),
    ]
    if query.key is not None:
        strategies.append("hash")
    return strategies


@slow
@given(case=cases(), data=st.data())
def test_strategies_give_the_reference_answer_whatever_changes(
    spark: SparkSession, case: Case, data: Any
) -> None:
    joined = running.static(spark, case)
    tables = stored_tables(joined)
    with tempfile.TemporaryDirectory() as directory:
        for first in options(data.draw, joined.compiled.query):
            home = Path(tempfile.mkdtemp(dir=directory))
            history = History(joined, tables, home, first, data.draw)
            delivered, query = history.run(len(case.batches))
            expected = counted(finished(joined, reference(query, tables)))
            event(f"results: {'some' if expected else 'none'}")
            assert delivered == expected, history.told


class History:
    """One run, with all that is done to it on the way."""

    def __init__(
        self,
        joined: JoinQuery,
        tables: Sequence[pa.Table],
        directory: Path,
        first: Strategy,
        draw: Any,
    ) -> None:
        self.joined, self.tables, self.draw = joined, tables, draw
        query = joined.compiled.query
        self.cluster = Cluster(query, directory, self._router(query, first))
        self.told = [self.cluster.router.name]

    def run(self, batches: int) -> tuple[Answer, Query]:
        pieces: list[pa.RecordBatch] = []
        parts = [[_part(t, b, batches) for t in self.tables] for b in range(batches)]
        for batch, part in enumerate(parts):
            pieces += self.cluster.push(part)
            left = [t for later in parts[batch + 1 :] for t in later if t.num_rows]
            if left and self.draw(st.booleans()):
                self.cluster.advance(min(pc.min(t.column(TIME)).as_py() for t in left))
            self._change(parts[: batch + 1])
        schema = pa.schema(
            (o.name, self.tables[o.operand.stream].schema.field(o.operand.column).type)
            for o in self.cluster.query.outputs
        )
        answer = finished(self.joined, pa.Table.from_batches(pieces, schema))
        return counted(answer), self.cluster.query

    def _change(self, pushed: Sequence[Sequence[pa.Table]]) -> None:
        router = self.cluster.router
        change = self.draw(st.sampled_from(CHANGES))
        if change == "restart":
            saved = json.loads(json.dumps(router.snapshot()))
            # Another object: what is not in the snapshot is forgotten.
            hosts = self.draw(st.sampled_from([router.hosts, 2]))
            self.cluster.router = router_for(self.cluster.query, self.strategy, hosts)
            self.cluster.router.restore(saved)
        elif change == "switch":
            query = self.cluster.query
            another = self.draw(st.sampled_from(options(self.draw, query)))
            self.cluster.router = self._router(query, another)
            change = f"switch to {self.cluster.router.name}"
        elif change in ("rescale", "at once"):
            router.rescale(self.draw(st.integers(1, 5)), at_once=change == "at once")
        elif change == "resize":
            stream = self.draw(st.integers(0, len(self.tables) - 1))
            seen = [batch[stream].column(TIME) for batch in pushed if batch[stream].num_rows]
            greatest = max((pc.max(times).as_py() for times in seen), default=0)
            since = greatest + 1 + self.draw(st.sampled_from([0, 4_000_000]))
            if since > max((s for s, _ in self.cluster.query.streams[stream].resized), default=0):
                window = self.draw(st.sampled_from([0, 2, 30])) * 1_000_000
                self.cluster.resize(stream, window, since)
        elif change == "master" and isinstance(router, AtrRouter) and len(router.reigns) == 1:
            master = self.draw(st.integers(0, len(self.tables) - 1))
            times = [t.column(TIME) for batch in pushed for t in batch if t.num_rows]
            some = times[0][0].as_py() if times else 0
            router.crown(master, some + self.draw(st.integers(-5, 5)) * 1_000_000)
        elif change == "length" and isinstance(router, AtrRouter) and router._search is not None:
            router._search.length = self.draw(st.sampled_from([1, 700_000, 3_000_000, 10**9]))
        elif change == "length" and isinstance(router, CtrRouter):
            router._fixed = self.draw(st.sampled_from([None, 700_000, 3_000_000, 10**9]))
        changes[change.split(" to ")[0]] += 1
        self.told.append(change)

    def _router(self, query: Query, strategy: Strategy) -> Router:
        self.strategy = strategy
        router = router_for(query, strategy, self.draw(st.integers(1, 5)))
        covered[router.name] += 1
        return router


def test_all_strategies_and_all_changes_were_covered() -> None:
    """Runs after the test above, in this file's order."""
    assert set(covered) == set(STRATEGIES) - {"auto"}, covered
    assert set(changes) == set(CHANGES), changes
    assert min(covered[name] for name in ("central", "atr", "ctr", "psp")) >= 15, covered


def _part(rows: pa.Table, batch: int, batches: int) -> pa.Table:
    edges = [rows.num_rows * b // batches for b in range(batches + 1)]
    return rows.slice(edges[batch], edges[batch + 1] - edges[batch])
