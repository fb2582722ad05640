"""What a bench has found, for people (a table) and for programs (one JSON object)."""

from __future__ import annotations

import os
import platform
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

from rich import box
from rich.table import Table

from anabranch.bench.cases import Case
from anabranch.bench.measure import Summary


@dataclass(frozen=True)
class Side:
    """One side of a case: its numbers, and the batch size it had (files per stream)."""

    rounds: tuple[Summary, ...]
    """One after the other, each beside the other sides' of its number."""
    files: int

    @property
    def summary(self) -> Summary:
        """The round in the middle by its rate; the slower one of two."""
        return sorted(self.rounds, key=lambda one: one.rate.value)[(len(self.rounds) - 1) // 2]

    @property
    def error(self) -> str | None:
        return next((one.error for one in self.rounds if one.error is not None), None)


@dataclass(frozen=True)
class Comparison:
    """A case with the sides that were run; a side that was not asked for is None."""

    case: Case
    ours: Side | None
    plans: Mapping[str, Side]
    """Spark's, by the name of the plan."""
    kernel: Side | None
    strategies: Mapping[str, Side] = field(default_factory=dict)
    """Ours, where a case compares its strategies; the first is what the others are measured by."""

    @property
    def spark(self) -> Side | None:
        """The plan that serves Spark best, so that the comparison is with the best it can do.

        What was measured goes before what is only bounded: a bound may be far too generous.
        """

        def merit(side: Side) -> tuple[bool, float]:
            return not side.summary.rate.is_bound, side.summary.rate.value

        return max(self.plans.values(), key=merit, default=None)

    @property
    def first(self) -> Side | None:
        """What the other strategies are measured by."""
        return next(iter(self.strategies.values()), None)

    @property
    def sides(self) -> dict[str, Side | None]:
        return {"ours": self.ours, "spark": self.spark, "kernel": self.kernel}

    @property
    def disagreement(self) -> str | None:
        """Sides that went through to the end have found the same number of results, or one errs."""
        plans = {f"Spark ({name})": side for name, side in self.plans.items()}
        found = {
            name if number == 0 else f"{name} in round {number + 1}": one.results
            for name, side in {
                "ours": self.ours,
                **plans,
                "kernel": self.kernel,
                **self.strategies,
            }.items()
            if side is not None
            for number, one in enumerate(side.rounds)
            if one.finished
        }
        if len(set(found.values())) <= 1:
            return None
        return ", ".join(f"{name} found {count:,}" for name, count in found.items())

    @property
    def failed(self) -> bool:
        """Whether our side, or the exactness of the answer, is broken. Spark's troubles are not."""
        mine = (self.ours, self.kernel, *self.strategies.values())
        broken = any(side is not None and side.error is not None for side in mine)
        return broken or self.disagreement is not None


def ratios(ours: Side | None, other: Side | None) -> list[tuple[float, bool]]:
    """Round by round, how many times as fast we are, and whether that is only a lower bound.

    A bound of the other side's rate from above is a bound of the ratio from below. Where our own
    rate is a bound, nothing can be said.
    """
    if ours is None or other is None:
        return []
    rates = [(a.rate, b.rate) for a, b in zip(ours.rounds, other.rounds, strict=True)]
    return [(a.value / b.value, b.is_bound) for a, b in rates if not a.is_bound and b.value]


def ratio(ours: Side | None, other: Side | None) -> tuple[float | None, bool]:
    """The median of all rounds: rounds differ with what else the machine does, both sides alike.

    A bound anywhere makes a bound of it.
    """
    found = ratios(ours, other)
    if not found:
        return None, False
    return median(factor for factor, _ in found), any(is_bound for _, is_bound in found)


def as_json(comparison: Comparison) -> dict[str, Any]:
    """The object that `--json` prints."""
    sides = comparison.sides
    to_spark, spark_bound = ratio(comparison.ours, comparison.spark)
    to_kernel, kernel_bound = ratio(comparison.ours, comparison.kernel)
    case = comparison.case
    found: dict[str, Any] = {
        "case": case.name,
        "about": case.about,
        "unit": unit_of(case),
    }
    for name, side in sides.items():
        found[name] = side.summary.rate.value if side else None
        found[f"{name}_is_bound"] = side.summary.rate.is_bound if side else None
    found |= {
        "ratio_to_spark": to_spark,
        "ratio_to_spark_is_bound": spark_bound,
        "ratio_to_kernel": to_kernel,
        "ratio_to_kernel_is_bound": kernel_bound,
        "rates": {name: _rates(side) for name, side in sides.items() if side},
        "batch_seconds": {name: _percentiles(side) for name, side in sides.items()},
        "peak_state": {name: _peak(side) for name, side in sides.items()},
        "results": {name: side.summary.results if side else None for name, side in sides.items()},
        "results_disagree": comparison.disagreement,
        "batch_files": {name: side.files if side else None for name, side in sides.items()},
        "batch_rows": {
            name: max(case.batches(side.files)) if side else None for name, side in sides.items()
        },
        "spark_plans": {
            name: _plan(side, comparison.ours) for name, side in comparison.plans.items()
        },
        "strategies": {
            name: {
                "rate": side.summary.rate.value,
                "is_bound": side.summary.rate.is_bound,
                "rates": _rates(side),
                "ratio_to_first": ratio(side, comparison.first)[0],
                "ratios_to_first": [factor for factor, _ in ratios(side, comparison.first)],
                "stolen": [one.stolen for one in side.rounds],
                "batch_seconds": _percentiles(side),
                "batch_kinds_seconds": side.summary.kinds,
                "error": side.error,
            }
            for name, side in comparison.strategies.items()
        },
        "errors": {name: side.error for name, side in sides.items() if side},
        "sizes": {
            "streams": len(case.feeds),
            "event_seconds": len(case.rows),
            "rows_per_stream_and_second": max(case.rows),
            "window_seconds": case.window,
        },
        "machine": machine(),
    }
    if case.counts_batches:
        found["batch_kinds_seconds"] = {
            name: side.summary.kinds for name, side in sides.items() if side
        }
    return found


def unit_of(case: Case) -> str:
    """What a rate of this case counts."""
    return "batches/s" if case.counts_batches else "rows/s"


def machine() -> dict[str, Any]:
    """Where the numbers come from: the processor, and how many of its cores we may use."""
    model = platform.processor() or platform.machine()
    information = Path("/proc/cpuinfo")
    if information.exists():
        for line in information.read_text().splitlines():
            if line.startswith("model name"):
                model = line.partition(":")[2].strip()
                break
    affinity = getattr(os, "sched_getaffinity", None)
    return {"cpu": model, "cores": len(affinity(0)) if affinity else os.cpu_count()}


def as_table(comparison: Comparison) -> Table:
    """One row per side; every plan of Spark's has its own."""
    title = f"{comparison.case.name}: {comparison.case.about}"
    # Without rules between the columns it fits a terminal of 80 characters.
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column("")
    for column in (unit_of(comparison.case), "p50 s", "p90 s", "p99 s", "kept", "bytes"):
        table.add_column(column, justify="right", no_wrap=True)
    compared = "to first" if comparison.strategies else "ours is"
    for column in ("results", compared):
        table.add_column(column, justify="right", no_wrap=True)
    plans = [(f"Spark,\n{name}", side) for name, side in comparison.plans.items()]
    for name, side in (("ours", comparison.ours), *plans, ("kernel", comparison.kernel)):
        if side is not None:
            times = ratio(comparison.ours, side) if name != "ours" else (None, False)
            table.add_row(name, *_cells(side, comparison.case, times))
    for name, side in comparison.strategies.items():
        times = ratio(side, comparison.first) if side is not comparison.first else (None, False)
        table.add_row(name.replace(", ", ",\n"), *_cells(side, comparison.case, times))
    notes = _kinds(comparison) if comparison.case.counts_batches else []
    table.caption = "\n".join([*notes, *_rounds(comparison)]) or None
    table.caption_justify = "left"
    return table


def _kinds(comparison: Comparison) -> list[str]:
    """Median seconds of batches without and with a row, a line a side."""
    sides = {"ours": comparison.ours, "Spark": comparison.spark, **comparison.strategies}
    return [
        f"{name}: " + ", ".join(f"{kind} {time:.2f} s" for kind, time in side.summary.kinds.items())
        for name, side in sides.items()
        if side is not None
    ]


def _rounds(comparison: Comparison) -> list[str]:
    """Where there were several rounds, how far they lie apart, a line a strategy."""
    return [
        f"{name}: {min(found):.2f}x to {max(found):.2f}x in {len(found)} rounds"
        for name, side in comparison.strategies.items()
        if side is not comparison.first
        and len(found := [factor for factor, _ in ratios(side, comparison.first)]) > 1
    ]


def _cells(side: Side, case: Case, times: tuple[float | None, bool]) -> list[str]:
    summary = side.summary
    sign, digits = "< " if summary.rate.is_bound else "", 2 if case.counts_batches else 0
    seconds = ["-"] * 3
    if summary.percentiles:
        seconds = [f"{value:.2f}" for value in asdict(summary.percentiles).values()]
    factor, is_bound = times
    return [
        f"{sign}{summary.rate.value:,.{digits}f}",
        *seconds,
        short(summary.peak_rows),
        short(summary.peak_bytes),
        short(summary.results),
        "" if factor is None else f"{'> ' if is_bound else ''}{factor:,.2f}x",
    ]


def short(count: int) -> str:
    """A large number in few characters.

    >>> [short(count) for count in (0, 999, 20_000, 3_058_654, 25_992_257, 7_500_000_000)]
    ['0', '999', '20.0k', '3.1M', '26.0M', '7.5G']
    """
    for size, unit in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if count >= size:
            return f"{count / size:.1f}{unit}"
    return str(count)


def _rates(side: Side) -> list[float]:
    return [one.rate.value for one in side.rounds]


def _percentiles(side: Side | None) -> dict[str, float] | None:
    return asdict(side.summary.percentiles) if side and side.summary.percentiles else None


def _peak(side: Side | None) -> dict[str, int] | None:
    if side is None:
        return None
    return {"rows": side.summary.peak_rows, "bytes": side.summary.peak_bytes}


def _plan(side: Side, ours: Side | None) -> dict[str, Any]:
    summary = side.summary
    times, is_bound = ratio(ours, side)
    return {
        "rate": summary.rate.value,
        "is_bound": summary.rate.is_bound,
        "ratio": times,
        "ratio_is_bound": is_bound,
        "error": side.error,
    }
