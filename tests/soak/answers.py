"""A hundred drawn queries per case, each compared with Spark's own batch join."""

from __future__ import annotations

from pathlib import Path

from tests.fuzz.comparing import Totals, compare
from tests.fuzz.drawing import cases
from tests.fuzz.minimising import lines, minimised
from tests.soak.session import spark
from tests.soak.soak import Facts

GROUPS, QUERIES = 10, 10
"""Streams that are drawn, and queries over each."""


def run(seed: int, _directory: Path) -> Facts:
    """Compare the queries of a seed; the first fault is made small and written down."""
    totals, faults = Totals(), []
    for group in range(GROUPS):
        findings = compare(spark(), cases(seed * GROUPS + group, QUERIES))
        totals.add(findings)
        faults += [finding for finding in findings if finding.is_fault]
    facts: Facts = {"outcome": "wrong" if faults else "exact", "queries": GROUPS * QUERIES}
    facts |= {"outcomes": dict(totals.outcomes), "results": totals.results}
    return {**facts, "detail": lines(minimised(spark(), faults[0]))} if faults else facts
