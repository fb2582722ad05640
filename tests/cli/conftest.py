"""The command as a user calls it: in a process of its own, with its own Spark."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable

import pytest

Command = Callable[..., subprocess.CompletedProcess[str]]


@pytest.fixture
def anabranch() -> Command:
    """Call the command with some arguments; gives its exit code and what it wrote."""

    def call(*arguments: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "-m", "anabranch.cli.main", *arguments],
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )

    return call
