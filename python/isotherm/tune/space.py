"""The space of tuning: configurations by name with their parameters, or keys of the scenario by path."""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional

from .keys import parameters_of, set_key
from .parameter import Fitted, Parameter, Value
from .parts import PARTS, apply_compaction, apply_tiering, compaction, tiering

if TYPE_CHECKING:
    import optuna

#: Parameter that stands for the limit, as a share of the case's peak memory; above 1 there is none.
MEMORY = Parameter("memory", "share", 1.05, 0.15, 1.05)

#: Policies that Linux has, with what can work beside them.
CONFIGURATIONS = (
    "classic",
    "classic + lru_sort",
    "classic + reclaim",
    "classic + pageout",
    "classic + limits",
    "mglru",
    "mglru + lru_sort",
    "mglru + reclaim",
    "mglru + pageout",
    "mglru + proactive",
    "mglru + limits",
)


@dataclass(frozen=True)
class Setting:
    """A point of a space."""

    configuration: str
    #: By name of the parameter.
    values: tuple[tuple[str, Value], ...]

    @property
    def memory(self) -> Optional[float]:
        """The limit as a share of the peak; ``None`` without one."""
        share = dict(self.values).get("memory")
        return None if share is None or float(share) > 1 else float(share)


#: The case as it is, without any change.
AS_IT_IS = Setting("as it is", ())


class Space:
    """All settings: configurations, each with parameters of its own, and common ones."""

    def __init__(
        self, fitted: Fitted, configurations: Sequence[str], common: Sequence[Parameter], keys: Sequence[Parameter] = ()
    ) -> None:
        self.fitted = fitted
        self.configurations = tuple(configurations)
        self.common = tuple(common)
        self.keys = tuple(keys)
        for name in self.configurations:
            for part in name.split(" + ")[1:]:
                if part not in PARTS:
                    raise ValueError(f"configuration `{name}`: `{part}` is not known; allowed: {', '.join(PARTS)}")

    def parameters(self, configuration: str) -> list[Parameter]:
        """The parameters that count under a configuration."""
        own = [one for part in configuration.split(" + ")[1:] for one in PARTS[part].parameters(self.fitted)]
        return [*self.common, *own, *self.keys]

    def suggest(self, trial: optuna.trial.Trial) -> Setting:
        """The next setting to try."""
        configuration = trial.suggest_categorical("configuration", list(self.configurations))
        values = [(one.name, one.suggest(trial)) for one in self.parameters(configuration)]
        return Setting(configuration, tuple(values))

    def starts(self) -> list[dict[str, Value]]:
        """Each configuration with its defaults: the first settings to try."""
        return [
            {"configuration": name, **{one.name: one.default for one in self.parameters(name)}}
            for name in self.configurations
        ]

    def texts(self, setting: Setting) -> dict[str, Value]:
        """The parameters of a setting in a scenario's form."""
        known = {one.name: one for one in self.parameters(setting.configuration)} if setting != AS_IT_IS else {}
        texts = {name: known[name].text(value) for name, value in setting.values}
        if "memory" in texts and setting.memory is None:
            texts["memory"] = "unlimited"
        return texts

    def apply(self, setting: Setting, scenario: Mapping[str, Any]) -> dict[str, Any]:
        """The scenario with a setting put into it, except its limit, which depends on the peak of the case."""
        changed: dict[str, Any] = copy.deepcopy(dict(scenario))
        if setting == AS_IT_IS:
            return changed
        policy, *parts = setting.configuration.split(" + ")
        if policy != AS_IT_IS.configuration:
            changed["policy"] = policy
        values, texts = dict(setting.values), self.texts(setting)
        for part in parts:
            own = {name[len(part) + 1 :]: value for name, value in values.items() if name.startswith(part + ".")}
            own_texts = {name[len(part) + 1 :]: text for name, text in texts.items() if name.startswith(part + ".")}
            PARTS[part].apply(changed, own, own_texts, self.fitted)
        if "tiering.policy" in values:
            apply_tiering(changed, values)
        if "compaction.design" in values:
            apply_compaction(changed, values)
        for key in self.keys:
            set_key(changed, key.name, texts[key.name])
        return changed


def usual_space(
    scenarios: Sequence[Mapping[str, Any]], fitted: Fitted, configurations: Optional[Sequence[str]]
) -> Space:
    """The space of some cases: policies with schemes and tools, limits, and further keys of the machine."""
    common = [MEMORY]
    has_tiers = any("tiering" in scenario for scenario in scenarios)
    wants_blocks = any("compaction" in scenario or _asks_for_huge_pages(scenario) for scenario in scenarios)
    if has_tiers or wants_blocks:
        # These cases are short of memory on a tier or of huge pages, not in a group.
        common = [*(tiering(fitted) if has_tiers else []), *(compaction(fitted) if wants_blocks else [])]
        configurations = configurations or [AS_IT_IS.configuration]
    return Space(fitted, configurations or CONFIGURATIONS, common)


def _asks_for_huge_pages(scenario: Mapping[str, Any]) -> bool:
    return any(workload.get("load", {}).get("kind") == "huge-pages" for workload in scenario.get("workloads", []))


def keys_space(asked: Mapping[str, object], fitted: Fitted) -> Space:
    """The space of keys by path, see :func:`parameters_of`. Raises ``ValueError``."""
    return Space(fitted, [AS_IT_IS.configuration], [], parameters_of(asked))
