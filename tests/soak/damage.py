"""One bit flipped in any file of a checkpoint, Spark's half included, or of what the sink keeps."""

from __future__ import annotations

import random
import re
from collections.abc import Iterable
from functools import cache
from pathlib import Path

from tests.damage.damages import cut_off_before_the_commit, cut_off_before_the_manifest, flip_bit
from tests.damage.stage import Home, Stage
from tests.soak.session import scratch, spark
from tests.soak.soak import Facts

SITUATIONS = {
    "at rest": (),
    "cut off before the commit": (cut_off_before_the_commit,),
    "cut off before the manifest": (cut_off_before_the_manifest,),
}
DELIVERED = re.compile(r"out/batch=[0-9]+/.*(\.parquet|\.parquet\.crc|_SUCCESS|_SUCCESS\.crc)")
"""Results belong to whoever reads them; Parquet and Hadoop have checksums of their own."""


@cache
def stage() -> Stage:
    return Stage.build(spark(), scratch("stage"))


def run(seed: int, directory: Path) -> Facts:
    """Flip a bit that the seed chooses, in a situation that it chooses, and run the job on."""
    chance = random.Random(seed)
    facts: Facts = {}
    situation = chance.choice(list(SITUATIONS))

    def flip(home: Home) -> None:
        path = home.path / chosen(chance, _names(home.path))
        bit = chance.randrange(8 * path.stat().st_size)
        facts.update(situation=situation, file=str(path.relative_to(home.path)), bit=bit)
        flip_bit(path, bit)

    outcome = stage().outcome(directory, *SITUATIONS[situation], flip)
    why = outcome.why.replace(f"{directory}/", "")
    return {"outcome": outcome.name, **facts, "detail": why}


def chosen(chance: random.Random, names: Iterable[str]) -> str:
    """A file: first its kind, so that rare kinds are met as often as common ones."""
    kinds: dict[str, list[str]] = {}
    for name in names:
        kinds.setdefault(kind(name), []).append(name)
    return chance.choice(kinds[chance.choice(sorted(kinds))])


def kind(name: str) -> str:
    """The name of a file without its numbers, so that files of a kind have one name."""
    return re.sub(r"[0-9a-f]{32}|[0-9]+", "N", name)


def _names(directory: Path) -> list[str]:
    found = (path for path in directory.rglob("*") if path.is_file() and path.stat().st_size)
    names = (str(path.relative_to(directory)) for path in found)
    return sorted(n for n in names if not DELIVERED.fullmatch(n) and not n.endswith("/lock"))
