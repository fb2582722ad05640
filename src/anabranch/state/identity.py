"""Whose a checkpoint is: the query that its state belongs to, its format, and an id of its own."""

from __future__ import annotations

import json
import uuid
from collections.abc import Mapping
from typing import Any

from anabranch.errors import CheckpointError
from anabranch.state.files import Files
from anabranch.state.sealed import seal, text_of, unseal

FORMAT = 2
"""Raised by one with every change of what a checkpoint holds."""
IDENTITY = "anabranch.json"


def claim(files: Files, query: Mapping[str, Any]) -> str:
    """Make a directory the checkpoint of a query, and return the checkpoint's id.

    A new id is made where the directory is empty. A directory that belongs to another query, has
    another format or holds something else is refused.
    """
    try:
        identity = files.read(IDENTITY)
    except FileNotFoundError:
        # A claim that was cut off leaves its unfinished file: that is not a stranger.
        strangers = [n for n in files.names() if not n.startswith(f"{IDENTITY}.")]
        if strangers:
            raise CheckpointError(
                f"{files.root} is not an Anabranch checkpoint, but it is not empty either "
                f"(it holds {strangers[0]}). Choose an empty directory"
            ) from None
        name = uuid.uuid4().hex
        text = json.dumps({"format": FORMAT, "id": name, "query": query}, indent=1)
        files.write(IDENTITY, seal(text), sync=True)
        return name
    found = _read(files, identity)
    before = {part: found["query"].get(part) for part in query}
    differences = [
        f"{part}: was {_shortened(before[part])}, is {_shortened(value)}"
        for part, value in query.items()
        if before[part] != json.loads(json.dumps(value))
    ]
    if differences:
        raise CheckpointError(
            f"the checkpoint {files.root} belongs to another query. {'; '.join(differences)}. "
            "Use the query it was made by, or a new checkpoint"
        )
    return str(found["id"])


def _read(files: Files, data: bytes) -> dict[str, Any]:
    name = f"{files.root}/{IDENTITY}"
    try:
        # Unchecked at first: another format may have another checksum, or none.
        found: dict[str, Any] = json.loads(text_of(data))
        version = found["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise CheckpointError(
            f"{name} is not readable, so this may not be an Anabranch checkpoint. Choose an empty "
            "directory"
        ) from error
    if version != FORMAT:
        raise CheckpointError(
            f"the checkpoint {files.root} has format {version}, and this version of Anabranch "
            f"reads format {FORMAT}. Use the version that wrote it, or a new checkpoint"
        )
    unseal(data, name)
    return found


def _shortened(value: object) -> str:
    """A part of a query for a message: what is long is cut."""
    text = str(value)
    return text if len(text) <= 100 else f"{text[:97]}..."
