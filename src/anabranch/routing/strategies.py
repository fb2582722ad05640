"""The strategies by name, and the choice that `auto` makes."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from anabranch.adapt.load import Weights
from anabranch.errors import QueryError
from anabranch.kernel.equality import GROUPS
from anabranch.model.query import Query
from anabranch.routing.aligned import Atr, AtrRouter
from anabranch.routing.base import Router
from anabranch.routing.baselines import UnawareRouter
from anabranch.routing.central import CentralRouter
from anabranch.routing.coordinated import Ctr, CtrRouter
from anabranch.routing.partitioned import HashRouter
from anabranch.routing.sliced import Psp, PspRouter

STRATEGIES = ("auto", "central", "hash", "atr", "ctr", "psp")
MOST_HOSTS = 1024

OPTIONS: dict[str, type[Atr | Ctr | Psp]] = {"atr": Atr, "ctr": Ctr, "psp": Psp}

Strategy = str | Atr | Ctr | Psp | UnawareRouter
"""A name, or the options of a strategy that has any; the baseline is for experiments alone."""


def router_for(query: Query, strategy: Strategy, hosts: int) -> Router:
    """The router of a strategy; QueryError, with the reason, where the query does not allow it."""
    most = GROUPS if strategy == "hash" else MOST_HOSTS
    if not isinstance(hosts, int) or isinstance(hosts, bool) or not 1 <= hosts <= most:
        raise QueryError(f"hosts is {hosts!r}; write a whole number from 1 to {most}")
    if isinstance(strategy, UnawareRouter):
        return strategy
    if not isinstance(strategy, str):
        return _with_options(query, strategy, hosts)
    if strategy in OPTIONS:
        return _with_options(query, OPTIONS[strategy](), hosts)
    if strategy not in STRATEGIES:
        raise QueryError(
            f"strategy {strategy!r}: there are {', '.join(STRATEGIES)}, and ab.Atr(...), "
            "ab.Ctr(...) and ab.Psp(...) with options"
        )
    if strategy == "hash" and query.key is None:
        names = ", ".join(stream.name for stream in query.streams)
        raise QueryError(
            "strategy 'hash' divides rows by a key, and no equality in this query spans all "
            f"streams ({names}). Use 'auto', 'atr', 'ctr' or 'psp', or add an equality"
        )
    if strategy == "central" or (strategy == "auto" and hosts == 1):
        return CentralRouter()
    if query.key is not None:
        return HashRouter(min(hosts, GROUPS))
    return PspRouter(query, hosts)


def _with_options(query: Query, options: Atr | Ctr | Psp, hosts: int) -> Router:
    if isinstance(options, Atr):
        return AtrRouter(query, hosts, options)
    if isinstance(options, Ctr):
        return CtrRouter(query, hosts, options)
    if isinstance(options, Psp):
        return PspRouter(query, hosts, options)
    raise QueryError(f"strategy {options!r} is no strategy")


def described(strategy: Strategy) -> dict[str, Any]:
    """A strategy as JSON can hold it; `strategy_of` takes it back."""
    if isinstance(strategy, str):
        return {"name": strategy}
    if isinstance(strategy, UnawareRouter):
        raise QueryError("a run cannot be switched to a baseline that loses results")
    name = next(name for name, options in OPTIONS.items() if isinstance(strategy, options))
    return {"name": name, "options": asdict(strategy)}


def strategy_of(saved: Mapping[str, Any]) -> Strategy:
    """The strategy that `described` gave."""
    if "options" not in saved:
        return str(saved["name"])
    options = {**saved["options"], "weights": Weights(**saved["options"]["weights"])}
    return OPTIONS[saved["name"]](**options)


def reason(strategy: Strategy, chosen: str) -> str:
    """Why this strategy, in a sentence."""
    if strategy != "auto":
        return "as asked for"
    if chosen == "central":
        return "there is one host"
    if chosen == "hash":
        return f"an equality spans all streams, so {GROUPS} groups of keys are spread over hosts"
    return "no equality spans all streams, and time slices compare no pair of rows twice"
