"""Keys of a scenario by path, and the values to try for them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .parameter import Parameter, Value


def parameters_of(asked: Mapping[str, object]) -> list[Parameter]:
    """Keys by path, as in ``{"machine.swappiness": (0, 200), "policy": ["classic", "mglru"]}``.

    A pair is a range, or a triple with ``"log"``; times, sizes and shares are texts with units. A list is choices. The
    key ``memory`` is the limit as a share of the peak. Raises ``ValueError``.
    """
    return [_parameter(path, asked[path]) for path in sorted(asked)]


_SCALES: dict[str, tuple[str, float]] = {
    "ns": ("time", 1),
    "us": ("time", 1e3),
    "ms": ("time", 1e6),
    "s": ("time", 1e9),
    "m": ("time", 60e9),
    "KiB": ("size", 1 << 10),
    "MiB": ("size", 1 << 20),
    "GiB": ("size", 1 << 30),
    "%": ("share", 0.01),
}


def _number(path: str, text: object) -> tuple[str, float]:
    if isinstance(text, bool) or not isinstance(text, (int, float, str)):
        raise ValueError(f"space: `{path}`: bounds are numbers or texts with units, not {text!r}")
    if isinstance(text, int):
        return "integer", float(text)
    if isinstance(text, float):
        return "number", text
    parts = re.fullmatch(r"\s*([0-9.]+)\s*([A-Za-z%]+)\s*", text)
    if parts is None or parts[2] not in _SCALES:
        raise ValueError(
            f"space: `{path}`: bound `{text}`; allowed: a number, or one with a unit of {', '.join(_SCALES)}"
        )
    kind, scale = _SCALES[parts[2]]
    return kind, float(parts[1]) * scale


def _parameter(path: str, asked: object) -> Parameter:
    if isinstance(asked, list) and asked:
        return Parameter(path, "choice", asked[0], choices=tuple(asked))
    if not isinstance(asked, tuple) or len(asked) not in (2, 3) or (len(asked) == 3 and asked[2] != "log"):
        raise ValueError(
            f'space: `{path}` is {asked!r}; allowed: (LOW, HIGH), (LOW, HIGH, "log"), or a list of choices'
        )
    (low_kind, low), (high_kind, high) = _number(path, asked[0]), _number(path, asked[1])
    kind = low_kind if low_kind == high_kind else "number"
    if low_kind != high_kind and not {low_kind, high_kind} <= {"integer", "number"}:
        raise ValueError(f"space: `{path}`: {asked[0]!r} and {asked[1]!r} have different units")
    if low > high or (len(asked) == 3 and low <= 0):
        raise ValueError(f"space: `{path}`: allowed: LOW at most HIGH, and above 0 on a log scale")
    return Parameter(path, kind, low if kind != "integer" else int(low), low, high, is_log=len(asked) == 3)


def set_key(scenario: dict[str, Any], path: str, value: Value) -> None:
    """Sets a key by its path (``machine.swappiness``, ``monitors[0].preset.quota-time``); tables on the way are made.

    ``memory`` is left alone: the limit is set for each case. Raises ``ValueError`` for a step that leads nowhere.
    """
    if path == "memory":
        return
    steps = re.findall(r"[^.\[\]]+|\[\d+\]", path)
    at: Any = scenario
    for number, step in enumerate(steps):
        is_last = number == len(steps) - 1
        if step.startswith("["):
            index = int(step[1:-1])
            if not isinstance(at, list) or index >= len(at):
                raise ValueError(f"space: `{path}`: there is no entry {step}")
            if is_last:
                at[index] = value
            at = at[index]
            continue
        if not isinstance(at, dict):
            raise ValueError(
                f"space: `{path}`: `{step}` is a key, and stands in no table; name an entry, as in `monitors[0]`"
            )
        if is_last:
            at[step] = value
        else:
            at = at.setdefault(step, {})
