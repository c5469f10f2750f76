"""The search: Optuna proposes settings in batches, races play them, and their results are reported back in order."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Optional

from .race import Trial, race
from .score import Scorer
from .seeds import Seeds

if TYPE_CHECKING:
    import optuna

SAMPLERS = ("tpe", "nsga2", "random")

#: Told to the sampler of a setting that does not run, as objective and as excess.
_FAILED = 10.0


class OptunaMissing(ImportError):
    """Optuna is an optional part of the package."""

    def __init__(self) -> None:
        super().__init__("tuning needs Optuna, which is not installed; type: pip install 'isotherm[tune]'")


def import_optuna() -> Any:
    """Optuna, without its log messages. Raises :class:`OptunaMissing`."""
    try:
        import optuna
    except ImportError as error:
        raise OptunaMissing() from error
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    return optuna


def _sampler(name: str, seed: int, nr_objectives: int, batch: int) -> optuna.samplers.BaseSampler:
    samplers = import_optuna().samplers

    def excesses(frozen: optuna.trial.FrozenTrial) -> Sequence[float]:
        told: Sequence[float] = frozen.user_attrs["excesses"]
        return told

    made: optuna.samplers.BaseSampler
    with warnings.catch_warnings():
        # Some of these options are called experimental: they may change with the version.
        warnings.simplefilter("ignore")
        if name == "random":
            made = samplers.RandomSampler(seed=seed)
        elif name == "nsga2":
            made = samplers.NSGAIISampler(
                seed=seed, population_size=max(4 * nr_objectives, 2 * batch), constraints_func=excesses
            )
        elif name == "tpe":
            made = samplers.TPESampler(
                seed=seed,
                multivariate=True,
                group=True,
                constant_liar=True,
                n_startup_trials=16,
                constraints_func=excesses,
            )
        else:
            raise ValueError(f"sampler: `{name}`; allowed: {', '.join(SAMPLERS)}")
    return made


class Search:
    """A search that can be interrupted: :attr:`trials` has those known so far."""

    _study: optuna.Study

    def __init__(self, scorer: Scorer, seeds: Seeds, sampler: str, seed: int, batch: int, prunes: bool = True) -> None:
        self._scorer, self._seeds, self._batch, self._prunes = scorer, seeds, batch, prunes
        count = len(scorer.objectives)
        self._study = import_optuna().create_study(
            directions=["minimize"] * count, sampler=_sampler(sampler, seed, count, batch)
        )
        for start in scorer.space.starts():
            self._study.enqueue_trial(start)
        self.trials: list[Trial] = []

    def run(self, trials: int, progress: Optional[Callable[[int, int], object]]) -> None:
        """Tries a number of settings. Raises ``KeyboardInterrupt`` between two batches or within one."""
        while len(self.trials) < trials:
            asked = [self._study.ask() for _ in range(min(self._batch, trials - len(self.trials)))]
            batch = [
                Trial(len(self.trials) + place, self._scorer.space.suggest(one)) for place, one in enumerate(asked)
            ]
            race(batch, self.leaders(), self._seeds.tuning, self._scorer, self._prunes)
            for one, trial in zip(asked, batch):
                failed = trial.failure is not None
                excesses = (_FAILED,) if failed else (0.0, *trial.excesses)
                one.set_user_attr("excesses", [*excesses, *[0.0] * (1 + len(self._scorer.constraints) - len(excesses))])
                self._study.tell(one, [_FAILED] * len(self._scorer.objectives) if failed else list(trial.objectives))
            self.trials += batch
            if progress is not None:
                progress(len(self.trials), trials)

    def leaders(self) -> list[Trial]:
        """Trials that kept all constraints on all seeds and that are not dominated by another such trial."""
        return not_dominated([trial for trial in self.trials if trial.dropped is None and trial.is_feasible])


def not_dominated(trials: Sequence[Trial], with_constraints: bool = False) -> list[Trial]:
    """Non-dominated entries: no other is at least as good in everything, and better in something. Of equals the first.

    ``with_constraints``: distances from constraints count as well.
    """
    figures = [trial.figures if with_constraints else trial.objectives for trial in trials]

    def is_beaten(place: int) -> bool:
        own = figures[place]
        return any(
            all(a <= b for a, b in zip(other, own)) and (other != own or at < place)
            for at, other in enumerate(figures)
            if at != place
        )

    return [trial for place, trial in enumerate(trials) if not is_beaten(place)]
