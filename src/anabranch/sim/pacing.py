"""How a run is paced, and what is asked for while it runs."""

from __future__ import annotations

from dataclasses import dataclass

from anabranch.routing.strategies import Strategy


@dataclass(frozen=True)
class Pacing:
    """How epochs follow each other."""

    epoch: float = 1.0
    """Seconds of rows that are routed together."""
    most: int = 8
    """Epochs of rows that are routed together when they had to wait."""
    in_flight: int = 64
    """Epochs that may be under way at once, where hosts wait for each other."""
    units: int | None = None
    """Cycles on a ring at once: 1 is plain PSP, more is PSP-I; None: some for each host."""
    backlog: float = 4.0
    """Seconds of work that the least busy host may have waiting before the next epoch is sent."""
    preload: float = 0.0
    """Seconds of event time at the beginning in which windows are filled, and nothing is joined."""
    purge_idle: bool = True
    """Whether hosts that get no new rows purge too; else new rows are what purges old ones."""


@dataclass(frozen=True)
class Change:
    """Something that is asked for while the join runs, as a user of a run would."""

    at: float
    kind: str
    """rescale, switch, or crown (make ATR change its master now)."""
    hosts: int = 0
    at_once: bool = False
    strategy: Strategy = "central"
