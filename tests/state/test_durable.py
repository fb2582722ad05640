"""What survives a loss of power: a manifest is on the disk after everything that it relies on."""

from __future__ import annotations

import os
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from anabranch.kernel.block import Block
from anabranch.model.watermark import Seen
from anabranch.state.manifest import Manifest
from anabranch.state.store import Store


class Disk:
    """Notes in which order files come to their names and reach the disk; all of it is done."""

    def __init__(self, patch: pytest.MonkeyPatch) -> None:
        self.steps: list[tuple[str, Path]] = []
        fsync, replace = os.fsync, os.replace

        def noted_fsync(handle: int) -> None:
            fsync(handle)
            self.steps.append(("sync", Path(f"/proc/self/fd/{handle}").readlink()))

        def noted_replace(source: Path, target: Path) -> None:
            replace(source, target)
            self.steps.append(("name", Path(target)))

        patch.setattr(os, "fsync", noted_fsync)
        patch.setattr(os, "replace", noted_replace)

    def last(self, kind: str, path: Path) -> int:
        return max(at for at, step in enumerate(self.steps) if step == (kind, path))


def test_segments_and_sparks_files_reach_the_disk_before_the_manifest_that_needs_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    home = tmp_path / "new" / "checkpoint"
    disk = Disk(monkeypatch)
    store = Store.at(str(home))
    store.claim({})
    needed = []
    for name in ("offsets/0", "sources/0/0", "sources/1/0", "metadata"):
        (home / "spark" / name).parent.mkdir(parents=True, exist_ok=True)
        (home / "spark" / name).write_text("v1")
        needed.append(home / "spark" / name)
    block = Block({"x": pa.array([1])}, np.array([1], np.int64), {})
    ref = store.add(0, 0, block)

    store.commit(Manifest(0, ((ref,), ()), (Seen(1), Seen(1))), Manifest.empty(2))

    manifest = home / "manifests" / "000000000000.json"
    visible = disk.last("name", manifest)
    assert disk.last("sync", manifest.parent) > visible
    segment = home / ref.path
    written = [at for at, (_, path) in enumerate(disk.steps) if path.name.startswith(segment.name)]
    assert disk.steps[written[0]][0] == "sync", "its bytes come before its name"
    assert disk.last("name", segment) < disk.last("sync", segment.parent) < visible
    for path in needed:
        assert disk.last("sync", path) < visible
        assert disk.last("sync", path.parent) < visible
    # Directories that were made on the way are names in the ones above them.
    for directory in (tmp_path, tmp_path / "new", home, home / "segments", home / "spark"):
        assert disk.last("sync", directory) < visible


def test_of_a_later_batch_sparks_own_entries_are_synchronized(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = Store.at(str(tmp_path))
    for name in ("offsets/9", "commits/8", "sources/0/9.compact", "offsets/8"):
        (tmp_path / "spark" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "spark" / name).write_text("v1")
    disk = Disk(monkeypatch)

    store.commit(Manifest(9, ((), ()), (Seen(1), Seen(1))), Manifest.empty(2))

    visible = disk.last("name", tmp_path / "manifests" / "000000000009.json")
    before = {path for kind, path in disk.steps[:visible] if kind == "sync"}
    spark = tmp_path / "spark"
    assert before >= {spark / "offsets/9", spark / "commits/8", spark / "sources/0/9.compact"}
    assert spark / "offsets/8" not in before
