"""Take a directory of results for a checkpoint, or refuse: by name, and before anything changes."""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.errors import CheckpointError
from anabranch.state.durable import make_directory
from anabranch.state.files import Files
from anabranch.state.identity import IDENTITY
from anabranch.state.lock import Lock
from anabranch.state.manifest import NO_BATCH
from anabranch.state.output import (
    LOCK,
    OWN,
    OWNERS,
    Output,
    Owner,
    owners_of,
    record_owners,
    survey,
)
from anabranch.state.place import Place


@dataclass(frozen=True)
class Claim:
    """What a checkpoint says when it asks for a directory."""

    checkpoint: str
    """Its id."""
    committed: int = NO_BATCH
    """The last batch of its manifest."""
    delivered: int | None = None
    """The last batch up to that one which was handed to this sink: not every batch is."""
    append: bool = False
    """Whether to go on in a directory with batches of others, or without its own."""
    role: str = "results"
    """What it delivers there."""


def take(place: Place, claim: Claim) -> tuple[Output, Lock]:
    """Make a directory the output of a checkpoint: checked, locked and rid of leftovers."""
    files = Output(place).files
    _owner(place, files, claim)  # refuse before a file is made in somebody else's directory
    if place.local is not None:
        make_directory(place.local / OWN)
    lock = Lock() if place.local is None else Lock.take(files, "output", LOCK)
    try:
        owner = _owner(place, files, claim)
        output = Output(place, owner)
        before = owners_of(files)
        if owner not in before:
            record_owners(files, (*before, owner))
        output.clear()
        if place.local is not None:
            output.check_rename()
    except BaseException:
        lock.release()
        raise
    return output, lock


def refuse_inside(place: Place) -> None:
    """Refuse a directory inside an output or a checkpoint of others, who do not know of it."""
    for parent in () if place.local is None else place.local.parents:
        for name, what in ((OWNERS, "an output"), (IDENTITY, "a checkpoint")):
            if (parent / name).exists():
                raise CheckpointError(
                    f"{place.spark} lies inside {parent}, which is {what} of another run: whoever "
                    "reads or deletes that would meet it. Choose a directory outside of it"
                )


def _owner(place: Place, files: Files, claim: Claim) -> Owner:
    """The claimant's place among those who wrote here, or a refusal."""
    if place.local is not None and place.local.exists() and not place.local.is_dir():
        raise CheckpointError(f"the output {place.spark} is a file; choose a directory")
    owners = owners_of(files)
    batches, strangers = survey(files)
    if strangers:
        raise CheckpointError(
            f"{place.spark} holds {strangers[0]}, which is not a batch of Anabranch: whoever reads "
            "the directory would read it as well, or fail. Choose an empty directory"
        )
    if owners and owners[-1].role != claim.role:
        raise CheckpointError(
            f"{place.spark} is a directory of {owners[-1].role} rows, and this sink is for "
            f"{claim.role}: whoever reads it would take one for the other. Choose another directory"
        )
    mine = [owner for owner in owners if owner.id == claim.checkpoint]
    if mine and mine[0] is not owners[-1]:
        raise CheckpointError(
            f"{place.spark} was written to by this checkpoint, {claim.checkpoint}, and then "
            f"appended to by another, {owners[-1].id}, which owns it now. Choose another output"
        )
    if not mine and batches and Output(place).owner_of(max(batches)) == claim.checkpoint:
        raise CheckpointError(
            f"{place.spark}/{OWNERS} is missing or of another output: batch={max(batches)} belongs "
            f"to this checkpoint, {claim.checkpoint}. Restore the file from a backup"
        )
    if not mine and (owners or batches) and not claim.append:
        whose = f"checkpoint {owners[-1].id}" if owners else "somebody unknown"
        raise CheckpointError(
            f"{place.spark} has results of {whose}, and this is checkpoint {claim.checkpoint}: "
            "together they would not be one answer. Choose an empty directory, or append to what "
            "is there on purpose: ab.parquet_sink(path, append=True)"
        )
    owner = mine[0] if mine else Owner(claim.checkpoint, max(batches, default=-1) + 1, claim.role)
    _check_batches(place, claim, owner, batches)
    return owner


def _check_batches(place: Place, claim: Claim, owner: Owner, batches: frozenset[int]) -> None:
    """The batches of a checkpoint must be those that it knows of, and one more at the most."""
    newest = max(batches, default=-1) - owner.first
    if newest > claim.committed + 1:
        last = f"batch {claim.committed}" if claim.committed > NO_BATCH else "no batch"
        raise CheckpointError(
            f"{place.spark} has batch {newest} of checkpoint {claim.checkpoint}, which has "
            f"committed {last}: the checkpoint is older than its output. Restore the newer "
            "checkpoint, or start from a new checkpoint with an empty output"
        )
    last_delivered = claim.delivered
    if (
        last_delivered is not None
        and owner.first + last_delivered not in batches
        and not claim.append
    ):
        raise CheckpointError(
            f"{place.spark} does not have batch {last_delivered}, the last that checkpoint "
            f"{claim.checkpoint} delivered: it is another directory, or results were lost. Restore "
            "it, or start from a new checkpoint; if the results were moved away on purpose, go on "
            "with ab.parquet_sink(path, append=True)"
        )
