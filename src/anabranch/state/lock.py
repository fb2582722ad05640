"""One run at a time on a checkpoint and on an output: a second would delete what the first needs.

The operating system holds the lock for the process, so that none is left behind by a crash. Remote
file systems have no such locks; there it is up to the user.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from io import TextIOWrapper
from pathlib import Path

from anabranch.errors import CheckpointError
from anabranch.state.files import Files

NAME = "lock"


@dataclass
class Lock:
    """Held from `take` to `release`."""

    path: Path | None = None
    file: TextIOWrapper | None = None
    in_use: Callable[[], bool] = lambda: True
    """Whether its holder still needs it: a run that came to its end, and that nobody asked about
    since, makes way for the next in the same process."""
    others: list[Lock] = field(default_factory=list)

    @staticmethod
    def take(files: Files, what: str = "checkpoint", name: str = NAME) -> Lock:
        """Lock a checkpoint, or whatever `what` says, or refuse with the process that has it."""
        directory = files.local_root()
        if directory is None:
            return Lock()
        path = directory / name
        before = _taken.get(path)
        if before is not None and not before.in_use():
            before.release()
        file = path.open("a+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            file.seek(0)
            owner = file.read().strip() or "another process"
            file.close()
            raise CheckpointError(
                f"the {what} {files.root} is in use by {owner}. Stop that run first, or "
                f"choose another {what}"
            ) from None
        file.truncate(0)
        file.write(f"process {os.getpid()}")
        file.flush()
        lock = _taken[path] = Lock(path, file)
        return lock

    def hold(self, other: Lock) -> None:
        """Keep another lock for as long as this one."""

        def in_use() -> bool:
            return self.in_use()  # which may be set later

        other.in_use = in_use
        self.others.append(other)

    def release(self) -> None:
        """Let others have it; may be called again."""
        for other in self.others:
            other.release()
        if self.file is not None and self.path is not None:
            self.file.close()
            self.file = None
            _taken.pop(self.path, None)


_taken: dict[Path, Lock] = {}
"""The locks of this process, by their file."""
