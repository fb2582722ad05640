"""A start goes on from a checkpoint whose halves agree, and touches nothing of any other."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest

from anabranch.errors import CheckpointError
from anabranch.kernel.block import Block
from anabranch.model.watermark import Seen
from anabranch.state.manifest import Manifest
from anabranch.state.recovery import recover
from anabranch.state.sealed import seal
from anabranch.state.segment import SegmentRef
from anabranch.state.store import Store

SEEN = (Seen(9, 1), Seen(9, 1))


def block(*times: int) -> Block:
    return Block({"x": pa.array(times)}, np.array(times, np.int64), {})


def spark_log(home: Path, part: str, newest: int) -> None:
    """One of Spark's logs, as of a batch."""
    directory = home / "spark" / part
    directory.mkdir(parents=True, exist_ok=True)
    (home / "spark" / "metadata").write_text('{"id":"7"}')
    for path in directory.iterdir():
        path.unlink()
    for batch in range(newest + 1):
        (directory / str(batch)).write_text(f"v1\n{part} of batch {batch}")
        (directory / f".{batch}.crc").write_bytes(b"crc")


@pytest.fixture
def store(tmp_path: Path) -> Store:
    """A checkpoint after batch 3: one live segment of each stream."""
    store = Store.at(str(tmp_path / "checkpoint"))
    store.claim({"terms": ["a.k = b.k"]})
    home = tmp_path / "checkpoint"
    spark_log(home, "offsets", 3)
    spark_log(home, "commits", 3)
    before = Manifest.empty(2)
    for batch in range(4):
        refs = (store.add(batch, 0, block(batch)),), (store.add(batch, 1, block(batch)),)
        now = Manifest(batch, refs, SEEN, digest=store.offsets_digest(batch))
        store.commit(now, before)
        before = now
    return store


def home_of(store: Store) -> Path:
    return Path(store.files.root)


def everything(store: Store) -> dict[str, bytes]:
    return {name: store.files.read(name) for name in store.files.names()}


def refused(store: Store, *words: str, driven: bool = True) -> None:
    """It is refused in a sentence with these words, and nothing is changed or deleted."""
    before = everything(store)
    with pytest.raises(CheckpointError) as error:
        recover(store, 2, driven=driven)
    assert len(str(error.value)) <= 1000
    for word in words:
        assert word in str(error.value)
    assert everything(store) == before


@pytest.mark.parametrize(
    ("planned", "committed"),
    [(3, 3), (3, 2), (4, 3)],
    ids=["after a commit", "cut off before Spark's commit", "cut off in the next batch"],
)
def test_a_run_that_was_cut_off_goes_on(store: Store, planned: int, committed: int) -> None:
    spark_log(home_of(store), "offsets", planned)
    spark_log(home_of(store), "commits", committed)
    latest = recover(store, 2, driven=True)
    assert latest is not None
    assert latest.batch == 3


@pytest.mark.parametrize(
    ("planned", "committed"), [(2, 2), (3, 1), (4, 4), (5, 3), (5, 4), (-1, -1), (2, 3), (-1, 3)]
)
def test_a_spark_checkpoint_of_another_time_is_refused(
    store: Store, planned: int, committed: int
) -> None:
    spark_log(home_of(store), "offsets", planned)
    spark_log(home_of(store), "commits", committed)
    refused(store, "batch 3", "spark/" if planned == committed == -1 else f"batch {planned}")


def test_offsets_of_another_run_are_refused(store: Store) -> None:
    (home_of(store) / "spark" / "offsets" / "3").write_text("v1\nother offsets")
    refused(store, "offsets of batch 3")


@pytest.mark.parametrize("gone", [1, 2, 3, 4])
def test_manifests_that_are_older_than_sparks_commits_are_refused(store: Store, gone: int) -> None:
    for path in sorted((home_of(store) / "manifests").iterdir())[4 - gone :]:
        path.unlink()
    refused(store, "no manifest" if gone == 4 else f"committed batch {3 - gone}", "commit")


def test_before_the_first_commit_there_is_nothing_to_go_on_from(tmp_path: Path) -> None:
    store = Store.at(str(tmp_path))
    store.claim({})
    assert recover(store, 2, driven=True) is None
    spark_log(tmp_path, "offsets", 0)
    assert recover(store, 2, driven=True) is None
    spark_log(tmp_path, "offsets", 1)
    refused(store, "no manifest")


def test_static_inputs_do_not_take_over_a_run_over_streams(store: Store) -> None:
    refused(store, "static", driven=False)


def test_streams_do_not_take_over_a_run_over_static_inputs(tmp_path: Path) -> None:
    store = Store.at(str(tmp_path))
    store.commit(Manifest(0, ((), ()), SEEN), Manifest.empty(2))
    assert recover(store, 2, driven=False) is not None
    refused(store, "spark/", "missing")


def test_a_query_of_another_number_of_streams_is_refused(store: Store) -> None:
    with pytest.raises(CheckpointError, match="2 streams, and this query has 3"):
        recover(store, 3, driven=True)


# -- the manifest --------------------------------------------------------------------------------


def rewritten(store: Store, change: str, value: object) -> None:
    """The newest manifest with another value, and a checksum that is right."""
    path = home_of(store) / "manifests" / "000000000003.json"
    data = json.loads(path.read_bytes().partition(b"\nsha256 ")[0])
    data[change] = value
    path.write_bytes(seal(json.dumps(data)))


def test_a_manifest_under_the_name_of_another_batch_is_refused(store: Store) -> None:
    manifests = home_of(store) / "manifests"
    (manifests / "000000000002.json").replace(manifests / "000000000003.json")
    refused(store, "000000000003.json", "manifest of batch 2")


def test_a_changed_value_in_a_manifest_is_refused(store: Store) -> None:
    path = home_of(store) / "manifests" / "000000000003.json"
    path.write_bytes(path.read_bytes().replace(b'"watermark": null', b'"watermark": 9999'))
    refused(store, "000000000003.json", "checksum")


def test_a_segment_named_twice_is_refused(store: Store) -> None:
    latest = store.latest()
    assert latest is not None
    refs = [[ref.to_dict() for ref in refs] for refs in latest.segments]
    rewritten(store, "segments", [refs[0] * 2, refs[1]])
    refused(store, "000000000003.json", "twice")


@pytest.mark.parametrize(
    "path",
    [
        "segments/../../victim.txt",
        "segments/0/../../../victim.txt",
        "/etc/passwd",
        "manifests/000000000003.json",
        "segments/1/000000000003-rows-0123456789abcdef0123456789abcdef.seg",
        "segments/0/000000000003-rows-0123456789abcdef0123456789abcdef.seg/../../x",
    ],
)
def test_a_path_that_is_not_a_segments_is_refused(store: Store, path: str) -> None:
    latest = store.latest()
    assert latest is not None
    victim = SegmentRef(path, 0, 1, 1, 0, 0, 0).to_dict()
    rewritten(store, "segments", [[victim], [ref.to_dict() for ref in latest.segments[1]]])
    refused(store, "000000000003.json", path)


# -- nothing is deleted that is not understood ---------------------------------------------------


def test_strangers_are_neither_read_nor_deleted(store: Store) -> None:
    strangers = [
        "manifests/backup.json",
        "manifests/9.json",
        "manifests/000000000009.json.bak",
        "manifests/old/000000000009.json",
        "segments/notes.txt",
        "segments/0/000000000003-rows-copy.seg",
        "reports/readme",
    ]
    for name in strangers:
        store.files.write(name, b"mine")
    before = everything(store)
    latest = recover(store, 2, driven=True)
    assert latest is not None
    assert latest.batch == 3
    assert everything(store) == before


def test_leftovers_of_a_run_that_was_cut_off_are_deleted(store: Store) -> None:
    before = everything(store)
    leftover = store.add(4, 0, block(4)).path
    store.add(4, 1, block(4), "late")
    store.files.write(f"{leftover}.{'0' * 32}.tmp", b"half")
    store.files.write(f"manifests/000000000004.json.{'0' * 32}.tmp", b"half")
    store.report(4, "0-0", "{}")
    recover(store, 2, driven=True)
    assert everything(store) == before


@pytest.mark.parametrize("what", ["missing", "cut"])
def test_a_live_segment_that_is_not_whole_is_refused_before_anything_is_deleted(
    store: Store, what: str
) -> None:
    latest = store.latest()
    assert latest is not None
    victim = home_of(store) / latest.segments[1][0].path
    if what == "missing":
        victim.unlink()
    else:
        victim.write_bytes(victim.read_bytes()[:-1])
    store.add(4, 0, block(4))
    refused(store, latest.segments[1][0].path, "damaged")
