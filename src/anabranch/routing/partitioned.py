"""Partition groups by key over the hosts (SA05): for an equality that spans all streams.

A group is a range of the key's codes, the same on every stream (SA05's partition group). Segments
are in the order of these codes, so a group is a slice of a segment, and a host reads only slices.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from anabranch.kernel.equality import GROUPS
from anabranch.routing.base import Segments, Share, frozen


class HashRouter:
    """Equal runs of neighbouring groups for each host."""

    name = "hash"

    def __init__(self, hosts: int) -> None:
        self._hosts = hosts

    def route(self, old: Segments, new: Segments) -> list[Share]:
        edges = [GROUPS * host // self._hosts for host in range(self._hosts + 1)]
        return [
            Share(host, frozen(old), frozen(new), ((edges[host], edges[host + 1]),))
            for host in range(self._hosts)
        ]

    def snapshot(self) -> Mapping[str, Any]:
        return {"hosts": self._hosts}
