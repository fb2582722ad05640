"""Requests wait under the checkpoint, in their order, for the batch that may take them up."""

from __future__ import annotations

from pathlib import Path

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
