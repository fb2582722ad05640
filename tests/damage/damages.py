"""What may happen to a checkpoint and its output while nobody runs it, by name."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from anabranch.state.sealed import seal, text_of
from tests.damage.stage import BATCHES, Damage, Home

NEWEST = BATCHES - 1
"""The batch that was committed last."""


# -- one file ------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Kind:
    """A kind of file: where the one that matters most lies, and another of that kind."""

    path: Callable[[Home], Path]
    other: Callable[[Home], Path]


def at(name: str) -> Callable[[Home], Path]:
    return lambda home: home.path / name


def segment(stream: int, home: Home) -> Path:
    return max((home.checkpoint / "segments" / str(stream)).glob("*.seg"))


def manifest(batch: int) -> str:
    return f"checkpoint/manifests/{batch:012d}.json"


KINDS = {
    "identity": Kind(at("checkpoint/anabranch.json"), at(manifest(NEWEST))),
    "newest manifest": Kind(at(manifest(NEWEST)), at(manifest(NEWEST - 1))),
    "older manifest": Kind(at(manifest(NEWEST - 1)), at(manifest(0))),
    "segment": Kind(partial(segment, 0), partial(segment, 1)),
    "spark id": Kind(at("checkpoint/spark/metadata"), at("checkpoint/spark/commits/0")),
    **{
        f"spark {log}": Kind(
            at(f"checkpoint/spark/{log}/{NEWEST}"), at(f"checkpoint/spark/{log}/{NEWEST - 1}")
        )
        for log in ("offsets", "commits", "sources/0", "sources/1")
    },
    "older spark source": Kind(
        at("checkpoint/spark/sources/0/1"), at("checkpoint/spark/sources/1/1")
    ),
    "spark checksum": Kind(
        at(f"checkpoint/spark/offsets/.{NEWEST}.crc"), at("checkpoint/spark/offsets/.0.crc")
    ),
    "sink owner": Kind(at("out/_anabranch/owner.json"), at("checkpoint/anabranch.json")),
    "sink seal": Kind(
        at(f"out/batch={NEWEST}/_anabranch.json"), at(f"out/batch={NEWEST - 1}/_anabranch.json")
    ),
}


def truncate(kind: Kind, home: Home) -> None:
    path = kind.path(home)
    path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])


def empty(kind: Kind, home: Home) -> None:
    kind.path(home).write_bytes(b"")


def flip(kind: Kind, home: Home) -> None:
    """As a failing disk does it: one bit in the middle."""
    path = kind.path(home)
    flip_bit(path, path.stat().st_size * 4)


def flip_bit(path: Path, bit: int) -> None:
    data = bytearray(path.read_bytes())
    data[bit // 8] ^= 1 << bit % 8
    path.write_bytes(data)


def delete(kind: Kind, home: Home) -> None:
    kind.path(home).unlink()


def swap(kind: Kind, home: Home) -> None:
    """With another file of the kind; where Hadoop's checksums lie beside them, with those."""
    one, other = kind.path(home), kind.other(home)
    exchange(one, other)
    sums = [path.with_name(f".{path.name}.crc") for path in (one, other)]
    if all(path.exists() for path in sums):
        exchange(*sums)


def exchange(one: Path, other: Path) -> None:
    before = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(before)


ONE_FILE: dict[str, Damage] = {
    f"{what.__name__} {name}": partial(what, kind)
    for name, kind in KINDS.items()
    for what in (truncate, empty, flip, delete, swap)
}


# -- an old copy ---------------------------------------------------------------------------------

RESTORED = (
    "checkpoint",
    "out",
    "checkpoint/spark",
    "checkpoint/manifests",
    "checkpoint/segments",
    "checkpoint/spark/offsets",
    "checkpoint/spark/commits",
    "checkpoint/spark/sources",
)


def restore(name: str, batches: int, home: Home) -> None:
    home.restore(name, batches)


def restore_all_but(name: str, batches: int, home: Home) -> None:
    """The checkpoint as it was, but for one directory of it."""
    kept = home.path / "kept"
    (home.checkpoint / name).rename(kept)
    home.restore("checkpoint", batches)
    shutil.rmtree(home.checkpoint / name)
    kept.rename(home.checkpoint / name)


def restore_all(batches: int, home: Home) -> None:
    """Checkpoint and output of one time: nothing is wrong with that."""
    home.restore("checkpoint", batches)
    home.restore("out", batches)


OLD_COPY: dict[str, Damage] = {
    **{
        f"{name} of {batches} batches before": partial(restore, name, batches)
        for name in RESTORED
        for batches in (1, 3)
    },
    "checkpoint of 2 batches before but for segments": partial(restore_all_but, "segments", 2),
    "checkpoint of 2 batches before but for spark": partial(restore_all_but, "spark", 2),
    "everything of 2 batches before": partial(restore_all, 2),
}


# -- something is missing ------------------------------------------------------------------------


def remove(name: str, home: Home) -> None:
    shutil.rmtree(home.path / name)


def remove_newest_manifests(count: int, home: Home) -> None:
    for batch in range(NEWEST, NEWEST - count, -1):
        (home.path / manifest(batch)).unlink()


def remove_spark(log: str, batch: int, home: Home) -> None:
    """An entry of a log of Spark's, with its checksum."""
    for name in (str(batch), f".{batch}.crc"):
        (home.checkpoint / "spark" / log / name).unlink()


def remove_spark_id(home: Home) -> None:
    for name in ("metadata", ".metadata.crc"):
        (home.checkpoint / "spark" / name).unlink()


def cut_off_before_the_commit(home: Home) -> None:
    """As a kill leaves it between the manifest and Spark's commit."""
    remove_spark("commits", NEWEST, home)


def cut_off_before_the_manifest(home: Home) -> None:
    """As a kill leaves it when the sink has taken the batch and no manifest names it."""
    home.restore("checkpoint", 1)
    after = Home(home.copies[-1])
    for log in ("offsets", "sources/0", "sources/1"):
        for name in (str(NEWEST), f".{NEWEST}.crc"):
            shutil.copy2(
                after.checkpoint / "spark" / log / name, home.checkpoint / "spark" / log / name
            )


def cut_off_and_flipped(home: Home) -> None:
    """The batch under way would be another: no manifest knows its offsets yet."""
    cut_off_before_the_manifest(home)
    path = home.checkpoint / "spark" / "offsets" / str(NEWEST)
    path.write_text(path.read_text().replace(f'"logOffset":{NEWEST}', f'"logOffset":{NEWEST + 1}'))


MISSING: dict[str, Damage] = {
    **{
        f"no {name}": partial(remove, name)
        for name in (
            "out",
            f"out/batch={NEWEST}",
            "out/_anabranch",
            "checkpoint",
            "checkpoint/spark",
            "checkpoint/manifests",
            "checkpoint/segments",
            "checkpoint/spark/offsets",
            "checkpoint/spark/commits",
            "checkpoint/spark/sources",
        )
    },
    "no newest manifest": partial(remove_newest_manifests, 1),
    "no newest three manifests": partial(remove_newest_manifests, 3),
    "no spark id": remove_spark_id,
    "no newest spark offsets": partial(remove_spark, "offsets", NEWEST),
    "no newest spark source entry": partial(remove_spark, "sources/0", NEWEST),
    "no first spark source entry": partial(remove_spark, "sources/1", 0),
    "cut off before the commit": cut_off_before_the_commit,
    "cut off before the manifest": cut_off_before_the_manifest,
    "cut off, and the next offsets changed": cut_off_and_flipped,
}


# -- something else is there ---------------------------------------------------------------------


def add(name: str, home: Home) -> None:
    path = home.path / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text('{"not": "ours"}')


def copy_manifest(name: str, home: Home) -> None:
    """A copy that somebody made, of the first manifest."""
    shutil.copy2(home.path / manifest(0), home.checkpoint / "manifests" / name)


STRANGERS: dict[str, Damage] = {
    **{
        f"stranger {name}": partial(add, name)
        for name in (
            "checkpoint/notes.txt",
            "checkpoint/manifests/notes.txt",
            "checkpoint/segments/notes.txt",
            "checkpoint/segments/0/notes.seg",
            "checkpoint/requests/notes.txt",
            "checkpoint/requests/notes.json",
            f"checkpoint/requests/{7:020d}-{'a' * 32}.json",
            "checkpoint/reports/notes.json",
            "checkpoint/events/notes.json",
            "checkpoint/spark/offsets/notes",
            "checkpoint/spark/sources/0/notes",
            "out/notes.txt",
            "out/part-0.parquet",
            f"out/batch={NEWEST}/notes.txt",
        )
    },
    "stranger backup.json": partial(copy_manifest, "backup.json"),
    "stranger 9.json": partial(copy_manifest, "9.json"),
    "manifest of a batch to come": partial(copy_manifest, f"{BATCHES:012d}.json"),
    "manifest of a far batch": partial(copy_manifest, "999999999999.json"),
}


# -- a manifest that is wrong, with a checksum that is right -------------------------------------


def rewrite(change: Callable[[dict[str, Any]], None], home: Home) -> None:
    path = home.path / manifest(NEWEST)
    data = json.loads(text_of(path.read_bytes()))
    change(data)
    path.write_bytes(seal(json.dumps(data)))


def without_checksum(change: Callable[[dict[str, Any]], None], home: Home) -> None:
    path = home.path / manifest(NEWEST)
    data = json.loads(text_of(path.read_bytes()))
    change(data)
    path.write_bytes(json.dumps(data).encode())


def raise_watermark(data: dict[str, Any]) -> None:
    data["watermark"] += 20_000_000


def name_a_segment_twice(data: dict[str, Any]) -> None:
    data["segments"][0].append(data["segments"][0][0])


def name_a_victim(data: dict[str, Any]) -> None:
    data["segments"][0][0]["path"] = "segments/../../../victim.txt"


def give_a_segment_to_another_stream(data: dict[str, Any]) -> None:
    data["segments"][1].append(data["segments"][0].pop())


def another_id(name: str, home: Home) -> None:
    """A sealed file that tells of another checkpoint."""
    path = home.path / name
    mine = json.loads(text_of((home.checkpoint / "anabranch.json").read_bytes()))["id"]
    path.write_bytes(seal(text_of(path.read_bytes()).replace(mine, mine[::-1])))


FORGED: dict[str, Damage] = {
    "checkpoint of another id": partial(another_id, "checkpoint/anabranch.json"),
    "output of another checkpoint": partial(another_id, "out/_anabranch/owner.json"),
    "batch of another checkpoint": partial(another_id, f"out/batch={NEWEST}/_anabranch.json"),
    "raised watermark": partial(without_checksum, raise_watermark),
    "segment named twice": partial(without_checksum, name_a_segment_twice),
    "path out of the checkpoint": partial(without_checksum, name_a_victim),
    "segment named twice, sealed": partial(rewrite, name_a_segment_twice),
    "path out of the checkpoint, sealed": partial(rewrite, name_a_victim),
    "segment of another stream, sealed": partial(rewrite, give_a_segment_to_another_stream),
}

DAMAGES: dict[str, Damage] = {**ONE_FILE, **OLD_COPY, **MISSING, **STRANGERS, **FORGED}

HARMLESS = (
    "delete older manifest",
    "everything of 2 batches before",
    "cut off before the commit",
    "cut off before the manifest",
    "stranger backup.json",
    "stranger checkpoint/manifests/notes.txt",
)
"""Cases that must go on, and be exact: a refusal would be a fault."""
