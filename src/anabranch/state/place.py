"""Where a path leads: one directory, however it was written.

Spark reads `file:///a%20b` as a directory named `a%20b`, everybody else as one named `a b`; and a
relative path means something else after `os.chdir`. So a path is understood once, here.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import unquote

from anabranch.errors import QueryError

_REMOTE = re.compile(r"([A-Za-z][A-Za-z0-9+.-]+):/(.*)")


@dataclass(frozen=True)
class Place:
    """A directory that may not exist yet."""

    spark: str
    """Its name as Spark takes it."""
    local: Path | None
    """Absolute and without symbolic links; None where it is not on a mounted file system."""

    @staticmethod
    def of(path: str) -> Place:
        """Understand a path or a URI, from the current directory on."""
        if path.lower().startswith("file:"):
            local = _of_file_uri(path).resolve()
            return Place(f"file://{local}", local)
        if _REMOTE.fullmatch(path):
            return Place(path.rstrip("/"), None)
        local = Path(path).resolve()
        return Place(str(local), local)

    def contains(self, other: Place) -> bool:
        """Whether another is this directory, or lies inside of it."""
        if self.local is None or other.local is None:
            ours, theirs = _parts(self), _parts(other)
            return self.local is other.local and theirs[: len(ours)] == ours
        if not self.local.exists():
            return other.local.is_relative_to(self.local)
        # By what the file system says, which may not tell capital letters from small ones.
        ways = [at for at in (other.local, *other.local.parents) if at.exists()]
        return any(at.samefile(self.local) for at in ways)

    def beside(self, other: Path) -> str:
        """Another local directory, as Spark takes it: by the same file system."""
        return f"{self.spark.removesuffix(str(self.local))}{other}"

    def overlaps(self, other: Place) -> bool:
        return self.contains(other) or other.contains(self)


def absolute(path: str) -> str:
    """The same directory, named so that a later `os.chdir` does not move it."""
    if path.lower().startswith("file:") or _REMOTE.fullmatch(path):
        return path
    return str(Path(path).absolute())


def _of_file_uri(uri: str) -> Path:
    found = re.fullmatch(r"(?i:file):(?://(?:localhost)?(?=/)|(?!//))(/.*)", uri)
    if found is None:
        raise QueryError(
            f"{uri} does not name a directory of this machine; write file:///its/path, or the path "
            "alone"
        )
    return Path(unquote(found[1]))


def _parts(place: Place) -> list[str]:
    """Scheme, host and folders of a remote place. Spark says s3a where everybody else says s3."""
    found = _REMOTE.fullmatch(place.spark)
    if found is None:
        return []
    scheme = re.sub(r"^s3[an]$", "s3", found[1].lower())
    return [scheme, *(part for part in found[2].split("/") if part)]
