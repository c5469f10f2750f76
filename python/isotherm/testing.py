"""Checks for policies that were written in Python."""

from __future__ import annotations

from . import _native, _registry


def conformance(name: str, *, histories: int = 32) -> None:
    """Checks a registered policy by the suite that the engine's own policies pass.

    It must lose no page in any history, keep groups under their limits, spare protected groups, and give
    back all memory at the end. ``histories``: random histories of events, the same each time.

    Raises :class:`isotherm.Error` with the broken rule, and ``KeyError`` if there is no such policy.
    """
    _native.conform(name, _registry.policy(name), histories)
