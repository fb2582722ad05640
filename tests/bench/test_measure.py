"""Rates, bounds and percentiles, from batches that are written out."""

from __future__ import annotations

import pytest

from anabranch.bench.measure import (
    Batch,
    Percentiles,
    Rate,
    Run,
    percentile,
    summarise,
    summarise_empty,
    upper_bound,
)

THREE = (
    Batch(0, 100, start=0.0, seconds=10.0, results=1, state_rows=100, state_bytes=900),
    Batch(1, 100, start=10.0, seconds=4.0, results=2, state_rows=200, state_bytes=1800),
    Batch(2, 100, start=15.0, seconds=5.0, results=3, state_rows=150, state_bytes=1350),
)


def test_the_rate_leaves_the_warm_up_out_and_counts_the_time_between_batches() -> None:
    run = Run((100, 100, 100), warm=1, batches=THREE, started=0.0)

    summary = summarise(run)

    # 200 rows from the end of the warm-up at 10 s to the end of the last batch at 20 s.
    assert summary.rate == Rate(20.0)
    assert summary.percentiles == Percentiles(p50=4.0, p90=5.0, p99=5.0)


def test_results_and_peak_state_are_those_of_all_batches() -> None:
    summary = summarise(Run((100, 100, 100), warm=1, batches=THREE, started=0.0))

    assert (summary.results, summary.peak_rows, summary.peak_bytes) == (6, 200, 1800)
    assert summary.finished


def test_a_run_that_was_stopped_is_bounded_by_the_batch_that_it_was_in() -> None:
    run = Run((100,) * 9, warm=1, batches=THREE[:2], started=0.0, stopped=50.0)

    summary = summarise(run)

    # One steady batch done and one begun, in the 40 s since the warm-up.
    assert summary.rate == Rate(200 / 40, is_bound=True)
    assert not summary.finished


def test_a_run_that_was_stopped_in_its_warm_up_is_bounded_from_its_start() -> None:
    run = Run((100,) * 9, warm=3, batches=THREE[:2], started=0.0, stopped=50.0)

    assert upper_bound(run, stopped=50.0) == Rate(300 / 50, is_bound=True)


def test_a_run_that_was_stopped_right_after_its_warm_up_is_bounded_from_its_start() -> None:
    run = Run((100,) * 9, warm=2, batches=THREE[:2], started=0.0, stopped=14.1)

    # Since the warm-up: less than 100 rows in 0.1 s, which says nothing.
    assert upper_bound(run, stopped=14.1) == Rate(300 / 14.1, is_bound=True)


def test_a_run_that_finished_no_batch_is_bounded_by_its_first() -> None:
    run = Run((100, 100), warm=1, batches=(), started=100.0, stopped=150.0)

    assert summarise(run).rate == Rate(2.0, is_bound=True)
    assert summarise(run).percentiles is None


def test_a_run_that_broke_at_once_has_neither_rate_nor_bound() -> None:
    before_it_began = Run((100, 100), warm=1, batches=(), started=None, stopped=5.0)
    in_its_first_batch = Run((100, 100), warm=1, batches=(), started=4.0, stopped=5.0)

    for run in (before_it_began, in_its_first_batch):
        summary = summarise(run, error="no Java")
        assert (summary.rate, summary.error) == (Rate(0.0), "no Java")


def test_a_run_that_broke_later_is_bounded_like_one_that_was_stopped() -> None:
    run = Run((100,) * 9, warm=1, batches=THREE[:2], started=0.0, stopped=50.0)

    assert summarise(run, error="out of memory").rate == Rate(5.0, is_bound=True)


def test_batches_without_rows_are_measured_apart_from_those_with_one() -> None:
    batches = (
        Batch(0, 40, start=0.0, seconds=9.0),
        *(Batch(1 + n, 0, start=10.0 + n, seconds=0.5) for n in range(3)),
        *(Batch(4 + n, 2, start=20.0 + n, seconds=0.8) for n in range(3)),
    )
    run = Run((40, 0, 0, 0, 2, 2, 2), warm=1, batches=batches, started=0.0)

    summary = summarise_empty(run, streams=2)

    assert summary.rate == Rate(2.0)
    assert summary.kinds == {"no row": 0.5, "one row per stream": 0.8}
    assert summary.percentiles == Percentiles(0.5, 0.5, 0.5)


@pytest.mark.parametrize(
    ("percent", "expected"), [(1, 1.0), (50, 5.0), (90, 9.0), (91, 10.0), (100, 10.0)]
)
def test_a_percentile_is_one_of_the_values(percent: float, expected: float) -> None:
    assert percentile([float(value) for value in range(10, 0, -1)], percent) == expected
