"""`anabranch experiment KEY`: measure, draw, and hold against the papers."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.progress import Progress

from anabranch.errors import AnabranchError
from anabranch.experiments import beyond, ld07, psp09
from anabranch.experiments.figure import Experiment
from anabranch.experiments.report import sections, summary, write
from anabranch.experiments.running import Cache, measure_all

SEEDS = (1, 2, 3, 4, 5)
PAPERS = {
    "ld07": ld07.EXPERIMENTS,
    "psp09": psp09.EXPERIMENTS,
    "beyond": beyond.EXPERIMENTS,
}
ALL = tuple(experiment for paper in PAPERS.values() for experiment in paper)


def keys() -> list[str]:
    """Everything that can be asked for."""
    return ["all", *PAPERS, *(chart.key for experiment in ALL for chart in experiment.charts)]


def run(key: str, out: Path, cache: Path, console: Console, *, quick: bool) -> int:
    """Make a report of all, a paper's, or one figure."""
    experiments, only = _chosen(key)
    seeds = SEEDS[:1] if quick else SEEDS
    with Progress(console=console, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("runs", total=None)
        found = measure_all(
            experiments,
            seeds,
            Cache(cache),
            lambda done, total: bar.update(task, completed=done, total=total),
            quick=quick,
        )
    made = sections(experiments, found, only)
    path = out / f"{key}.html"
    write(made, len(seeds), path)
    for section in made:
        for finding in section.findings:
            colour = "green" if finding.holds else "red"
            console.print(f"[{colour}]{finding}[/{colour}]", highlight=False)
            if not finding.holds and finding.claim.if_not:
                console.print(f"    {finding.claim.if_not}", highlight=False)
    console.print(f"figures: {path}", highlight=False)
    console.print(summary(made), highlight=False)
    return 0


def _chosen(key: str) -> tuple[Sequence[Experiment], str | None]:
    if key == "all":
        return ALL, None
    if key in PAPERS:
        return PAPERS[key], None
    for experiment in ALL:
        if key in (chart.key for chart in experiment.charts):
            return (experiment,), key
    raise AnabranchError(f"there is no experiment {key!r}; there are {', '.join(keys())}")
