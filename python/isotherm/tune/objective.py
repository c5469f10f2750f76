"""The goals of tuning: objectives to lower or raise, and constraints that a setting must keep."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Optional, Union

from .. import _native

#: Objectives by name: metrics of docs/use/report.md#metrics that are added up.
NAMED: dict[str, tuple[str, ...]] = {
    "runtime": ("runtime_ns",),
    "memory": ("mean_bytes",),
    "peak": ("peak_bytes",),
    "cpu": (
        "reclaim_cpu_ns",
        "fault_cpu_ns",
        "monitor_cpu_ns",
        "generations_cpu_ns",
        "overhead_cpu_ns",
        "compaction_cpu_ns",
    ),
    "p99-stall": ("reclaim_p99_ns",),
}

#: Units of a bound, by the unit that the metric's name ends in.
_UNITS: dict[str, dict[str, float]] = {
    "ns": {"ns": 1, "us": 1e3, "ms": 1e6, "s": 1e9},
    "bytes": {"B": 1, "KiB": 1 << 10, "MiB": 1 << 20, "GiB": 1 << 30},
    "": {"": 1},
}

_CONSTRAINT = re.compile(
    r"^\s*(?P<name>[a-z0-9_-]+)\s*(?P<sign><=|>=)\s*(?P<number>[+-]?[0-9.]+)\s*(?P<unit>%|[A-Za-z]*)\s*$"
)


@dataclass(frozen=True)
class Measure:
    """A number of a run: the sum of some metrics, which is better low, or high."""

    name: str
    metrics: tuple[str, ...]
    is_raised: bool = False

    @property
    def unit(self) -> str:
        """``"ns"``, ``"bytes"``, or nothing for a count or a share."""
        return next((unit for unit in ("ns", "bytes") if self.metrics[0].endswith("_" + unit)), "")

    def of(self, values: Mapping[str, float]) -> Optional[float]:
        """The number in a row of metrics; ``None`` if the row has none of them."""
        found = [values[metric] for metric in self.metrics if metric in values]
        return sum(found) if found else None


@dataclass(frozen=True)
class Constraint:
    """A bound of a measure: relative to the defaults on the same seed, or in the measure's unit."""

    text: str
    measure: Measure
    is_relative: bool
    #: As a ratio to the defaults (1.02 is 2 % more), or in ns, bytes or counts.
    bound: float
    is_lower: bool = False

    def value(self, value: float, default: float) -> float:
        """The value compared with the bound."""
        return ratio(value, default) if self.is_relative else value

    def excess(self, value: float, default: float) -> float:
        """How far a run is beyond the bound, as a share of it: 0 or less is within it."""
        over = self.value(value, default) - self.bound
        return (-over if self.is_lower else over) / (abs(self.bound) or 1.0)


def ratio(value: float, default: float) -> float:
    """``value`` next to that of the defaults. Where the defaults have 0, the value plus one."""
    return value / default if default > 0 else 1.0 + value


def measure(name: str) -> Measure:
    """A measure by name: one of :data:`NAMED`, a metric (lower is better), or ``max:METRIC``.

    Raises ``ValueError`` with what is allowed.
    """
    metric, is_raised = (name[4:], True) if name.startswith("max:") else (name, False)
    if metric in NAMED:
        return Measure(name, NAMED[metric], is_raised)
    if metric in _native.metric_names():
        return Measure(name, (metric,), is_raised)
    raise ValueError(
        f"`{name}` is no objective; allowed: {', '.join(NAMED)}, a metric such as `major_faults` (docs/use/report.md#metrics), or "
        "`max:METRIC` for one that is better high"
    )


def measures(asked: Union[str, Sequence[str]]) -> tuple[Measure, ...]:
    """All objectives of a call. Raises ``ValueError`` for none, unknown ones, or one twice."""
    names = [asked] if isinstance(asked, str) else list(asked)
    if not names:
        raise ValueError("objective: there must be at least one")
    if len(set(names)) < len(names):
        raise ValueError(f"objective: {', '.join(names)} names one twice")
    return tuple(measure(name) for name in names)


def constraint(text: str) -> Constraint:
    """``"runtime <= 2 %"`` (at most 2 % above the defaults), ``"memory <= 64MiB"``, ``"operations >= 1000"``.

    Raises ``ValueError`` with what is allowed.
    """
    parts = _CONSTRAINT.match(text)
    wrong = f"constraint `{text}`: "
    if parts is None:
        raise ValueError(f"{wrong}allowed: NAME <= NUMBER UNIT or NAME >= NUMBER UNIT, as in `runtime <= 2 %`")
    try:
        of, number = measure(parts["name"]), float(parts["number"])
    except ValueError as error:
        raise ValueError(f"{wrong}{error}") from None
    is_lower = parts["sign"] == ">="
    if parts["unit"] == "%":
        if number <= -100:
            raise ValueError(f"{wrong}percent are counted from the defaults; allowed: more than -100 %")
        return Constraint(text.strip(), of, True, 1 + number / 100, is_lower)
    units = _UNITS[of.unit]
    if parts["unit"] not in units:
        allowed = ", ".join(["%", *(unit or "no unit" for unit in units)])
        raise ValueError(f"{wrong}unit `{parts['unit']}`; allowed: {allowed}")
    if number < 0:
        raise ValueError(f"{wrong}allowed: 0 and more")
    return Constraint(text.strip(), of, False, number * units[parts["unit"]], is_lower)
