"""Rows that a term cannot handle: who is to blame, and how the others go on without them.

A combination on which a term fails does not match. Where evaluating many of them at once fails,
they are parted until the ones that fail are alone, and of each of those one row is to blame: the
one that fails most with other rows of the streams it was compared with (`Poison._share`). It
is left out from then on, so a row that fails with everybody costs a search, and not one for each
row that it meets. Nothing of this happens, and nothing is counted, while terms do not fail.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from anabranch.errors import TermError
from anabranch.kernel.base import Bools, Pairs, Probe, Target, UnfitError
from anabranch.kernel.block import ROW, SEGMENT, Block
from anabranch.kernel.kernels import kernels_of
from anabranch.kernel.order import Step
from anabranch.kernel.partial import Refs
from anabranch.kernel.tally import shown
from anabranch.model.query import Query

WITNESSES = 16
"""Rows of a stream that a row is compared with before it is blamed."""

MOST = 1000
"""Rows that a task sets aside in one batch; where there are more, the term is wrong, not they."""

SHOWN = 1000
"""Characters of a message at most."""

OUTLOOK = "With start(dead=…) such a row is set aside, and the run goes on"

Identity = tuple[int, str, int]
"""A row wherever it goes: its stream, its segment, and its number there."""


def nobody(_stream: int) -> Iterable[Block]:
    """No witnesses: of two rows that cannot be compared, the younger one is to blame."""
    return ()


@dataclass
class Poison:
    """What a task does about rows that a term cannot handle."""

    query: Query
    witnesses: Callable[[int], Iterable[Block]] = nobody
    """Blocks of a stream, in an order that does not depend on the plan."""
    aside: bool = False
    """Whether such rows are set aside; otherwise the first one is raised, by name."""
    dead: dict[Identity, str] = field(default_factory=dict)
    """The rows set aside so far, each with the reason."""

    def __post_init__(self) -> None:
        self._kernels = kernels_of(self.query)

    def decide(self, position: int, members: Mapping[int, Refs]) -> Bools:
        """Which combinations a term holds for, after it has failed on all of them at once.

        `members` are the rows of each combination, by stream.
        """
        size = len(next(iter(members.values())))
        answer = np.zeros(size, np.bool_)
        waiting = [np.arange(size)]
        while waiting:
            chosen = waiting.pop()
            part = _taken(members, chosen)
            left = ~self._touched(part)
            if not left.all():
                chosen, part = chosen[left], _taken(part, np.flatnonzero(left))
            if not len(chosen):
                continue
            try:
                answer[chosen] = self._holds(position, part)
            except UnfitError as failure:
                if len(chosen) == 1:
                    self.blame(position, part, failure)
                else:
                    half = len(chosen) // 2
                    waiting += [chosen[half:], chosen[:half]]
        return answer

    def propose(
        self, step: Step, block: Block, target: Target, probe: Probe, seeking: Mapping[int, Refs]
    ) -> Iterator[Pairs]:
        """A kernel's candidates in a block, without those of rows that it cannot handle.

        `seeking` are the rows of the probe, by stream.
        """
        assert step.index is not None
        while True:
            try:
                yield from self._kernels[step.index].candidates(step.stream, target, probe)
            except UnfitError as failure:
                i, j = (np.array([row]) for row in failure.pair or ())
                members = {
                    stream: Refs((block,), j) if stream == step.stream else seeking[stream].take(i)
                    for stream in self.query.terms[step.index].streams
                }
                if not self._touched(members).any():  # known from another block, perhaps
                    self.blame(step.index, members, failure)
                # A null matches nothing, so a row that is null takes no part any more.
                found = self._touched({step.stream: Refs((block,), np.arange(len(block)))})
                target = Target(_blanked(target.columns, found), target.index, target.times)
                sought = self._touched(seeking)
                probe = Probe(_blanked(probe.columns, sought), probe.low, probe.high)
            else:
                return

    def blame(self, position: int, members: Mapping[int, Refs], failure: UnfitError) -> None:
        """Set one row of a combination that a term fails on aside, or raise what is wrong."""
        shares = {stream: self._share(position, members, stream) for stream in members}
        guilty = max(members, key=lambda s: (shares[s], _time(members[s]), s))
        row = _described(self.query, guilty, members[guilty])
        met = "; ".join(_described(self.query, s, members[s]) for s in members if s != guilty)
        reason = short(f"term {self.query.terms[position].text}: {failure.reason}", SHOWN // 3)
        if not self.aside:
            raise TermError(short(f"{reason}. {OUTLOOK}. The row is of {row}. It met {met}"))
        who = _identity(guilty, members[guilty])
        assert who not in self.dead, "a row that is left out is not evaluated again"
        self.dead[who] = short(f"{reason}. It met {met}")
        if len(self.dead) > MOST:
            raise TermError(
                short(
                    f"{reason}. More than {MOST} rows of one batch are set aside: it is the term "
                    f"that does not fit, or the stream. The last row is of {row}"
                )
            )

    def _share(self, position: int, members: Mapping[int, Refs], stream: int) -> float:
        """Of the combinations of a row with other rows, the part on which the term fails."""
        known = {bound: _identity(bound, refs) for bound, refs in members.items()}
        samples = [
            [(bound, refs) for refs in self._sample(bound, known[bound])]
            for bound in members
            if bound != stream
        ]
        tried = [
            {stream: members[stream], **dict(others)} for others in zip(*samples, strict=False)
        ]
        return sum(self._fails(position, each) for each in tried) / max(len(tried), 1)

    def _sample(self, stream: int, known: Identity) -> Iterator[Refs]:
        """Some rows of a stream, but for one that is known already, and for dead ones."""
        found = 0
        for block in self.witnesses(stream):
            step = max(len(block) // WITNESSES, 1)
            for row in range(0, len(block), step):
                refs = Refs((block,), np.array([row]))
                who = _identity(stream, refs)
                if who != known and who not in self.dead:
                    yield refs
                    found += 1
                if found == WITNESSES:
                    return

    def _fails(self, position: int, members: Mapping[int, Refs]) -> bool:
        try:
            self._holds(position, members)
        except UnfitError:
            return True
        return False

    def _holds(self, position: int, members: Mapping[int, Refs]) -> Bools:
        operands = self.query.terms[position].operands
        columns = [members[operand.stream].column(operand.column) for operand in operands]
        return self._kernels[position].holds(columns)

    def _touched(self, members: Mapping[int, Refs]) -> Bools:
        """Where a combination has a row that is dead."""
        size = len(next(iter(members.values()))) if members else 0
        answer = np.zeros(size, np.bool_)
        for stream, refs in members.items():
            for at, block in enumerate(refs.blocks):
                numbers = self._dead_rows(stream, block)
                if len(numbers):
                    hit = np.isin(refs.rows, numbers)
                    answer |= hit if refs.which is None else hit & (refs.which == at)
        return answer

    def _dead_rows(self, stream: int, block: Block) -> list[int]:
        dead = {(segment, row) for known, segment, row in self.dead if known == stream}
        if SEGMENT not in block.columns:
            return [row - block.offset for segment, row in dead if segment == block.name]
        segments, rows = block.columns[SEGMENT].to_pylist(), block.columns[ROW].to_pylist()
        known = enumerate(zip(segments, rows, strict=True))
        return [number for number, identity in known if identity in dead]


def _taken(members: Mapping[int, Refs], chosen: np.ndarray) -> dict[int, Refs]:
    return {stream: refs.take(chosen) for stream, refs in members.items()}


def _blanked(columns: Mapping[int, pa.Array], dead: Bools) -> dict[int, pa.Array]:
    """The same columns with nulls in the dead rows."""
    if not dead.any():
        return dict(columns)
    positions = pa.array(np.arange(len(dead)), mask=dead)
    return {position: column.take(positions) for position, column in columns.items()}


def _block(refs: Refs) -> tuple[Block, int]:
    """Where the only row of a combination's stream is."""
    which = 0 if refs.which is None else int(refs.which[0])
    return refs.blocks[which], int(refs.rows[0])


def _identity(stream: int, refs: Refs) -> Identity:
    block, row = _block(refs)
    if SEGMENT in block.columns:
        return stream, block.columns[SEGMENT][row].as_py(), block.columns[ROW][row].as_py()
    return stream, block.name, block.offset + row


def _time(refs: Refs) -> int:
    block, row = _block(refs)
    return int(block.times[row])


def _described(query: Query, stream: int, refs: Refs) -> str:
    block, row = _block(refs)
    return row_text(query, stream, int(block.times[row]), block.columns, row)


def row_text(
    query: Query, stream: int, time: int, columns: Mapping[str, pa.Array], row: int
) -> str:
    """A row in words: its stream, its time and its values."""
    values = [
        f"{stored.sql if stored.name.startswith('#') else stored.name}="
        f"{shown(columns[stored.name], row)}"
        for stored in query.stored[stream]
        if stored.name in columns
    ]
    return f"{query.streams[stream].name} at {np.datetime64(time, 'us')}Z ({', '.join(values)})"


def short(text: str, size: int = SHOWN) -> str:
    """On one line, as errors come back from tasks, and not without end."""
    text = " ".join(text.split())
    return text if len(text) <= size else f"{text[: size - 1]}…"
