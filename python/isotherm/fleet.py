"""How much memory a fleet could give up, and what one setting for all costs against one for each (docs/use/tune.md#study-of-a-fleet).

``python -m isotherm.fleet --jobs 200`` makes the table of docs/use/tune.md#study-of-a-fleet. The question is that of software-defined far
memory: cold memory is evicted, and of a job's working set at most 0.2 % may come back in a minute.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Optional

import numpy as np
import numpy.typing as npt

from . import _native
from ._scenario import Scenario
from .sweep.executors import Answer, Executor, Job, LocalExecutor

#: Of the working set, so much may come back in a minute.
SLO = 0.002
#: Share of jobs that must keep the SLO under a setting for all.
KEPT_BY = 0.98
#: Limits, as shares of a job's peak; the first is none.
LIMITS: tuple[Optional[float], ...] = (None, 0.9, 0.75)
#: Memory that was not used for so long is evicted; `None`: nothing is, beside the limit.
THRESHOLDS_S: tuple[Optional[int], ...] = (None, 8, 15, 30, 60, 120)

_DURATION_S = 300
_WARM_S = 60
_PAGE_BYTES = 4096
#: Of one job, the part of its life in which memory counts as its working set: a minute.
_WINDOW_S = 60


@dataclass(frozen=True)
class Setting:
    """A limit and an age."""

    limit: Optional[float]
    threshold_s: Optional[int]

    def __str__(self) -> str:
        limit = "no limit" if self.limit is None else f"{self.limit:.0%} of peak"
        return f"{limit}, {'nothing evicted' if self.threshold_s is None else f'cold after {self.threshold_s} s'}"


SETTINGS: tuple[Setting, ...] = tuple(Setting(limit, age) for limit in LIMITS for age in THRESHOLDS_S)


def _text(value: float, unit: str) -> str:
    return f"{value:.3f}".rstrip("0").rstrip(".") + unit


def _load(kind: str, draw: np.random.Generator) -> dict[str, Any]:
    """Accesses of a job of a kind: sizes by a lognormal, rates and shapes uniform."""
    footprint_mib = float(np.clip(draw.lognormal(np.log(16), 0.7), 4, 64))
    pace = {"duration": f"{_DURATION_S}s", "footprint": _text(footprint_mib, "MiB")}
    pause = _text(float(draw.uniform(1, 4)), "ms")
    store = {**pace, "kind": "key-value", "item-size": "4KiB", "compute": pause, "writes": "20%"}
    if kind == "popular":
        return {**store, "distribution": {"shape": "zipfian", "theta": round(float(draw.uniform(1.1, 2.0)), 3)}}
    if kind == "hot-spot":
        # Most touch only their hot items.
        hits = min(float(draw.uniform(99.9, 100.1)), 100.0)
        hot = {"hot": _text(float(draw.uniform(5, 50)), "%"), "hot-accesses": _text(hits, "%")}
        return {**store, "distribution": {"shape": "hotspot", **hot}}
    if kind == "newest":
        return {**store, "distribution": "latest", "inserts": _text(float(draw.uniform(1, 10)), "%")}
    if kind == "rotating":
        moves = _text(float(draw.uniform(10, 60)), "s")
        rate = int(draw.integers(200, 1000))
        rotating = {"kind": "hot-cold", "hot": "25%", "hot-accesses": "100%", "move-every": moves}
        return {**pace, **rotating, "accesses-per-second": rate}
    return {**pace, "kind": "idle"}


#: Kinds of jobs, and how many of a hundred are of each.
MIX = {"popular": 35, "hot-spot": 30, "newest": 10, "rotating": 15, "idle": 10}


def jobs(count: int, seed: int) -> list[dict[str, Any]]:
    """Synthetic jobs as scenarios. Equal seeds give equal jobs."""
    draw = np.random.default_rng(seed)
    kinds = [kind for kind, share in MIX.items() for _ in range(share)]
    made = []
    for number in range(count):
        kind = kinds[int(draw.integers(len(kinds)))]
        name = f"{kind}-{number}"
        made.append(
            {
                "name": name,
                "run": "each",
                "policy": "mglru",
                "repeats": 1,
                "metrics": ["runtime_ns", "mean_bytes", "peak_bytes", "refaults_anon", "refaults_file"],
                "machine": {"cpus": 2, "nodes": [{"memory": "256MiB"}], "swap": {"device": "nvme"}},
                "cgroups": [{"path": "/job"}],
                "workloads": [{"name": name, "cgroup": "/job", "load": _load(kind, draw)}],
            }
        )
    return made


@dataclass(frozen=True)
class Study:
    """Runs of all jobs under all settings on two seeds: one to choose on, one to judge on."""

    names: tuple[str, ...]
    #: Mean charge without limit and eviction, bytes, of shape ``(2, jobs)``.
    plain_bytes: npt.NDArray[np.float64]
    #: Mean charge, bytes, of shape ``(2, jobs, settings)``.
    mean_bytes: npt.NDArray[np.float64]
    #: Share of the working set that came back in a minute, of shape ``(2, jobs, settings)``.
    promoted: npt.NDArray[np.float64]

    def saved(self, chosen: npt.NDArray[np.int64], seed: int = 1) -> npt.NDArray[np.float64]:
        """Bytes that each job gives up under the setting chosen for it."""
        at = np.arange(len(self.names))
        saved: npt.NDArray[np.float64] = self.plain_bytes[seed] - self.mean_bytes[seed, at, chosen]
        return saved

    def keeps(self, chosen: npt.NDArray[np.int64], seed: int = 1) -> npt.NDArray[np.bool_]:
        """Whether each job keeps the SLO under the setting chosen for it."""
        kept: npt.NDArray[np.bool_] = self.promoted[seed, np.arange(len(self.names)), chosen] <= SLO
        return kept

    def for_each(self) -> npt.NDArray[np.int64]:
        """For each job the setting that saves most among those that keep the SLO, on the seed to choose on."""
        saved = self.plain_bytes[0][:, None] - self.mean_bytes[0]
        chosen: npt.NDArray[np.int64] = np.where(self.promoted[0] <= SLO, saved, -np.inf).argmax(axis=1)
        return chosen

    def for_all(self) -> npt.NDArray[np.int64]:
        """The one setting that saves most of those under which enough jobs keep the SLO, on the seed to choose on."""
        saved = (self.plain_bytes[0][:, None] - self.mean_bytes[0]).sum(axis=0)
        enough = (self.promoted[0] <= SLO).mean(axis=0) >= KEPT_BY
        return np.full(len(self.names), int(np.where(enough, saved, -np.inf).argmax()))


def study(
    fleet: Sequence[Mapping[str, Any]],
    executor: Optional[Executor] = None,
    progress: Optional[Callable[[int, int], object]] = None,
) -> Study:
    """Plays a fleet. Raises :class:`isotherm.Error` for a job that does not run without changes.

    A job that is killed, or does not run under a setting, breaks the SLO there.
    """
    executor = executor or LocalExecutor()
    seeds = (1, 2)
    plain = _play([_plain(job, seed) for seed in seeds for job in fleet], executor, None)
    count = len(fleet)
    rows = [_row(answer) for answer in plain]
    if any(row is None for row in rows):
        answer = next(answer for answer, row in zip(plain, rows) if row is None)
        raise _native.Error(f"{fleet[answer.number % count]['name']}: {answer.error or 'killed for lack of memory'}")
    known = [row for row in rows if row is not None]
    peaks = [known[at]["peak_bytes"] for at in range(count)]
    tables = [
        _set(job, peak, setting, seed) for seed in seeds for job, peak in zip(fleet, peaks) for setting in SETTINGS
    ]
    shape = (len(seeds), count, len(SETTINGS))
    mean_bytes, promoted = np.zeros(shape), np.full(shape, np.inf)
    for at, answer in enumerate(_play(tables, executor, progress)):
        place = np.unravel_index(at, shape)
        own, row = known[int(place[0]) * count + int(place[1])], _row(answer)
        if row is None:
            continue
        minutes = row["runtime_ns"] / 60e9
        pages = max(own["working_set_used_bytes"] / _PAGE_BYTES, 1)
        mean_bytes[place] = row["mean_bytes"]
        promoted[place] = (row["refaults_anon"] + row["refaults_file"]) / minutes / pages
    plain_bytes = np.array([row["mean_bytes"] for row in known]).reshape(len(seeds), count)
    return Study(tuple(job["name"] for job in fleet), plain_bytes, mean_bytes, promoted)


def _plain(job: Mapping[str, Any], seed: int) -> dict[str, Any]:
    """Without limit and eviction; the memory used in each minute is counted."""
    watch = {"name": "watch", "mode": "estimate", "interval": f"{_WINDOW_S}s"}
    return {**job, "seed": seed, "generations": [watch], "metrics": [*job["metrics"], "working_set_used_bytes"]}


def _set(job: Mapping[str, Any], peak_bytes: float, setting: Setting, seed: int) -> dict[str, Any]:
    changed = {**job, "seed": seed}
    if setting.limit is not None:
        # Set once the job is warm: at its beginning it is unknown which memory will be used.
        limit = f"{int(peak_bytes * setting.limit) // _PAGE_BYTES * 4}KiB"
        changed["events"] = [{"at": f"{_WARM_S}s", "set": {"cgroup": "/job", "max": limit}}]
    if setting.threshold_s is not None:
        changed["generations"] = [{"name": "far", "mode": "reclaim", "threshold": f"{setting.threshold_s}s"}]
    return changed


def _play(
    tables: Sequence[Mapping[str, Any]], executor: Executor, progress: Optional[Callable[[int, int], object]]
) -> list[Answer]:
    played = (Job(number, Scenario.from_dict(table).to_toml()) for number, table in enumerate(tables))
    answers: dict[int, Answer] = {}
    for answer in executor.play(played):
        answers[answer.number] = answer
        if progress is not None:
            progress(len(answers), len(tables))
    return [answers[number] for number in range(len(tables))]


def _row(answer: Answer) -> Optional[dict[str, float]]:
    if answer.error is not None or not answer.rows or answer.rows[0].ending == "killed":
        return None
    return answer.rows[0].values


@dataclass(frozen=True)
class Share:
    """A share of the fleet's memory, with its 95 % interval over fleets of such jobs."""

    value: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.value:.1%} ({self.low:.1%} to {self.high:.1%})"


def share(
    bytes_: npt.NDArray[np.float64], of_bytes: npt.NDArray[np.float64], draws: int = 4000, seed: int = 1
) -> Share:
    """``sum(bytes_) / sum(of_bytes)`` over jobs, both of shape ``(jobs,)``; the interval is a bootstrap over jobs."""
    draw = np.random.default_rng(seed)
    picked = draw.integers(len(bytes_), size=(draws, len(bytes_)))
    shares = bytes_[picked].sum(axis=1) / of_bytes[picked].sum(axis=1)
    low, high = np.quantile(shares, [0.025, 0.975])
    return Share(float(bytes_.sum() / of_bytes.sum()), float(low), float(high))


def table(of: Study) -> str:
    """The answer in markdown. All figures are of the seed on which no setting was chosen."""
    plain = of.plain_bytes[1]
    each, all_ = of.for_each(), of.for_all()
    lines = [
        f"{len(of.names)} jobs, {plain.sum() / 2**30:.2f} GiB in all.",
        "",
        "| setting | memory saved | jobs that keep the SLO |",
        "|---|--:|--:|",
    ]
    for at, setting in enumerate(SETTINGS):
        one = np.full(len(of.names), at)
        lines.append(f"| {setting} | {share(of.saved(one), plain)} | {of.keeps(one).mean():.1%} |")
    lost = share(of.saved(each) - of.saved(all_), plain)
    lines += [
        "",
        "| choice | memory saved | jobs that keep the SLO |",
        "|---|--:|--:|",
        f"| one for all: {SETTINGS[int(all_[0])]} | {share(of.saved(all_), plain)} | {of.keeps(all_).mean():.1%} |",
        f"| one for each job | {share(of.saved(each), plain)} | {of.keeps(each).mean():.1%} |",
        "",
        f"One setting for all costs {lost} of the fleet's memory against one for each job.",
    ]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m isotherm.fleet", description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=200, metavar="N", help="jobs of the fleet [default: 200]")
    parser.add_argument("--seed", type=int, default=1, metavar="N", help="of the fleet [default: 1]")
    parser.add_argument("--processes", type=int, metavar="N", help="to play runs with [default: one a processor]")
    asked = parser.parse_args(arguments)
    if asked.jobs < 1:
        parser.error(f"--jobs {asked.jobs}: allowed: 1 and more")

    def progress(done: int, planned: int) -> None:
        if sys.stderr.isatty() and (done % 50 == 0 or done == planned):
            print(f"\r{done} of {planned} runs", end="\n" if done == planned else "", file=sys.stderr, flush=True)

    print(table(study(jobs(asked.jobs, asked.seed), LocalExecutor(asked.processes), progress)), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
