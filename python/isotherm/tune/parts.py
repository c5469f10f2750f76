"""Schemes and tools that a scenario can add to its policy, with the parameters of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from .parameter import Fitted, Parameter, Value

#: Texts of a part's parameters by their short name, and the values behind them.
Texts = Mapping[str, Value]


@dataclass(frozen=True)
class Part:
    """A scheme or tool that runs with a policy: its parameters, and how it is put into a scenario."""

    name: str
    parameters: Callable[[Fitted], list[Parameter]]
    apply: Callable[[dict[str, Any], Mapping[str, Value], Texts, Fitted], None]


def _times(part: str, fitted: Fitted, age: str) -> list[Parameter]:
    """Ages, quotas and intervals that all monitors have."""
    longest = max(fitted.runtime_ns / 2, 2e8)
    return [
        Parameter(f"{part}.{age}", "time", fitted.cold_ns, 2e7, longest, is_log=True),
        Parameter(f"{part}.quota-time", "time", max(fitted.window_ns / 100, 2e6), 2e6, fitted.window_ns, is_log=True),
        Parameter(f"{part}.aggr-interval", "time", 1e8, 1e7, max(fitted.window_ns, 1e8), is_log=True),
        Parameter(f"{part}.max-nr-regions", "integer", 1000, 50, 4000, is_log=True),
    ]


def _quota_time(values: Mapping[str, Value]) -> str:
    """Quotas are whole milliseconds; two schemes share one."""
    return f"{max(round(float(values['quota-time']) / 1e6), 2)}ms"


def _intervals(values: Mapping[str, Value]) -> dict[str, Value]:
    aggregation_us = max(round(float(values["aggr-interval"]) / 1e3 / 20), 500) * 20
    return {
        "sample-interval": f"{aggregation_us // 20}us",
        "aggr-interval": f"{aggregation_us}us",
        "min-nr-regions": 10,
        "max-nr-regions": values["max-nr-regions"],
    }


def _age(values: Mapping[str, Value], key: str) -> str:
    """Less than an aggregation cannot be seen."""
    return f"{round(max(float(values[key]), float(values['aggr-interval'])) / 1e3)}us"


def _preset(name: str, values: Mapping[str, Value], fitted: Fitted) -> dict[str, Any]:
    """A preset without marks: they are of free memory of the machine, but here a group is limited."""
    return {
        "preset": name,
        "quota-time": _quota_time(values),
        "quota-reset-interval": f"{round(fitted.window_ns / 1e3)}us",
        "wmarks-interval": "100ms",
        "wmarks-high": "100%",
        "wmarks-mid": "100%",
        **_intervals(values),
    }


def _lru_sort(scenario: dict[str, Any], values: Mapping[str, Value], texts: Texts, fitted: Fitted) -> None:
    preset = _preset("lru-sort", values, fitted)
    preset.update(
        {"cold-min-age": _age(values, "cold-min-age"), "hot-thres-access-freq": texts["hot-thres-access-freq"]}
    )
    scenario.setdefault("monitors", []).append({"name": "lru_sort", "preset": preset})


def _reclaim(scenario: dict[str, Any], values: Mapping[str, Value], texts: Texts, fitted: Fitted) -> None:
    preset = _preset("reclaim", values, fitted)
    preset.update({"min-age": _age(values, "min-age"), "quota-size": "0B", "skip-anon": values["skip-anon"]})
    scenario.setdefault("monitors", []).append({"name": "reclaim", "preset": preset})


def _pageout(scenario: dict[str, Any], values: Mapping[str, Value], texts: Texts, fitted: Fitted) -> None:
    scheme = {
        "action": "pageout",
        "access-pattern": {"nr-accesses": {"max": texts["nr-accesses"]}, "age": {"min": _age(values, "min-age")}},
        "quotas": {"time": _quota_time(values), "reset-interval": f"{round(fitted.window_ns / 1e3)}us"},
    }
    config = {"operations": "vaddr", "attributes": _intervals(values), "schemes": [scheme]}
    scenario.setdefault("monitors", []).append({"name": "pageout", "config": config})


def _proactive(scenario: dict[str, Any], values: Mapping[str, Value], texts: Texts, fitted: Fitted) -> None:
    threshold_us = max(round(float(values["threshold"]) / 1e3), 30_000)
    interval_us = -(-threshold_us * round(float(values["interval"]) * 1000) // 1000)
    tool = {
        "name": "proactive",
        "mode": "reclaim",
        "threshold": f"{threshold_us}us",
        "interval": f"{min(interval_us, threshold_us)}us",
        "swappiness": values["swappiness"],
        "pressure": texts["pressure"],
    }
    scenario.setdefault("generations", []).append(tool)


def _limits(scenario: dict[str, Any], values: Mapping[str, Value], texts: Texts, fitted: Fitted) -> None:
    interval_ms = max(round(float(values["interval"]) / 1e6), 100)
    squeeze = float(values["squeeze"])
    workload = scenario["workloads"][0]
    scenario.setdefault("limits", []).append(
        {
            "target": workload.get("cgroup") or "/" + workload["name"].replace("/", "-"),
            "goal": {"pressure-some": texts["pressure-some"], "refaults": f"{values['refaults']}/s"},
            "squeeze": f"{round(squeeze * 100, 2)}%",
            "relax": f"{round(max(0.05, squeeze * 2) * 100, 2)}%",
            "floor": "1MiB",
            "interval": f"{interval_ms}ms",
            "backoff": f"{interval_ms * 6}ms",
            "backoff-max": f"{interval_ms * 120}ms",
        }
    )


#: What a scenario can have beside its policy.
PARTS: dict[str, Part] = {
    part.name: part
    for part in [
        Part(
            "lru_sort",
            lambda fitted: [
                *_times("lru_sort", fitted, "cold-min-age"),
                Parameter("lru_sort.hot-thres-access-freq", "share", 0.5, 0.05, 0.95),
            ],
            _lru_sort,
        ),
        Part(
            "reclaim",
            lambda fitted: [
                *_times("reclaim", fitted, "min-age"),
                Parameter("reclaim.skip-anon", "choice", False, choices=(False, True)),
            ],
            _reclaim,
        ),
        Part(
            "pageout",
            lambda fitted: [
                *_times("pageout", fitted, "min-age"),
                Parameter("pageout.nr-accesses", "share", 0.0, 0.0, 0.2),
            ],
            _pageout,
        ),
        Part(
            "proactive",
            lambda fitted: [
                Parameter(
                    "proactive.threshold", "time", fitted.cold_ns, 3e7, max(fitted.runtime_ns / 2, 2e8), is_log=True
                ),
                Parameter("proactive.interval", "share", 0.5, 0.34, 1.0),
                Parameter("proactive.swappiness", "integer", 60, 0, 200),
                Parameter("proactive.pressure", "share", 0.001, 0.0005, 0.5, is_log=True),
            ],
            _proactive,
        ),
        Part(
            "limits",
            lambda fitted: [
                Parameter("limits.pressure-some", "share", 0.001, 0.0002, 0.2, is_log=True),
                Parameter("limits.refaults", "integer", 50, 1, 20_000, is_log=True),
                Parameter("limits.squeeze", "share", 0.01, 0.002, 0.2, is_log=True),
                Parameter(
                    "limits.interval", "time", min(max(fitted.runtime_ns / 100, 1e8), 5e9), 1e8, 5e9, is_log=True
                ),
            ],
            _limits,
        ),
    ]
}

#: Policies over tiers of memory, for scenarios that have `[tiering]`.
TIERING = ("none", "v0", "v1", "v2", "v3", "rch", "numa-mode-1", "numa-mode-2", "damon-migrate")


def tiering(fitted: Fitted) -> list[Parameter]:
    return [
        Parameter("tiering.policy", "choice", "none", choices=TIERING),
        Parameter("tiering.promotion.mm-scan-period", "time", 2e9, 1e9, 30e9, is_log=True),
    ]


def apply_tiering(scenario: dict[str, Any], values: Mapping[str, Value]) -> None:
    policy = values["tiering.policy"]
    tiering: dict[str, Any] = {"policy": policy}
    if policy in ("v0", "v1", "v2", "v3", "rch"):
        tiering["promotion"] = {"mm-scan-period": f"{round(float(values['tiering.promotion.mm-scan-period']) / 1e6)}ms"}
    scenario["tiering"] = tiering


#: Designs of compaction, for scenarios that have `[[compaction]]` or ask for huge pages.
DESIGNS = ("none", "merged", "explicit", "controller")


def compaction(fitted: Fitted) -> list[Parameter]:
    # Huge pages of 2 MiB to keep free: at most half of a node.
    keep_max = min(max(fitted.node_kib // 2048 // 2, 2), 4096)
    return [
        Parameter("compaction.design", "choice", "none", choices=DESIGNS),
        Parameter("compaction.proactiveness", "integer", 20, 1, 100),
        Parameter("compaction.low", "integer", 25, 0, 95),
        Parameter("compaction.keep", "integer", min(64, keep_max), 1, keep_max, is_log=True),
    ]


def apply_compaction(scenario: dict[str, Any], values: Mapping[str, Value]) -> None:
    design = values["compaction.design"]
    low = int(values["compaction.low"])
    keys: dict[Any, dict[str, Any]] = {
        "merged": {"proactiveness": values["compaction.proactiveness"]},
        "explicit": {"low": low, "high": low + 5},
        "controller": {"keep": values["compaction.keep"]},
    }
    if design == "none":
        scenario.pop("compaction", None)
    else:
        scenario["compaction"] = [{"name": "kcompactd", "design": design, **keys[design]}]
