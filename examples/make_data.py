"""Make the data of `correlate.toml`: twenty minutes of three feeds, as JSON, Parquet and CSV files.

    python examples/make_data.py [DIRECTORY]

The default directory is `data` beside this file. The same data is made every time. Each file
holds five minutes of one feed, and files are dated in the order of their content, which is the
order in which Spark takes them.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq

from anabranch.feeds import three_feeds

SEED = 5
START = datetime(2026, 1, 1, tzinfo=UTC)
FILES = 4
MINUTES_PER_FILE = 5
HOSTS = 50
SPACING = timedelta(seconds=1)
"""Between the dates of two files: Spark orders files by date, and equal dates in any way."""


def pieces() -> Iterator[tuple[int, pa.Table, pa.Table, pa.Table]]:
    """For each five minutes: what a detector, a honeypot and a traffic meter have seen."""
    detector, honeypot, traffic = three_feeds(SEED, rate=1.0, window=120.0)
    origin = int(START.timestamp()) * 1_000_000
    for number in range(FILES):
        ticks = [
            feed.tick(number, MINUTES_PER_FILE * 60.0, origin)
            for feed in (detector, honeypot, traffic)
        ]
        random = np.random.default_rng([SEED, number])
        hosts = [
            pa.array([f"host-{host}" for host in random.integers(0, HOSTS, tick.num_rows)])
            for tick in ticks
        ]
        # Bytes are spread over orders of magnitude, as traffic is.
        volume = pa.array(np.round(random.lognormal(2.0, 1.5, ticks[2].num_rows), 3))
        yield (
            number,
            _with(ticks[0], signs=_signs(ticks[0]), target=hosts[0]),
            _with(ticks[1], signs=_signs(ticks[1])),
            _with(ticks[2], target=hosts[2], megabytes=volume),
        )


def write(root: Path) -> None:
    """Write the three feeds, a directory each."""
    for feed in ("detector", "honeypot", "traffic"):
        (root / feed).mkdir(parents=True, exist_ok=True)
    for number, detector, honeypot, traffic in pieces():
        files = [
            root / "detector" / f"{number}.json",
            root / "honeypot" / f"{number}.parquet",
            root / "traffic" / f"{number}.csv",
        ]
        rows = detector.to_pylist()
        files[0].write_text(
            "".join(json.dumps(row | {"ts": row["ts"].isoformat()}) + "\n" for row in rows)
        )
        pq.write_table(honeypot, files[1])
        pyarrow.csv.write_csv(traffic, files[2])
        date = (START + number * SPACING).timestamp()
        for file in files:
            os.utime(file, (date, date))


def _with(tick: pa.Table, **columns: pa.Array) -> pa.Table:
    return pa.table({"id": tick["id"], "ts": tick["ts"], **columns})


def _signs(tick: pa.Table) -> pa.Array:
    return pa.array([[f"sign-{item}" for item in items] for items in tick["items"].to_pylist()])


if __name__ == "__main__":
    write(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(__file__).parent / "data")
