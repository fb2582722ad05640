"""How far event time has come, and who holds it back."""

from __future__ import annotations

from anabranch.model.query import Stream
from anabranch.model.watermark import Seen, Watermark, advance

A = Stream("a", "ts", window=10, lateness=2, idle=100)
B = Stream("b", "ts", window=10, lateness=0, idle=100)


def test_the_watermark_is_the_least_of_the_streams() -> None:
    assert advance((A, B), (Seen(50, 0), Seen(49, 0)), None, now=0) == Watermark(48, "a", ())


def test_a_stream_not_seen_yet_holds_it_back() -> None:
    assert advance((A, B), (Seen(50, 0), Seen(None, 0)), None, now=0) == Watermark(None, "b", ())


def test_it_never_goes_back() -> None:
    assert advance((A, B), (Seen(50, 0), Seen(49, 0)), 60, now=0).value == 60


def test_an_idle_stream_holds_nothing_back_until_rows_arrive_again() -> None:
    idle = (Seen(500, 100), Seen(49, 0))
    assert advance((A, B), idle, None, now=99) == Watermark(49, "b", ())
    assert advance((A, B), idle, 49, now=100) == Watermark(498, "a", ("b",))
    awake = (Seen(500, 100), Seen(51, 120))
    assert advance((A, B), awake, 498, now=120) == Watermark(498, "b", ())


def test_if_all_streams_are_idle_it_stays() -> None:
    assert advance((A, B), (Seen(9, 0), Seen(9, 0)), 5, now=1000) == Watermark(5, None, ("a", "b"))


def test_a_complete_stream_holds_nothing_back() -> None:
    seen = (Seen(50, 0), Seen(3, 0, complete=True))
    assert advance((A, B), seen, None, now=0) == Watermark(48, "a", ())
