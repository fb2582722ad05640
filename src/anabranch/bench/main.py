"""`anabranch bench CASE`: run the sides of a case one after the other, and compare them.

Each side reads the same files with the same trigger ("available now", a fixed number of files a
batch) and discards its results after computing them. Each has a batch size of its own, which
stands with the case. One side at a time has the machine; with `--repeat` they take turns, so that
all of them see its good and its bad times.
"""

from __future__ import annotations

import argparse
import json
from dataclasses import replace
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn

from anabranch.bench import data
from anabranch.bench.cases import CASES, Case, SparkPlan
from anabranch.bench.child import KERNEL, OURS, SIDES, SPARK, Assignment
from anabranch.bench.measure import Batch, Summary, summarise, summarise_empty
from anabranch.bench.process import run_side
from anabranch.bench.report import Comparison, Side, as_json, as_table, machine, unit_of

ALL = "all"


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The arguments of `anabranch bench`."""
    parser.add_argument("case", metavar="CASE", choices=[*CASES, ALL], help=", ".join(CASES))
    parser.add_argument(
        "--json", action="store_true", help="print one JSON object as the last line"
    )
    parser.add_argument(
        "--quick", action="store_true", help="tiny sizes: shows that it works, measures nothing"
    )
    parser.add_argument(
        "--seconds-limit",
        type=float,
        default=180.0,
        metavar="S",
        help="stop a side after so many seconds and report a bound (default: %(default)g)",
    )
    parser.add_argument(
        "--repeat",
        type=_rounds,
        default=1,
        metavar="N",
        help="let the sides take turns N times, and report the median of each and of the ratios",
    )
    parser.add_argument("--side", choices=SIDES, help="run this side only")
    parser.add_argument("--strategy", help="of a case that compares strategies, run this one only")
    parser.add_argument(
        "--batch-files",
        type=int,
        metavar="N",
        help="files per stream and batch, instead of what suits each side best",
    )
    parser.add_argument(
        "--data",
        type=Path,
        default=data.default_directory(),
        metavar="DIR",
        help="where the input is kept between runs (default: %(default)s)",
    )


def _rounds(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no number of rounds; write 1 or more")
    return int(text)


def run(args: argparse.Namespace) -> int:
    """Run what was asked for; 1 where our side failed or the sides' answers differ."""
    names = list(CASES) if args.case == ALL else [args.case]
    messages = Console(stderr=True)
    with Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        TextColumn("{task.completed:,.0f} of {task.total:,.0f} {task.fields[unit]}"),
        TimeElapsedColumn(),
        console=messages,
    ) as progress:
        comparisons = [_compare(name, args, progress) for name in names]
    for comparison in comparisons:
        if comparison.disagreement is not None:
            messages.print(f"{comparison.case.name}: {comparison.disagreement}", style="red")
    # With --json, standard output belongs to the program that reads it.
    output = messages if args.json else Console()
    for comparison in comparisons:
        output.print(as_table(comparison))
    where = machine()
    output.print(f"Steady state on {where['cores']} cores of {where['cpu']}; < and > are bounds.")
    if args.json:
        found = [as_json(comparison) for comparison in comparisons]
        whole = {"case": ALL, "cases": found, "machine": machine()}
        print(json.dumps(whole if args.case == ALL else found[0]), flush=True)
    return int(any(comparison.failed for comparison in comparisons))


def _compare(name: str, args: argparse.Namespace, progress: Progress) -> Comparison:
    """One case, side after side, as many rounds as were asked for."""
    case = CASES[name].quick() if args.quick else CASES[name]
    bar = progress.add_task(f"{name}: data", total=len(case.rows), unit="files")
    directory = data.generate(case, args.data, lambda _: progress.advance(bar))
    progress.remove_task(bar)
    tasks = _tasks(case, args, str(directory))
    rounds: dict[str, list[Summary]] = {label: [] for label in tasks}
    for _ in range(args.repeat):
        for label, task in tasks.items():
            rounds[label].append(_run(task, args, progress, label))
    sides = {label: Side(tuple(rounds[label]), task.files) for label, task in tasks.items()}
    if case.strategies:
        return Comparison(case, None, {}, None, sides)
    ours, kernel = sides.pop(OURS, None), sides.pop(KERNEL, None)
    return Comparison(case, ours, sides, kernel)


def _tasks(case: Case, args: argparse.Namespace, directory: str) -> dict[str, Assignment]:
    """The sides that take turns, by name: strategies, or ours, Spark's plans and the kernel."""
    task = Assignment(case.name, args.quick, OURS, 0, directory, "", case.ours_files)
    if args.batch_files is not None:
        task = replace(task, files=args.batch_files)
    if case.strategies:
        return {
            contender.name: replace(
                task,
                strategy=contender.strategy,
                cores=contender.cores,
                every_hop=contender.every_hop,
            )
            for contender in case.strategies
            if args.strategy in (None, contender.strategy)
        }
    asked = SIDES if args.side is None else (args.side,)
    tasks = {}
    if SPARK in asked:
        for at, plan in enumerate(case.spark):
            files = _spark_files(case, plan, args)
            tasks[plan.name] = replace(task, side=SPARK, plan=at, files=files)
    if OURS in asked:
        tasks[OURS] = task
    # The time of a batch without rows is Spark's bookkeeping, of which a bare kernel has none.
    if KERNEL in asked and not case.counts_batches:
        tasks[KERNEL] = replace(task, side=KERNEL)
    return tasks


def _spark_files(case: Case, plan: SparkPlan, args: argparse.Namespace) -> int:
    chosen: int | None = args.batch_files
    return chosen or plan.files or case.spark_files


def _run(task: Assignment, args: argparse.Namespace, progress: Progress, name: str) -> Summary:
    """Run a side under a progress bar of its own, and reduce what it reports to numbers."""
    case = task.chosen
    label = f"{case.name}: {name if name == task.side else f'{task.side} ({name})'}"
    bar = progress.add_task(label, total=len(case.batches(task.files)), unit="batches")
    outcome = run_side(task, args.seconds_limit, lambda batch: _heard(progress, bar, label, batch))
    progress.remove_task(bar)
    if case.counts_batches:
        summary = summarise_empty(outcome.run, len(case.feeds), outcome.error)
    else:
        summary = summarise(outcome.run, outcome.error)
    bound = "less than " if summary.rate.is_bound else ""
    progress.console.print(f"{label}: {bound}{summary.rate.value:,.2f} {unit_of(case)}")
    if summary.error is not None:
        progress.console.print(f"{label} failed: {summary.error}", style="red", markup=False)
    return replace(summary, stolen=outcome.stolen)


def _heard(progress: Progress, bar: TaskID, label: str, batch: Batch) -> None:
    rate = batch.rows / batch.seconds if batch.seconds else 0.0
    progress.update(bar, completed=batch.number + 1, description=f"{label} {rate:,.0f} rows/s")
