"""Streams in files, one file of each stream a batch, out of order within the lateness."""

from __future__ import annotations

import os
import random
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

STREAMS = ("a", "b", "c")
ROWS = 30
SECONDS = 10
LATENESS = 4
"""Event time that a file covers, and how far before it rows may lie, in seconds."""

_EPOCH = datetime(2026, 1, 1, tzinfo=UTC)


def write(directory: Path, files: int, seed: int) -> None:
    """Files in the order of their modification times, which is the order Spark takes them in."""
    chance = random.Random(seed)
    for number in range(files):
        for stream in STREAMS:
            path = directory / stream / f"{number:03d}.parquet"
            path.parent.mkdir(parents=True, exist_ok=True)
            pq.write_table(_rows(chance, number), path)
            os.utime(path, (1_700_000_000 + number, 1_700_000_000 + number))


def _rows(chance: random.Random, number: int) -> pa.Table:
    earliest = SECONDS * number - (LATENESS if number else 0)
    moments = [chance.uniform(earliest, SECONDS * (number + 1)) for _ in range(ROWS - 1)]
    # A row at the very end puts each watermark where the next file's earliest rows are not late.
    moments.append(SECONDS * (number + 1))
    return pa.table(
        {
            "ts": pa.array(
                [_EPOCH + timedelta(seconds=moment) for moment in moments],
                pa.timestamp("us", "UTC"),
            ),
            "id": [ROWS * number + row for row in range(ROWS)],
            "key": [f"k{chance.randrange(4)}" for _ in range(ROWS)],
            "x": [chance.uniform(0, 20) for _ in range(ROWS)],
        }
    )
