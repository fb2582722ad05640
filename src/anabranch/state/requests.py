"""What a user asks of a running join, kept under the checkpoint until it has come true.

A request is written before its caller goes on, taken up when the next batch begins, and deleted
when that batch is committed: a crash in between loses none and repeats none.
"""

from __future__ import annotations

import json
import re
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from anabranch.errors import CheckpointError
from anabranch.state.files import Files
from anabranch.state.sealed import seal, unseal

SWITCH, RESIZE, RESCALE = "switch", "resize", "rescale"

_NAME = re.compile(r"requests/[0-9]{20}-[0-9a-f]{32}\.json")


@dataclass(frozen=True)
class Request:
    """One wish: what kind, and its particulars."""

    path: str
    kind: str
    what: Mapping[str, Any]
    since: int
    """The first batch that may take it up: one that was under way when it was asked for, and is
    repeated after a failure, must not."""


def ask(files: Files, kind: str, what: Mapping[str, Any], since: int) -> None:
    """Leave a request behind all others, for batch `since` or a later one."""
    text = json.dumps({"kind": kind, "what": what, "since": since})
    name = f"{time.time_ns():020d}-{uuid.uuid4().hex}"
    files.write(f"requests/{name}.json", seal(text), sync=True)


def asked(files: Files) -> list[Request]:
    """All requests that are waiting, in their order. What others put there is left alone.

    Raises CheckpointError where a request is not as it was written.
    """
    return [_read(files, name) for name in files.names("requests") if _NAME.fullmatch(name)]


def _read(files: Files, name: str) -> Request:
    try:
        data = json.loads(unseal(files.read(name), name))
        return Request(name, data["kind"], data["what"], data["since"])
    except (CheckpointError, ValueError, KeyError, TypeError):
        raise CheckpointError(
            f"the request {files.root}/{name} is damaged, so that what it asked of the run cannot "
            "be known. Delete this file, start again with the same checkpoint, and ask again"
        ) from None
