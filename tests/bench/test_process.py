"""A side speaks in lines, and is stopped when its time is over."""

from __future__ import annotations

import io
import os
import subprocess
import sys
from pathlib import Path

import pytest

from anabranch.bench.child import Assignment
from anabranch.bench.measure import Batch
from anabranch.bench.process import run_side
from anabranch.bench.reporting import Failed, Finished, Reporter, Started, parse

BATCH = Batch(0, 800, start=1.5, seconds=0.25, results=3)
SAY = """
import sys, time
from anabranch.bench.measure import Batch
from anabranch.bench.reporting import Reporter
to = Reporter(sys.stdout)
"""


def assignment(monkeypatch: pytest.MonkeyPatch, program: str) -> Assignment:
    """A side that does as the program says."""
    command = [sys.executable, "-c", SAY + program]
    monkeypatch.setattr(Assignment, "command", lambda _: command)
    return Assignment("band-2way", quick=True, side="ours", plan=0, data="", work="", files=2)


def test_what_is_written_is_read_again() -> None:
    stream = io.StringIO()
    to = Reporter(stream)

    to.start()
    to.batch(BATCH)
    to.fail("no more memory")
    to.finish()

    started, *others = map(parse, stream.getvalue().splitlines())
    assert isinstance(started, Started)
    assert others == [BATCH, Failed("no more memory"), Finished()]


@pytest.mark.parametrize("line", ["", "WARN heap", "{", "[1]", '{"other": "batch"}', "17"])
def test_whatever_else_a_process_prints_is_passed_over(line: str) -> None:
    assert parse(line) is None


def test_a_side_that_finishes_is_heard_to_the_end(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[Batch] = []
    task = assignment(
        monkeypatch, "to.start(); print('noise'); to.batch(Batch(0, 800, 1.0, 0.5)); to.finish()"
    )

    outcome = run_side(task, 60.0, heard.append)

    assert heard == [Batch(0, 800, 1.0, 0.5)]
    assert outcome.run.batches == tuple(heard)
    assert (outcome.run.stopped, outcome.error) == (None, None)
    assert outcome.run.planned == (800, 800, 800, 800)


def test_a_side_that_is_out_of_time_is_stopped_with_what_it_had(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    survived = tmp_path / "survived"
    task = assignment(
        monkeypatch,
        "to.start(); to.batch(Batch(0, 800, time.time(), 0.1)); time.sleep(600); "
        f"open({str(survived)!r}, 'w')",
    )
    monkeypatch.setattr("anabranch.bench.process.FAREWELL", 0.1)

    outcome = run_side(task, 0.5, lambda _: None)

    assert len(outcome.run.batches) == 1
    assert outcome.run.stopped is not None
    assert outcome.run.started is not None
    assert outcome.run.stopped - outcome.run.started >= 0.5
    assert outcome.error is None
    assert not survived.exists()


def test_a_side_that_fails_says_why(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = run_side(assignment(monkeypatch, "to.fail('no Java')"), 60.0, lambda _: None)

    assert outcome.error == "no Java"


def test_of_a_side_that_dies_the_last_words_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = run_side(assignment(monkeypatch, "sys.exit('killed')"), 60.0, lambda _: None)

    assert outcome.error == "the process ended without a word; its last line: killed"


@pytest.mark.skipif(not hasattr(os, "sched_getaffinity"), reason="only Linux pins processes")
def test_a_side_keeps_to_its_cores_and_so_does_what_it_starts() -> None:
    program = """
import subprocess, sys
from anabranch.bench.child import keep_to
keep_to(1)
print(subprocess.check_output([sys.executable, "-c", "import os; print(os.sched_getaffinity(0))"]))
"""
    printed = subprocess.check_output([sys.executable, "-c", program], text=True)

    assert printed.count(",") == 0
    assert "{" in printed
