"""Which lateness would have kept the rows that were late; times are in microseconds."""

from __future__ import annotations

from anabranch.model.query import Stream
from anabranch.model.watermark import Seen
from anabranch.report.lateness import late_rows_of, late_sentence, needed_after

A = Stream("a", "ts", window=10, lateness=5)
B = Stream("b", "ts", window=10, lateness=0)
IMPATIENT = Stream("b", "ts", window=10, lateness=0, idle=7)

SECOND = 1_000_000


def test_what_is_needed_is_the_distance_to_the_earliest_late_row() -> None:
    needed = needed_after({}, (A, B), (Seen(None), Seen(None)), None)
    assert needed == {"a": 0, "b": 0}
    needed = needed_after(needed, (A, B), (Seen(50), Seen(47)), 40)
    assert needed == {"a": 10, "b": 7}
    assert needed_after(needed, (A, B), (Seen(60), Seen(47)), None) == needed
    assert needed_after(needed, (A, B), (Seen(60), Seen(47)), 46) == {"a": 14, "b": 7}


def test_the_lateness_of_a_stream_that_was_idle_or_is_complete_is_no_remedy() -> None:
    seen = (Seen(50, complete=True), Seen(40, silent=2, waited=7))
    needed = needed_after({"a": 1, "b": 1}, (A, IMPATIENT), seen, None)
    assert needed == {"a": None, "b": None}
    assert needed_after(needed, (A, IMPATIENT), (Seen(50), Seen(60)), 20) == needed


def counted(late: int) -> dict[str, dict[str, int]]:
    return {"a": {"arrived": 30, "late": late}, "b": {"arrived": 70, "late": 0}}


def test_the_smallest_change_is_recommended_and_not_the_smallest_lateness() -> None:
    found = late_rows_of((A, B), counted(2), {"a": 9 * SECOND, "b": 10 * SECOND})
    assert (found["rows"], found["share"]) == (2, 0.02)
    assert (found["stream"], found["lateness"]) == ("a", "9 seconds")
    slack = Stream("a", "ts", window=10, lateness=8 * SECOND)
    found = late_rows_of((slack, B), counted(2), {"a": 9 * SECOND, "b": SECOND // 2})
    assert (found["stream"], found["lateness"]) == ("b", "500 milliseconds")


def test_where_no_change_helps_the_sentence_says_so() -> None:
    late = late_rows_of((A, B), counted(2), {"a": None, "b": None})
    sentence = late_sentence({"late": late, "streams": counted(2)})
    assert sentence is not None
    assert sentence.startswith("2.0 % of the rows (2 of 100: 2 of a) came behind the watermark")
    assert "raise their idle time" in sentence


def test_there_is_nothing_to_say_without_late_rows() -> None:
    late = late_rows_of((A, B), counted(0), {"a": 0, "b": 0})
    assert late == {"rows": 0, "share": 0.0}
    assert late_sentence({"late": late, "streams": counted(0)}) is None
