"""Playing scenarios on the simulated machine."""

from __future__ import annotations

import json
import os
import shutil
import warnings
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Optional, Union

from . import _host, _native
from ._host import PathLike
from ._registry import registered
from ._scenario import Scenario, native
from ._table import Table


class Result:
    """Result of playing a scenario. ``str(result)`` is the output of the command."""

    def __init__(self, outcome: _native.Outcome) -> None:
        self._outcome = outcome

    @property
    def scenario(self) -> str:
        """Name of the scenario."""
        return self._outcome.scenario

    def table(self) -> Table:
        """A row for each workload, variant and metric: ``n`` repeats, ``mean``, ``stddev``, 95 % interval, reference.

        Metrics carry their unit in their name (``runtime_ns``, ``mean_bytes``) unless they are plain counts.
        """
        return Table(self._outcome.table())

    def ratios(self) -> Table:
        """A row for each workload, variant and metric against the scenario's ``against``, paired by seed."""
        return Table(self._outcome.ratios())

    def explain(self) -> list[dict[str, Any]]:
        """Effects of schemes and what limited them: an entry for each variant and workload with schemes, of the first seed."""
        schemes: list[dict[str, Any]] = self.to_dict().get("schemes", [])
        return schemes

    def value(self, workload: str, variant: str, metric: str) -> float:
        """The mean of a metric; raises ``KeyError`` if the scenario has no such row."""
        mean = self._outcome.mean(workload, variant, metric)
        if mean is None:
            raise KeyError((workload, variant, metric))
        return mean

    @property
    def killed(self) -> list[dict[str, Any]]:
        """Workloads with processes killed for lack of memory: workload, variant, kernel, killed runs, all runs."""
        killed: list[dict[str, Any]] = self.to_dict().get("killed", [])
        return killed

    @property
    def expectations(self) -> list[dict[str, Any]]:
        """Expectations of the scenario, and whether each is ``met``."""
        expectations: list[dict[str, Any]] = self.to_dict().get("expectations", [])
        return expectations

    @property
    def missed(self) -> int:
        """Number of expectations that are missed."""
        return self._outcome.nr_missed()

    def to_json(self) -> str:
        """The same bytes as ``isotherm simulate --format json``."""
        return self._outcome.to_json()

    def to_csv(self) -> str:
        """The same bytes as ``isotherm simulate --format csv``."""
        return self._outcome.to_csv()

    def to_dict(self) -> dict[str, Any]:
        """The whole result as nested dictionaries."""
        document: dict[str, Any] = json.loads(self.to_json())
        return document

    def __str__(self) -> str:
        return self._outcome.text(shutil.get_terminal_size((100, 24)).columns)

    def __repr__(self) -> str:
        return f"isotherm.Result({self.scenario!r}: {self.table().num_rows} rows)"


def simulate(
    scenario: Union[str, os.PathLike[str], Mapping[str, Any], Scenario],
    *,
    data: Optional[PathLike] = None,
    seed: Optional[int] = None,
    repeats: Optional[int] = None,
    threads: Optional[int] = None,
    kernel: Optional[str] = None,
    metrics: Sequence[str] = (),
    progress: Optional[Callable[[int, int], object]] = None,
) -> Result:
    """Plays a scenario: every variant, every workload, every seed.

    ``scenario``: the name of a bundled one, a file, text with line ends, nested dictionaries, or a :class:`Scenario`.
    ``data``: the folder that holds ``traces``, for bundled scenarios that play recordings. ``seed``: of the first repeat.
    ``threads``: to simulate with [default: one per processor]; results do not depend on it. ``kernel``: the release whose
    rules are followed: ``"6.12"``, ``"7.2"``, ``"host"`` or ``"all"`` [default: the scenario's]. ``metrics``: only these,
    see :func:`metrics`. ``progress``: called from time to time with the numbers of done and planned runs.

    Raises :class:`ScenarioError` with the words of the command. Ctrl-C stops the runs.
    """
    checked = native(scenario, data)
    if checked.note is not None:
        warnings.warn(checked.note, stacklevel=2)
    outcome = _native.simulate(
        checked,
        seed=seed,
        repeats=repeats,
        threads=threads,
        kernels=None if kernel is None else _host.kernels(kernel),
        metrics=[metrics] if isinstance(metrics, str) else list(metrics),
        registered=registered(),
        progress=progress,
    )
    return Result(outcome)


def metrics() -> list[str]:
    """Names of all metrics (docs/use/report.md#metrics)."""
    return _native.metric_names()
