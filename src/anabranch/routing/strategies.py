"""The strategies by name, and the choice that `auto` makes."""

from __future__ import annotations

from anabranch.errors import QueryError
from anabranch.kernel.equality import GROUPS
from anabranch.model.query import Query
from anabranch.routing.base import Router
from anabranch.routing.central import CentralRouter
from anabranch.routing.partitioned import HashRouter

STRATEGIES = ("auto", "central", "hash")


def router_for(query: Query, strategy: str, hosts: int) -> Router:
    """The router of a strategy; QueryError, with the reason, where the query does not allow it."""
    if strategy not in STRATEGIES:
        raise QueryError(f"strategy {strategy!r}: there are {', '.join(STRATEGIES)}")
    if not isinstance(hosts, int) or isinstance(hosts, bool) or not 1 <= hosts <= GROUPS:
        raise QueryError(f"hosts is {hosts!r}; write a whole number from 1 to {GROUPS}")
    if strategy == "hash" and query.key is None:
        names = ", ".join(stream.name for stream in query.streams)
        raise QueryError(
            "strategy 'hash' divides rows by a key, and no equality in this query spans all "
            f"streams ({names}). Use 'auto' or 'central', or add an equality"
        )
    if strategy == "central" or query.key is None:
        return CentralRouter()
    return HashRouter(hosts)


def reason(query: Query, strategy: str) -> str:
    """Why this strategy, in a sentence."""
    if strategy == "central":
        return "as asked for, everything is joined on one host"
    if query.key is None:
        return "no equality spans all streams, so everything is joined on one host"
    return f"an equality spans all streams, so {GROUPS} groups of keys are spread over the hosts"
