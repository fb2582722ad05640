"""A running query, as its user sees it."""

from __future__ import annotations

import threading
import time
from datetime import UTC, datetime, timedelta
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from anabranch.errors import QueryError
from anabranch.model.duration import Duration, microseconds
from anabranch.report.diagnosis import Diagnosis, diagnosed
from anabranch.report.progress import progress, readable_time
from anabranch.report.under_way import under_way
from anabranch.routing.strategies import Strategy, described, router_for
from anabranch.spark.failures import FROM_SPARK, in_words, note, short
from anabranch.spark.runtime import Runtime
from anabranch.state.eventlog import read_events
from anabranch.state.lock import Lock
from anabranch.state.requests import RESCALE, RESIZE, SWITCH

GRACE_SECONDS = 5.0
"""How long a stop waits for the batch under way before it cancels its jobs."""


class Interrupted(Exception):  # noqa: N818 - Spark's word for it
    """Tells Spark that a batch ended because its query was stopped.

    Spark looks for these words in what a Python callback raised, to know a stop from a failure,
    by a regular expression that takes stack for every character of it: the errors of a batch that
    is cut off, with their Java stacks, overflow the 1 MB that a thread has. This is short.
    """

    def __init__(self) -> None:
        super().__init__(
            "py4j.protocol.Py4JJavaError: An error occurred while calling stop: "
            "java.lang.InterruptedException"
        )


class Run:
    """A handle on a join that runs in the background."""

    def __init__(self, runtime: Runtime, lock: Lock) -> None:
        self._runtime = runtime
        self._lock = lock
        self._query: StreamingQuery | None = None
        self._bounded: threading.Thread | None = None
        self._failure: BaseException | None = None
        self._stopping, self._cut_off = threading.Event(), threading.Event()

    # -- started by the builder ----------------------------------------------------------------

    def drive(self, frame: DataFrame, checkpoint: str, trigger: dict[str, Any]) -> None:
        """Run over streams: Structured Streaming calls back with each batch."""
        writer = frame.writeStream.foreachBatch(self._process)
        writer = writer.option("checkpointLocation", checkpoint).trigger(**trigger)
        self._query = writer.start()
        self._lock.in_use = lambda: self.is_active

    def drive_bounded(self) -> None:
        """Run over static inputs: a single batch, in a thread of its own."""
        self._bounded = threading.Thread(target=self._process_bounded, daemon=True)
        self._bounded.start()
        self._lock.in_use = lambda: self.is_active

    def _process(self, frame: DataFrame, batch: int) -> None:
        try:
            if self._stopping.is_set():
                self._wait_for_the_stop()
            # A private copy of the session: this reaches no other query of the user's.
            conf = frame.sparkSession.conf
            conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100000")
            # It would make a job of every hop, and plan anew in between.
            conf.set("spark.sql.adaptive.enabled", "false")
            self._runtime.process(frame, batch)
        except BaseException as error:  # noqa: BLE001 - it is kept, and Spark is told in short
            if self._cut_off.is_set():
                raise Interrupted from None
            raise short(self._fail(error), batch) from None

    def _wait_for_the_stop(self) -> None:
        """No batch begins once a stop was asked for; Spark must know of it before this one ends."""
        self._cut_off.set()
        while self._query is not None and self._query.isActive:
            time.sleep(0.01)
        raise Interrupted

    def _process_bounded(self) -> None:
        try:
            self._runtime.process(None, 0)
        except BaseException as error:  # noqa: BLE001 - it is kept, and raised to who waits
            self._fail(error)

    def _fail(self, error: BaseException) -> BaseException:
        """Keep why the run failed, in words."""
        note(error)
        self._failure = in_words(error, self._runtime.store.files.root)
        return self._failure

    # -- the public surface ------------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        if self._query is None:
            active = self._bounded is not None and self._bounded.is_alive()
        else:
            try:
                active = bool(self._query.isActive)
            except FROM_SPARK as error:  # Java is gone, and the query with it
                self._failure or self._fail(error)
                active = False
        if not active:
            self._lock.release()
        return active

    @property
    def exception(self) -> BaseException | None:
        """Why the run failed; None while it runs and after a good end."""
        if self._failure is None and self._query is not None and not self.is_active:
            found = None if self._failure else self._query.exception()
            if found is not None:
                self._fail(found)
        return self._failure

    def await_termination(self, timeout: float | None = None) -> bool:
        """Wait for the end, at most `timeout` seconds; True if it came. A failed run raises."""
        try:
            if self._query is None:
                assert self._bounded is not None
                self._bounded.join(timeout)
            elif timeout is None:
                self._query.awaitTermination()
            else:
                # Whole seconds are all that its type admits, but it takes parts of them.
                self._query.awaitTermination(max(timeout, 0.001))  # type: ignore[arg-type]
        except FROM_SPARK as error:
            raise (self._failure or self._fail(error)) from None
        finally:
            over = not self.is_active
        if over and self._failure is not None:
            raise self._failure
        return over

    def stop(self) -> None:
        """End the run, after the batch under way, or in it where it takes longer than 5 seconds.

        What is committed stays; a batch that was cut off is repeated by the next run.
        """
        if self._query is not None:
            self._stopping.set()
            try:
                self._let_the_batch_end(self._query)
            finally:
                self._cut_off.set()
                if self.is_active:
                    self._query.stop()
        elif self._bounded is not None:
            self._bounded.join()
        self._lock.release()

    def _let_the_batch_end(self, query: StreamingQuery) -> None:
        """Wait until Spark is between two batches, or the next one waits for the stop."""
        deadline = time.monotonic() + GRACE_SECONDS
        while self.is_active and not self._cut_off.is_set() and time.monotonic() < deadline:
            if not query.status["isTriggerActive"]:
                return
            time.sleep(0.02)

    # -- changes while it runs ---------------------------------------------------------------

    def switch(self, strategy: Strategy, hosts: int | None = None) -> None:
        """Go on with another strategy from the next batch on. No result is lost or repeated."""
        wanted = (
            hosts if hosts is not None else max(self._runtime.router.hosts, self._runtime.slots)
        )
        router_for(self._runtime.query, strategy, wanted)  # refuse now what would fail then
        self._ask(SWITCH, {"strategy": described(strategy), "hosts": wanted})

    def rescale(self, hosts: int, *, at_once: bool = False) -> None:
        """Spread over more or fewer hosts, from the next batch on.

        State moves with time: new rows go to all hosts, old ones stay where they are until they
        expire. With `at_once` it is dealt out anew in the next batch.
        """
        router_for(self._runtime.query, self._runtime.router.name, hosts)
        self._ask(RESCALE, {"hosts": hosts, "at_once": at_once})

    def resize(self, stream: str, window: Duration, since: datetime | None = None) -> None:
        """Give the rows of a stream another window: those from an event time on.

        `since` must be later than every row of the stream so far; by default it is just that. A
        row has the window of its own time, so the answer does not depend on when this is called.
        """
        streams = {
            known.name: position for position, known in enumerate(self._runtime.query.streams)
        }
        if stream not in streams:
            raise QueryError(f"there is no stream {stream!r}, but {', '.join(streams)}")
        begin = None
        if since is not None:
            if since.tzinfo is None:
                raise QueryError(f"since is {since}, which has no time zone; give it one, like UTC")
            begin = (since - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)
            greatest = self._runtime.manifest.seen[streams[stream]].greatest
            if greatest is not None and begin <= greatest:
                raise QueryError(
                    f"rows of {stream} have come up to {readable_time(greatest)}, and were joined "
                    f"with their window as it was; choose a later time than {since}"
                )
        length = microseconds(window, f"the window of {stream}")
        self._ask(RESIZE, {"stream": stream, "window": length, "since": begin})

    def _ask(self, kind: str, what: dict[str, Any]) -> None:
        if not self.is_active:
            raise QueryError("the run is over, so nothing of it can be changed")
        self._runtime.inbox.ask(kind, what)

    @property
    def events(self) -> list[dict[str, Any]]:
        """The decisions so far, with their reasons, oldest first; the last ten thousand or so."""
        return read_events(self._runtime.store.files)

    @property
    def progress(self) -> dict[str, Any]:
        """The numbers after the last committed batch, and how far the one under way has come."""
        runtime = self._runtime
        return progress(runtime.query, runtime.manifest, self._under_way())

    def _under_way(self) -> dict[str, Any] | None:
        files = self._runtime.under_way
        batch = files.batch() if self.is_active else None
        if batch is None or batch["batch"] <= self._runtime.manifest.batch:
            return None
        if not batch["rows"]:
            batch["rows"] = files.rows_read(batch["batch"])
        return under_way(batch, files.reports(batch["batch"]), self._runtime.clock())

    def diagnose(self) -> Diagnosis:
        """Why there is no output, or so much: the likeliest cause in words, and the numbers."""
        return diagnosed(self.progress)
