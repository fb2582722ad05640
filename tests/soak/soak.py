"""Cases by the hundred, each with a seed of its own, and one JSON line per case.

A case that is written down is not run again, so that a soak can be stopped and continued, and its
numbers belong to the file that they are in. To begin anew, delete the file.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

GOOD = ("exact", "refused", "level")
"""Outcomes that are promised. Anything else is a violation."""

Facts = dict[str, Any]
"""What a case found out; `outcome` says how it ended."""


@dataclass(frozen=True)
class Soak:
    """A kind of case, and how many of them make a soak."""

    what: str
    cases: int
    run: Callable[[int, Path], Facts]
    """Run the case of a seed in an empty directory."""

    def line(self, seed: int) -> Facts:
        """The facts of one case, with its seed and how long it took."""
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix=f"anabranch-{self.what}-") as home:
            try:
                facts = self.run(seed, Path(home))
            except Exception as error:  # noqa: BLE001 - whatever it is, this case has failed
                facts = {"outcome": "failed", "detail": f"{type(error).__name__}: {error}"[:4000]}
        seconds = round(time.monotonic() - began, 1)
        return {"what": self.what, "seed": seed, "commit": commit(), "seconds": seconds, **facts}

    def repeat(self, seed: int) -> str:
        """The command that runs one case again."""
        return f'make soak WHAT={self.what} SOAK_ARGS="--seed {seed}"'


def commit() -> str:
    """The version that a case was run on; unknown outside of a checkout."""
    git = shutil.which("git")
    if git is None:
        return "unknown"
    command = [git, "rev-parse", "--short", "HEAD"]
    told = subprocess.run(command, capture_output=True, text=True, check=False)
    return told.stdout.strip() or "unknown"


def done(path: Path) -> dict[int, Facts]:
    """The cases that are written down, by seed. A line that was cut off does not count."""
    found: dict[int, Facts] = {}
    for line in path.read_text().splitlines() if path.exists() else ():
        try:
            facts = json.loads(line)
        except ValueError:
            continue
        found[facts["seed"]] = facts
    return found


def carry_out(soak: Soak, path: Path, cases: int) -> int:
    """Run the cases that are missing, seeds 1 to `cases`; 1 if any of all is a violation."""
    path.parent.mkdir(parents=True, exist_ok=True)
    found = done(path)
    if path.exists() and not path.read_bytes().endswith(b"\n"):
        # What was cut off stays on a line of its own.
        path.open("a").write("\n")
    for seed in range(1, cases + 1):
        if seed in found:
            continue
        facts = found[seed] = soak.line(seed)
        with path.open("a") as file:
            file.write(json.dumps(facts) + "\n")
        print(f"{soak.what} {seed} of {cases}: {told(soak, facts)}", flush=True)
    counts = Counter(facts["outcome"] for facts in found.values())
    print(f"{soak.what}: " + ", ".join(f"{count} {name}" for name, count in counts.items()))
    bad = [seed for seed, facts in sorted(found.items()) if facts["outcome"] not in GOOD]
    for seed in bad:
        print(f"seed {seed}: {told(soak, found[seed])}")
    return 1 if bad else 0


def told(soak: Soak, facts: Mapping[str, Any]) -> str:
    """One case in a line; with the command that repeats it, where something was wrong."""
    text = f"{facts['outcome']} in {facts['seconds']} s"
    if facts["outcome"] in GOOD:
        return text
    return f"{text}. Repeat it with: {soak.repeat(facts['seed'])}\n{facts.get('detail', '')}"
