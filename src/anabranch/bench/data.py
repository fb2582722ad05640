"""The files of a case: one Parquet file per stream and second of event time, from a seed.

The modification times follow event time, because Spark's file source takes files in that order.
Rows are disordered within a second and never beyond it. A directory is named after everything
that its content depends on, so what was written once is used again by every later run.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from anabranch.bench.cases import Case

SEED = 20_070_101
EPOCH = 1_700_000_000
"""Event time of the first row, in seconds: fixed, so that files are equal on every machine."""
FORMAT = 1
"""Raised when the same configuration shall give other rows than before."""
SECOND = 1_000_000


def default_directory() -> Path:
    """Under the system's directory for temporary files, so that it does not pile up for ever."""
    return Path(tempfile.gettempdir()) / "anabranch-bench"


def path_of(case: Case, directory: Path) -> Path:
    """Where the files of a case are, or will be."""
    configuration = repr((FORMAT, SEED, EPOCH, case.feeds, case.rows))
    return directory / f"{case.name}-{hashlib.sha256(configuration.encode()).hexdigest()[:12]}"


def generate(case: Case, directory: Path, written: Callable[[int], None] = lambda _: None) -> Path:
    """Write the files of a case unless they are there; `written` hears of each second done."""
    target = path_of(case, directory)
    if target.exists():
        return target
    directory.mkdir(parents=True, exist_ok=True)
    # Built beside its place and renamed: a run that is killed half way leaves nothing that a
    # later one would take for the whole.
    partial = Path(tempfile.mkdtemp(prefix=f"{target.name}-", dir=directory))
    try:
        for feed in range(len(case.feeds)):
            (partial / case.feeds[feed].name).mkdir()
        for second in range(len(case.rows)):
            for feed in range(len(case.feeds)):
                file = partial / case.feeds[feed].name / f"{second:05d}.parquet"
                pq.write_table(rows_of(case, feed, second), file)
                os.utime(file, (EPOCH + second, EPOCH + second))
            written(second)
        partial.rename(target)
    except BaseException:
        shutil.rmtree(partial, ignore_errors=True)
        # Two runs may generate the same data at once: whoever renames second finds it done.
        if not target.exists():
            raise
    return target


def rows_of(case: Case, feed: int, second: int) -> pa.Table:
    """What one stream gets in one second of event time."""
    count = case.rows[second]
    random = np.random.default_rng([SEED, feed, second])
    times = random.integers(0, SECOND, count) + (EPOCH + second) * SECOND
    first = sum(case.rows[:second])
    columns = {
        "ts": pa.array(times, pa.timestamp("us", tz="UTC")),
        "id": pa.array(np.arange(first, first + count), pa.int64()),
    }
    for name, column in case.feeds[feed].columns:
        columns[name] = column.draw(random, count)
    return pa.table(columns)
