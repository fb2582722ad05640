"""`anabranch simulate`: many drawn runs on simulated clusters, each held against the reference."""

from __future__ import annotations

import os
import sys
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from multiprocessing import get_context

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from anabranch.errors import AnabranchError

AT_ONCE = 20
"""Seeds that a process takes at a time."""
SHOWN = 3
"""Failing seeds that are shrunk and told in full."""

Failure = tuple[int, str]
"""A seed, and what is wrong with it."""


def check_seeds(seeds: Sequence[int], jobs: int | None, console: Console, *, faults: bool) -> int:
    """Run all seeds; 0 if the answer was right every time."""
    try:
        from anabranch.sim import scenarios
    except ModuleNotFoundError as error:
        raise AnabranchError(
            f"simulations need {error.name}: pip install 'anabranch[sim]'"
        ) from None
    pieces = [seeds[at : at + AT_ONCE] for at in range(0, len(seeds), AT_ONCE)]
    failed: list[Failure] = []
    counts: Counter[str] = Counter()
    columns = ("{task.description}", BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    shown = [TextColumn(column) if isinstance(column, str) else column for column in columns]
    with (
        ProcessPoolExecutor(jobs or os.cpu_count(), get_context("fork")) as pool,
        Progress(*shown, console=console, disable=not sys.stderr.isatty()) as bar,
    ):
        task = bar.add_task("seeds", total=len(seeds))
        for piece, (wrong, counted) in zip(
            pieces, pool.map(partial(_checked, faults=faults), pieces), strict=True
        ):
            failed += wrong
            counts.update(counted)
            bar.advance(task, len(piece))
    for seed, what in failed[:SHOWN]:
        console.print(f"[red]{what}[/red]")
        command = f"anabranch simulate --first-seed {seed} --seeds 1"
        console.print(f"  again: {command}{' --faults' if faults else ''}", highlight=False)
        smallest = scenarios.shrunk(scenarios.judged(seed, scenarios.drawn(seed, faults=faults)))
        console.print(f"  the smallest run that is still wrong: {smallest}", highlight=False)
        for line in scenarios.timeline(smallest):
            console.print(f"    {line}", highlight=False)
    runs = ", ".join(f"{counts[name]} {name}" for name in scenarios.STRATEGIES)
    console.print(
        f"{len(seeds)} seeds ({runs}): {counts['results']:,} results, {counts['resets']} "
        f"recoveries, {counts['moves']} moves of rows; {len(failed)} wrong",
        highlight=False,
    )
    return 1 if failed else 0


def _checked(seeds: Sequence[int], *, faults: bool) -> tuple[list[Failure], Counter[str]]:
    from anabranch.sim import scenarios

    failed: list[Failure] = []
    counts: Counter[str] = Counter()
    for seed in seeds:
        verdict = scenarios.judged(seed, scenarios.drawn(seed, faults=faults))
        history = verdict.outcome.history
        counts[scenarios.STRATEGIES[seed % len(scenarios.STRATEGIES)]] += 1
        counts["results"] += verdict.results
        counts["resets"] += history.resets
        counts["moves"] += sum("move from" in what for _, what in history.told)
        if not verdict.right:
            failed.append((seed, str(verdict)))
    return failed, counts
