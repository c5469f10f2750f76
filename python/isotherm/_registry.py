"""What this process has registered: policies and workloads by name. Handed to the engine with each call."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

_policies: dict[str, Callable[[], Any]] = {}
_workloads: dict[str, Callable[[int, Mapping[str, Any]], Any]] = {}


def registered() -> dict[str, object]:
    """All of it, as the engine takes it."""
    return {"policies": list(_policies.items()), "workloads": list(_workloads.items())}


def add_policy(name: str, make: Callable[[], Any]) -> None:
    """Registers what makes a policy; one of the same name goes."""
    _policies[name] = make


def add_workload(name: str, make: Callable[[int, Mapping[str, Any]], Any]) -> None:
    """Registers what makes a workload's plan; one of the same name goes."""
    _workloads[name] = make


def remove(name: str) -> None:
    """Forgets the policy and the workload of this name; nothing to do where there is none."""
    _policies.pop(name, None)
    _workloads.pop(name, None)


def policy(name: str) -> Callable[[], Any]:
    """What makes the policy of this name; ``KeyError`` with the names there are."""
    if name not in _policies:
        raise KeyError(f"no policy `{name}` is registered; registered: {', '.join(_policies) or 'none'}")
    return _policies[name]
