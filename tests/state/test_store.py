"""A checkpoint: whose it is, what is true in it, and what is left over."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from anabranch.errors import CheckpointError
from anabranch.kernel.block import Block
from anabranch.model.watermark import Seen
from anabranch.state.identity import IDENTITY
from anabranch.state.manifest import NO_BATCH, Manifest
from anabranch.state.segment import SegmentRef, read_segment
from anabranch.state.store import MANIFESTS_KEPT, Store

QUERY = {"streams": [{"name": "a", "window": 5}], "terms": ["a.k = b.k"], "key": ("k", "k")}


def block(*times: int) -> Block:
    return Block({"x": pa.array(times)}, np.array(times, np.int64), {})


def manifest(batch: int, *refs: SegmentRef) -> Manifest:
    return Manifest(batch, (refs, ()), (Seen(9, 1), Seen(None, 2, complete=True)))


# -- whose it is ---------------------------------------------------------------------------------


def test_an_empty_directory_is_claimed_and_claimed_again(tmp_path: Path) -> None:
    store = Store.at(str(tmp_path / "new"))
    assert store.claim(QUERY) == store.claim(QUERY)


def test_every_checkpoint_has_an_id_of_its_own(tmp_path: Path) -> None:
    ids = {Store.at(str(tmp_path / name)).claim(QUERY) for name in ("one", "other")}
    assert len(ids) == 2


def test_a_directory_of_something_else_is_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("chapter one")
    with pytest.raises(CheckpointError) as refused:
        Store.at(str(tmp_path)).claim(QUERY)
    for word in (str(tmp_path), "not an Anabranch checkpoint", "thesis.txt", "empty directory"):
        assert word in str(refused.value)
    assert [path.name for path in tmp_path.iterdir()] == ["thesis.txt"]


def test_a_claim_that_was_cut_off_is_taken_up_again(tmp_path: Path) -> None:
    (tmp_path / f"{IDENTITY}.0123456789abcdef0123456789abcdef.tmp").write_text('{"for')
    Store.at(str(tmp_path)).claim(QUERY)


@pytest.mark.parametrize("version", [1, 3, 100])
def test_another_format_is_refused_with_both_versions(tmp_path: Path, version: int) -> None:
    (tmp_path / IDENTITY).write_text(json.dumps({"format": version, "what": "else"}))
    with pytest.raises(CheckpointError) as refused:
        Store.at(str(tmp_path)).claim(QUERY)
    for word in (str(tmp_path), f"format {version}", "format 2", "new checkpoint"):
        assert word in str(refused.value)


def test_the_checkpoint_of_another_query_is_refused_with_the_difference(tmp_path: Path) -> None:
    store = Store.at(str(tmp_path))
    store.claim(QUERY)
    with pytest.raises(CheckpointError) as refused:
        store.claim({**QUERY, "terms": ["a.k = b.l"]})
    for word in (str(tmp_path), "another query", "terms", "a.k = b.k", "a.k = b.l"):
        assert word in str(refused.value)
    assert "window" not in str(refused.value), "what is equal is no difference"


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "7", "{}", '{"format": 2}', '{"format": 2, "query": 3}']
)
def test_an_identity_that_makes_no_sense_is_refused(tmp_path: Path, text: str) -> None:
    (tmp_path / IDENTITY).write_text(text)
    with pytest.raises(CheckpointError, match=IDENTITY):
        Store.at(str(tmp_path)).claim(QUERY)


# -- what is true --------------------------------------------------------------------------------


def test_a_manifest_is_read_back_as_it_was_committed(tmp_path: Path) -> None:
    store = Store.at(str(tmp_path))
    assert store.latest() is None
    written = Manifest(
        3,
        ((store.add(3, 0, block(5, 7)),), ()),
        (Seen(9, 1), Seen(None, 2, complete=True)),
        4,
        {"streams": {"a": {"arrived": 2}}},
        {"strategy": "hash", "selectivities": {"0": 0.25}},
    )
    store.commit(written, Manifest.empty(2))
    assert store.latest() == written


def test_the_newest_manifest_is_the_truth_and_few_are_kept(tmp_path: Path) -> None:
    store = Store.at(str(tmp_path))
    before = Manifest.empty(2)
    assert before.batch == NO_BATCH
    for batch in range(25):
        store.commit(now := manifest(batch), before)
        before = now
        assert store.latest() == now
    assert len(store.files.names("manifests")) == MANIFESTS_KEPT


def test_a_manifest_that_was_cut_off_changes_nothing(tmp_path: Path) -> None:
    store = Store.at(str(tmp_path))
    store.commit(manifest(0), Manifest.empty(2))
    (tmp_path / "manifests" / "000000000001.json.0123.tmp").write_text('{"batch": 1, "segm')
    assert store.latest() == manifest(0)


def test_a_manifest_that_cannot_be_read_is_named(tmp_path: Path) -> None:
    store = Store.at(str(tmp_path))
    store.commit(manifest(0), Manifest.empty(2))
    (tmp_path / "manifests" / "000000000000.json").write_text('{"batch": 0, "segm')
    with pytest.raises(CheckpointError, match=r"000000000000\.json"):
        store.latest()


def test_a_commit_drops_what_only_the_batch_before_needed(tmp_path: Path) -> None:
    store = Store.at(str(tmp_path))
    old, kept, new = (store.add(batch, 0, block(batch)) for batch in range(3))
    store.commit(now := manifest(1, kept, new), manifest(0, old, kept))
    assert set(store.files.names("segments")) == now.paths()
    assert read_segment(store.files, kept).times.tolist() == [1]


def test_what_no_manifest_names_is_swept(tmp_path: Path) -> None:
    store = Store.at(str(tmp_path))
    live = store.add(0, 0, block(1))
    store.commit(manifest(0, live), Manifest.empty(2))
    store.add(1, 0, block(2))
    store.add(1, 1, block(3), "late")
    (tmp_path / f"{live.path}.{'0' * 32}.tmp").write_bytes(b"half")
    (tmp_path / "manifests" / f"000000000001.json.{'0' * 32}.tmp").write_bytes(b"half")

    store.sweep(manifest(0, live))

    assert store.files.names() == ["manifests/000000000000.json", live.path]


def test_a_repeated_write_overwrites_nothing(tmp_path: Path) -> None:
    store = Store.at(str(tmp_path))
    first, second = store.add(4, 0, block(1)), store.add(4, 0, block(2))
    assert read_segment(store.files, first).times.tolist() == [1]
    assert read_segment(store.files, second).times.tolist() == [2]
