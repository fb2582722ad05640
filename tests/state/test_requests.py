"""Requests wait under the checkpoint, in their order, for the batch that may take them up."""

from __future__ import annotations

from pathlib import Path

import pytest

from anabranch.errors import CheckpointError
from anabranch.state.files import Files
from anabranch.state.requests import RESCALE, RESIZE, SWITCH, ask, asked


def test_requests_are_found_in_the_order_in_which_they_were_made(tmp_path: Path) -> None:
    files = Files(str(tmp_path))
    assert asked(files) == []
    for number, kind in enumerate((RESIZE, SWITCH, RESCALE, RESIZE)):
        ask(files, kind, {"number": number}, since=number)
    found = asked(files)
    assert [request.kind for request in found] == [RESIZE, SWITCH, RESCALE, RESIZE]
    assert [request.what["number"] for request in found] == [0, 1, 2, 3]
    assert [request.since for request in found] == [0, 1, 2, 3]
    files.delete(found[0].path)
    assert len(asked(files)) == 3


def test_what_others_left_among_the_requests_is_neither_read_nor_deleted(tmp_path: Path) -> None:
    files = Files(str(tmp_path))
    ask(files, RESIZE, {"number": 1}, since=0)
    strangers = ("notes.txt", "backup.json", f"{1:020d}-{'0' * 32}.json.bak", f"old/{1:020d}.json")
    for name in strangers:
        (tmp_path / "requests" / name).parent.mkdir(exist_ok=True)
        (tmp_path / "requests" / name).write_text("not a request")
    assert [request.what for request in asked(files)] == [{"number": 1}]
    assert len(files.names("requests")) == 1 + len(strangers)


def test_a_damaged_request_is_refused_by_name_wherever_it_was_changed(tmp_path: Path) -> None:
    files = Files(str(tmp_path))
    ask(files, RESCALE, {"hosts": 3, "at_once": False}, since=4)
    (path,) = (tmp_path / "requests").iterdir()
    whole = path.read_bytes()
    changed = [bytes((*whole[:at], whole[at] ^ 1, *whole[at + 1 :])) for at in range(len(whole))]
    cut = [whole[:length] for length in range(len(whole))]
    for damaged in (*changed, *cut, b"\xff\xfe", b"{}"):
        path.write_bytes(damaged)
        with pytest.raises(CheckpointError, match=f"{path.name} is damaged.*Delete this file"):
            asked(files)
