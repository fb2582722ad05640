"""What spreading a batch over hosts has cost: measured by the hosts, beside what was predicted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from anabranch.adapt.load import Usage
from anabranch.routing.base import Measured, Plan, Situation
from anabranch.routing.slices import Density

Report = Mapping[str, Any]
"""What one host counted in one hop."""

_OF_A_HOST = ("cpu", "kept", "kept_bytes", "fetched", "sent_bytes")


def diffusion(plan: Plan | None, reports: Sequence[Report]) -> dict[str, Any]:
    """Per host its CPU seconds, what it keeps and bytes moved; in all, copies and rows sent on."""
    hosts: dict[str, dict[str, float]] = {}
    for report in reports:
        entry = hosts.setdefault(str(report["host"]), dict.fromkeys(_OF_A_HOST, 0))
        counts = report["counts"]
        entry["cpu"] += report["cpu"]
        entry["fetched"] += report["fetched"]
        entry["kept"] += counts.get("kept", 0)
        entry["kept_bytes"] += counts.get("kept_bytes", 0)
        entry["sent_bytes"] += counts.get("sent_bytes", 0)
    return {
        "hosts": dict(sorted(hosts.items(), key=lambda item: int(item[0]))),
        "copied": _sum(reports, "copied"),
        "probing": _sum(reports, "probing"),
        "sent": _sum(reports, "sent"),
        "kept": _sum(reports, "kept"),
        **_lost(reports),
        "predicted": dict(plan.predicted) if plan is not None else {},
    }


def measured(reports: Sequence[Report], seconds: float, rows: int, places: int) -> Measured:
    """The same as a strategy wants to know it."""
    usage: dict[int, Usage] = {}
    for report in reports:
        host, counts = report["host"], report["counts"]
        before = usage.get(host, Usage())
        moved = report["fetched"] + counts.get("sent_bytes", 0) + counts.get("received_bytes", 0)
        usage[host] = Usage(
            before.cpu + report["cpu"] / max(seconds, 1e-6),
            before.memory + counts.get("kept_bytes", 0),
            before.bandwidth + moved / max(seconds, 1e-6),
        )
    return Measured(
        seconds,
        rows,
        usage,
        cpu=sum(report["cpu"] for report in reports),
        places=places,
        sent=_sum(reports, "packed"),
        sending=sum(report["sending"] for report in reports),
        shed=min(_sum(reports, "shed") / max(_sum(reports, "begun"), 1), 1.0),
    )


def partners(
    plan: Plan, situation: Situation, reports: Sequence[Report]
) -> dict[tuple[int, ...], float]:
    """For streams in the order of a visit, how many rows of the last one a combination found.

    A visit that several routes share (the same streams in the same order) is counted as one.
    """
    found: Counter[tuple[int, ...]] = Counter()
    for report in reports:
        for text, count in report["found"].items():
            found[tuple(map(int, text.split(",")))] += count
    asked: Counter[tuple[int, ...]] = Counter()
    for route in plan.routes:
        visit = (route.start, *(hop.stream for hop in route.hops))
        asked[visit[:2]] += round(Density(situation.new[route.start]).between(*route.times))
        for length in range(3, len(visit) + 1):
            asked[visit[:length]] = found[visit[: length - 1]]
    return {visit: found[visit] / rows for visit, rows in asked.items() if rows}


def _lost(reports: Sequence[Report]) -> dict[str, int]:
    """What a baseline that does not know the windows has lost; nothing, for all strategies."""
    if not any("all_results" in report["counts"] for report in reports):
        return {}
    return {"lost": _sum(reports, "all_results") - sum(report["results"] for report in reports)}


def _sum(reports: Sequence[Report], name: str) -> int:
    return sum(report["counts"].get(name, 0) for report in reports)
