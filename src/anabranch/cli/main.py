"""The `anabranch` command: reads its arguments, and turns errors into sentences and exit codes.

Exit codes: 0, all went well; 1, the demo or a simulated run disagreed with its reference, or a
claim of a paper could not be looked into; 2, the command, the job
file or the query is wrong, or the run failed in a way that Anabranch knows; 130, the demo
was interrupted. A run that is interrupted stops in good order, which is 0.
"""

from __future__ import annotations

import argparse
import logging
import sys
from collections.abc import Callable, Sequence
from pathlib import Path

from rich.console import Console

from anabranch import __version__
from anabranch.bench import main as bench
from anabranch.cli.demo import demo
from anabranch.cli.job import Limit, explain_job, run_job
from anabranch.errors import AnabranchError

EPILOG = """\
examples:
  anabranch demo                         three live feeds, joined and checked, in half a minute
  anabranch explain examples/correlate.toml
  anabranch run examples/correlate.toml
  anabranch simulate --seeds 200 --faults
  anabranch experiment ld07-fig11
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Run one command and return its exit code."""
    arguments = _parser().parse_args(argv)
    command: Callable[[argparse.Namespace], int] = arguments.command
    try:
        return command(arguments)
    except AnabranchError as error:
        print(" ".join([f"anabranch: {error}", *getattr(error, "__notes__", ())]), file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        print("anabranch: interrupted", file=sys.stderr)
        return 130


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="anabranch",
        description="Exact joins of many windowed streams on Spark.",
        epilog=EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--version", action="version", version=f"anabranch {__version__}")
    commands = parser.add_subparsers(title="commands", required=True, metavar="COMMAND")

    show = commands.add_parser("demo", help="join three live feeds and check the results")
    show.add_argument("--seconds", type=_seconds, default=30.0, help="of live data (30)")
    show.add_argument("--seed", type=int, default=1, help="of the feeds (1)")
    show.add_argument("--master", default="local[2]", help="Spark master (local[2])")
    show.set_defaults(command=_demo)

    run = commands.add_parser("run", help="run a job file")
    _add_job(run)
    run.add_argument("--seconds", type=_seconds, help="stop after this long")
    run.add_argument("--batches", type=_batches, help="stop after so many batches")
    run.add_argument("--verbose", action="store_true", help="show Spark's log, and whole traces")
    run.set_defaults(command=_run)

    explain = commands.add_parser("explain", help="say what a job file would do, and stop")
    _add_job(explain)
    explain.set_defaults(command=_explain)

    simulate = commands.add_parser("simulate", help="check drawn runs on simulated clusters")
    simulate.add_argument("--seeds", type=_count, default=200, help="how many runs (200)")
    simulate.add_argument("--first-seed", type=int, default=0, metavar="K", help="begin with K (0)")
    simulate.add_argument("--faults", action="store_true", help="crashes, stalls, repeats, drift")
    simulate.add_argument("--jobs", type=_count, default=None, help="processes (one a core)")
    simulate.set_defaults(command=_simulate)

    experiment = commands.add_parser("experiment", help="make the papers' figures again")
    experiment.add_argument("key", metavar="KEY", help="all, ld07, psp09, beyond, or one figure")
    experiment.add_argument("--quick", action="store_true", help="one seed, and fewer points")
    experiment.add_argument("--out", type=Path, default=Path("report"), help="folder (report)")
    experiment.set_defaults(command=_experiment)

    measure = commands.add_parser("bench", help="measure against Spark's own joins")
    bench.add_arguments(measure)
    measure.set_defaults(command=bench.run)
    return parser


def _add_job(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("job", type=Path, metavar="JOB.toml")
    parser.add_argument("--master", help="Spark master, instead of the job file's")


def _seconds(text: str) -> float:
    """A positive number of seconds."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0.0
    # Written so that NaN, too, is refused.
    if not 0 < seconds < float("inf"):
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds above zero")
    return seconds


def _batches(text: str) -> int:
    """A number of batches, one or more."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of batches, one or more")
    return int(text)


def _count(text: str) -> int:
    """One or more."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number, one or more")
    return int(text)


def _demo(arguments: argparse.Namespace) -> int:
    return demo(arguments.seconds, arguments.seed, arguments.master, Console())


def _run(arguments: argparse.Namespace) -> int:
    limit = Limit(arguments.seconds, arguments.batches)
    if arguments.verbose:
        logging.basicConfig()
        logging.getLogger("anabranch").setLevel(logging.DEBUG)
    return run_job(arguments.job, arguments.master, limit, Console(), verbose=arguments.verbose)


def _explain(arguments: argparse.Namespace) -> int:
    return explain_job(arguments.job, arguments.master)


def _simulate(arguments: argparse.Namespace) -> int:
    from anabranch.cli.simulate import check_seeds

    seeds = range(arguments.first_seed, arguments.first_seed + arguments.seeds)
    return check_seeds(seeds, arguments.jobs, Console(), faults=arguments.faults)


def _experiment(arguments: argparse.Namespace) -> int:
    try:
        from anabranch.experiments import main as experiments
    except ModuleNotFoundError as error:
        raise AnabranchError(
            f"experiments need {error.name}: pip install 'anabranch[sim]'"
        ) from None
    out: Path = arguments.out
    return experiments.run(arguments.key, out, out / "cache", Console(), quick=arguments.quick)


if __name__ == "__main__":
    sys.exit(main())
