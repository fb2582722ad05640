"""A job at rest after each of its batches, and what comes of it when a copy is damaged and run on.

The copies are of the checkpoint and the output. The input stays where it is: Spark's checkpoint
names its files by their absolute paths.
"""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

import anabranch as ab
from anabranch.spark.run import Run
from tests.crash import job
from tests.crash.delivery import delivered, rows
from tests.crash.kills import Supply

BATCHES = 5
"""That the job had run before it was damaged."""
FURTHER = 2
"""That it still has to run."""
QUERY = "equality"
EXACT, REFUSED, WRONG = "exact", "refused", "WRONG"


@dataclass(frozen=True)
class Home:
    """A checkpoint with its output, to be damaged, and copies of both from after each batch."""

    path: Path
    copies: tuple[Path, ...] = ()

    @property
    def checkpoint(self) -> Path:
        return self.path / "checkpoint"

    @property
    def out(self) -> Path:
        return self.path / "out"

    def before(self, batches: int) -> Home:
        """Everything as it was some batches before."""
        return Home(self.copies[-1 - batches])

    def restore(self, name: str, batches: int) -> None:
        """Put back a file or a directory as it was some batches before."""
        target, source = self.path / name, self.before(batches).path / name
        if source.is_dir():
            shutil.rmtree(target)
            shutil.copytree(source, target)
        else:
            shutil.copy2(source, target)


Damage = Callable[[Home], None]


@dataclass(frozen=True)
class Outcome:
    """How a damaged job ended."""

    name: str
    why: str

    @property
    def good(self) -> bool:
        return self.name in (EXACT, REFUSED)


@dataclass(frozen=True)
class Stage:
    """The job, its copies after each batch, and its whole answer."""

    spark: SparkSession
    data: Path
    copies: tuple[Path, ...]
    expected: Counter[tuple[Any, ...]]

    @staticmethod
    def build(spark: SparkSession, directory: Path, seed: int = 5) -> Stage:
        """Run the job batch by batch, and keep a copy after each."""
        supply = Supply(directory, BATCHES + FURTHER, seed)
        home, copies = Home(directory / "home"), []
        for batch in range(BATCHES):
            supply.give(1)
            _start(spark, supply.source, home).await_termination()
            copies.append(directory / f"after-{batch}")
            shutil.copytree(home.path, copies[-1])
        supply.give(FURTHER)
        expected = rows(ab.testing.reference(job.static(spark, QUERY, supply.source)))
        return Stage(spark, supply.source, tuple(copies), expected)

    def outcome(self, directory: Path, *damages: Damage) -> Outcome:
        """Damage a copy, run the job on to its end, and compare with the whole answer."""
        home = Home(directory / "home", self.copies)
        shutil.copytree(self.copies[-1], home.path)
        outside = directory / "victim.txt"
        outside.write_text("not of this checkpoint")
        for damage in damages:
            damage(home)
        before = _contents(home.path)
        run = None
        try:
            run = _start(self.spark, self.data, home)
            run.await_termination()
        except ab.CheckpointError as error:
            message = str(error)
        except Exception as error:  # noqa: BLE001 - whatever it is, it is not a clear refusal
            return Outcome(WRONG, f"failed with {type(error).__name__}: {str(error)[:3000]}")
        else:
            message = ""
        if outside.read_text() != "not of this checkpoint":
            return Outcome(WRONG, "a file outside of the checkpoint is damaged")
        if len(message) > 1000:
            return Outcome(WRONG, f"refused in {len(message)} characters: {message[:2000]}")
        if run is None:
            return _untouched(home, before, message)
        found = delivered(home.out)
        lost, more = (self.expected - found).total(), (found - self.expected).total()
        what = f"{lost} of {self.expected.total()} results lost, {more} too many"
        if message:
            # What was delivered before the damage was found is right.
            return Outcome(WRONG if more else REFUSED, f"{message} ({what})")
        return Outcome(WRONG if lost or more else EXACT, what)


def _untouched(home: Home, before: dict[str, bytes], message: str) -> Outcome:
    """A start that is refused deletes and changes nothing."""
    after = _contents(home.path)
    gone = sorted(name for name in before if name not in after)
    changed = sorted(name for name in before if after.get(name, before[name]) != before[name])
    if gone or changed:
        return Outcome(WRONG, f"refused ({message}), but {gone} deleted, {changed} changed")
    return Outcome(REFUSED, message)


def _start(spark: SparkSession, data: Path, home: Home) -> Run:
    return job.streaming(spark, QUERY, data, None).start(
        ab.parquet_sink(str(home.out)),
        checkpoint=str(home.checkpoint),
        trigger="available now",
    )


def _contents(directory: Path) -> dict[str, bytes]:
    """Every file that a start may not change before it has understood the checkpoint."""
    found = [path for path in directory.rglob("*") if path.is_file() and path.name != "lock"]
    return {str(path.relative_to(directory)): path.read_bytes() for path in found}
