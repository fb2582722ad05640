"""`python -m tests.soak WHAT`: see `make soak`."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

from tests.soak import answers, damage, kills, memory
from tests.soak.soak import GOOD, Soak, carry_out

MEASUREMENTS = Path(__file__).resolve().parents[2] / "docs" / "measurements"
SOAKS: dict[str, Soak] = {
    "answers": Soak("answers", 200, answers.run),
    "damage": Soak("damage", 200, damage.run),
    "kills": Soak("kills", 22, kills.run),
    "memory": Soak("memory", 2, memory.run),
}


def main() -> int:
    parser = argparse.ArgumentParser(prog="make soak", description="Hundreds of cases of a kind.")
    parser.add_argument("what", choices=list(SOAKS), help="the kind of case (WHAT=…)")
    parser.add_argument("--cases", type=int, help="how many, in seeds 1, 2, …")
    parser.add_argument("--seed", type=int, help="run this one case, and write nothing down")
    parser.add_argument("--out", type=Path, default=MEASUREMENTS, help="where WHAT.jsonl lies")
    told = parser.parse_args()
    soak = SOAKS[told.what]
    if told.seed is not None:
        facts = soak.line(told.seed)
        print(json.dumps(facts, indent=1))
        return 0 if facts["outcome"] in GOOD else 1
    return carry_out(soak, told.out / f"{soak.what}.jsonl", told.cases or soak.cases)


if __name__ == "__main__":
    sys.exit(main())
