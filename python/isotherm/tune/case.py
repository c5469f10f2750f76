"""Cases to tune for: recordings and scenarios, each with the figures of its defaults."""

from __future__ import annotations

import copy
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Optional, Union

from .. import _native
from .._scenario import Scenario, native
from .._trace import Trace
from ..sweep.executors import Executor, Job
from .space import Setting, Space
from .world import world

#: A recording, or whatever stands for a scenario.
Source = Union[str, "os.PathLike[str]", Trace, Scenario, Mapping[str, Any]]

#: Keys of a scenario that say what is compared. Tuning compares by itself.
_COMPARES = (
    "repeats",
    "seed",
    "worlds",
    "matrix",
    "variants",
    "against",
    "averages",
    "references",
    "expectations",
    "metrics",
    "title",
)

_MACHINE_BYTES_MIN = 512 << 20


@dataclass
class Case:
    """A scenario with one seed and no variants. Its unchanged keys are the defaults."""

    name: str
    scenario: dict[str, Any]
    folder: str
    #: Recordings are the same in every run: chance is in the world around them.
    is_recording: bool
    #: Highest charge and longest runtime of its workloads under the defaults, found by one run.
    peak_bytes: float = 0.0
    runtime_ns: float = 0.0
    #: Touches of pages in a run, as far as they are known beforehand: tasks of a cluster are sized by them.
    cost: int = 2_000_000

    def job(self, number: int, seed: int, setting: Setting, space: Space) -> Job:
        """The run of a setting with a seed."""
        scenario = space.apply(setting, self.scenario)
        share = setting.memory
        size_bytes = None if share is None else share * self.peak_bytes
        if self.is_recording:
            scenario["worlds"] = [world(seed, self.runtime_ns, self.scenario["machine"]["cpus"], size_bytes)]
        else:
            scenario["seed"] = seed
            if share is not None:
                scenario["limit"] = self.limit(share)
        scenario["repeats"] = 1
        return Job(number, self.text(scenario), self.folder, self.cost)

    def limit(self, share: float) -> str:
        """A share of the peak in a scenario's form: in bytes, or with several workloads as a share of the peak of each."""
        if len(self.scenario["workloads"]) > 1:
            return f"{share * 100:.2f}%"
        return f"{max(int(share * self.peak_bytes) // 4096, 32) * 4}KiB"

    @property
    def machine_kib(self) -> int:
        """Memory of the machine, KiB: a limit of this size means no limit."""
        return int(sum(self._nodes_kib()))

    @property
    def node_kib(self) -> int:
        """Memory of the smallest node, KiB."""
        return int(min(self._nodes_kib()))

    def _nodes_kib(self) -> list[float]:
        nodes = self.scenario.get("machine", {}).get("nodes", [])
        sizes = [re.fullmatch(r"([0-9.]+)([KMGT])iB", str(node.get("memory", "256GiB"))) for node in nodes]
        kib = [float(size[1]) * 1024 ** "KMGT".index(size[2]) for size in sizes if size is not None]
        return kib or [256 << 20]

    def text(self, scenario: Mapping[str, Any]) -> str:
        """A scenario of this case as a file."""
        return Scenario.from_dict(scenario, self.folder).to_toml()


def case_of(source: Source, machine: Optional[Mapping[str, Any]] = None) -> Case:
    """Reads a recording or a scenario. ``machine``: keys of the machine that a recording is played on.

    Raises :class:`isotherm.ScenarioError`, :class:`isotherm.TraceError` or ``FileNotFoundError``.
    """
    if isinstance(source, Trace) or _is_recording(source):
        trace = source if isinstance(source, Trace) else Trace.open(os.fspath(source))  # type: ignore[arg-type]
        return _of_recording(Path(trace.path), trace.accesses, machine or {})
    if machine:
        raise ValueError("machine: a scenario says its machine itself; allowed: with recordings alone")
    checked = native(source)
    table = json.loads(checked.to_json())
    scenario = {key: value for key, value in table.items() if key not in _COMPARES}
    return Case(checked.name, scenario, os.fspath(checked.base_dir), False)


def _is_recording(source: object) -> bool:
    if not isinstance(source, (str, os.PathLike)) or (isinstance(source, str) and "\n" in source):
        return False
    return Path(source).suffix in (".parquet", ".arrows", ".arrow")


def _of_recording(path: Path, accesses: int, machine: Mapping[str, Any]) -> Case:
    name = path.stem
    usual = {"cpus": 4, "storage": "nvme", "swap": {"device": "zram", "compressor": "lzo-rle"}}
    scenario = {
        "name": name,
        "run": "each",
        "policy": "classic",
        "machine": {**usual, **machine},
        "workloads": [{"name": name, "load": {"kind": "trace", "path": os.path.abspath(path)}}],
    }
    return Case(name, scenario, ".", True, cost=max(accesses, 1))


def measure_defaults(cases: list[Case], executor: Executor) -> None:
    """Plays each case once with its defaults, for its peak and its runtime.

    Raises :class:`isotherm.ScenarioError` if one fails: there is nothing to compare with then.
    """
    jobs = []
    for number, case in enumerate(cases):
        scenario = copy.deepcopy(case.scenario)
        # The peak is measured without a limit.
        scenario.pop("limit", None)
        jobs.append(Job(number, case.text({**scenario, "repeats": 1}), case.folder))
    for answer in executor.play(jobs):
        case = cases[answer.number]
        if answer.error is not None or not answer.rows:
            raise _native.ScenarioError(f"{case.name}: it fails as it is: {answer.error or 'no rows'}")
        own = [row.values for row in answer.rows if row.workload != "system"]
        case.peak_bytes = max(values.get("peak_bytes", 0.0) for values in own)
        case.runtime_ns = max(values.get("runtime_ns", 0.0) for values in own)
        if case.is_recording and "nodes" not in case.scenario["machine"]:
            # Some room, but not more: schemes work on all memory, free memory included.
            bytes_ = max(int(case.peak_bytes) * 2, _MACHINE_BYTES_MIN) >> 12 << 2
            case.scenario["machine"]["nodes"] = [{"memory": f"{bytes_}KiB"}]
