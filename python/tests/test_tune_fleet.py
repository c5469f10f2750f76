"""The fleet study: choices by hand-made figures, and a small run of the whole."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import pytest

import isotherm
from isotherm import fleet
from isotherm.sweep.executors import Answer, Job, play


class Here:
    """Plays runs in this process, and counts them."""

    def __init__(self) -> None:
        self.played = 0

    def play(self, jobs: Iterable[Job]) -> Iterator[Answer]:
        for job in jobs:
            self.played += 1
            yield play(job)


def _study() -> fleet.Study:
    """Two jobs of 100 and 300 bytes. The first may take any setting, the second only the first two."""
    settings = len(fleet.SETTINGS)
    plain = np.array([[100.0, 300.0], [100.0, 300.0]])
    mean = np.empty((2, 2, settings))
    mean[:] = plain[:, :, None]
    mean[:, :, 1] *= 0.9
    mean[:, :, 2] *= 0.5
    promoted = np.zeros((2, 2, settings))
    promoted[:, 1, 2:] = fleet.SLO * 2
    return fleet.Study(("a", "b"), plain, mean, promoted)


def test_each_job_takes_what_saves_most_and_keeps_the_objective() -> None:
    study = _study()
    assert list(study.for_each()) == [2, 1]
    assert list(study.saved(study.for_each())) == pytest.approx([50, 30])
    assert study.keeps(study.for_each()).all()


def test_one_for_all_is_one_that_nearly_all_can_take() -> None:
    study = _study()
    assert list(study.for_all()) == [1, 1]
    lost = study.saved(study.for_each()) - study.saved(study.for_all())
    assert fleet.share(lost, study.plain_bytes[1]).value == pytest.approx(40 / 400)


def test_it_is_chosen_on_one_seed_and_judged_on_the_other() -> None:
    study = _study()
    study.promoted[1, 0, 2] = fleet.SLO * 2
    assert list(study.for_each()) == [2, 1]
    assert list(study.keeps(study.for_each())) == [False, True]


def test_intervals_are_over_jobs() -> None:
    draw = np.random.default_rng(7)
    whole, saved = np.full(400, 10.0), draw.uniform(0, 10, 400)
    found = fleet.share(saved, whole)
    half = 1.96 * saved.std() / 10 / 20
    assert found.low == pytest.approx(found.value - half, abs=0.005)
    assert found.high == pytest.approx(found.value + half, abs=0.005)
    assert fleet.share(whole, whole) == fleet.Share(1.0, 1.0, 1.0)


def test_equal_seeds_give_equal_fleets_of_all_kinds() -> None:
    made = fleet.jobs(200, 1)
    assert made == fleet.jobs(200, 1) != fleet.jobs(200, 2)
    assert {job["name"].rsplit("-", 1)[0] for job in made} == set(fleet.MIX)
    assert sum(fleet.MIX.values()) == 100
    for job in made[:20]:
        assert isotherm.Scenario.from_dict(job).to_toml()


def test_the_study_in_small(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        fleet, "SETTINGS", (fleet.Setting(None, None), fleet.Setting(None, 30), fleet.Setting(0.75, None))
    )
    here = Here()
    study = fleet.study(fleet.jobs(5, 1), here)
    assert here.played == 2 * 5 * (1 + 3)
    assert np.isfinite(study.promoted).all()
    # A setting that evicts nothing saves nothing and refaults nothing.
    assert study.saved(np.zeros(5, np.int64)) == pytest.approx(np.zeros(5), abs=1)
    assert study.keeps(np.zeros(5, np.int64)).all()
    # There is cold memory, and a limit binds.
    assert (study.saved(np.full(5, 1)) > 0).all() and (study.saved(np.full(5, 2)) > 0).all()
    each, all_ = study.saved(study.for_each(), 0).sum(), study.saved(study.for_all(), 0).sum()
    assert each >= all_ >= 0
    printed = fleet.table(study)
    assert printed.startswith("5 jobs, ") and "One setting for all costs" in printed


def test_a_job_that_does_not_run_is_named() -> None:
    broken = fleet.jobs(1, 1)[0]
    broken["policy"] = "classic"
    broken["machine"] = {"nodes": [{"memory": "8MiB"}], "swap": {"device": "none"}}
    with pytest.raises(isotherm.Error, match=broken["name"]):
        fleet.study([broken], Here())
