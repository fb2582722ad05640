"""What ends a run from outside is said in one sentence, and the next run goes on exactly.

A disk is filled and a directory is closed for real, which takes root: `mount` and `chattr`.
"""

from __future__ import annotations

import contextlib
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.crash import data
from tests.ends.programs import Program, delivered, expected

FILES = 40
AGAIN = "start again with the same checkpoint"


@dataclass(frozen=True)
class End:
    """A way to end a program: what is done to it, what mends that, and what it says."""

    act: Callable[[Program, Path], None]
    words: tuple[str, ...]
    lines: int = 200
    """That a script may write, most of them Spark's own log; a command writes one."""
    undo: Callable[[Path], None] = lambda _home: None


def _fill(_program: Program, home: Path) -> None:
    filler = home / "disk" / "filler"
    with filler.open("wb", buffering=0) as file, contextlib.suppress(OSError):
        while True:
            file.write(bytes(4096))


def _close(_program: Program, home: Path) -> None:
    _attribute("+i", home / "disk" / "state" / "manifests")


def _spoil(_program: Program, home: Path) -> None:
    requests = home / "disk" / "state" / "requests"
    requests.mkdir(exist_ok=True)
    (requests / "notes.txt").write_text("not a request")
    (requests / f"{1:020d}-{'0' * 32}.json").write_text('{"kind": "res')


def _attribute(change: str, path: Path) -> None:
    subprocess.run(["chattr", change, str(path)], check=True)  # noqa: S607 - wherever it is


ENDS = {
    "java": End(
        lambda program, _home: program.kill_java(),
        ("Spark's Java process has ended", AGAIN),
        lines=40,
    ),
    "worker": End(
        lambda program, _home: program.kill_workers(),
        ("a Python worker of Spark ended unexpectedly", AGAIN),
        lines=300,
    ),
    "disk": End(
        _fill,
        ("a disk is full", "Free some space", AGAIN),
        undo=lambda home: (home / "disk" / "filler").unlink(),
    ),
    "permission": End(
        _close,
        ("state/manifests", "Operation not permitted", "Give the user of the run the right", AGAIN),
        undo=lambda home: _attribute("-i", home / "disk" / "state" / "manifests"),
    ),
    "request": End(
        _spoil,
        (f"{1:020d}-{'0' * 32}.json is damaged", "Delete this file", "ask again"),
        undo=lambda home: next((home / "disk/state/requests").glob("*0.json")).unlink(),
    ),
}


@pytest.fixture
def home(tmp_path: Path) -> Iterator[Path]:
    """The data, and a small disk for the checkpoint."""
    data.write(tmp_path / "data", FILES, seed=7)
    disk = tmp_path / "disk"
    disk.mkdir()
    small = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(disk)]
    subprocess.run(small, check=True)
    try:
        yield tmp_path
    finally:
        subprocess.run(["umount", "-l", str(disk)], check=True)  # noqa: S607 - wherever it is


@contextlib.contextmanager
def running(home: Path, kind: str, trigger: str = "100 milliseconds") -> Iterator[Program]:
    program = Program(home, kind, trigger)
    try:
        yield program
    finally:
        program.clean_up()


def finish_exactly(home: Path, kind: str) -> None:
    with running(home, kind, "available now") as program:
        assert program.end() == 0, program.errors
    answer = expected(home)
    assert answer.total() > 1000
    assert delivered(home) == answer


@pytest.mark.long
def test_a_command_ends_with_one_line_whatever_ends_it_and_the_next_one_goes_on(
    home: Path,
) -> None:
    for name, end in ENDS.items():
        with running(home, "command") as program:
            program.until_it_works(1)
            end.act(program, home)
            code = program.end()
            end.undo(home)
        assert (code, len(program.errors)) == (2, 1), (name, program.errors)
        (line,) = program.errors
        assert line.startswith("anabranch: "), name
        assert len(line) <= 1000, name
        assert all(words in line for words in end.words), (name, line)
    assert (home / "disk" / "state" / "requests" / "notes.txt").exists()
    finish_exactly(home, "command")


@pytest.mark.long
def test_a_script_gets_one_sentence_as_its_error_and_the_next_one_goes_on(home: Path) -> None:
    for name, end in ENDS.items():
        with running(home, "script") as program:
            program.until_it_works(1)
            end.act(program, home)
            code = program.end()
            end.undo(home)
        assert code == 1, name
        assert len(program.errors) <= end.lines, (name, program.errors)
        kind, _, sentence = program.errors[-1].partition(": ")
        assert kind in ("anabranch.errors.RunError", "anabranch.errors.CheckpointError"), name
        assert all(words in sentence for words in end.words), (name, sentence)
    finish_exactly(home, "script")


@pytest.mark.long
def test_a_command_whose_whole_process_group_is_told_to_end_stops_in_good_order(
    home: Path,
) -> None:
    with running(home, "command") as program:
        program.until_it_works(1)
        program.signal_group()
        assert program.end() == 0
    assert program.errors == []
    assert "Stopped; the same command goes on from here." in program.output
    finish_exactly(home, "command")


@pytest.mark.long
def test_stops_at_any_moment_overflow_no_stack(tmp_path: Path) -> None:
    data.write(tmp_path / "data", FILES, seed=5)
    (tmp_path / "disk").mkdir()
    program = Program(tmp_path, "script", "available now", "8")
    try:
        assert program.end() == 0, program.errors[-20:]
    finally:
        program.clean_up()
    assert not [line for line in program.errors if "StackOverflow" in line]
    assert delivered(tmp_path) == expected(tmp_path)
