"""Races: a trial plays seed after seed, and drops out once it can no longer be better than the best so far."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Optional

import numpy as np

from .interval import t975
from .score import Score, Scorer
from .space import Setting

#: With one seed there is no spread to judge by: a trial that is worse by this share is given up.
_CLEARLY_WORSE = 0.05
#: Likewise one that is beyond a bound by this share of it.
_CLEARLY_BROKEN = 0.01


@dataclass
class Trial:
    """A setting that was tried, with its scores on the first tuning seeds."""

    number: int
    setting: Setting
    scores: list[Score] = field(default_factory=list)
    #: Why it dropped out: ``"failed"``, ``"constraint"``, ``"worse"``; ``None`` if it has been on all seeds.
    dropped: Optional[str] = None

    @property
    def failure(self) -> Optional[str]:
        """Message: why it does not run."""
        return next((score.failure for score in self.scores if score.failure is not None), None)

    @property
    def objectives(self) -> tuple[float, ...]:
        """Means over its seeds."""
        return tuple(float(np.mean(own)) for own in zip(*(score.objectives for score in self.scores)))

    @property
    def excesses(self) -> tuple[float, ...]:
        """For each constraint the distance beyond its bound, mean over its seeds."""
        return tuple(float(np.mean(own)) for own in zip(*(score.excesses for score in self.scores)))

    @property
    def figures(self) -> tuple[float, ...]:
        """All values to minimise: objectives, and distances from constraints."""
        return (*self.objectives, *self.excesses)

    @property
    def is_feasible(self) -> bool:
        """Whether it ran, and keeps all constraints in the mean over its seeds."""
        return self.failure is None and all(excess <= 0 for excess in self.excesses)

    @property
    def breaks_constraint(self) -> bool:
        """Whether it will break a constraint: a single seed must show so clearly."""
        allowed = _CLEARLY_BROKEN if len(self.scores) == 1 else 0.0
        return any(excess > allowed for excess in self.excesses)


def is_surely_worse(trial: Trial, best: Trial) -> bool:
    """Whether ``best`` is better in every objective, beyond the spread of their differences on the same seeds."""
    n = len(trial.scores)
    for place in range(len(trial.scores[0].objectives)):
        own = [score.objectives[place] for score in trial.scores]
        other = [score.objectives[place] for score in best.scores[:n]]
        differences = np.subtract(own, other)
        spread = _CLEARLY_WORSE * abs(float(np.mean(other)))
        if n >= 2:
            spread = t975(n - 1) * float(np.std(differences, ddof=1)) / math.sqrt(n)
        if float(np.mean(differences)) <= spread:
            return False
    return True


def race(trials: list[Trial], leaders: Sequence[Trial], seeds: Sequence[int], scorer: Scorer, prunes: bool) -> None:
    """Plays trials on the seeds, one seed after the other.

    ``leaders``: complete trials. A trial that is significantly worse than one of them, or breaks a constraint, drops out.
    """
    running = list(trials)
    for seed in seeds:
        for trial, score in zip(running, scorer.scores([(trial.setting, seed) for trial in running])):
            trial.scores.append(score)
            if score.failure is not None:
                trial.dropped = "failed"
            elif trial.breaks_constraint and prunes:
                trial.dropped = "constraint"
        if prunes and seed != seeds[-1]:
            for trial in running:
                if trial.dropped is None and any(is_surely_worse(trial, leader) for leader in leaders):
                    trial.dropped = "worse"
        running = [trial for trial in running if trial.dropped is None]
        if not running:
            return
