"""`python -m anabranch.bench CASE`: the same as `anabranch bench CASE`."""

from __future__ import annotations

import argparse
import sys

from anabranch.bench.main import add_arguments, run

if __name__ == "__main__":
    parser = argparse.ArgumentParser(prog="anabranch bench", description=__doc__)
    add_arguments(parser)
    sys.exit(run(parser.parse_args()))
