"""A file is there whole or not at all."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path

import pytest
from pyarrow import fs

from anabranch.state.files import Files


def test_a_write_that_fails_leaves_the_old_file(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files = Files(str(tmp_path))
    files.write("d/name", b"old")

    def full(source: str, target: str) -> None:
        raise OSError(f"no space left for {target} ({source})")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(OSError, match="no space left"):
        files.write("d/name", b"new")
    assert files.read("d/name") == b"old"


def test_a_write_leaves_nothing_beside_its_file(tmp_path: Path) -> None:
    files = Files(str(tmp_path))
    for data in (b"one", b"two"):
        files.write("d/name", data, sync=True)
    assert files.names() == ["d/name"]
    assert files.read("d/name") == b"two"


def test_what_is_mapped_outlives_its_deletion(tmp_path: Path) -> None:
    files = Files(str(tmp_path))
    files.write("name", b"kept")
    mapped = files.map("name")
    files.delete("name")
    files.delete("name")
    assert bytes(mapped) == b"kept"
    assert files.names() == []


def test_names_are_those_of_files_below_a_directory(tmp_path: Path) -> None:
    files = Files(str(tmp_path))
    for name in ("b", "d/2", "d/e/1"):
        files.write(name, b"")
    assert files.names() == ["b", "d/2", "d/e/1"]
    assert files.names("d") == ["d/2", "d/e/1"]
    assert files.names("nothing") == []


def test_a_uri_names_the_same_files_as_a_path(tmp_path: Path) -> None:
    Files(str(tmp_path)).write("d/name", b"data")
    by_uri = Files(tmp_path.as_uri())
    assert by_uri.read("d/name") == b"data"
    assert bytes(by_uri.map("d/name")) == b"data"
    assert by_uri.names() == ["d/name"]


class Elsewhere(Files):
    """Files that are not on this machine, as far as the code can tell."""

    def _resolve(self) -> tuple[fs.FileSystem, str]:
        parent, _, name = self.root.rpartition("/")
        return fs.SubTreeFileSystem(parent, fs.LocalFileSystem()), name


def test_local_copies_of_remote_files_are_deleted_once_they_are_not_live(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    (tmp_path / "far").mkdir()
    files, other = Elsewhere(str(tmp_path / "far")), Elsewhere(str(tmp_path))
    for name in ("a", "b", "c"):
        files.write(name, name.encode())
    assert [bytes(files.map(name)) for name in ("a", "b", "c")] == [b"a", b"b", b"c"]
    assert bytes(other.map("far/a")) == b"a"

    mapped = files.map("a")
    files.forget_copies({"b"})

    copies = [p for p in (tmp_path / "temporary").rglob("*") if p.is_file()]
    assert sorted(copy.read_bytes() for copy in copies) == [b"a", b"b"], "one is of another store"
    assert bytes(mapped) == b"a"
    assert bytes(files.map("a")) == b"a"
