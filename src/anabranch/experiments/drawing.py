"""Charts, as SVG that stands on its own."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence

import matplotlib as mpl
import numpy as np
from matplotlib.axes import Axes

from anabranch.experiments.figure import Chart, Measured

mpl.use("svg")
from matplotlib import pyplot as plt

MARKERS = "osv^Dxp*"


def drawn(
    chart: Chart,
    metrics: Mapping[str, Measured],
    over_time: Mapping[str, Sequence[Sequence[float | None]]],
) -> str:
    """The chart with a line a series; bars are the spread over seeds."""
    figure, axes = plt.subplots(figsize=(6.2, 3.6))
    if chart.over_time:
        _over_time(chart, over_time, axes)
    else:
        _by_x(metrics[chart.metric], axes)
    axes.set_xlabel(chart.x)
    axes.set_ylabel(chart.y)
    if chart.log:
        axes.set_yscale("log")
        axes.set_xscale("log" if "hosts" in chart.x else "linear")
    axes.grid(visible=True, alpha=0.3)
    axes.legend(fontsize=8)
    text = io.StringIO()
    figure.tight_layout()
    figure.savefig(text, format="svg", metadata={"Date": None})
    plt.close(figure)
    svg = text.getvalue()
    return svg[svg.index("<svg") :]


def _by_x(measured: Measured, axes: Axes) -> None:
    for at, series in enumerate(measured.series):
        xs = sorted(x for name, x in measured.values if name == series)
        values = [measured.values[series, x] for x in xs]
        if len(xs) == 1:
            axes.bar([series], [np.mean(values[0])], yerr=[np.std(values[0])], label=series)
            continue
        means, spread = [np.mean(v) for v in values], [np.std(v) for v in values]
        axes.errorbar(xs, means, spread, marker=MARKERS[at % len(MARKERS)], capsize=3, label=series)


def _over_time(
    chart: Chart, over_time: Mapping[str, Sequence[Sequence[float | None]]], axes: Axes
) -> None:
    for series, runs in over_time.items():
        if chart.only not in (None, series):
            continue
        seconds = min(len(run) for run in runs)
        values = np.array([[np.nan if v is None else v for v in run[:seconds]] for run in runs])
        if chart.metric == "made":
            values = np.cumsum(values, axis=1)
        middle = np.nanmean(values, axis=0)
        axes.plot(range(seconds), middle, label=series)
        axes.fill_between(
            range(seconds), np.nanmin(values, axis=0), np.nanmax(values, axis=0), alpha=0.2
        )
