"""How far event time has come, and who holds it back."""

from __future__ import annotations

from anabranch.model.query import Stream
from anabranch.model.watermark import Seen, Watermark, advance, held_by_silence

A = Stream("a", "ts", window=10, lateness=2, idle=100)
B = Stream("b", "ts", window=10, lateness=0, idle=100)
PATIENT = Stream("b", "ts", window=10, lateness=0)


def test_the_watermark_is_the_least_of_the_streams() -> None:
    assert advance((A, B), (Seen(50), Seen(49)), None) == Watermark(48, "a", ())


def test_a_stream_not_seen_yet_holds_it_back() -> None:
    assert advance((A, B), (Seen(50), Seen(None)), None) == Watermark(None, "b", ())


def test_it_never_goes_back() -> None:
    assert advance((A, B), (Seen(50), Seen(49)), 60).value == 60


def test_a_stream_is_waited_for_as_long_as_nobody_asks_for_an_end() -> None:
    silent = (Seen(500), Seen(49, silent=1000, waited=10**15))
    assert advance((A, PATIENT), silent, None) == Watermark(49, "b", ())


def test_an_idle_stream_holds_nothing_back_until_it_gives_rows_again() -> None:
    assert advance((A, B), (Seen(500), Seen(49, 3, 99)), None) == Watermark(49, "b", ())
    assert advance((A, B), (Seen(500), Seen(49, 3, 100)), 49) == Watermark(498, "a", ("b",))
    assert advance((A, B), (Seen(500), Seen(51)), 498) == Watermark(498, "b", ())


def test_the_wait_counts_from_the_first_batch_without_rows_on() -> None:
    seen = Seen(7)
    for waited, gave, expected in (
        (70, False, Seen(7, 1, 0)),
        (30, False, Seen(7, 2, 30)),
        (40, False, Seen(7, 3, 70)),
        (90, True, Seen(7)),
        (50, False, Seen(7, 1, 0)),
    ):
        seen = seen.after(None, waited, gave=gave, complete=False)
        assert seen == expected


def test_the_greatest_time_is_kept_through_batches_that_bring_less() -> None:
    seen = Seen(None)
    for brought, greatest in ((None, None), (5, 5), (3, 5), (None, 5), (-9, 5), (6, 6)):
        seen = seen.after(brought, 0, gave=True, complete=False)
        assert seen == Seen(greatest)


def test_if_all_streams_are_idle_it_stays() -> None:
    silent = Seen(9, 2, 1000)
    assert advance((A, B), (silent, silent), 5) == Watermark(5, None, ("a", "b"))


def test_a_complete_stream_holds_nothing_back() -> None:
    seen = (Seen(50), Seen(3, complete=True))
    assert advance((A, B), seen, None) == Watermark(48, "a", ())


def test_a_silent_stream_is_named_with_the_watermark_that_it_prevents() -> None:
    assert held_by_silence((A, B), (Seen(50), Seen(9, silent=1)), 9) == (("b",), 48)
    assert held_by_silence((A, B), (Seen(50), Seen(None, silent=1)), None) == (("b",), 48)
    assert held_by_silence((A, B), (Seen(50), Seen(9)), 9) == ((), 9)
    assert held_by_silence((A, B), (Seen(50), Seen(48, silent=1)), 48) == ((), 48)
    idle = Seen(9, silent=2, waited=100)
    assert held_by_silence((A, B), (Seen(50), idle), 48) == ((), 48)
