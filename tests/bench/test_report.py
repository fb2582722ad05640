"""Ratios and what is said about them."""

from __future__ import annotations

import io

from rich.console import Console

from anabranch.bench.cases import CASES
from anabranch.bench.measure import Rate, Run, Summary, summarise
from anabranch.bench.report import Comparison, Side, as_json, as_table, ratio

CASE = CASES["band-2way"]


def side(rate: Rate, results: int = 7, error: str | None = None) -> Side:
    finished = not rate.is_bound and error is None
    return Side((Summary(rate, None, results, 0, 0, 1, finished, error),), files=10)


OURS, SLOW, BOUND = side(Rate(300.0)), side(Rate(10.0)), side(Rate(20.0, is_bound=True))


def test_a_ratio_to_a_bound_is_a_lower_bound() -> None:
    assert ratio(OURS, SLOW) == (30.0, False)
    assert ratio(OURS, BOUND) == (15.0, True)


def test_there_is_no_ratio_of_a_bound_or_to_nothing() -> None:
    assert ratio(BOUND, SLOW) == (None, False)
    assert ratio(OURS, None) == (None, False)
    assert ratio(OURS, side(Rate(0.0), error="no Java")) == (None, False)


def test_we_compare_with_the_best_that_spark_measured() -> None:
    comparison = Comparison(CASE, OURS, {"constant key": BOUND, "bucketed key": SLOW}, None)

    found = as_json(comparison)

    assert (found["spark"], found["spark_is_bound"], found["ratio_to_spark"]) == (10.0, False, 30.0)
    assert found["spark_plans"]["constant key"]["ratio_is_bound"]


def test_a_bound_is_compared_with_where_there_is_nothing_better() -> None:
    found = as_json(Comparison(CASE, OURS, {"constant key": BOUND}, None))

    assert (found["ratio_to_spark"], found["ratio_to_spark_is_bound"]) == (15.0, True)


def test_sides_that_finished_must_agree_on_the_number_of_results() -> None:
    stopped = side(Rate(20.0, is_bound=True), results=3)
    other = side(Rate(10.0), results=8)

    assert not Comparison(CASE, OURS, {"equality": stopped}, OURS).failed
    disagreeing = Comparison(CASE, OURS, {"equality": other}, OURS)
    assert disagreeing.failed
    assert disagreeing.disagreement == "ours found 7, Spark (equality) found 8, kernel found 7"


def test_our_failure_fails_the_bench_and_sparks_does_not() -> None:
    broken = side(Rate(0.0), error="out of memory")

    assert Comparison(CASE, broken, {}, None).failed
    assert not Comparison(CASE, OURS, {"equality": broken}, None).failed


def test_the_table_has_a_row_for_every_side_and_marks_bounds() -> None:
    console = Console(width=80, file=io.StringIO(), record=True)
    plans = {"constant key": BOUND, "bucketed key": SLOW}

    console.print(as_table(Comparison(CASE, OURS, plans, side(Rate(400.0)))))

    text = console.export_text()
    for expected in ("ours", "constant key", "< 20", "> 15.00x", "kernel", "0.75x"):
        assert expected in text


def test_a_run_without_batches_makes_a_table_too() -> None:
    nothing = Side((summarise(Run((1,), 1, (), started=None, stopped=1.0), "no Java"),), files=1)

    assert as_table(Comparison(CASE, nothing, {}, None)).row_count == 1


def test_strategies_are_compared_with_the_first_and_must_agree() -> None:
    case = CASES["spread-images"]
    fast = side(Rate(17.0))
    comparison = Comparison(case, None, {}, None, {"central": SLOW, "psp": fast})

    found = as_json(comparison)

    assert found["strategies"]["psp"]["ratio_to_first"] == 1.7
    assert found["ours"] is None
    assert not comparison.failed
    assert Comparison(case, None, {}, None, {"central": SLOW, "psp": side(Rate(9.0), 8)}).failed
    printed = io.StringIO()
    Console(file=printed, width=80).print(as_table(comparison))
    assert "1.70x" in printed.getvalue()


def rounds(*rates: float) -> Side:
    return Side(tuple(side(Rate(rate)).summary for rate in rates), files=10)


def test_of_several_rounds_the_median_counts_and_ratios_are_taken_round_by_round() -> None:
    slow, fast = rounds(10.0, 20.0, 40.0), rounds(18.0, 30.0, 76.0)
    comparison = Comparison(CASES["spread-images"], None, {}, None, {"central": slow, "psp": fast})

    found = as_json(comparison)["strategies"]["psp"]

    assert found["rate"] == 30.0
    assert found["ratios_to_first"] == [1.8, 1.5, 1.9]
    assert found["ratio_to_first"] == 1.8
    printed = io.StringIO()
    Console(file=printed, width=80).print(as_table(comparison))
    assert "psp: 1.50x to 1.90x in 3 rounds" in printed.getvalue()


def test_one_round_with_another_answer_or_an_error_is_enough_to_fail() -> None:
    summaries = [side(Rate(10.0), results).summary for results in (7, 7, 8)]
    wrong = Comparison(CASE, Side(tuple(summaries), 10), {}, None)
    broken = [*summaries[:2], side(Rate(0.0), error="no Java").summary]

    assert wrong.disagreement == "ours found 7, ours in round 2 found 7, ours in round 3 found 8"
    assert Comparison(CASE, Side(tuple(broken), 10), {}, None).failed
