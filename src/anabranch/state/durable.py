"""What is to survive a loss of power: files and directories, synchronized to the disk."""

from __future__ import annotations

import ctypes
import os
import uuid
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

AT_ONCE = 16
"""A file system writes its journal once for all that wait for it at the same time."""


def sync(path: Path) -> None:
    """Wait until a file's bytes, or a directory's names, are on the disk."""
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def sync_all(paths: Sequence[Path]) -> None:
    """Wait for several files and directories."""
    with ThreadPoolExecutor(min(max(len(paths), 1), AT_ONCE)) as pool:
        list(pool.map(sync, paths))


def sync_tree(directory: Path) -> None:
    """Wait for everything below a directory."""
    sync_all([directory, *directory.rglob("*")])


def exchange(one: Path, other: Path) -> None:
    """Let two directories change their names: by one step where the system has it."""
    call = getattr(ctypes.CDLL(None), "renameat2", None)
    if call is None or call(_HERE, os.fsencode(one), _HERE, os.fsencode(other), _EXCHANGE) != 0:
        between = one.with_name(f"{one.name}-{uuid.uuid4().hex}")
        other.rename(between)
        one.rename(other)
        between.rename(one)


_HERE, _EXCHANGE = -100, 2
"""AT_FDCWD and RENAME_EXCHANGE of Linux."""


def make_directory(path: Path) -> None:
    """Make a directory and those above it; their names are on the disk afterwards."""
    new = [at for at in (path, *path.parents) if not at.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for at in new:
        sync(at.parent)
