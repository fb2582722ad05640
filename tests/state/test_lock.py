"""One run at a time on a checkpoint, across processes and within one."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from anabranch.errors import CheckpointError
from anabranch.state.files import Files
from anabranch.state.lock import Lock

HOLDER = """
import sys, time
from anabranch.state.files import Files
from anabranch.state.lock import Lock
lock = Lock.take(Files(sys.argv[1]))
print("held", flush=True)
time.sleep(600)
"""


def test_a_second_taker_is_refused_and_told_who_holds_it(tmp_path: Path) -> None:
    held = Lock.take(Files(str(tmp_path)))
    with pytest.raises(CheckpointError) as refused:
        Lock.take(Files(str(tmp_path)))
    assert f"in use by process {os.getpid()}" in str(refused.value)
    held.release()
    held.release()
    Lock.take(Files(str(tmp_path))).release()


def test_a_holder_that_is_done_makes_way(tmp_path: Path) -> None:
    Lock.take(Files(str(tmp_path))).in_use = lambda: False
    Lock.take(Files(str(tmp_path))).release()


def test_a_lock_that_another_holds_ends_with_it(tmp_path: Path) -> None:
    for name in ("checkpoint", "output"):
        (tmp_path / name).mkdir()
    checkpoint, output = Files(str(tmp_path / "checkpoint")), Files(str(tmp_path / "output"))
    held = Lock.take(checkpoint)
    held.hold(Lock.take(output, "output"))
    with pytest.raises(CheckpointError, match=r"the output .* is in use by process"):
        Lock.take(output, "output")
    held.release()
    held = Lock.take(checkpoint)
    held.hold(Lock.take(output, "output"))
    held.in_use = lambda: False
    Lock.take(output, "output").release()
    held.release()


def test_a_killed_process_holds_nothing(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            with pytest.raises(CheckpointError, match=f"in use by process {holder.pid}"):
                Lock.take(Files(str(tmp_path)))
        finally:
            holder.kill()
    Lock.take(Files(str(tmp_path))).release()
