"""The way of somebody who has a wheel, the README, and files of their own that are out of order."""

from __future__ import annotations

import csv
import os
import random
import re
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow.dataset as ds
import pytest

from tests.newcomer.environment import ROOT, build_wheel, call, environment

START = datetime(2026, 1, 1, 12, tzinfo=UTC)
FILES, PER_BATCH, ROWS = 16, 4, 1200
SEED = int(os.environ.get("NEWCOMER_SEED", random.randrange(10**6)))
Rows = list[dict[str, Any]]
SPARKS_OWN = (
    r"[\d/]+ [\d:]+ WARN (?!.*anabranch)",
    r"WARNING: ",  # of the machine's Java
    r"Using Spark's default log4j|Setting default log level|To adjust logging level",
    r"\[Stage ",
)


def disordered(rows: Rows, most: float, chance: random.Random) -> list[Rows]:
    """Rows as files in the order of arrival: each comes at most `most` seconds after its time."""
    arrival = sorted(rows, key=lambda row: row["t"] + chance.uniform(0, most))
    size = len(rows) // FILES
    files = [arrival[i * size : (i + 1) * size] for i in range(FILES)]
    for file in files:
        chance.shuffle(file)
    return files


def write(folder: Path, files: list[Rows], chance: random.Random) -> None:
    """CSV files whose names say nothing of their order; the time of modification does."""
    folder.mkdir()
    names = chance.sample(range(1000), FILES)
    for arrived, (name, rows) in enumerate(zip(names, files, strict=True)):
        file = folder / f"{name}.csv"
        with file.open("w", newline="") as out:
            writer = csv.writer(out)
            writer.writerow(["ts", *(column for column in rows[0] if column != "t")])
            for row in rows:
                ts = (START + timedelta(seconds=row["t"])).strftime("%Y-%m-%d %H:%M:%S.%f")
                writer.writerow([ts, *(value for name, value in row.items() if name != "t")])
        os.utime(file, (1_700_000_000 + arrived, 1_700_000_000 + arrived))


def behind(streams: list[list[Rows]], lateness: float) -> int:
    """How many rows come behind the watermark that the batches before them have left."""
    late, greatest = 0, [float("-inf")] * len(streams)
    for first in range(0, FILES, PER_BATCH):
        batch = [
            [row["t"] for file in s[first : first + PER_BATCH] for row in file] for s in streams
        ]
        watermark = min(greatest) - lateness
        late += sum(t < watermark for times in batch for t in times)
        greatest = [max(known, *times) for known, times in zip(greatest, batch, strict=True)]
    return late


def brute_force(readings: Rows, limits: Rows) -> Counter[tuple[Any, ...]]:
    """All pairs: a reading is at most 5 minutes older than its limit, a limit at most 10."""
    return Counter(
        (r["id"], limit["id"], r["value"])
        for r in readings
        for limit in limits
        if limit["t"] - r["t"] <= 300
        and r["t"] - limit["t"] <= 600
        and limit["low"] <= r["value"] <= limit["high"]
    )


def readme(language: str, word: str) -> str:
    """The block of the README, in a language, that has a word in it."""
    text = (ROOT / "README.md").read_text()
    blocks = re.findall(rf"^```{language}\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    (block,) = [block for block in blocks if word in block]
    return str(block)


def noise(stderr: str) -> list[str]:
    """The lines of a standard error that are neither Spark's own nor about the machine's Java."""
    return [
        line
        for line in re.split(r"[\r\n]", stderr)
        if line.strip() and not any(re.match(pattern, line) for pattern in SPARKS_OWN)
    ]


@pytest.mark.long
def test_a_wheel_and_the_readme_are_enough_for_a_range_join_of_disordered_files(
    tmp_path: Path,
) -> None:
    print(f"NEWCOMER_SEED={SEED}")  # noqa: T201 - shown if the test fails
    chance = random.Random(SEED)
    readings = [
        {"t": chance.uniform(0, 3600), "id": i, "value": float(chance.randrange(1000))}
        for i in range(ROWS)
    ]
    limits = [
        {"t": chance.uniform(0, 3600), "id": i, "low": float(low), "high": float(low + 5)}
        for i, low in enumerate(chance.choices(range(1000), k=ROWS))
    ]
    streams = [disordered(rows, 110, chance) for rows in (readings, limits)]
    assert behind(streams, 0) > 20, "there must be a disorder that a lateness of 0 does not bear"
    assert behind(streams, 120) == 0

    wheel = build_wheel(tmp_path)
    env = environment(tmp_path)
    assert f"pip install {wheel.name}" in readme("sh", "venv")
    call(["pip", "install", "--no-index", str(wheel)], tmp_path, env)
    work = tmp_path / "work"
    work.mkdir()
    where = "import anabranch, pathlib; pathlib.Path('where').write_text(anabranch.__file__)"
    call(["python3", "-c", where], work, env)
    assert Path((work / "where").read_text()).is_relative_to(tmp_path / "env")

    for name, files in zip(("readings", "limits"), streams, strict=True):
        write(work / name, files, chance)
    (work / "join.py").write_text(readme("python", "readings"))
    stderr = call(["python3", "join.py"], work, env)

    expected = brute_force(readings, limits)
    assert expected.total() > 500
    table = ds.dataset(work / "out", format="parquet", partitioning="hive").to_table()
    delivered = Counter(tuple(row.values()) for row in table.drop_columns("batch").to_pylist())
    assert delivered == expected
    assert len(set(table["batch"].to_pylist())) == FILES // PER_BATCH
    assert noise(stderr) == []
