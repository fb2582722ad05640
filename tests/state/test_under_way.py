"""What is said of a batch while it goes on: the last word counts, and damage says nothing."""

from __future__ import annotations

from pathlib import Path

from anabranch.kernel.watch import Watch
from anabranch.state.files import Files
from anabranch.state.under_way import UnderWay


def test_the_last_word_of_each_host_and_hop_counts(tmp_path: Path) -> None:
    under_way = UnderWay(Files(str(tmp_path)))
    assert under_way.batch() is None
    under_way.begin(7, "ingest", since=5, rows=0)
    under_way.renew_read(7, task=0, rows=10)
    under_way.renew_read(7, task=1, rows=20)
    under_way.renew_read(7, task=1, rows=30)
    assert under_way.rows_read(7) == 40
    under_way.begin(7, "join", since=5, rows=99)
    under_way.renew(7, 3, 0, {"results": 1})
    under_way.renew(7, 3, 0, {"results": 2})
    under_way.renew(7, 3, 1, {"results": 3})
    under_way.renew(6, 3, 0, {"results": 4})
    assert under_way.batch() == {"batch": 7, "phase": "join", "since": 5, "rows": 99}
    assert under_way.reports(7) == [{"results": 2}, {"results": 3}]


def test_what_is_over_goes_and_what_is_a_strangers_stays(tmp_path: Path) -> None:
    under_way = UnderWay(Files(str(tmp_path)))
    under_way.begin(7, "join", since=5, rows=99)
    under_way.renew(7, 3, 0, {"results": 1})
    under_way.renew_read(7, 1, 1)
    (tmp_path / "under-way" / "notes.json").write_text("mine")
    under_way.clear()
    assert [path.name for path in (tmp_path / "under-way").iterdir()] == ["notes.json"]


def test_a_damaged_file_says_nothing(tmp_path: Path) -> None:
    under_way = UnderWay(Files(str(tmp_path)))
    under_way.begin(7, "join", since=5, rows=99)
    under_way.renew(7, 3, 0, {"results": 1})
    for file in (tmp_path / "under-way").iterdir():
        file.write_bytes(file.read_bytes().replace(b"7", b"8").replace(b"1", b"2"))
    assert (under_way.batch(), under_way.reports(7)) == (None, [])


def test_a_look_is_due_every_two_seconds_and_never_in_a_short_batch() -> None:
    seconds = [0.0, 1.9, 2.0, 3.9, 9.0, 10.9, 11.0]
    clock = iter(seconds)
    watch = Watch(lambda: next(clock))
    due = [watch.is_due() for _ in seconds[1:]]
    assert due == [False, True, False, True, False, True]
