"""The batch under way, as far as it has come: for progress, and in words."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from anabranch.kernel.tally import TOP
from anabranch.report.progress import readable_time


def under_way(
    batch: Mapping[str, Any], reports: Sequence[Mapping[str, Any]], now: int
) -> dict[str, Any]:
    """What the driver and the hosts have said of a batch, at this time in microseconds.

    Hosts speak after two seconds, and every two seconds then; before, nothing is known of
    results. `multiplying` are rows with their results so far; `comparing` are the rows for which
    pairs were being compared when the hosts last spoke, with the number of pairs at once.
    """
    return {
        "batch": batch["batch"],
        "phase": batch["phase"],
        "seconds": max(now - batch["since"], 0) / 1e6,
        "rows": batch["rows"],
        "tasks": len(reports),
        "results": sum(report["results"] for report in reports),
        "compared": sum(report["compared"] for report in reports),
        "multiplying": _top(reports, "multiplying"),
        "comparing": _top(reports, "comparing"),
    }


def under_way_sentence(p: Mapping[str, Any]) -> str | None:
    """What there is to say of a batch that is long under way, or that is the first."""
    now = p["under_way"]
    if now is None or (p["batches"] and not now["tasks"]):
        return None
    text = f"Batch {now['batch']} is under way: {now['phase']}, after {now['seconds']:.0f} s"
    if now["rows"]:
        text += f", of {now['rows']:,} rows"
    if not now["tasks"]:
        return f"{text}."
    text += f"; {now['results']:,} results and {now['compared']:,} pairs compared so far."
    if now["multiplying"]:
        top = now["multiplying"][0]
        text += (
            f" The row that multiplies most is of {top['stream']} ({_values(top)}): "
            f"{top['results']:,} results so far."
        )
    elif now["comparing"]:
        top = now["comparing"][0]
        text += f" Most pairs are compared for a row of {top['stream']} ({_values(top)})."
    return text


def _values(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value}" for name, value in row["values"].items())


def _top(reports: Sequence[Mapping[str, Any]], name: str) -> list[dict[str, Any]]:
    found = [{**row, "time": readable_time(row["time"])} for each in reports for row in each[name]]
    return sorted(found, key=lambda row: -row["results"])[:TOP]
