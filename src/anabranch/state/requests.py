"""What a user asks of a running join, kept under the checkpoint until it has come true.

A request is written before its caller goes on, taken up when the next batch begins, and deleted
when that batch is committed: a crash in between loses none and repeats none.
"""

from __future__ import annotations

import json
import time
import uuid
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from anabranch.state.files import Files

SWITCH, RESIZE, RESCALE = "switch", "resize", "rescale"


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
    files.write(f"requests/{name}.json", text.encode(), sync=True)


def asked(files: Files) -> list[Request]:
    """All requests that are waiting, in their order."""
    found = []
    for name in _names(files):
        data = json.loads(files.read(name))
        found.append(Request(name, data["kind"], data["what"], data["since"]))
    return found


def _names(files: Files) -> list[str]:
    return [name for name in files.names("requests") if name.endswith(".json")]
