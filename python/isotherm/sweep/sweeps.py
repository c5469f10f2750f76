"""A sweep: a space of runs, and the dataset of their results."""

from __future__ import annotations

import contextlib
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional, Union

from .. import _native
from .._host import PathLike
from .._scenario import Scenario, native, plain
from .executors import Executor, Job, LocalExecutor


@dataclass
class Space:
    """The keys to vary around a scenario (docs/use/tune.md#sweeps); ``to_toml()`` is a space file.

    ``scenario``: a file, or the name of a bundled scenario. ``axes``: tables with ``key`` and one of ``values``, ``files``,
    ``low`` with ``high``. ``draws``: how axes with ``low`` and ``high`` are drawn, ``{"points": 64}``. ``points``: points by
    hand.
    """

    scenario: str
    axes: Sequence[Mapping[str, Any]] = ()
    draws: Optional[Mapping[str, Any]] = None
    points: Sequence[Mapping[str, Any]] = ()
    seed: int = 1
    repeats: int = 1
    metrics: Sequence[str] = ()

    def to_toml(self) -> str:
        """The space as a file."""
        table: dict[str, Any] = {"scenario": self.scenario, "seed": self.seed, "repeats": self.repeats}
        for name in ("metrics", "draws", "points", "axes"):
            if value := getattr(self, name):
                table[name] = value
        return _native.toml_of(json.dumps(plain(table)))


@dataclass(frozen=True)
class Swept:
    """Totals of a sweep."""

    dataset: Path
    #: Of the space.
    runs: int
    played: int
    done_before: int
    #: Now and before.
    failed: int
    #: Not played yet.
    left: int
    #: In the dataset, but not in the space.
    others: int
    #: From the beginning to the end.
    seconds: float
    #: Of all runs together, each on one processor.
    cpu_seconds: float


#: Told runs played, runs to play, and the seconds to go as far as is known.
Progress = Callable[[int, int, Optional[float]], None]


def plan(
    space: Union[PathLike, Space], scenario: Optional[Union[PathLike, Scenario]] = None, limit: int = 10_000
) -> _native.SweepPlan:
    """The runs of a space; nothing is played."""
    if isinstance(space, Space):
        text, place, folder = space.to_toml(), "space", Path()
    else:
        path = Path(space)
        text, place, folder = path.read_text(encoding="utf-8"), os.fspath(path), path.parent
    if scenario is None:
        name = _native.SweepPlan.scenario_of(text, place)
        beside = folder / name
        scenario = beside if beside.is_file() else name
    return _native.SweepPlan(text, place, folder, native(scenario), limit)


def sweep(
    space: Union[PathLike, Space],
    output: PathLike,
    *,
    scenario: Optional[Union[PathLike, Scenario]] = None,
    executor: Optional[Executor] = None,
    retry_failed: bool = False,
    limit: int = 10_000,
    progress: Optional[Progress] = None,
) -> Swept:
    """Plays the runs of a space that the dataset ``output`` lacks.

    ``space``: a space file, or a :class:`Space`. ``scenario``: in place of the one that the space names. ``executor``:
    plays them [default: ``LocalExecutor()``]. ``limit``: spaces of more runs are refused.

    Runs that fail are rows that say why. Interrupted at any time, even killed, the same call goes on with the remaining runs; the
    dataset of equal space, recordings and build is the same bytes then.
    """
    runs = plan(space, scenario, limit)
    dataset = _native.SweepDataset(os.fspath(output), runs)
    began = time.monotonic()
    played, failed_now, cpu_seconds = 0, 0, 0.0
    with contextlib.ExitStack() as stack:
        stack.callback(dataset.close)
        if executor is None:
            executor = stack.enter_context(LocalExecutor())
        numbers, done, failed, others = dataset.missing(runs, retry_failed)
        costs = runs.costs
        jobs = (_job(runs, number, costs[number]) for number in numbers)
        to_do = sum(costs[number] for number in numbers)
        answers = executor.play(jobs)
        try:
            for answer in answers:
                rows = [(row.workload, row.variant, row.kernel, row.ending, row.values) for row in answer.rows]
                dataset.keep(runs, answer.number, answer.seconds, answer.error, rows)
                played += 1
                failed_now += not rows
                cpu_seconds += answer.seconds
                to_do -= costs[answer.number]
                if progress is not None:
                    progress(played, len(numbers), _to_go(time.monotonic() - began, to_do, costs, numbers))
        finally:
            close = getattr(answers, "close", None)
            if close is not None:
                close()
    left = len(numbers) - played
    seconds = time.monotonic() - began
    return Swept(Path(output), len(runs), played, done, failed + failed_now, left, others, seconds, cpu_seconds)


def _job(runs: _native.SweepPlan, number: int, cost: int) -> Job:
    scenario, folder = runs.job(number)
    return Job(number, scenario, os.fspath(folder), cost)


def _to_go(seconds: float, to_do: int, costs: Sequence[int], numbers: Sequence[int]) -> Optional[float]:
    """Seconds to go, if the remaining runs cost as much per touch as the played ones."""
    played = sum(costs[number] for number in numbers) - to_do
    return seconds * to_do / played if played else None


class Bar:
    """A line on standard error: runs played, and when it will be done."""

    def __init__(self) -> None:
        self._last = 0.0
        self._is_terminal = sys.stderr.isatty()

    def __call__(self, played: int, runs: int, to_go: Optional[float]) -> None:
        """Writes the line: on a terminal ten times a second, otherwise each minute."""
        now = time.monotonic()
        if played < runs and now - self._last < (0.1 if self._is_terminal else 60.0):
            return
        self._last = now
        forecast = "" if to_go is None or played == runs else f", {_span(to_go)} to go"
        line = f"sweeping: {played} of {runs} runs{forecast}"
        if self._is_terminal:
            sys.stderr.write(f"\r\x1b[K{line}" if played < runs else "\r\x1b[K")
        else:
            sys.stderr.write(line + "\n")
        sys.stderr.flush()


def _span(seconds: float) -> str:
    if seconds < 100:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 6000 else f"{seconds / 3600:.1f} h"
