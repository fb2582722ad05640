"""Whose a directory of results is: everybody else is refused, by name."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from anabranch.errors import CheckpointError, QueryError
from anabranch.spark.sinks import check_places, open_sinks, parquet_sink
from anabranch.state.files import Files
from anabranch.state.lock import Lock
from anabranch.state.manifest import Manifest
from anabranch.state.output import SEAL, Output, Owner, owners_of
from anabranch.state.ownership import Claim, take
from anabranch.state.place import Place
from anabranch.state.store import Store

HOLDER = """
import sys, time
from anabranch.state.ownership import Claim, take
from anabranch.state.place import Place
output, lock = take(Place.of(sys.argv[1]), Claim("aa"))
print("held", flush=True)
time.sleep(600)
"""


def written(out: Path, claim: Claim, *batches: int, digest: str = "d") -> Output:
    """The directory after a run that wrote these batches, of one file each."""
    output, lock = take(Place.of(str(out)), claim)
    for batch in batches:
        write(output, batch, digest)
    lock.release()
    return output


def write(output: Output, batch: int, digest: str = "d") -> None:
    staged = output.begin(batch)
    staged.mkdir()
    (staged / "part-0.parquet").write_text(f"rows of {batch}")
    output.publish(staged, batch, digest)


def visible(out: Path) -> list[str]:
    return sorted(path.name for path in out.iterdir() if not path.name.startswith(("_", ".")))


def refusal(out: Path, claim: Claim) -> str:
    before = sorted(str(path) for path in out.parent.rglob("*"))
    with pytest.raises(CheckpointError) as refused:
        take(Place.of(str(out)), claim)
    assert sorted(str(path) for path in out.parent.rglob("*")) == before
    assert str(out) in str(refused.value)
    assert len(str(refused.value)) <= 1000
    return str(refused.value)


def test_a_checkpoint_finds_its_own_output_again(tmp_path: Path) -> None:
    out = tmp_path / "out"
    written(out, Claim("aa"), 0, 2)
    again = written(out, Claim("aa", committed=2, delivered=2), 3)
    assert visible(out) == ["batch=0", "batch=2", "batch=3"]
    assert again.holds(2, "d")
    assert not again.holds(1, "d")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out"]


def test_a_new_checkpoint_on_an_old_output_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    written(out, Claim("aa"), 0)
    assert "has results of checkpoint aa, and this is checkpoint bb" in refusal(out, Claim("bb"))


def test_appended_batches_are_numbered_on_and_the_former_owner_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    written(out, Claim("aa"), 0, 4)
    written(out, Claim("bb", append=True), 0, 1)
    assert visible(out) == ["batch=0", "batch=4", "batch=5", "batch=6"]
    written(out, Claim("bb", committed=1, delivered=1, append=True), 2)
    assert owners_of(Files(str(out))) == (Owner("aa", 0), Owner("bb", 5))
    assert "appended to by another, bb" in refusal(out, Claim("aa", 4, 4, append=True))


def test_batches_of_nobody_are_refused_or_appended_to(tmp_path: Path) -> None:
    out = tmp_path / "out"
    write(Output(Place.of(str(out))), 3)
    assert "has results of somebody unknown" in refusal(out, Claim("aa"))
    written(out, Claim("aa", append=True), 0)
    assert visible(out) == ["batch=3", "batch=4"]


@pytest.mark.parametrize("name", ["part-0.parquet", "batch=01", "batch=x", "_delta_log", "old"])
def test_strangers_in_an_output_are_refused_even_to_append(tmp_path: Path, name: str) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / name).touch()
    assert f"holds {name}, which is not a batch" in refusal(out, Claim("aa"))
    assert f"holds {name}, which is not a batch" in refusal(out, Claim("aa", append=True))


def test_hidden_files_of_others_do_no_harm(tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / ".DS_Store").touch()
    (out / "_SUCCESS").touch()
    written(out, Claim("aa"), 0)
    assert visible(out) == ["batch=0"]


def test_a_checkpoint_older_than_its_output_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    written(out, Claim("aa"), 0, 1, 2)
    written(out, Claim("aa", committed=1, delivered=1))
    text = refusal(out, Claim("aa", committed=0, delivered=0))
    assert "has batch 2 of checkpoint aa, which has committed batch 0" in text
    assert "which has committed no batch" in refusal(out, Claim("aa", append=True))


def test_an_output_that_lost_what_was_delivered_is_refused_unless_asked(tmp_path: Path) -> None:
    out = tmp_path / "out"
    claim = Claim("aa", committed=5, delivered=3)
    assert "does not have batch 3, the last" in refusal(out, claim)
    written(out, Claim("aa", committed=5, delivered=3, append=True), 6)
    assert visible(out) == ["batch=6"]
    assert "does not have batch 3, the last" in refusal(out, claim)
    # Batches that had nothing to deliver are not missed.
    written(out, Claim("aa", committed=9, delivered=6), 10)


def test_a_batch_with_other_rows_or_without_seal_is_refused(tmp_path: Path) -> None:
    output = written(tmp_path / "out", Claim("aa"), 0, 1, 2)
    with pytest.raises(CheckpointError, match="batch=0 holds other rows than batch 0"):
        output.holds(0, "e")
    other = Output(output.place, Owner("bb", 0))
    with pytest.raises(CheckpointError, match="batch=0 holds other rows than batch 0"):
        other.holds(0, "d")
    (tmp_path / "out" / "batch=1" / SEAL).unlink()
    with pytest.raises(CheckpointError, match=f"batch=1 has no {SEAL}"):
        output.holds(1, "d")
    seal = tmp_path / "out" / "batch=2" / SEAL
    seal.write_bytes(seal.read_bytes().replace(b"aa", b"ab"))
    with pytest.raises(CheckpointError, match=f"batch=2/{SEAL} is damaged"):
        output.holds(2, "d")


def test_a_lost_owner_is_refused_even_to_append(tmp_path: Path) -> None:
    out = tmp_path / "out"
    written(out, Claim("aa"), 0)
    (out / "_anabranch" / "owner.json").unlink()
    for append in (False, True):
        text = refusal(out, Claim("aa", append=append))
        assert "owner.json is missing or of another output: batch=0 belongs to this" in text


def test_a_damaged_owner_is_refused(tmp_path: Path) -> None:
    out = tmp_path / "out"
    written(out, Claim("aa"), 0)
    owner = out / "_anabranch" / "owner.json"
    owner.write_bytes(owner.read_bytes()[:-3])
    assert "owner.json is damaged" in refusal(out, Claim("aa", 0, 0))


def test_an_output_is_locked_while_a_run_writes(tmp_path: Path) -> None:
    command = [sys.executable, "-c", HOLDER, str(tmp_path / "out")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as holder:
        try:
            assert holder.stdout is not None
            assert holder.stdout.readline() == "held\n"
            for claim in (Claim("aa"), Claim("bb", append=True)):
                with pytest.raises(CheckpointError, match=f"output .* by process {holder.pid}"):
                    take(Place.of(str(tmp_path / "out")), claim)
        finally:
            holder.kill()
    written(tmp_path / "out", Claim("aa"), 0)


def test_leftovers_of_a_run_go_at_its_next_start_and_no_others(tmp_path: Path) -> None:
    out = tmp_path / "out"
    output = written(out, Claim("aa"), 0)
    mine = output.begin(1)
    mine.mkdir()
    (mine / "part-0.parquet").touch()
    (out / "_anabranch" / f"owner.json.{'0' * 32}.tmp").touch()
    others = [tmp_path / ".out.writing-bb", tmp_path / ".out.writing-aab", tmp_path / ".out"]
    for other in others:
        other.mkdir()
    written(out, Claim("aa", 0, 0), 1)
    assert sorted(tmp_path.iterdir()) == sorted([out, *others])
    assert sorted(path.name for path in (out / "_anabranch").iterdir()) == ["lock", "owner.json"]


def test_an_output_that_no_batch_can_be_renamed_into_is_refused_at_the_start(
    tmp_path: Path,
) -> None:
    # As on a mount point, whose parent is another disk: here the name beside it is too long.
    with pytest.raises(CheckpointError, match="Both must be writable and on one file system"):
        take(Place.of(str(tmp_path / ("n" * 250))), Claim("aa"))


def test_a_batch_is_on_the_disk_before_it_is_visible_and_its_name_before_it_counts(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    steps: list[str] = []
    fsync, rename = os.fsync, os.rename

    def noted_fsync(handle: int) -> None:
        fsync(handle)
        steps.append(f"sync {Path(f'/proc/self/fd/{handle}').readlink().name}")

    def noted_rename(source: Path, target: Path) -> None:
        rename(source, target)
        steps.append(f"rename {Path(target).name}")

    output, lock = take(Place.of(str(tmp_path / "out")), Claim("aa"))
    staged = output.begin(0)
    staged.mkdir()
    (staged / "part-0.parquet").write_text("rows")
    monkeypatch.setattr(os, "fsync", noted_fsync)
    monkeypatch.setattr(os, "rename", noted_rename)
    output.publish(staged, 0, "d")
    lock.release()
    before = {f"sync {staged.name}", "sync part-0.parquet", f"sync {SEAL}"}
    assert set(steps[:3]) == before
    assert steps[3:] == ["rename batch=0", "sync out"]


def test_a_sink_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "out").touch()
    assert "is a file; choose a directory" in refusal(tmp_path / "out", Claim("aa"))


@pytest.mark.parametrize(
    ("sink", "late", "checkpoint", "wrong"),
    [
        ("out", "out", "c", "the sink of results is"),
        ("out", "out/late", "c", "the sink of late is"),
        ("c/out", None, "c", "the checkpoint is"),
        ("out", None, "out/c", "the checkpoint is"),
        ("out", None, "out", "the checkpoint is"),
        ("out", None, "x/../out", "the checkpoint is"),
        ("out", None, "link", "the checkpoint is"),
        ("my out", None, "file://{home}/my%20out", "the checkpoint is"),
        ("file:{home}/my%20out", "file://localhost{home}/my out/", "c", "the sink of late is"),
        ("s3a://b/out", None, "s3://b/out/c", "the checkpoint is"),
    ],
)
def test_directories_that_lie_in_each_other_are_refused(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    sink: str,
    late: str | None,
    checkpoint: str,
    wrong: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "out").mkdir()
    (tmp_path / "x").mkdir()
    (tmp_path / "link").symlink_to("out")
    results = parquet_sink(sink.format(home=tmp_path))
    late_sink = None if late is None else parquet_sink(late.format(home=tmp_path))
    place = Place.of(checkpoint.format(home=tmp_path))
    with pytest.raises(QueryError, match="each needs a directory of its own") as refused:
        check_places({"results": results, "late": late_sink}, place)
    assert wrong in str(refused.value)


def test_directories_beside_each_other_are_not_refused(tmp_path: Path) -> None:
    sinks = {"results": parquet_sink(str(tmp_path / "out")), "late": parquet_sink("s3://b/out")}
    check_places(sinks, Place.of(str(tmp_path / "out2")))
    with pytest.raises(QueryError, match="does not name a directory of this machine"):
        Place.of("file://server/out")


@pytest.mark.parametrize("uri", ["dbfs:/out", "wasb://somewhere/out"])
def test_a_store_that_python_does_not_reach_is_written_to_without_an_owner(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, uri: str
) -> None:
    sink = parquet_sink(uri)
    store = Store.at(str(tmp_path))
    lock = Lock.take(store.files)
    opened = open_sinks({"results": sink}, store, "aa", Manifest.empty(2), lock)
    lock.release()
    assert opened == {"results": sink}
    assert f"{uri} has no owner" in caplog.text


def test_a_directory_of_late_rows_is_not_one_of_results_even_to_append(tmp_path: Path) -> None:
    place = Place.of(str(tmp_path / "late"))
    take(place, Claim("a", role="late"))[1].release()
    for claim in (Claim("a"), Claim("a", role="dead"), Claim("b", append=True)):
        with pytest.raises(CheckpointError, match="a directory of late rows"):
            take(place, claim)
    take(place, Claim("a", role="late"))[1].release()


def test_directories_inside_an_output_or_a_checkpoint_of_others_are_refused(tmp_path: Path) -> None:
    take(Place.of(str(tmp_path / "out")), Claim("a"))[1].release()
    Store.at(str(tmp_path / "c")).claim({})
    outside = Place.of(str(tmp_path / "d"))
    for where in ("out", "c"):
        inner = str(tmp_path / where / "of-others" / "inner")
        with pytest.raises(CheckpointError, match="of another run"):
            check_places({"results": parquet_sink(inner)}, outside)
        with pytest.raises(CheckpointError, match="of another run"):
            check_places({}, Place.of(inner))
    assert not (tmp_path / "out" / "of-others").exists()
