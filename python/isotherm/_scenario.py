"""Scenarios as objects that print as TOML."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any, NamedTuple, Optional, Union

from . import _host, _native
from ._host import PathLike
from ._registry import registered

#: What a scenario's file may hold at a place: TOML's values, and paths. The engine checks them.
Value = Any


def plain(value: object) -> Any:
    """``value`` as JSON: objects of this module as tables, keys spelt with ``-``, keys with ``None`` left out."""
    if isinstance(value, _Part):
        return value.to_dict()
    if isinstance(value, Mapping):
        return {str(key): plain(part) for key, part in value.items() if part is not None}
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if isinstance(value, (list, tuple)):
        return [plain(part) for part in value]
    return value


class _Part:
    """A table of a scenario."""

    def to_dict(self) -> dict[str, Any]:
        """The table with the keys of the file, without keys at their default."""
        table: dict[str, Any] = {}
        for part in fields(self):  # type: ignore[arg-type]
            value = getattr(self, part.name)
            if part.name == "more":
                table.update(plain(value))
            elif value is not None and value != [] and value != {}:
                table[part.name.replace("_", "-")] = plain(value)
        return table


@dataclass
class Workload(_Part):
    """A program that a scenario plays (docs/use/scenarios.md#workloads).

    ``load`` has its accesses: a table with ``kind`` and that kind's keys, such as
    ``{"kind": "key-value", "footprint": "64MiB", "operations": 100_000}``. Times are text with units (``"5ms"``), sizes
    too (``"1.5GiB"``).
    """

    name: str
    load: Mapping[str, Value]
    cgroup: Optional[str] = None
    start: Optional[str] = None
    autostart: Optional[bool] = None
    premapped: Optional[bool] = None
    copies: Optional[int] = None
    node: Optional[int] = None


@dataclass
class CgroupSpec(_Part):
    """A control group; limits are sizes (``"1GiB"``), shares of its peak (``"75%"``) or ``"max"``."""

    path: str
    max: Optional[str] = None
    high: Optional[str] = None
    low: Optional[str] = None
    min: Optional[str] = None
    swap_max: Optional[str] = None


@dataclass
class Matrix(_Part):
    """Every policy (``["all"]``: every registered one) at every limit."""

    policies: Sequence[str]
    limits: Sequence[str]


@dataclass
class Variant(_Part):
    """A change of the scenario to compare: ``patch`` is merged into its tables."""

    name: str
    patch: Mapping[str, Value] = field(default_factory=dict)
    only: Sequence[str] = ()

    def to_dict(self) -> dict[str, Any]:
        """The table, with an empty patch for the scenario as it is."""
        table = super().to_dict()
        if not self.only:
            table.pop("only", None)
        return table


@dataclass
class Scenario(_Part):
    """An experiment: machine, workloads, policy, and the keys that vary (docs/use/scenarios.md).

    Fields are the keys of a scenario's file, with ``_`` in place of ``-``; ``None`` leaves a key at its default. Tables
    that have no type here are mappings as in the file. ``more`` holds further keys. ``str(scenario)`` is the file.

    >>> print(Scenario("small", workloads=[Workload("kv", {"kind": "scan", "footprint": "8MiB"})]))
    """

    name: str
    workloads: Sequence[Workload] = ()
    title: Optional[str] = None
    seed: Optional[int] = None
    repeats: Optional[int] = None
    other_tasks: Optional[str] = None
    run: Optional[str] = None
    policy: Optional[str] = None
    limit: Optional[str] = None
    until: Optional[str] = None
    metrics: Sequence[str] = ()
    against: Optional[str] = None
    machine: Mapping[str, Value] = field(default_factory=dict)
    tiering: Optional[Mapping[str, Value]] = None
    matrix: Optional[Matrix] = None
    cgroups: Sequence[CgroupSpec] = ()
    worlds: Sequence[Mapping[str, Value]] = ()
    monitors: Sequence[Mapping[str, Value]] = ()
    generations: Sequence[Mapping[str, Value]] = ()
    limits: Sequence[Mapping[str, Value]] = ()
    compaction: Sequence[Mapping[str, Value]] = ()
    events: Sequence[Mapping[str, Value]] = ()
    variants: Sequence[Variant] = ()
    averages: Sequence[Mapping[str, Value]] = ()
    references: Sequence[Mapping[str, Value]] = ()
    expectations: Sequence[Mapping[str, Value]] = ()
    more: Mapping[str, Value] = field(default_factory=dict)
    #: Folder that relative paths of the scenario start from; no key of the file.
    base_dir: PathLike = "."

    def to_dict(self) -> dict[str, Any]:
        """The scenario as nested dictionaries with the keys of the file."""
        table = {key: value for key, value in super().to_dict().items() if key != "base-dir"}
        return {key: value for key, value in table.items() if value not in ([], ())}

    def to_toml(self) -> str:
        """The scenario as a file that ``isotherm simulate`` takes.

        Raises :class:`isotherm.ScenarioError` for an invalid scenario.
        """
        return native(self).to_toml()

    def __str__(self) -> str:
        return self.to_toml()

    @classmethod
    def from_dict(cls, table: Mapping[str, Any], base_dir: PathLike = ".") -> Scenario:
        """A scenario from nested dictionaries with the keys of the file, spelt with ``-``."""
        known = {part.name for part in fields(cls)} - {"more", "base_dir"}
        given: dict[str, Any] = {}
        more: dict[str, Any] = {}
        for key, value in table.items():
            name = key.replace("-", "_")
            (given if name in known else more).__setitem__(name if name in known else key, value)

        def parts(kind: Any, key: str) -> None:
            if key in given:
                spelt = ({name.replace("-", "_"): part for name, part in each.items()} for each in given[key])
                given[key] = [kind(**each) for each in spelt]

        parts(Workload, "workloads")
        parts(CgroupSpec, "cgroups")
        parts(Variant, "variants")
        if "matrix" in given:
            given["matrix"] = Matrix(**given["matrix"])
        return cls(**given, more=more, base_dir=base_dir)

    @classmethod
    def parse(cls, text: str, base_dir: PathLike = ".") -> Scenario:
        """A scenario from the text of a file."""
        return cls._of(_native.Scenario.parse(text, "scenario", base_dir, registered()))

    @classmethod
    def load(cls, path: PathLike) -> Scenario:
        """A scenario from a file; its relative paths start at the file's folder."""
        return cls._of(_native.Scenario.load(path, registered()))

    @classmethod
    def bundled(cls, name: str, data: Optional[PathLike] = None) -> Scenario:
        """A scenario that comes with isotherm, see :func:`bundled_scenarios`.

        ``data``: the folder that holds ``traces``, for those that play recordings [default: ``$ISOTHERM_DATA``, next to
        an installed command, or the current folder].
        """
        return cls._of(_bundled(name, data))

    @classmethod
    def _of(cls, checked: _native.Scenario) -> Scenario:
        return cls.from_dict(json.loads(checked.to_json()), checked.base_dir)


class BundledScenario(NamedTuple):
    """A scenario that comes with isotherm."""

    name: str
    title: str
    plays_recordings: bool


def bundled_scenarios() -> list[BundledScenario]:
    """The scenarios that come with isotherm."""
    return [BundledScenario(*row) for row in _native.bundled_scenarios()]


def _bundled(name: str, data: Optional[PathLike]) -> _native.Scenario:
    plays = {row.name: row.plays_recordings for row in bundled_scenarios()}
    # A scenario without recordings also runs where there are none.
    folder = _host.data_folder(data) if plays.get(name, False) else Path(".")
    return _native.Scenario.bundled(name, folder)


def native(
    scenario: Union[str, PathLike, Mapping[str, Any], Scenario], data: Optional[PathLike] = None
) -> _native.Scenario:
    """Any form of a scenario, read and checked."""
    if isinstance(scenario, Scenario):
        return _native.Scenario.of_json(json.dumps(plain(scenario)), "scenario", scenario.base_dir, registered())
    if isinstance(scenario, Mapping):
        return _native.Scenario.of_json(json.dumps(plain(scenario)), "scenario", ".", registered())
    if isinstance(scenario, str) and "\n" in scenario:
        return _native.Scenario.parse(scenario, "scenario", ".", registered())
    path = os.fspath(scenario)
    names = [row.name for row in bundled_scenarios()]
    if path in names or (not os.path.exists(path) and not os.path.splitext(path)[1]):
        return _bundled(path, data)
    return _native.Scenario.load(path, registered())
