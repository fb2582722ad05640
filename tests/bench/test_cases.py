"""The cases as they stand: their sizes, and that they ask all sides the same question."""

from __future__ import annotations

import pytest

from anabranch.bench.cases import CASES
from anabranch.bench.columns import Keys

BARS = ("equality-2way", "equality-3way", "equality-3way-two-keys")


@pytest.mark.parametrize("name", BARS)
def test_the_equality_cases_have_the_sizes_that_the_bars_are_stated_for(name: str) -> None:
    case = CASES[name]

    assert case.window == 10
    assert set(case.rows) == {20_000}
    assert len(case.rows) >= 60
    assert all(column == Keys(20_000) for feed in case.feeds for _, column in feed.columns)


@pytest.mark.parametrize("name", CASES)
def test_every_case_leaves_more_batches_than_warm_up(name: str) -> None:
    for case in (CASES[name], CASES[name].quick()):
        for files in (case.ours_files, case.spark_files):
            assert 1 <= case.warm_batches(files) < len(case.batches(files))


@pytest.mark.parametrize("name", CASES)
def test_a_spark_plan_joins_every_stream_after_the_first_by_an_equality(name: str) -> None:
    case = CASES[name]

    for plan in case.spark:
        assert len(plan.conditions) == len(case.feeds) - 1
        assert all(" = " in condition for condition in plan.conditions)


def test_batches_hold_the_rows_of_all_streams_and_the_last_may_be_short() -> None:
    assert CASES["equality-3way"].batches(25) == (1_500_000, 1_500_000, 600_000)


def test_the_steady_state_begins_when_a_window_has_filled_and_a_batch_has_passed() -> None:
    case = CASES["equality-2way"]

    assert [case.warm_batches(files) for files in (1, 4, 10, 20, 120)] == [10, 3, 1, 1, 0]
