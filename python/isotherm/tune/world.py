"""Chance: differences between two runs of a recording that the world does not fix (docs/use/advise.md#chance)."""

from __future__ import annotations

import hashlib
from typing import Any, Optional

#: A limit lies up to so many ten-thousandths above or below its size.
_LIMIT_SPREAD_BP = 300
#: What the kernel takes for itself of a limit, at most, ten-thousandths.
_KERNEL_CHARGE_BP = 150
_LATENCY_PERCENT = (80, 90, 110, 125)
_START_MAX_NS = 2_000_000_000
_PAGE_BYTES = 4096


def _word(seed: int, what: str) -> int:
    return int.from_bytes(hashlib.blake2b(f"{seed}/{what}".encode(), digest_size=8).digest(), "little")


def limit_bytes(seed: int, size_bytes: float) -> int:
    """The limit of a size in this world, whole pages."""
    drawn = seed * 40_503 % (1 << 16)
    share_bp = 10_000 - _LIMIT_SPREAD_BP + drawn * 2 * _LIMIT_SPREAD_BP // (1 << 16)
    share_bp -= _word(seed, "kernel") % (_KERNEL_CHARGE_BP + 1)
    return max(int(size_bytes) * share_bp // 10_000 // _PAGE_BYTES, 32) * _PAGE_BYTES


def world(seed: int, runtime_ns: float, cpus: int, size_bytes: Optional[float]) -> dict[str, Any]:
    """A world of a scenario: all random values of this seed. ``size_bytes``: of the limit, if there is one."""
    drawn: dict[str, Any] = {
        "seed": seed,
        "start": f"{_word(seed, 'start') % _START_MAX_NS // 1000}us",
        "cpus": (cpus, cpus, cpus - cpus // 4, -(-cpus // 2))[_word(seed, "cpus") % 4],
        "device-latency": f"{_LATENCY_PERCENT[_word(seed, 'latency') % 4]}%",
        "lazy-statistics": _word(seed, "statistics") % 2 == 0,
        "other-tasks": f"{int(runtime_ns) // 1000}us" if _word(seed, "others") % 2 == 0 else "0us",
    }
    if size_bytes is not None:
        drawn["limit"] = f"{limit_bytes(seed, size_bytes) // 1024}KiB"
    return drawn
