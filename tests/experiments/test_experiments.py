"""The quick report: every figure is made, every claim is looked into, and nothing is fetched."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from rich.console import Console

from anabranch.errors import AnabranchError
from anabranch.experiments import main
from anabranch.experiments.figure import Measured

FIGURES = (
    *(f"ld07-fig{number}" for number in (4, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16)),
    *(f"psp09-fig8{letter}" for letter in "abcdefgh"),
)


def test_there_is_an_experiment_for_every_figure() -> None:
    assert set(FIGURES) <= set(main.keys())


@pytest.mark.long
def test_the_quick_report_is_whole(tmp_path: Path) -> None:
    console = Console(record=True, width=300)
    assert main.run("all", tmp_path, tmp_path / "cache", console, quick=True) == 0
    last = console.export_text().strip().splitlines()[-1]
    found = re.fullmatch(r"(\d+) of (\d+) claims hold", last)
    assert found is not None, last
    assert int(found[2]) >= 35
    page = (tmp_path / "all.html").read_text()
    assert all(f"{figure}:" in page for figure in FIGURES)
    assert page.count("<svg") >= len(FIGURES)
    assert "<script" not in page
    assert not re.search(r'(src|href)="https?:', page)


@pytest.mark.long
def test_a_figure_is_not_measured_again(tmp_path: Path) -> None:
    console = Console(record=True, width=300)
    main.run("psp09-fig8g", tmp_path, tmp_path / "cache", console, quick=True)
    files = {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").iterdir()}
    main.run("psp09-fig8h", tmp_path, tmp_path / "cache", console, quick=True)
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "cache").iterdir()} == files


def test_a_wrong_key_names_the_right_ones(tmp_path: Path) -> None:
    with pytest.raises(AnabranchError, match=r"no experiment 'fig11'; there are all, ld07"):
        main.run("fig11", tmp_path, tmp_path, Console(), quick=True)


def test_means_are_over_seeds() -> None:
    measured = Measured({("a", 1.0): [1.0, 3.0], ("b", 1.0): [5.0]})
    assert measured.mean("a", 1.0) == 2.0
    assert measured.series == ["a", "b"]
