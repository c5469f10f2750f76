"""Shared fixtures: the checkout, its recordings and its command."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest
from checkout import ROOT, skip_or_fail


@pytest.fixture(autouse=True, scope="session")
def _ctrl_c_is_heard() -> Iterator[None]:
    """Started in the background of a script, a process ignores Ctrl-C, and Python leaves it so."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(autouse=True)
def _no_kept_replays(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ISOTHERM_NO_CACHE", "1")
    monkeypatch.setenv("ISOTHERM_DATA", str(ROOT))


@pytest.fixture
def sqlite() -> Path:
    """A bundled recording."""
    return ROOT / "traces" / "sqlite.parquet"


class Command:
    """The `isotherm` command of this checkout."""

    def __init__(self, program: str) -> None:
        self.program = program

    def __call__(self, *arguments: str) -> bytes:
        """Its output, regardless of the exit code."""
        done = subprocess.run([self.program, *arguments], cwd=ROOT, capture_output=True, check=False)
        assert done.stdout, done.stderr.decode()
        return done.stdout


@pytest.fixture(scope="session")
def command() -> Command:
    """The command, from `$ISOTHERM_COMMAND` or as it was built last."""
    target = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
    built = [target / profile / "isotherm" for profile in ("release", "debug")]
    configured = os.environ.get("ISOTHERM_COMMAND")
    candidates = [Path(configured)] if configured else [path for path in built if path.exists()]
    if not candidates:
        skip_or_fail("the isotherm command is not built: cargo build --package isotherm-cli")
    return Command(str(max(candidates, key=lambda path: path.stat().st_mtime)))
