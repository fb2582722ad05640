"""The whole command on tiny sizes: every side runs, and all of them find the same."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import pytest

from anabranch.bench.main import add_arguments, run

KEYS = {
    "case",
    "about",
    "unit",
    "ours",
    "ours_is_bound",
    "spark",
    "spark_is_bound",
    "kernel",
    "kernel_is_bound",
    "ratio_to_spark",
    "ratio_to_spark_is_bound",
    "ratio_to_kernel",
    "ratio_to_kernel_is_bound",
    "rates",
    "batch_seconds",
    "peak_state",
    "results",
    "results_disagree",
    "batch_files",
    "batch_rows",
    "spark_plans",
    "strategies",
    "errors",
    "sizes",
    "machine",
}


def bench(tmp_path: Path, capsys: pytest.CaptureFixture[str], *arguments: str) -> dict[str, Any]:
    """Run the command as the command line would; the object in its last line."""
    parser = argparse.ArgumentParser()
    add_arguments(parser)
    code = run(parser.parse_args([*arguments, "--quick", "--json", "--data", str(tmp_path)]))
    printed = capsys.readouterr()
    assert code == 0, printed.err
    found: dict[str, Any] = json.loads(printed.out.splitlines()[-1])
    return found


@pytest.mark.long
def test_a_case_is_measured_on_every_side(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = bench(tmp_path, capsys, "equality-2way")

    assert set(found) == KEYS
    assert found["case"] == "equality-2way"
    results = found["results"]
    assert results["ours"] == results["spark"] == results["kernel"] > 0
    assert all(found[name] > 0 for name in ("ours", "spark", "kernel", "ratio_to_spark"))
    assert set(found["batch_seconds"]["ours"]) == {"p50", "p90", "p99"}
    assert found["peak_state"]["ours"]["rows"] > 0
    assert found["peak_state"]["ours"]["bytes"] > 0
    assert set(found["machine"]) == {"cpu", "cores"}
    assert found["batch_files"] == {"ours": 2, "spark": 2, "kernel": 2}


@pytest.mark.parametrize("case", ["equality-3way-two-keys", "band-2way", "distance-2way"])
def test_the_bare_kernel_runs_alone(
    case: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = bench(tmp_path, capsys, case, "--side", "kernel")

    assert found["kernel"] > 0
    assert found["ours"] is found["spark"] is found["ratio_to_spark"] is None


def test_a_side_is_measured_as_often_as_asked_for(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    found = bench(tmp_path, capsys, "distance-2way", "--side", "kernel", "--repeat", "2")

    assert len(found["rates"]["kernel"]) == 2
    assert found["kernel"] == min(found["rates"]["kernel"]) > 0


@pytest.mark.parametrize("rounds", ["0", "-1", "many"])
def test_a_number_of_rounds_is_refused_if_it_is_none(
    rounds: str, capsys: pytest.CaptureFixture[str]
) -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)

    with pytest.raises(SystemExit):
        parser.parse_args(["hops", f"--repeat={rounds}"])

    assert "no number of rounds" in capsys.readouterr().err


def test_an_unknown_case_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    parser = argparse.ArgumentParser()
    add_arguments(parser)

    with pytest.raises(SystemExit):
        parser.parse_args(["equality-9way"])

    assert "equality-2way" in capsys.readouterr().err
