"""Policies and workloads that this process has registered, by name. Passed to the engine with each call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_policies: dict[str, Callable[[], Any]] = {}
_workloads: dict[str, Callable[[int, Mapping[str, Any]], Any]] = {}


def registered() -> dict[str, object]:
    """All of them, in the engine's form."""
    return {"policies": list(_policies.items()), "workloads": list(_workloads.items())}


def add_policy(name: str, make: Callable[[], Any]) -> None:
    """Registers a maker of a policy; it replaces one of the same name."""
    _policies[name] = make


def add_workload(name: str, make: Callable[[int, Mapping[str, Any]], Any]) -> None:
    """Registers a maker of a workload's plan; it replaces one of the same name."""
    _workloads[name] = make


def remove(name: str) -> None:
    """Removes the policy and the workload of this name, if they exist."""
    _policies.pop(name, None)
    _workloads.pop(name, None)


def policy(name: str) -> Callable[[], Any]:
    """The maker of the policy of this name; ``KeyError`` with the existing names."""
    if name not in _policies:
        raise KeyError(f"no policy `{name}` is registered; registered: {', '.join(_policies) or 'none'}")
    return _policies[name]
