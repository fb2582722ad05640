"""A signal is noted, not acted upon; and only the first one."""

from __future__ import annotations

import signal

import pytest

from anabranch.cli.interrupt import SIGNALS, stop_requests


@pytest.mark.parametrize("number", SIGNALS)
def test_a_first_signal_is_noted(number: signal.Signals) -> None:
    with stop_requests() as requested:
        assert not requested.is_set()
        signal.raise_signal(number)
        assert requested.is_set()


def test_a_second_interrupt_is_not_waited_for() -> None:
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        with stop_requests():
            signal.raise_signal(signal.SIGINT)
            with pytest.raises(KeyboardInterrupt):
                signal.raise_signal(signal.SIGINT)
    finally:
        signal.signal(signal.SIGINT, before)


def test_signals_mean_what_they_meant_before() -> None:
    before = [signal.getsignal(number) for number in SIGNALS]
    with stop_requests():
        signal.raise_signal(signal.SIGTERM)
    assert [signal.getsignal(number) for number in SIGNALS] == before
