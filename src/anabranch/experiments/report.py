"""The report: figures, what the papers claim, and whether it holds here, as one HTML page."""

from __future__ import annotations

import html
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from anabranch.experiments.drawing import drawn
from anabranch.experiments.figure import Chart, Claim, Experiment, Measured
from anabranch.experiments.running import Numbers, by_metric

STYLE = """
body { font: 15px/1.5 sans-serif; max-width: 46em; margin: 2em auto; padding: 0 1em; }
.holds { color: #176117; } .fails { color: #a01818; } svg { max-width: 100%; height: auto; }
li { margin-bottom: .4em; } .why { color: #444; }
th { text-align: left; font-weight: normal; padding-right: 1em; } td { text-align: right; }
td { padding-left: 1em; }
"""


@dataclass(frozen=True)
class Finding:
    """A claim, looked into."""

    chart: Chart
    claim: Claim
    holds: bool
    numbers: str

    def __str__(self) -> str:
        word = "holds" if self.holds else "does not hold"
        return f"{self.chart.key}: {self.claim.says}: {word} ({self.numbers})"


@dataclass(frozen=True)
class Section:
    """A figure and what was found."""

    chart: Chart
    about: str
    svg: str
    table: str
    findings: tuple[Finding, ...]


def sections(
    experiments: Sequence[Experiment],
    found: dict[tuple[str, str, float, int], Numbers],
    only: str | None = None,
) -> list[Section]:
    """One for each figure; `only` names a single one."""
    made = []
    for experiment in experiments:
        metrics = by_metric(experiment, found)
        for chart in experiment.charts:
            if only is not None and chart.key != only:
                continue
            over_time: dict[str, list[list[float | None]]] = {}
            for (key, series, _, _), numbers in sorted(found.items()):
                if key == experiment.key and chart.over_time:
                    over_time.setdefault(series, []).append(numbers["series"][chart.metric])
            findings = tuple(Finding(chart, claim, *claim.check(metrics)) for claim in chart.claims)
            svg = drawn(chart, metrics, over_time)
            table = "" if chart.over_time else _table(chart, metrics[chart.metric])
            made.append(Section(chart, experiment.about, svg, table, findings))
    return made


def _table(chart: Chart, measured: Measured) -> str:
    """The means that a figure is drawn from, a line for each series."""
    xs = sorted({x for _, x in measured.values})
    head = "".join(f"<th>{x:g}</th>" for x in xs)
    lines = [f"<tr><th>{html.escape(chart.x)}</th>{head}</tr>"]
    for series in measured.series:
        known = dict(measured.line(series))
        cells = "".join(f"<td>{known[x]:,.4g}</td>" if x in known else "<td></td>" for x in xs)
        lines.append(f"<tr><th>{html.escape(series)}</th>{cells}</tr>")
    return f"<details><summary>means</summary><table>{''.join(lines)}</table></details>"


def summary(made: Sequence[Section]) -> str:
    """The last line."""
    findings = [finding for section in made for finding in section.findings]
    return f"{sum(finding.holds for finding in findings)} of {len(findings)} claims hold"


def write(made: Sequence[Section], seeds: int, path: Path) -> None:
    """A page without anything from elsewhere."""
    parts = [
        "<!doctype html><html lang='en'><head><meta charset='utf-8'>",
        f"<title>Anabranch: experiments</title><style>{STYLE}</style></head><body>",
        "<h1>The papers' figures on simulated clusters</h1>",
        f"<p>{html.escape(summary(made))}. Bars and bands are the spread over {seeds} seed(s).</p>",
    ]
    for section in made:
        parts.append(
            f"<h2>{html.escape(section.chart.key)}: {html.escape(section.chart.title)}</h2>"
        )
        parts.append(f"<p>{html.escape(section.about)}</p>{section.svg}{section.table}<ul>")
        for finding in section.findings:
            kind = "holds" if finding.holds else "fails"
            word = "holds" if finding.holds else "does not hold"
            parts.append(
                f"<li>{html.escape(finding.claim.says)}: <b class='{kind}'>{word}</b> "
                f"({html.escape(finding.numbers)})"
            )
            if not finding.holds and finding.claim.if_not:
                parts.append(f"<br><span class='why'>{html.escape(finding.claim.if_not)}</span>")
            parts.append("</li>")
        parts.append("</ul>")
    parts.append("</body></html>")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("\n".join(parts), "utf-8")
