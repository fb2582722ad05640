"""Files under the checkpoint, on any file system that pyarrow reaches.

A local file is mapped into memory; of a remote one, each machine keeps a copy that it maps.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import tempfile
import uuid
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
from pyarrow import fs

from anabranch.state import durable


@dataclass(frozen=True)
class Files:
    """A root directory, by path or URI; picklable, so that tasks can open the same root."""

    root: str

    def write(self, path: str, data: bytes | pa.Buffer, *, sync: bool = False) -> None:
        """Write a whole file, or nothing: readers never see a part of it.

        With `sync` it survives a loss of power, on a local disk. A remote store says what is there
        when it has taken the file.
        """
        system, base = self._resolve()
        target = f"{base}/{path}"
        if not isinstance(system, fs.LocalFileSystem):
            system.create_dir(target.rpartition("/")[0], recursive=True)
            with system.open_output_stream(target) as stream:
                stream.write(data)
            return
        local = Path(target)
        durable.make_directory(local.parent)
        temporary = local.with_name(f"{local.name}.{uuid.uuid4().hex}.tmp")
        with temporary.open("wb") as file:
            file.write(data)
            if sync:
                file.flush()
                os.fsync(file.fileno())
        temporary.replace(local)
        if sync:
            durable.sync(local.parent)

    def map(self, path: str) -> pa.Buffer:
        """The bytes of a file, mapped and not read. FileNotFoundError where there is none."""
        system, base = self._resolve()
        source = f"{base}/{path}"
        if isinstance(system, fs.LocalFileSystem):
            return _mapped(source)
        copy = self._copies() / _hashed(path)
        if not copy.exists():
            copy.parent.mkdir(parents=True, exist_ok=True)
            temporary = copy.with_suffix(f".{uuid.uuid4().hex}.tmp")
            with system.open_input_file(source) as remote:
                temporary.write_bytes(remote.read())
            temporary.replace(copy)
        return _mapped(str(copy))

    def forget_copies(self, live: Iterable[str]) -> None:
        """Delete this machine's copies of remote files, but for those that are live.

        What is mapped stays mapped, and what is needed again is fetched again.
        """
        if self.local_root() is None and self._copies().exists():
            names = {_hashed(path) for path in live}
            for copy in self._copies().iterdir():
                if copy.name not in names and not copy.suffix:
                    copy.unlink(missing_ok=True)

    def _copies(self) -> Path:
        return Path(tempfile.gettempdir()) / "anabranch-segments" / _hashed(self.root)

    def read(self, path: str) -> bytes:
        system, base = self._resolve()
        with system.open_input_file(f"{base}/{path}") as file:
            return bytes(file.read())

    def names(self, directory: str = "") -> list[str]:
        """Paths of the files below a directory, relative to the root; empty if there is none."""
        return list(self.sizes(directory))

    def sizes(self, directory: str = "") -> dict[str, int]:
        """The files below a directory, by their paths in order, with their bytes: one listing."""
        system, base = self._resolve()
        selector = fs.FileSelector(
            f"{base}/{directory}".rstrip("/"), recursive=True, allow_not_found=True
        )
        found = {
            info.path[len(base) + 1 :]: info.size
            for info in system.get_file_info(selector)
            if info.type == fs.FileType.File
        }
        return dict(sorted(found.items()))

    def children(self, directory: str = "") -> list[str]:
        """Names of the files and folders in a directory itself; empty if there is none."""
        system, base = self._resolve()
        selector = fs.FileSelector(f"{base}/{directory}".rstrip("/"), allow_not_found=True)
        return sorted(info.base_name for info in system.get_file_info(selector))

    def delete(self, path: str) -> None:
        """Delete a file; it may be gone already."""
        system, base = self._resolve()
        with contextlib.suppress(FileNotFoundError):
            system.delete_file(f"{base}/{path}")

    def local_root(self) -> Path | None:
        """The root as a path of this machine; None where it is remote."""
        system, base = self._resolve()
        return Path(base) if isinstance(system, fs.LocalFileSystem) else None

    def _resolve(self) -> tuple[fs.FileSystem, str]:
        if "://" in self.root:
            # Spark says s3a where everybody else says s3.
            system, base = fs.FileSystem.from_uri(self.root.replace("s3a://", "s3://", 1))
        else:
            system, base = fs.LocalFileSystem(), str(Path(self.root).absolute())
        return system, base.rstrip("/")


def _hashed(name: str) -> str:
    return hashlib.sha256(name.encode()).hexdigest()[:32]


def _mapped(path: str) -> pa.Buffer:
    if not Path(path).stat().st_size:
        return pa.py_buffer(b"")  # an empty file cannot be mapped
    with pa.memory_map(path) as file:
        return file.read_buffer()
