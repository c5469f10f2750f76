"""Runs turned into scores: next to the defaults on the same seed, and one number over all cases."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Optional

import numpy as np

from .. import _native
from ..sweep.executors import Answer, Executor, Row
from .case import Case
from .objective import Constraint, Measure, ratio
from .space import AS_IT_IS, Setting, Space


@dataclass(frozen=True)
class Robust:
    """Rule that joins scores of several cases: the worst, a quantile, or the mean."""

    name: str
    quantile: Optional[float]

    def of(self, scores: Sequence[float]) -> float:
        """One score: low is good."""
        if self.quantile is None:
            return float(np.mean(scores))
        return float(np.quantile(scores, self.quantile, method="higher"))


def robust(name: str) -> Robust:
    """``"worst"``, ``"quantile:0.9"`` or ``"mean"``. Raises ``ValueError``."""
    if name == "worst":
        return Robust(name, 1.0)
    if name == "mean":
        return Robust(name, None)
    kind, _, number = name.partition(":")
    try:
        quantile = float(number)
    except ValueError:
        quantile = -1.0
    if kind != "quantile" or not 0 < quantile <= 1:
        raise ValueError(f"robust: `{name}`; allowed: worst, mean, or quantile:Q with Q above 0 and up to 1")
    return Robust(name, quantile)


@dataclass(frozen=True)
class Score:
    """A setting on one seed, over all cases."""

    #: For each objective next to the defaults: below 1 is better than they are.
    objectives: tuple[float, ...]
    #: For each constraint, how far beyond its bound: 0 or less is within it.
    excesses: tuple[float, ...]
    #: For each objective the plain values, in the order of cases and workloads.
    values: tuple[tuple[float, ...], ...]
    #: What each constraint is of, likewise next to its bound.
    constrained: tuple[float, ...]
    failure: Optional[str] = None


class Scorer:
    """Plays settings on seeds and scores them. Results are kept, so nothing is played twice."""

    def __init__(
        self,
        cases: list[Case],
        space: Space,
        executor: Executor,
        objectives: tuple[Measure, ...],
        constraints: tuple[Constraint, ...],
        over_cases: Robust,
    ) -> None:
        self.cases, self.space, self.executor = cases, space, executor
        self.objectives, self.constraints, self.over_cases = objectives, constraints, over_cases
        self._played: dict[tuple[Setting, int], list[Answer]] = {}
        #: Seeds that each setting was played on, in order, for the record.
        self.seeds_played: dict[Setting, list[int]] = {}
        #: Runs played so far.
        self.runs = 0

    def scores(self, asked: Sequence[tuple[Setting, int]]) -> list[Score]:
        """A score for each setting and seed, in this order."""
        wanted = [(AS_IT_IS, seed) for _, seed in asked] + list(asked)
        new = list(dict.fromkeys(pair for pair in wanted if pair not in self._played))
        jobs = []
        answers: list[Optional[Answer]] = []
        for setting, seed in new:
            for case in self.cases:
                number = len(answers)
                answers.append(None)
                try:
                    jobs.append(case.job(number, seed, setting, self.space))
                except (_native.Error, ValueError) as error:
                    # Incompatible keys: such a setting fails, and the search goes on.
                    answers[number] = Answer(number, 0.0, str(error))
        for answer in self.executor.play(jobs):
            answers[answer.number] = answer
        self.runs += len(jobs)
        for at, pair in enumerate(new):
            own = answers[at * len(self.cases) : (at + 1) * len(self.cases)]
            self._played[pair] = [answer or Answer(0, 0.0, "no answer came") for answer in own]
            self.seeds_played.setdefault(pair[0], []).append(pair[1])
        return [self._score(self._played[pair], self._played[(AS_IT_IS, pair[1])]) for pair in asked]

    def parts(self) -> list[str]:
        """Subject of each plain value: the case, and the workload if a case has several."""
        names = []
        for case, answer in zip(self.cases, next(iter(self._played.values()))):
            rows = [row.workload for row in answer.rows if row.workload != "system"]
            names += [case.name] if len(rows) == 1 else [f"{case.name}/{row}" for row in rows]
        return names

    def _score(self, played: list[Answer], defaults: list[Answer]) -> Score:
        ratios: list[list[float]] = [[] for _ in self.objectives]
        plain: list[list[float]] = [[] for _ in self.objectives]
        excesses: list[list[float]] = [[] for _ in self.constraints]
        constrained: list[list[float]] = [[] for _ in self.constraints]
        for case, answer, default in zip(self.cases, played, defaults):
            failure = answer.error or default.error or _killed(answer)
            if failure is not None:
                return self._failed(f"{case.name}: {failure}")
            beside = {row.workload: row.values for row in default.rows}
            system, system_default = _system(answer.rows), _system(default.rows)
            for row in answer.rows:
                if row.workload == "system":
                    continue
                own = beside.get(row.workload, {})
                for place, objective in enumerate(self.objectives):
                    value, usual = objective.of({**system, **row.values}), objective.of({**system_default, **own})
                    if value is None or usual is None:
                        return self._failed(f"{case.name}: `{row.workload}` has no {' or '.join(objective.metrics)}")
                    plain[place].append(value)
                    ratios[place].append(ratio(usual, value) if objective.is_raised else ratio(value, usual))
                for place, bound in enumerate(self.constraints):
                    value, usual = (
                        bound.measure.of({**system, **row.values}),
                        bound.measure.of({**system_default, **own}),
                    )
                    if value is None or usual is None:
                        return self._failed(
                            f"{case.name}: `{row.workload}` has no {' or '.join(bound.measure.metrics)}"
                        )
                    excesses[place].append(bound.excess(value, usual))
                    constrained[place].append(bound.value(value, usual))
        over = self.over_cases.of
        return Score(
            tuple(over(own) for own in ratios),
            tuple(over(own) for own in excesses),
            tuple(tuple(own) for own in plain),
            tuple(
                -over([-value for value in own]) if bound.is_lower else over(own)
                for bound, own in zip(self.constraints, constrained)
            ),
        )

    def _failed(self, why: str) -> Score:
        return Score((), (), (), (), why)


def _killed(answer: Answer) -> Optional[str]:
    killed = [row.workload for row in answer.rows if row.ending == "killed"]
    return f"{', '.join(killed)} was killed for lack of memory" if killed else None


def _system(rows: Sequence[Row]) -> Mapping[str, float]:
    """CPU time of kernel threads, which is only in the row of the whole machine if there is one."""
    return next((row.values for row in rows if row.workload == "system"), {})
