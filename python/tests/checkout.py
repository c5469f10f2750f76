"""Where the checkout is, and what to do where something is missing."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]


def skip_or_fail(why: str) -> None:
    """Skips a test for want of something, or fails it where everything must be there."""
    if os.environ.get("ISOTHERM_REQUIRE_ALL") == "1":
        pytest.fail(why)
    pytest.skip(why)
