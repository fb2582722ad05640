"""A running query, as its user sees it."""

from __future__ import annotations

import re
import threading
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from anabranch.errors import AnabranchError, CheckpointError, TermError
from anabranch.report.diagnosis import Diagnosis, diagnosed
from anabranch.report.progress import progress
from anabranch.spark.runtime import Runtime
from anabranch.state.lock import Lock

_IN_TASKS: dict[str, type[AnabranchError]] = {
    "TermError": TermError,
    "CheckpointError": CheckpointError,
}


class Run:
    """A handle on a join that runs in the background."""

    def __init__(self, runtime: Runtime, lock: Lock) -> None:
        self._runtime = runtime
        self._lock = lock
        lock.in_use = lambda: self.is_active
        self._query: StreamingQuery | None = None
        self._bounded: threading.Thread | None = None
        self._failure: BaseException | None = None

    # -- started by the builder ----------------------------------------------------------------

    def drive(self, frame: DataFrame, checkpoint: str, trigger: dict[str, Any]) -> None:
        """Run over streams: Structured Streaming calls back with each batch."""
        writer = frame.writeStream.foreachBatch(self._process)
        writer = writer.option("checkpointLocation", checkpoint).trigger(**trigger)
        self._query = writer.start()

    def drive_bounded(self) -> None:
        """Run over static inputs: a single batch, in a thread of its own."""
        self._bounded = threading.Thread(target=self._process_bounded, daemon=True)
        self._bounded.start()

    def _process(self, frame: DataFrame, batch: int) -> None:
        try:
            # A private copy of the session: this reaches no other query of the user's.
            conf = frame.sparkSession.conf
            conf.set("spark.sql.execution.arrow.maxRecordsPerBatch", "100000")
            self._runtime.process(frame, batch)
        except BaseException as error:
            self._failure = _understood(error)
            raise

    def _process_bounded(self) -> None:
        try:
            self._runtime.process(None, 0)
        except BaseException as error:  # noqa: BLE001 - it is kept, and raised to who waits
            self._failure = _understood(error)

    # -- the public surface ------------------------------------------------------------------

    @property
    def is_active(self) -> bool:
        if self._query is not None:
            active = bool(self._query.isActive)
        else:
            active = self._bounded is not None and self._bounded.is_alive()
        if not active:
            self._lock.release()
        return active

    @property
    def exception(self) -> BaseException | None:
        """Why the run failed; None while it runs and after a good end."""
        if self._failure is not None:
            return self._failure
        if self._query is not None and not self._query.isActive:
            return self._query.exception()
        return None

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
        except StreamingQueryException as error:
            raise (self._failure or error) from None
        finally:
            over = not self.is_active
        if self._query is None and self._failure is not None:
            raise self._failure
        return over

    def stop(self) -> None:
        """End the run. What is committed stays; a batch under way is repeated by the next run."""
        if self._query is not None:
            self._query.stop()
        elif self._bounded is not None:
            self._bounded.join()
        self._lock.release()

    @property
    def progress(self) -> dict[str, Any]:
        """The numbers after the last committed batch."""
        runtime = self._runtime
        return progress(runtime.query, runtime.manifest, runtime.clock())

    def diagnose(self) -> Diagnosis:
        """Why there is no output, or so much: the likeliest cause in words, and the numbers."""
        return diagnosed(self.progress)


def _understood(error: BaseException) -> BaseException:
    """An error of ours that was raised in a task comes back as text in Spark's; bring it back."""
    if isinstance(error, AnabranchError):
        return error
    found = re.search(r"anabranch\.errors\.(\w+): (.*)", str(error))
    if found and found[1] in _IN_TASKS:
        return _IN_TASKS[found[1]](found[2].strip())
    return error
