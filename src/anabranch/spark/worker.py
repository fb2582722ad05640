"""What a task does for the Python worker that it runs in."""

from __future__ import annotations

import atexit
import gc
from functools import cache


@cache
def settle() -> None:
    """Take what is in memory by now out of garbage collection, once in a worker's life.

    Spark's workers collect garbage after every task, through everything that was ever imported:
    20 ms and more, which a task of the next stage waits for. Modules stay as long as the worker.
    """
    gc.collect()
    gc.freeze()
    # At the end everything goes: DuckDB complains of what would be left.
    atexit.register(gc.unfreeze)
