"""Running one side: start its process, listen to it, and stop it when its time is over."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import IO

from anabranch.bench.child import Assignment
from anabranch.bench.measure import Batch, Run
from anabranch.bench.reporting import Event, Failed, Finished, Started, parse

STARTUP = 120.0
"""How long a side may take before it begins to join: a JVM on a busy machine, with room to spare.
Not counted, since it says nothing about a join."""

FAREWELL = 5.0
"""How long a side that is through may take to end by itself."""


@dataclass(frozen=True)
class Outcome:
    """How a side ended: what it did, and its error if it had one."""

    run: Run
    error: str | None = None
    stolen: float | None = None
    """As `Summary` has it."""


def run_side(task: Assignment, limit: float, heard: Callable[[Batch], None]) -> Outcome:
    """Run a side for at most `limit` seconds after it began to join; `heard` gets its batches."""
    with (
        tempfile.TemporaryDirectory(prefix="anabranch-bench-", ignore_cleanup_errors=True) as work,
        (Path(work) / "stderr").open("w+b") as errors,
    ):
        # A session of its own, so that the JVM and the Python workers can be stopped together.
        process = subprocess.Popen(
            replace(task, work=work).command(),
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
            start_new_session=True,
        )
        before = _cpu_ticks()
        events: queue.Queue[Event | None] = queue.Queue()
        reader = threading.Thread(target=_read, args=(process.stdout, events), daemon=True)
        reader.start()
        try:
            outcome = _follow(task, events, limit, heard)
            outcome = replace(outcome, stolen=_stolen(before, _cpu_ticks()))
        finally:
            _stop(process)
            reader.join(FAREWELL)
        if outcome.error == LOST:
            return replace(outcome, error=f"{LOST}; its last line: {_last_line(errors)}")
        return outcome


LOST = "the process ended without a word"


def _follow(
    task: Assignment,
    events: queue.Queue[Event | None],
    limit: float,
    heard: Callable[[Batch], None],
) -> Outcome:
    """Take events as they come until there is nothing more to wait for."""
    run = Run(
        planned=task.chosen.batches(task.files),
        warm=task.chosen.warm_batches(task.files),
        batches=(),
        started=None,
    )
    deadline = time.time() + STARTUP
    while True:
        try:
            event = events.get(timeout=max(deadline - time.time(), 0.0))
        except queue.Empty:
            return Outcome(replace(run, stopped=time.time()))
        match event:
            case Started(at):
                run, deadline = replace(run, started=at), at + limit
            case Batch():
                run = replace(run, batches=(*run.batches, event))
                heard(event)
            case Finished():
                return Outcome(run)
            case Failed(message):
                return Outcome(replace(run, stopped=time.time()), message)
            case None:
                return Outcome(replace(run, stopped=time.time()), LOST)


def _cpu_ticks() -> tuple[int, ...]:
    """What the cores of this machine have done so far, as Linux counts it; nothing elsewhere."""
    counters = Path("/proc/stat")
    if not counters.exists():
        return ()
    return tuple(map(int, counters.read_text().splitlines()[0].split()[1:9]))


def _stolen(before: Sequence[int], after: Sequence[int]) -> float | None:
    """Of the time between that was not idle, the part in which another machine had the core.

    >>> _stolen((0,) * 8, (60, 0, 20, 100, 0, 0, 0, 20))
    0.2
    """
    if not after:
        return None
    user, nice, system, _, _, hard, soft, stolen = (
        late - early for early, late in zip(before, after, strict=True)
    )
    return stolen / max(user + nice + system + hard + soft + stolen, 1)


def _read(stream: IO[str], events: queue.Queue[Event | None]) -> None:
    with stream:
        for line in stream:
            event = parse(line)
            if event is not None:
                events.put(event)
    events.put(None)


def _stop(process: subprocess.Popen[str]) -> None:
    """End the process and all that it started; killed, because its work is of no more use."""
    try:
        process.wait(timeout=FAREWELL if process.poll() is None else 0)
    except subprocess.TimeoutExpired:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def _last_line(errors: IO[bytes]) -> str:
    errors.seek(0)
    lines = errors.read().decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else "none"
