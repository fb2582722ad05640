"""What a job has put out, as a multiset."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds


def rows(table: pa.Table) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row.values()) for row in table.to_pylist())


def delivered(out: Path) -> Counter[tuple[Any, ...]]:
    """Every Parquet file below a directory: what a plain reader of it would see."""
    paths = [str(path) for path in sorted(out.rglob("*.parquet"))]
    table = ds.dataset(paths, format="parquet").to_table()
    return rows(table)
