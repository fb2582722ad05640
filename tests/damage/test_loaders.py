"""A file of ours was damaged: whoever starts is refused, or reads what was written. No Spark."""

from __future__ import annotations

import os
import random
import re
from itertools import combinations
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import anabranch as ab
from anabranch.kernel.block import Block
from anabranch.model.watermark import Seen
from anabranch.state.manifest import Manifest
from anabranch.state.ownership import Claim, take
from anabranch.state.place import Place
from anabranch.state.recovery import recover
from anabranch.state.requests import RESIZE, ask, asked
from anabranch.state.segment import read_segment
from anabranch.state.store import Store
from tests.damage.damages import exchange, flip_bit

FLIPS = 4000
SEED = int(os.environ.get("FLIP_SEED", random.randrange(10**6)))
QUERY = {"terms": ["a.k = b.k"]}


def build(root: Path) -> None:
    """A checkpoint after three batches, with a request that waits for the next."""
    store = Store.at(str(root))
    store.claim(QUERY)
    (root / "spark").mkdir()
    (root / "spark" / "metadata").write_text('{"id":"7"}')
    before = Manifest.empty(2)
    for batch in range(3):
        for log in ("offsets", "commits"):
            path = root / "spark" / log / str(batch)
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(f"v1\n{batch}")
        refs = tuple((store.add(batch, stream, block(batch)),) for stream in range(2))
        segments = tuple((*old, *new) for old, new in zip(before.segments, refs, strict=True))
        digest = store.offsets_digest(batch)
        seen = (Seen(batch), Seen(batch))
        now = Manifest(batch, segments, seen, batch - 1, {"results": 7}, {}, digest)
        store.commit(now, before)
        before = now
    ask(store.files, RESIZE, {"stream": "a", "window": 5, "since": None}, 3)
    deliver(store, root.with_name("out"))


def deliver(store: Store, out: Path) -> None:
    """An output with a batch for each of the checkpoint's."""
    output, lock = take(Place.of(str(out)), Claim(store.claim(QUERY)))
    for batch in range(3):
        written = output.begin(batch)
        written.mkdir()
        (written / "part-0.parquet").write_bytes(b"PAR1")
        output.publish(written, batch, store.offsets_digest(batch))
    lock.release()


def block(batch: int) -> Block:
    times = np.arange(10 * batch, 10 * batch + 5, dtype=np.int64)
    return Block({"x": pa.array(times)}, times, {"0": {"codes": times[::-1].copy()}})


def load(root: Path) -> Any:
    """All that a start, and the tasks after it, read of a checkpoint."""
    store = Store.at(str(root))
    owner = store.claim(QUERY)
    latest = recover(store, 2, driven=True)
    assert latest is not None
    rows = [
        (read.times.tolist(), read.columns["x"].to_pylist(), read.indexes["0"]["codes"].tolist())
        for read in (read_segment(store.files, ref) for refs in latest.segments for ref in refs)
    ]
    output, lock = take(Place.of(str(root.with_name("out"))), Claim(owner, latest.batch, 2))
    try:
        held = output.owner, output.holds(2, latest.digest), output.holds(3, "of the next batch")
    finally:
        lock.release()
    return owner, latest, rows, asked(store.files), held


@pytest.fixture
def root(tmp_path: Path) -> Path:
    build(tmp_path / "checkpoint")
    return tmp_path / "checkpoint"


def is_refused(root: Path, expected: Any, what: str) -> bool:
    """Whether a start is refused. If it is not, it reads what was written."""
    try:
        found = load(root)
    except ab.CheckpointError as error:
        if len(str(error)) > 1000:
            pytest.fail(f"{what}: {len(str(error))} characters")
        return True
    assert found == expected, what
    return False


def test_a_flipped_bit_is_refused_or_changes_nothing(root: Path) -> None:
    print(f"FLIP_SEED={SEED}")  # noqa: T201 - shown if the test fails
    chance = random.Random(SEED)
    expected, paths = load(root), files(root)
    kinds = {re.sub(r"[0-9]+", "N", path.parent.name) for path in paths}
    assert kinds == {"checkpoint", "manifests", "requests", "N", "_anabranch", "batch=N"}
    refused = 0
    for _ in range(FLIPS):
        path = chance.choice(paths)
        before = path.read_bytes()
        bit = chance.randrange(8 * len(before))
        flip_bit(path, bit)
        refused += is_refused(root, expected, f"bit {bit} of {path}")
        path.write_bytes(before)
    # The older manifests and seals are read by nobody.
    assert refused > FLIPS / 2


def test_a_file_that_is_cut_emptied_or_deleted_is_refused_or_not_needed(root: Path) -> None:
    expected, refused = load(root), []
    for path in files(root):
        before = path.read_bytes()
        for size in (len(before) - 1, len(before) // 2, 0):
            path.write_bytes(before[:size])
            refused.append(is_refused(root, expected, f"{path} cut to {size} bytes"))
        if path.parent.name != "requests":  # nobody knows of a request but its own file
            path.unlink()
            refused.append(is_refused(root, expected, f"{path} deleted"))
        path.write_bytes(before)
    assert refused.count(True) > len(refused) / 2


def test_files_that_were_swapped_are_refused_or_not_needed(root: Path) -> None:
    expected, refused = load(root), []
    for one, other in combinations(files(root), 2):
        exchange(one, other)
        refused.append(is_refused(root, expected, f"{one} swapped with {other}"))
        exchange(one, other)
    assert refused.count(True) > len(refused) / 2


def files(root: Path) -> list[Path]:
    """Those of ours, of a checkpoint and the output beside it."""
    return [path for path in sorted(root.parent.rglob("*")) if path.is_file() and ours(path)]


def ours(path: Path) -> bool:
    """Whether it is a file that we read: neither Spark's, nor a lock, nor a result."""
    others = ("spark", "lock")
    return not set(path.parts).intersection(others) and path.suffix != ".parquet"
