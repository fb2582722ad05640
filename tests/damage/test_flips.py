"""One bit of any file of ours, flipped: whoever starts is refused, or reads what was written."""

from __future__ import annotations

import os
import random
import re
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

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
from tests.damage.damages import flip_bit

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


def test_a_flipped_bit_is_refused_or_changes_nothing(tmp_path: Path) -> None:
    print(f"FLIP_SEED={SEED}")  # noqa: T201 - shown if the test fails
    chance = random.Random(SEED)
    root = tmp_path / "checkpoint"
    build(root)
    expected = load(root)
    files = [path for path in sorted(tmp_path.rglob("*")) if path.is_file() and ours(path)]
    kinds = {re.sub(r"[0-9]+", "N", path.parent.name) for path in files}
    assert kinds == {"checkpoint", "manifests", "N", "_anabranch", "batch=N"}
    refused = longest = 0
    for _ in range(FLIPS):
        path = chance.choice(files)
        before = path.read_bytes()
        bit = chance.randrange(8 * len(before))
        flip_bit(path, bit)
        try:
            found = load(root)
        except ab.CheckpointError as error:
            refused += 1
            longest = max(longest, len(str(error)))
        else:
            assert found == expected, f"bit {bit} of {path}"
        path.write_bytes(before)
    # The older manifests are read by nobody.
    assert refused > FLIPS / 2
    assert longest <= 1000


def ours(path: Path) -> bool:
    """Whether it is a file that we read: neither Spark's, nor a lock, nor a result."""
    others = ("spark", "lock", "requests")
    return not set(path.parts).intersection(others) and path.suffix != ".parquet"
