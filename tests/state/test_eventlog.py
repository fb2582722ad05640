"""The event log keeps what was decided, once, in a bounded number of files."""

from __future__ import annotations

from pathlib import Path

from anabranch.state.eventlog import FILE_BYTES, FILES_KEPT, EventLog, read_events
from anabranch.state.files import Files


def test_decisions_are_read_back_in_their_order_with_their_batch(tmp_path: Path) -> None:
    files = Files(str(tmp_path))
    log = EventLog(files, -1)
    log.add(0, [{"what": "begin"}])
    log.add(1, [])
    log.add(2, [{"what": "switch"}, {"what": "resize"}])
    assert read_events(files) == [
        {"batch": 0, "what": "begin"},
        {"batch": 2, "what": "switch"},
        {"batch": 2, "what": "resize"},
    ]
    assert len(files.names("events")) == 1


def test_a_batch_that_is_repeated_is_logged_once(tmp_path: Path) -> None:
    files = Files(str(tmp_path))
    log = EventLog(files, -1)
    log.add(0, [{"what": "begin"}])
    log.add(1, [{"what": "cut off before its commit"}])
    EventLog(files, 0).add(1, [{"what": "repeated"}])
    assert read_events(files) == [{"batch": 0, "what": "begin"}, {"batch": 1, "what": "repeated"}]


def test_the_log_does_not_grow_without_bound(tmp_path: Path) -> None:
    files = Files(str(tmp_path))
    log = EventLog(files, -1)
    text = "x" * 1000
    batches = 2 * FILES_KEPT * FILE_BYTES // 1000
    for batch in range(batches):
        log.add(batch, [{"what": text}])
    sizes = files.sizes("events")
    assert len(sizes) == FILES_KEPT
    assert sum(sizes.values()) < 1.1 * FILES_KEPT * FILE_BYTES
    kept = [event["batch"] for event in read_events(files)]
    assert kept == list(range(kept[0], batches))
    assert len(kept) > 0.8 * batches / 2


def test_lines_that_are_not_decisions_are_passed_over(tmp_path: Path) -> None:
    files = Files(str(tmp_path))
    EventLog(files, -1).add(0, [{"what": "begin"}])
    (path,) = (tmp_path / "events").iterdir()
    path.write_bytes(b"\xff\xfe[7]\n3\n" + path.read_bytes() + b'{"batch": 1, "wh')
    (tmp_path / "events" / "notes.jsonl").write_text("mine")
    EventLog(files, 0).add(1, [{"what": "next"}])
    assert [event["what"] for event in read_events(files)] == ["begin", "next"]
