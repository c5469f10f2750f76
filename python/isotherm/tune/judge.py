"""The final judgement: the chosen point and the defaults on fresh seeds, which were not used before."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np

from .interval import Interval, interval
from .objective import Constraint, Measure
from .score import Score, Scorer
from .space import AS_IT_IS, Setting


@dataclass(frozen=True)
class Figure:
    """An objective of a point."""

    name: str
    #: Next to the defaults on the same seeds: below 1 is better than they are.
    ratio: Interval
    #: Means in the unit of the objective for each case and workload, and those of the defaults.
    values: tuple[float, ...]
    defaults: tuple[float, ...]

    @property
    def gain(self) -> float:
        """Improvement over the defaults, as a factor."""
        return 1 / self.ratio.mean if self.ratio.mean > 0 else float("inf")

    @property
    def is_surely_worse(self) -> bool:
        """Whether the whole interval is worse than the defaults."""
        return self.ratio.mean > 1 if self.ratio.low is None else self.ratio.low > 1


@dataclass(frozen=True)
class Kept:
    """A constraint of a point."""

    text: str
    #: What is held against the bound: next to the defaults, or in its unit.
    value: Interval
    worst: float
    bound: float
    #: Whether the mean keeps it; whether the whole interval does; and on how many seeds it is kept.
    is_met: bool
    is_sure: bool
    seeds_met: int


@dataclass(frozen=True)
class Point:
    """A setting with its figures."""

    configuration: str
    #: Parameters as a scenario says them.
    settings: dict[str, Any]
    setting: Setting
    figures: tuple[Figure, ...]
    constraints: tuple[Kept, ...]
    #: The seeds that the figures are of; empty if it was not judged.
    seeds: tuple[int, ...]
    failure: Optional[str] = None

    @property
    def is_feasible(self) -> bool:
        """Whether it ran on all seeds and keeps all constraints in the mean."""
        return self.failure is None and all(kept.is_met for kept in self.constraints)

    def to_dict(self) -> dict[str, Any]:
        """All figures by name."""
        return {
            "configuration": self.configuration,
            "settings": self.settings,
            "feasible": self.is_feasible,
            "failure": self.failure,
            "objectives": [
                {
                    "name": one.name,
                    "ratio": one.ratio.to_dict(),
                    "gain": one.gain,
                    "values": one.values,
                    "defaults": one.defaults,
                }
                for one in self.figures
            ],
            "constraints": [
                {
                    "constraint": kept.text,
                    "value": kept.value.to_dict(),
                    "worst": kept.worst,
                    "bound": kept.bound,
                    "met": kept.is_met,
                    "surely_met": kept.is_sure,
                    "seeds_met": kept.seeds_met,
                }
                for kept in self.constraints
            ],
            "seeds": list(self.seeds),
        }


def judge(settings: Sequence[Setting], seeds: Sequence[int], scorer: Scorer) -> list[Point]:
    """Plays settings and the defaults on the same seeds, and compares them pair by pair."""
    asked = [AS_IT_IS, *settings]
    scores = scorer.scores([(setting, seed) for setting in asked for seed in seeds])
    count = len(seeds)
    by_setting = [scores[place * count : (place + 1) * count] for place in range(len(asked))]
    return [point(setting, own, by_setting[0], seeds, scorer) for setting, own in zip(settings, by_setting[1:])]


def point(
    setting: Setting, scores: Sequence[Score], defaults: Sequence[Score], seeds: Sequence[int], scorer: Scorer
) -> Point:
    """The figures of a setting from its scores on these seeds."""
    failure = next((score.failure for score in scores if score.failure is not None), None)
    figures: tuple[Figure, ...] = ()
    kept: tuple[Kept, ...] = ()
    if failure is None:
        figures = tuple(_figure(one, at, scores, defaults) for at, one in enumerate(scorer.objectives))
        kept = tuple(_kept(one, at, scores) for at, one in enumerate(scorer.constraints))
    texts = scorer.space.texts(setting)
    return Point(setting.configuration, texts, setting, figures, kept, tuple(seeds), failure)


def _figure(objective: Measure, place: int, scores: Sequence[Score], defaults: Sequence[Score]) -> Figure:
    def means(of: Sequence[Score]) -> tuple[float, ...]:
        return tuple(float(mean) for mean in np.mean([score.values[place] for score in of], axis=0))

    ratios = [score.objectives[place] for score in scores]
    return Figure(objective.name, interval(ratios), means(scores), means(defaults))


def _kept(constraint: Constraint, place: int, scores: Sequence[Score]) -> Kept:
    values = [score.constrained[place] for score in scores]
    met = [score.excesses[place] <= 0 for score in scores]
    mean, bound = interval(values), constraint.bound
    if constraint.is_lower:
        end = mean.mean if mean.low is None else mean.low
        return Kept(constraint.text, mean, min(values), bound, mean.mean >= bound, end >= bound, sum(met))
    end = mean.mean if mean.high is None else mean.high
    return Kept(constraint.text, mean, max(values), bound, mean.mean <= bound, end <= bound, sum(met))
