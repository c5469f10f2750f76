"""The folder of the checkout, and skipping tests without requirements."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def skip_or_fail(why: str) -> None:
    """Skips a test that lacks something, or fails it if nothing may be missing."""
    if os.environ.get("ISOTHERM_REQUIRE_ALL") == "1":
        pytest.fail(why)
    pytest.skip(why)
