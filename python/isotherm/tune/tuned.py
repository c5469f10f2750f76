"""The answer of tuning."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Optional

from .._native import Error
from .case import Case
from .judge import Point
from .parts import TIERING
from .race import Trial
from .seeds import Seeds
from .space import AS_IT_IS, Space
from .world import world


class TuneError(Error):
    """Tuning has no answer, or the answer cannot be given in this form."""


@dataclass
class Tuned:
    """Result of :func:`isotherm.tune.tune`. ``print`` shows it in short."""

    #: The chosen point, judged on fresh seeds. It is the defaults where nothing better keeps the constraints.
    best: Point
    #: Points that no other beats in all objectives and constraints, judged likewise, by the first objective.
    front: list[Point]
    objectives: tuple[str, ...]
    constraints: tuple[str, ...]
    seeds: Seeds
    trials: list[Trial]
    sampler: str
    robust: str
    #: Whether it was interrupted: figures are of the tuning seeds then, and prove nothing.
    is_partial: bool
    runs: int
    #: What the values of a figure are of.
    parts: list[str]
    cases: list[Case] = field(repr=False)
    space: Space = field(repr=False)

    @property
    def failures(self) -> dict[str, tuple[int, int, str]]:
        """By configuration: trials that did not run, all trials, and the first reason."""
        counted: dict[str, tuple[int, int, str]] = {}
        for trial in self.trials:
            failed, tried, why = counted.get(trial.setting.configuration, (0, 0, ""))
            failure = trial.failure
            counted[trial.setting.configuration] = (failed + (failure is not None), tried + 1, why or failure or "")
        return {name: row for name, row in counted.items() if row[0] > 0}

    def scenario(self, case: Optional[str] = None) -> str:
        """The chosen point as a scenario for ``isotherm simulate``, next to the defaults, on the fresh seeds.

        ``case``: name of a case [default: the only one].
        """
        of = self._case(case)
        table = self._table(of)
        share = self.best.setting.memory
        size_bytes = None if share is None else share * of.peak_bytes
        if of.is_recording:
            cpus = of.scenario["machine"]["cpus"]
            table["worlds"] = [world(seed, of.runtime_ns, cpus, size_bytes) for seed in self.seeds.fresh]
            table["repeats"] = 1
        elif self._is_counted(self.seeds.fresh):
            table["seed"], table["repeats"] = self.seeds.fresh[0], len(self.seeds.fresh)
        else:
            table["worlds"] = [{"seed": seed} for seed in self.seeds.fresh]
            table["repeats"] = 1
        table["against"] = "defaults"
        table["variants"] = [{"name": "tuned", "patch": {}}, {"name": "defaults", "patch": self._back(of)}]
        return of.text(table)

    def configuration(self, case: Optional[str] = None) -> str:
        """The chosen point as the file that ``isotherm apply`` takes, as ``isotherm advise --config`` writes it.

        Limit and policy are set by ``isotherm apply FILE --cgroup PATH``; monitors and schemes are written for
        ``isotherm daemon run`` by ``--daemon-config``. Raises :class:`TuneError` for settings that a live machine cannot have this
        way.
        """
        missing = self.not_live()
        if missing:
            raise TuneError(
                f"the chosen point has no live configuration: {'; '.join(missing)}; its scenario is .scenario()"
            )
        of = self._case(case)
        return of.text({**self._table(of), "repeats": 1})

    def not_live(self) -> list[str]:
        """Why the chosen point cannot be set on a live machine, a reason each; empty if it can."""
        missing = []
        policy = self.space.apply(self.best.setting, self.cases[0].scenario).get("policy", "classic")
        if policy not in ("classic", "mglru"):
            missing.append(f"Linux has no policy `{policy}`")
        values = dict(self.best.setting.values)
        tiering = values.get("tiering.policy", "none")
        if tiering in TIERING and tiering not in ("none", "rch", "v0", "v1", "v2", "v3", "numa-mode-2"):
            missing.append(f"`isotherm apply` has no section for tiering by `{tiering}`")
        if self.best.setting.memory is not None and any(len(case.scenario["workloads"]) > 1 for case in self.cases):
            missing.append(
                "its limit is a share of each workload's peak, and `isotherm apply` takes bytes for one group"
            )
        for key in self.space.keys:
            if key.name.split(".")[0] in ("machine", "workloads"):
                missing.append(f"`{key.name}` is a key of the simulated machine, and `isotherm apply` does not set it")
        return missing

    def to_dict(self) -> dict[str, Any]:
        """The whole answer. Equal calls give equal answers."""
        return {
            "objectives": list(self.objectives),
            "constraints": list(self.constraints),
            "cases": self.parts,
            "sampler": self.sampler,
            "robust": self.robust,
            "partial": self.is_partial,
            "trials": len(self.trials),
            "runs": self.runs,
            "seeds": {
                "tuning": list(self.seeds.tuning),
                "choosing": list(self.seeds.choosing),
                "confirming": list(self.seeds.confirming),
                "fresh": list(self.seeds.fresh),
            },
            "best": self.best.to_dict(),
            "front": [point.to_dict() for point in self.front],
            "failures": [
                {"configuration": name, "failed": failed, "tried": tried, "first": why}
                for name, (failed, tried, why) in sorted(self.failures.items())
            ],
            "trial_rows": [
                {
                    "number": trial.number,
                    "configuration": trial.setting.configuration,
                    "settings": self.space.texts(trial.setting),
                    "seeds": len(trial.scores),
                    "dropped": trial.dropped,
                    "objectives": None if trial.failure else list(trial.objectives),
                    "excesses": None if trial.failure else list(trial.excesses),
                }
                for trial in self.trials
            ],
        }

    def to_json(self) -> str:
        """The whole answer as one document."""
        return json.dumps(self.to_dict(), indent=2) + "\n"

    def report(self, format: str = "html") -> str:
        """A page for a browser, or ``"markdown"``."""
        from . import report

        if format == "markdown":
            return report.markdown(self)
        if format == "html":
            return report.page(self)
        raise ValueError(f"format: `{format}`; allowed: html, markdown")

    def __str__(self) -> str:
        return self.report("markdown")

    def _repr_html_(self) -> str:
        from . import report

        return report.body(self)

    def _case(self, name: Optional[str]) -> Case:
        names = [case.name for case in self.cases]
        if name is None and len(names) == 1:
            return self.cases[0]
        if name is None or name not in names:
            raise ValueError(f"case: {name}; allowed: {', '.join(names)}")
        return self.cases[names.index(name)]

    def _table(self, case: Case) -> dict[str, Any]:
        """The case with the chosen point, its limit in bytes."""
        table = self.space.apply(self.best.setting, case.scenario)
        share = self.best.setting.memory
        if share is not None:
            table["limit"] = case.limit(share)
        return table

    def _back(self, case: Case) -> dict[str, Any]:
        """The patch that changes the chosen point back to the defaults."""
        tuned, patch = self._table(case), {}
        for key in sorted({*tuned, *case.scenario}):
            if tuned.get(key) == case.scenario.get(key):
                continue
            if key == "limit":
                patch[key] = case.scenario.get(key) or f"{case.machine_kib}KiB"
            else:
                patch[key] = case.scenario.get(key, "classic" if key == "policy" else [])
        return patch

    @staticmethod
    def _is_counted(seeds: Sequence[int]) -> bool:
        return list(seeds) == list(range(seeds[0], seeds[0] + len(seeds)))


def as_it_is(point: Point) -> bool:
    """Whether a point equals the defaults."""
    return point.setting == AS_IT_IS
