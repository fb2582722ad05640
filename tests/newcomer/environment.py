"""A fresh environment with the wheel of this checkout, made without a network."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import sysconfig
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def build_wheel(home: Path) -> Path:
    """The wheel, built from a copy: building leaves files in the directory that is built."""
    source = home / "source"
    shutil.copytree(ROOT / "src", source / "src", ignore=shutil.ignore_patterns("*.egg-info"))
    for name in ("pyproject.toml", "README.md", "LICENSE"):
        shutil.copy(ROOT / name, source)
    told = ["--no-deps", "--no-build-isolation", "--wheel-dir", str(home), str(source)]
    call([sys.executable, "-m", "pip", "wheel", *told], home, dict(os.environ))
    (wheel,) = home.glob("*.whl")
    return wheel


def environment(home: Path) -> dict[str, str]:
    """What a shell with the activated environment `home/env` hands on, and nothing of these tests.

    The dependencies are not downloaded: the environment sees those of the tests, without Anabranch.
    """
    inherited = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("PYTHON", "PYSPARK", "SPARK", "PYTEST", "PIP"))
    }
    call([sys.executable, "-m", "venv", str(home / "env")], home, inherited)
    dependencies = home / "dependencies"
    dependencies.mkdir()
    for entry in Path(sysconfig.get_path("purelib")).iterdir():
        if "anabranch" not in entry.name and not entry.name.startswith("pip"):
            (dependencies / entry.name).symlink_to(entry)
    (packages,) = home.glob("env/lib/python*/site-packages")
    (packages / "dependencies.pth").write_text(f"{dependencies}\n")
    path = f"{home / 'env' / 'bin'}{os.pathsep}{inherited['PATH']}"
    return {**inherited, "PATH": path, "VIRTUAL_ENV": str(home / "env")}


def call(command: list[str], home: Path, env: dict[str, str], seconds: float = 300) -> str:
    """Run a command that must succeed, and give what it said on its standard error."""
    done = subprocess.run(
        command, cwd=home, env=env, capture_output=True, text=True, timeout=seconds, check=False
    )
    assert done.returncode == 0, f"{command}: {done.stdout[-3000:]}{done.stderr[-6000:]}"
    return done.stderr
