"""What a run has learned of its streams: older batches count for less and less."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from anabranch.kernel.tally import Tally
from anabranch.report.diffusion import Report, partners
from anabranch.routing.base import Plan, Situation

MOST_VISITS = 1000
"""Orders of visiting streams whose partners are remembered: nine streams have a million."""

_KEEP = 0.8
"""How much of what was known still counts after another batch."""


@dataclass(frozen=True)
class Statistics:
    """Selectivities by the position of the term, and partners found by the order of a visit."""

    selectivities: Mapping[int, float] = field(default_factory=dict)
    partners: Mapping[tuple[int, ...], float] = field(default_factory=dict)

    def after(
        self, tally: Tally, plan: Plan | None, situation: Situation, reports: Sequence[Report]
    ) -> Statistics:
        """The same with what a batch has shown."""
        selectivities = dict(self.selectivities)
        for position, value in tally.selectivities().items():
            selectivities[position] = _mixed(selectivities.get(position, value), value)
        visits = dict(self.partners)
        if plan is not None and reports:
            for visit, count in partners(plan, situation, reports).items():
                # Taken out and put back: the visit of longest ago is the first.
                visits[visit] = _mixed(visits.pop(visit, count), count)
        return Statistics(selectivities, dict(list(visits.items())[-MOST_VISITS:]))

    def to_policy(self) -> dict[str, Any]:
        """For the manifest; `of` takes it back."""
        return {
            "selectivities": {str(p): s for p, s in self.selectivities.items()},
            "partners": {",".join(map(str, v)): count for v, count in self.partners.items()},
        }

    @staticmethod
    def of(policy: Mapping[str, Any]) -> Statistics:
        return Statistics(
            {int(p): s for p, s in policy.get("selectivities", {}).items()},
            {
                tuple(map(int, visit.split(","))): count
                for visit, count in policy.get("partners", {}).items()
            },
        )


def _mixed(known: float, fresh: float) -> float:
    return known * _KEEP + fresh * (1 - _KEEP)
