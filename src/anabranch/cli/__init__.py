"""The command line: `anabranch demo`, `run`, `explain` and `bench`."""
