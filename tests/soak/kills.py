"""A job that is killed ten times over one input, at moments that chance chooses."""

from __future__ import annotations

import random
from pathlib import Path

import anabranch as ab
from tests.crash import job
from tests.crash.delivery import delivered, rows
from tests.crash.kills import MASTER, Kill, Supply
from tests.crash.processes import Job
from tests.soak.session import spark
from tests.soak.soak import Facts

KILLS = 10
FILES_PER_START = 2


def run(seed: int, directory: Path) -> Facts:
    """Kill the job ten times, let it finish, and compare with the reference."""
    chance = random.Random(seed)
    home = directory / "home"
    supply = Supply(directory, FILES_PER_START * (KILLS + 1), seed)
    kills: list[Facts] = []
    while len(kills) < KILLS:
        supply.give(FILES_PER_START)
        kills.append(Kill.drawn(chance).carry_out(supply.source, home))
    supply.give(supply.number)
    last = Job(supply.source, home, MASTER, {}, chance.choice(("ctr", "psp")))
    try:
        last.finish()
    finally:
        last.kill()
    facts: Facts = {"outcome": "exact", "kills": kills}
    for name in job.QUERIES:
        expected = rows(ab.testing.reference(job.static(spark(), name, supply.source)))
        found = delivered(home / "out" / name)
        lost, repeated = (expected - found).total(), (found - expected).total()
        facts[name] = {"results": expected.total(), "lost": lost, "repeated": repeated}
        if lost or repeated:
            facts["outcome"] = "wrong"
    return facts
