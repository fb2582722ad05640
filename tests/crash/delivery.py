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
    table = ds.dataset(out, format="parquet", partitioning="hive").to_table()
    return rows(table.drop_columns("batch"))
