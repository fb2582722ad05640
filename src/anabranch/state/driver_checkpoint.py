"""Spark's half of a checkpoint: whether the files that a start relies on are as Spark wrote them.

A source keeps a log of what it has read, below spark/sources: one entry per batch, and from time to
time one, `N.compact`, that stands for all before it. Spark believes these files, and those of its
offsets and commits, whatever they say: a file name that changed is read again, or never. So

- a manifest records a digest of each entry that is in use as of its batch;
- the files of the batch under way, which no manifest knows, are held against the checksums that
  Hadoop puts beside files on local disks (other stores keep checksums of their own).
"""

from __future__ import annotations

import hashlib
import json
import re
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping

from anabranch.errors import CheckpointError
from anabranch.state.files import Files

ID = "spark/metadata"

_ENTRY = re.compile(r"spark/sources/([0-9]+)/([0-9]+)(\.compact)?")
_LOGS = re.compile(r"spark/(offsets|commits)/([0-9]+)")
_CHECKSUM = re.compile(r"(spark/(?:(?:offsets|commits|sources/[0-9]+)/)?)\.([0-9]+|metadata)\.crc")
_HEADER = struct.Struct(">4si")


def record_sources(files: Files, known: Mapping[str, str]) -> dict[str, str]:
    """The entries in use of each source's log, with their digests; `known` ones are not read.

    Spark keeps hundreds of entries that are no longer in use for a while, and a listing of them
    takes as long as a small batch. So the next entries are asked for by their names.
    """
    recorded: dict[str, str] = {}
    for source in files.children("spark/sources"):
        entries = {name: known[name] for name in known if name.split("/")[2] == source}
        if not entries:
            names = _in_use(files.names(f"spark/sources/{source}"))
            entries = {name: _digest(files, name) for name in names}
        while entries and (found := _next(files, max(entries, key=_number))):
            name, digest = found
            entries = {name: digest} if name.endswith(".compact") else {**entries, name: digest}
        recorded.update(entries)
    return recorded


def check_driver_files(files: Files, recorded: Mapping[str, str]) -> None:
    """Refuse unless Spark's files are as they were written, as far as anybody knows that."""
    names = files.names("spark")
    present = set(names)
    for name in _with_checksum(names):
        # Spark writes the file before its checksum, and deletes it after that.
        if name not in present:
            raise _damaged(files, name, "it is missing")
    for name in _relied_on(names):
        _check_sums(files, name)
    if any(map(_LOGS.fullmatch, names)):
        _check_id(files)
    for name, digest in recorded.items():
        if name not in present:
            if not _compacted(name, recorded, present):
                raise _damaged(files, name, "it is missing")
        elif _digest(files, name) != digest:
            raise _damaged(files, name, "it is not what it was when the manifest was written")


def _next(files: Files, name: str) -> tuple[str, str] | None:
    """The entry after one, with its digest."""
    source, number = _number(name)
    for ending in ("", ".compact"):
        after = f"spark/sources/{source}/{number + 1}{ending}"
        try:
            return after, _digest(files, after)
        except FileNotFoundError:
            continue
    return None


def _in_use(names: Iterable[str]) -> Iterator[str]:
    """Of each source, the newest entry that stands for all before it, and those after it."""
    numbered: dict[str, list[tuple[int, str, bool]]] = {}
    for name in names:
        found = _ENTRY.fullmatch(name)
        if found:
            numbered.setdefault(found[1], []).append((int(found[2]), name, bool(found[3])))
    for entries in numbered.values():
        since = max((number for number, _, compact in entries if compact), default=0)
        yield from (name for number, name, _ in sorted(entries) if number >= since)


def _relied_on(names: list[str]) -> Iterator[str]:
    """What Spark reads at a start: its id, its newest offsets and commits, the sources' logs."""
    yield from (name for name in names if name == ID)
    logs: dict[str, list[tuple[int, str]]] = {}
    for name in names:
        found = _LOGS.fullmatch(name)
        if found:
            logs.setdefault(found[1], []).append((int(found[2]), name))
    for entries in logs.values():
        yield from (name for _, name in sorted(entries)[-2:])
    yield from _in_use(names)


def _with_checksum(names: Iterable[str]) -> Iterator[str]:
    """The files of Spark's that have a checksum beside them, or had one."""
    for name in names:
        found = _CHECKSUM.fullmatch(name)
        if found:
            yield f"{found[1]}{found[2]}"


def _check_id(files: Files) -> None:
    try:
        json.loads(files.read(ID))["id"]
    except FileNotFoundError as error:
        raise _damaged(files, ID, "it is missing") from error
    except (ValueError, KeyError, TypeError) as error:
        raise _damaged(files, ID, "it does not hold the query's id") from error


def _compacted(name: str, recorded: Mapping[str, str], present: set[str]) -> bool:
    """Whether Spark may have deleted an entry: one that no manifest knows yet stands for it."""
    source = _number(name)[0]
    newest = max(_number(other) for other in recorded if _number(other)[0] == source)
    later = (_ENTRY.fullmatch(other) for other in present)
    return any(
        e and e[3] and (int(e[1]), int(e[2])) > newest and int(e[1]) == source for e in later
    )


def _number(name: str) -> tuple[int, int]:
    """The source of an entry, and its place in that source's log."""
    found = _ENTRY.fullmatch(name)
    assert found is not None, name
    return int(found[1]), int(found[2])


def _digest(files: Files, name: str) -> str:
    return hashlib.sha256(files.read(name)).hexdigest()


def _check_sums(files: Files, name: str) -> None:
    """Hold a file against Hadoop's checksums of its parts, where there are any."""
    directory, _, base = name.rpartition("/")
    data = files.read(name)
    if not data:
        raise _damaged(files, name, "it is empty")
    try:
        sums = files.read(f"{directory}/.{base}.crc")
    except FileNotFoundError:
        return
    if sums[:4] != b"crc\0" or len(sums) < _HEADER.size:
        return  # Hadoop ignores it, too
    part = _HEADER.unpack_from(sums)[1]
    if part <= 0:
        raise _damaged(files, name, "the checksums beside it are unreadable")
    parts = [data[start : start + part] for start in range(0, len(data), part)]
    expected = b"".join(struct.pack(">I", zlib.crc32(each)) for each in parts)
    if sums[_HEADER.size :] != expected:
        raise _damaged(files, name, "it does not agree with the checksum beside it")


def _damaged(files: Files, name: str, what: str) -> CheckpointError:
    return CheckpointError(
        f"{name} under {files.root}, a file of Spark's half of the checkpoint, is damaged: {what}. "
        "Restore the whole checkpoint from one backup, or start from a new checkpoint (and a new "
        "output)"
    )
