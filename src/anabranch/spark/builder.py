"""Writing a query: `ab.join(...).on(...).select(...)`, then explain, to_df or start."""

from __future__ import annotations

import atexit
import re
import shutil
import tempfile
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from pyspark.sql import DataFrame
from sqlglot import exp

from anabranch.errors import QueryError
from anabranch.kernel.equality import GROUPS
from anabranch.model.duration import microseconds
from anabranch.model.query import Query, StoredColumn
from anabranch.model.terms import Match, Request
from anabranch.report.explanation import explanation
from anabranch.routing.base import Router
from anabranch.routing.strategies import Strategy, router_for
from anabranch.spark.analysis import Analysis, Compiled
from anabranch.spark.envelope import Envelope, tagged_union
from anabranch.spark.failures import said_in_words
from anabranch.spark.inputs import Input
from anabranch.spark.preflight import check_workers
from anabranch.spark.run import Run
from anabranch.spark.runtime import Runtime
from anabranch.spark.sinks import Sink, check_columns, check_places, open_sinks
from anabranch.state.lock import Lock
from anabranch.state.place import Place
from anabranch.state.store import Store

FEWEST, MOST = 2, 9
AVAILABLE_NOW = "available now"


def join(*streams: Input) -> Joined:
    """Join two to nine streams; give the condition with `.on(...)`."""
    for source in streams:
        if not isinstance(source, Input):
            raise QueryError(f"join takes streams made by ab.stream(...), not {source!r}")
    if not FEWEST <= len(streams) <= MOST:
        raise QueryError(f"a join takes {FEWEST} to {MOST} streams, not {len(streams)}")
    names = [source.name.lower() for source in streams]
    repeated = sorted({name for name in names if names.count(name) > 1})
    if repeated:
        raise QueryError(
            f"several streams are named {', '.join(repeated)}; give each a name of its own "
            "(the same DataFrame may be used twice)"
        )
    return Joined(streams)


@dataclass(frozen=True)
class Joined:
    """Streams that wait for their condition."""

    inputs: tuple[Input, ...]

    def on(self, *terms: str | Request) -> JoinQuery:
        """The condition: all of these terms hold. SQL text, or `ab.within` and the like."""
        if not terms:
            raise QueryError('on takes at least one term, like on("orders.id = clicks.order_id")')
        analysis = Analysis(self.inputs)
        for term in terms:
            analysis.add(term)
        return JoinQuery(self.inputs, terms, analysis=analysis)


@dataclass(frozen=True)
class JoinQuery:
    """A join with its condition. Wrong terms and columns are refused as soon as it is written."""

    inputs: tuple[Input, ...]
    terms: tuple[str | Request, ...]
    selected: tuple[str, ...] = ()

    analysis: Analysis = field(repr=False, compare=False, kw_only=True)

    @cached_property
    def compiled(self) -> Compiled:
        """The query as it is run. Without a select it has every column of every stream."""
        return self.analysis.compile(self.selected)

    def select(self, *columns: str) -> JoinQuery:
        """The columns of the result, as SQL: "orders.id AS order_id", "clicks.*"."""
        if not columns:
            raise QueryError('select takes at least one column, like select("orders.id")')
        query = replace(self, selected=columns)
        _ = query.compiled  # what is wrong with it is said here
        return query

    def explain(self, strategy: Strategy = "auto", hosts: int | None = None) -> str:
        """What the query will do, and why; nothing runs."""
        router = self._router(strategy, hosts)
        return explanation(self.compiled.query, router, strategy, self.compiled.finish.filters)

    def to_df(
        self, strategy: Strategy = "auto", scratch: str | None = None, hosts: int | None = None
    ) -> DataFrame:
        """The whole answer over static inputs, as a DataFrame.

        Rows are first written as segments under `scratch` (a directory that all workers reach;
        a temporary one by default), which is deleted when this process ends.
        """
        streaming = [source.name for source in self.inputs if source.frame.isStreaming]
        if streaming:
            raise QueryError(
                f"to_df takes static inputs, and {', '.join(streaming)} is a stream: use start(...)"
            )
        directory = tempfile.mkdtemp(prefix="anabranch-", dir=scratch)
        atexit.register(shutil.rmtree, directory, ignore_errors=True)
        router, store = self._router(strategy, hosts), Store.at(directory)
        store.claim(self.description())
        return self._runtime(store, router, _no_sink).bounded_answer()

    def start(  # noqa: PLR0913 - each is an option that a user sets by name
        self,
        sink: Sink,
        *,
        checkpoint: str,
        strategy: Strategy = "auto",
        hosts: int | None = None,
        trigger: str = "1 second",
        late: Sink | None = None,
        dead: Sink | None = None,
        late_warning: float | None = 0.01,
    ) -> Run:
        """Run in the background, delivering each result once, and surviving failures.

        `checkpoint` is a directory of this query's own, which driver and workers reach. `trigger`
        is the interval between batches, or "available now": take all there is, then end. `late`
        is a sink for rows that came too late or without a time. Without one, a warning is logged
        (by the logger "anabranch", once) when more than this share of a stream's rows was late;
        with `late_warning=None` never. `dead` is a sink for rows that a term or an expression
        cannot handle; without it, such a row ends the run.
        """
        if not callable(sink) or not all(s is None or callable(s) for s in (late, dead)):
            raise QueryError("a sink is ab.parquet_sink(path), or a function (DataFrame, batch id)")
        if late_warning is not None and not 0 <= late_warning <= 1:
            raise QueryError(
                f"late_warning is {late_warning!r}; write a share of rows from 0 to 1, like 0.01, "
                "or None for no warning"
            )
        when = _trigger(trigger)
        router = self._router(strategy, hosts)
        sinks = {"results": sink, "late": late, "dead": dead}
        outputs = [name for _, name in self.compiled.finish.columns]
        check_columns(sinks, outputs, [source.name for source in self.inputs])
        check_workers(self.inputs[0].frame.sparkSession, self._slots())
        place = Place.of(str(checkpoint))
        check_places(sinks, place)
        store = Store.at(str(place.local or place.spark))
        with said_in_words(str(checkpoint)):
            store.claim(self.description())
            lock = Lock.take(store.files)
        try:
            # Again: of two that claimed an empty directory at once, the later one's id is there.
            checkpoint_id = store.claim(self.description())
            runtime = self._runtime(store, router, sink, late, dead)
            runtime.late_warning = late_warning
            sinks = open_sinks(sinks, store, checkpoint_id, runtime.manifest, lock)
            runtime.sink = sinks["results"] or sink
            runtime.late, runtime.dead = sinks["late"], sinks["dead"]
            run = Run(runtime, lock)
            union = tagged_union(runtime.carried, runtime.envelope, self.inputs, streaming=True)
            if union is None:
                run.drive_bounded()
            else:
                run.drive(union, f"{place.spark}/spark", when)
        except BaseException:
            lock.release()
            raise
        return run

    # -- behind the surface ------------------------------------------------------------------

    def _slots(self) -> int:
        return int(self.inputs[0].frame.sparkSession.sparkContext.defaultParallelism)

    def _router(self, strategy: Strategy, hosts: int | None) -> Router:
        wanted = hosts if hosts is not None else min(self._slots(), GROUPS)
        return router_for(self.compiled.query, strategy, wanted)

    def _runtime(
        self,
        store: Store,
        router: Router,
        sink: Sink,
        late: Sink | None = None,
        dead: Sink | None = None,
    ) -> Runtime:
        carried = self.compiled.query
        if late is not None or dead is not None:
            carried = self._with_every_column()
        static = tagged_union(carried, Envelope.of(carried), self.inputs, streaming=False)
        return Runtime(
            self.inputs[0].frame.sparkSession,
            self.compiled,
            carried,
            store,
            router,
            sink,
            late,
            dead,
            static,
            tuple(i for i, source in enumerate(self.inputs) if not source.frame.isStreaming),
            self._slots(),
        )

    def _with_every_column(self) -> Query:
        """The query with all columns of every stream stored: what other sinks are shown."""
        query = self.compiled.query
        stored = []
        for source, columns in zip(self.inputs, query.stored, strict=True):
            known = {column.name for column in columns}
            extra = [
                StoredColumn(
                    field.name,
                    exp.column(field.name, table=source.name, quoted=True).sql(dialect="spark"),
                    field.dataType.json(),
                )
                for field in source.frame.schema
                if field.name not in known
            ]
            stored.append((*columns, *extra))
        return replace(query, stored=tuple(stored))

    def description(self) -> dict[str, Any]:
        """What a checkpoint must agree on. A function is known by its name: it may be mended."""
        query = self.compiled.query
        return {
            "streams": [
                {"name": s.name, "time": s.time, "window": s.window} for s in query.streams
            ],
            "terms": [_described(term) for term in self.terms],
            # Expressions may be mended, but readers of the output see one set of columns.
            "columns": [name for _, name in self.compiled.finish.columns],
            "stored": [[[c.name, c.sql, c.type] for c in stored] for stored in query.stored],
            "key": query.key,
            "settings": self.analysis.analyzer.settings,
        }


def _no_sink(_frame: DataFrame, _batch: int) -> None:
    raise AssertionError("the answer of to_df goes to its caller")


def _described(term: str | Request) -> str:
    if isinstance(term, Request) and not isinstance(term.kind, Match):
        return f"{term.text} {term.kind}"
    return term if isinstance(term, str) else term.text


def _trigger(text: str) -> dict[str, Any]:
    if not isinstance(text, str) or not text.strip():
        raise QueryError(
            f'trigger is {text!r}; write an interval like "1 second", or "{AVAILABLE_NOW}"'
        )
    if re.sub(r"[\s_-]+", " ", text.strip().lower()) == AVAILABLE_NOW:
        return {"availableNow": True}
    return {"processingTime": f"{microseconds(text, 'trigger') // 1000} milliseconds"}
