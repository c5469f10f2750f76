"""Tuning from end to end: read the cases, search, choose, judge."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional, Union

from ..sweep.executors import Executor, LocalExecutor
from .case import Case, Source, case_of, measure_defaults
from .judge import Point, judge, point
from .objective import constraint, measures
from .parameter import Fitted
from .race import Trial
from .score import Scorer
from .score import robust as robust_named
from .search import SAMPLERS, Search, import_optuna, not_dominated
from .seeds import Seeds
from .seeds import seeds as seed_sets
from .space import AS_IT_IS, Setting, Space, keys_space, usual_space
from .tuned import Tuned, TuneError

#: So many of the best trials are played again at a time to choose one of them.
_FINALISTS = 8
#: On so many seeds first.
_FIRST_LOOK = 5


def tune(
    cases: Union[Source, Sequence[Source]],
    objective: Union[str, Sequence[str]] = "memory",
    constraints: Union[str, Sequence[str]] = ("runtime <= 2 %",),
    *,
    trials: int = 100,
    seeds: Union[int, Sequence[int]] = 3,
    fresh: Union[int, Sequence[int]] = 20,
    sampler: str = "tpe",
    robust: str = "worst",
    configurations: Optional[Sequence[str]] = None,
    space: Optional[Mapping[str, object]] = None,
    machine: Optional[Mapping[str, Any]] = None,
    executor: Optional[Executor] = None,
    processes: Optional[int] = None,
    seed: int = 1,
    batch: int = 4,
    choosing: int = 20,
    front: int = 8,
    prunes: bool = True,
    progress: Optional[Callable[[int, int], object]] = None,
) -> Tuned:
    """Finds settings that are better than the defaults, and measures on fresh seeds by how much.

    ``cases``: recordings (files, :class:`isotherm.Trace`) and scenarios (files, bundled names, objects), one or
    several. Its unchanged keys are the defaults; a recording's are the two lists (``classic``) with unlimited
    memory, without schemes or tools.

    ``objective``: ``"runtime"``, ``"memory"`` (mean charge), ``"peak"``, ``"cpu"`` (of managing memory),
    ``"p99-stall"`` (99th percentile of a task's own reclaim), a metric (docs/use/report.md#metrics), ``"max:METRIC"``; of several
    there is a Pareto front. ``constraints``: ``"runtime <= 2 %"`` is at most 2 % above the defaults, ``"p99-stall <=
    5ms"`` in units.

    ``trials``: settings to try. ``seeds``: seeds to race on (a number, or the seeds); a trial drops out once it cannot
    be better than the best on the same seeds, or breaks a constraint. ``fresh``: seeds to judge on, none of them tuned
    on. ``choosing``: number of further seeds to choose one of the best trials on, and of those to confirm it on.
    ``sampler``: ``"tpe"``, ``"nsga2"``, ``"random"``. ``robust``: how several cases are joined: ``"worst"``,
    ``"quantile:0.9"``, ``"mean"``. ``configurations``: of :data:`isotherm.tune.CONFIGURATIONS`. ``space``: keys of the
    scenario by path in their place. ``machine``: keys of the machine that recordings are played on. ``executor``:
    plays runs [default: ``processes`` of this machine]. ``seed``: of the sampler. ``batch``: trials that are
    proposed together. ``front``: most points of the front to judge.

    Equal calls give equal answers, with any number of processes. Ctrl-C ends the search: the answer then has the best
    trials so far, not judged (:attr:`Tuned.is_partial`); before the first result the interrupt is raised.

    Raises ``ValueError``, :class:`isotherm.ScenarioError`, :class:`isotherm.TraceError`, :class:`TuneError`, or
    ``ImportError`` without Optuna.
    """
    import_optuna()
    wanted = measures(objective)
    bounds = tuple(constraint(text) for text in ([constraints] if isinstance(constraints, str) else constraints))
    for name, number, least in (
        ("trials", trials, 1),
        ("batch", batch, 1),
        ("choosing", choosing, 1),
        ("front", front, 0),
    ):
        if number < least:
            raise ValueError(f"{name}: {number}; allowed: {least} and more")
    if sampler not in SAMPLERS:
        raise ValueError(f"sampler: `{sampler}`; allowed: {', '.join(SAMPLERS)}")
    over_cases = robust_named(robust)
    sets = seed_sets(seeds, choosing, fresh)
    read = _read(cases, machine)
    with contextlib.ExitStack() as stack:
        if executor is None:
            executor = stack.enter_context(LocalExecutor(processes))
        measure_defaults(read, executor)
        where = _space(read, configurations, space)
        scorer = Scorer(read, where, executor, wanted, bounds, over_cases)
        search = Search(scorer, sets, sampler, seed, batch, prunes)
        is_partial = False
        best: Optional[Point] = None
        points: list[Point] = []
        try:
            search.run(trials, progress)
            best, points = _conclude(search.trials, sets, scorer, front)
        except KeyboardInterrupt:
            is_partial = True
        if best is None:
            best, points = _so_far(search.trials, scorer)
        return Tuned(
            best,
            points,
            tuple(one.name for one in wanted),
            tuple(one.text for one in bounds),
            sets,
            search.trials,
            sampler,
            robust,
            is_partial,
            scorer.runs,
            scorer.parts(),
            read,
            where,
        )


def _read(cases: Union[Source, Sequence[Source]], machine: Optional[Mapping[str, Any]]) -> list[Case]:
    listed = list(cases) if isinstance(cases, (list, tuple)) else [cases]
    if not listed:
        raise ValueError("cases: there must be at least one recording or scenario")
    read = [case_of(source, machine) for source in listed]  # type: ignore[arg-type]
    names = [case.name for case in read]
    if len(set(names)) < len(names):
        raise ValueError(f"cases: {', '.join(names)}; each must have a name of its own")
    return read


def _space(cases: list[Case], configurations: Optional[Sequence[str]], keys: Optional[Mapping[str, object]]) -> Space:
    fitted = Fitted(min(case.runtime_ns for case in cases), min(case.node_kib for case in cases))
    if keys is None:
        return usual_space([case.scenario for case in cases], fitted, configurations)
    if configurations is not None:
        raise ValueError("space: keys take the place of configurations; allowed: one of the two")
    if not keys:
        raise ValueError("space: there must be at least one key to vary")
    return keys_space(keys, fitted)


def _conclude(trials: list[Trial], sets: Seeds, scorer: Scorer, front: int) -> tuple[Point, list[Point]]:
    """One of the best trials is chosen on seeds of its own; it and the front are judged on fresh ones."""
    if all(trial.failure is not None for trial in trials):
        raise TuneError(f"no trial runs; the first says: {trials[0].failure}")
    chosen = _choose(trials, sets, scorer)
    ran = [trial for trial in trials if trial.dropped is None or trial.dropped == "constraint"]
    ends = _spread(sorted(not_dominated(ran, with_constraints=True), key=lambda one: one.objectives), front)
    judged = judge([chosen, *(trial.setting for trial in ends)], sets.fresh, scorer)
    points = [one for one in judged[1:] if one.failure is None]
    return judged[0], sorted(points, key=lambda one: one.figures[0].ratio.mean)


def _choose(trials: list[Trial], sets: Seeds, scorer: Scorer) -> Setting:
    """The best trial that significantly keeps all constraints on seeds of its own; the defaults if there is none.

    The best of many trials is partly the luckiest, and may be close to a cliff. So a few at a time, from the best on, are
    played on seeds that the search has not seen, first on some of them, then on all. The best of them is partly lucky
    again, and must do as well on a last set.
    """
    complete = sorted(
        (one for one in trials if one.dropped is None and one.is_feasible), key=lambda one: math.prod(one.objectives)
    )
    for at in range(0, len(complete), _FINALISTS):
        left = [trial.setting for trial in complete[at : at + _FINALISTS]]
        first = judge(left, sets.choosing[:_FIRST_LOOK], scorer)
        left = [one.setting for one in first if one.is_feasible and _is_surely_better(one)]
        judged = [one for one in judge(left, sets.choosing, scorer) if _is_surely_right(one)]
        for one in sorted(judged, key=_product):
            if _is_surely_right(judge([one.setting], sets.confirming, scorer)[0]):
                return one.setting
    return AS_IT_IS


def _is_surely_right(one: Point) -> bool:
    """Whether it is better than the defaults and keeps all constraints, with the whole interval."""
    return one.failure is None and all(kept.is_sure for kept in one.constraints) and _is_surely_better(one)


def _is_surely_better(one: Point) -> bool:
    """Whether it is better than the defaults, and in some objective beyond the interval."""
    surely = any((figure.ratio.high or figure.ratio.mean) < 1 for figure in one.figures)
    return surely and _product(one) < 1


def _product(one: Point) -> float:
    """Objectives as one number: halving one offsets doubling another."""
    return math.prod(figure.ratio.mean for figure in one.figures)


def _spread(trials: list[Trial], most: int) -> list[Trial]:
    """A number of entries of a sorted list, evenly spaced, with both ends."""
    if len(trials) <= most:
        return trials
    return [trials[place * (len(trials) - 1) // max(most - 1, 1)] for place in range(most)]


def _so_far(trials: list[Trial], scorer: Scorer) -> tuple[Point, list[Point]]:
    """Without a judgement: the best on the tuning seeds."""
    complete = [trial for trial in trials if trial.dropped is None and trial.is_feasible]
    if not complete:
        raise KeyboardInterrupt(f"after {len(trials)} trials, none of which keeps the constraints")
    points = []
    for trial in not_dominated(complete):
        own = point(trial.setting, trial.scores, trial.scores, [], scorer)
        points.append(own)
    return min(points, key=_product), sorted(points, key=lambda one: one.figures[0].ratio.mean)
