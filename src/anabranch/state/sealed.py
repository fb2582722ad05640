"""Small files of text that cannot change unnoticed: a checksum stands on their last line."""

from __future__ import annotations

import hashlib

from anabranch.errors import CheckpointError

_MARK = b"\nsha256 "


def seal(text: str) -> bytes:
    """A text as a file's content, with its checksum behind it."""
    body = text.encode()
    return b"".join((body, _MARK, _digest(body), b"\n"))


def text_of(data: bytes) -> str:
    """What stands before the checksum, unchecked; ValueError where that is not text."""
    return data.rpartition(_MARK)[0].decode() or data.decode()


def unseal(data: bytes, name: str) -> str:
    """The text of a sealed file. Raises CheckpointError, with its name, unless it is as written."""
    body, mark, ending = data.rpartition(_MARK)
    if not mark or ending != _digest(body) + b"\n":
        raise CheckpointError(
            f"{name} is damaged: its checksum is wrong. Restore the file from a backup, or start "
            "from a new checkpoint"
        )
    return body.decode()


def _digest(body: bytes) -> bytes:
    return hashlib.sha256(body).hexdigest().encode()
