"""Policies in Python decide as those of the engine do, pass its suite, and fail with a message."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import isotherm
from isotherm import Matrix, Scenario, Workload, policies
from isotherm.policies import ByKey, Fifo, Lru, Policy


@pytest.fixture
def registered() -> Iterator[None]:
    """Names that are removed after the test."""
    policies.register("py-lru")(Lru)
    policies.register("py-fifo")(Fifo)
    yield
    for name in ("py-lru", "py-fifo", "mine"):
        policies.unregister(name)


def played(*names: str, load: Any = None, limit: str = "40%") -> isotherm.Result:
    load = load or {"kind": "key-value", "footprint": "16MiB", "operations": 60_000}
    return isotherm.simulate(Scenario("policies", workloads=[Workload("w", load)], matrix=Matrix(list(names), [limit])))


def rows(result: isotherm.Result, policy: str) -> list[tuple[str, float]]:
    return [(row["metric"], row["mean"]) for row in result.table().to_pylist() if row["variant"].startswith(f"{policy}@")]


LOADS = [
    {"kind": "key-value", "footprint": "16MiB", "operations": 60_000},
    {"kind": "scan", "footprint": "8MiB", "repeat": 3},
    {"kind": "trace", "path": "traces/table.parquet"},
]


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("load", LOADS, ids=[str(load["kind"]) for load in LOADS])
def test_lru_in_python_is_lru_in_every_figure(load: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(os.environ["ISOTHERM_DATA"])
    result = played("lru", "py-lru", load=load)
    assert rows(result, "py-lru") == rows(result, "lru")
    assert dict(rows(result, "lru"))["major_faults"] > 0


@pytest.mark.usefixtures("registered")
def test_fifo_in_python_has_the_misses_of_fifo() -> None:
    result = played("fifo", "py-fifo")
    misses = {policy: dict(rows(result, policy))["major_faults"] for policy in ("fifo", "py-fifo")}
    assert misses["fifo"] == misses["py-fifo"] > 0


@pytest.mark.usefixtures("registered")
@pytest.mark.parametrize("name", ["py-lru", "py-fifo"])
def test_policies_pass_the_suite(name: str) -> None:
    isotherm.testing.conformance(name, histories=8)


@pytest.mark.usefixtures("registered")
def test_a_policy_that_keeps_all_fails_the_suite_with_words() -> None:
    class Keeps(Fifo):
        def victims(self, count: int, lruvecs: Any) -> Any:
            return []

    policies.register("mine")(Keeps)
    with pytest.raises(isotherm.Error, match="policy `mine`: a group ends under its limit"):
        isotherm.testing.conformance("mine", histories=1)
    with pytest.raises(KeyError, match="no policy `yours` is registered; registered: .*mine"):
        isotherm.testing.conformance("yours")


def test_distances_tell_how_long_a_page_was_gone() -> None:
    seen: list[int] = []

    class Notes(Fifo):
        def observe(self, kind: Any, page: Any, lruvec: Any, distance: Any) -> None:
            assert kind.dtype == np.uint8 and page.dtype == np.uint32
            assert lruvec.dtype == np.uint32 and distance.dtype == np.int64
            assert kind.shape == page.shape == lruvec.shape == distance.shape
            seen.extend(distance[kind == policies.ADDED].tolist())
            super().observe(kind, page, lruvec, distance)

    policies.register("mine")(Notes)
    played("mine", load={"kind": "scan", "footprint": "4MiB", "repeat": 2}, limit="2MiB")
    policies.unregister("mine")
    assert seen.count(-1) >= 1024
    # Half of a cycle of 1024 pages fits: a page comes back after about as many others were evicted.
    returns = [distance for distance in seen if distance >= 0]
    assert returns and 400 < np.median(returns) < 1100


class Nonsense(Fifo):
    answer: Any = None

    def victims(self, count: int, lruvecs: Any) -> Any:
        if isinstance(self.answer, str) and self.answer == "raise":
            raise RuntimeError("not today")
        return self.answer


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("raise", "policy `mine`: it raised RuntimeError: not today ("),
        ([10**6], "policy `mine`: it chose page 1000000, which is not resident; allowed: "),
        ([-1], "policy `mine`: `victims` returned list; allowed: an array of page numbers (uint32 or int64), or a list"),
        (np.array([-1]), "policy `mine`: `victims` returned page -1; allowed: "),
        ("words", "policy `mine`: `victims` returned str; allowed: "),
        (None, "policy `mine`: `victims` returned NoneType; allowed: "),
        (np.zeros((2, 2), np.uint32), "policy `mine`: `victims` returned ndarray; allowed: "),
    ],
    ids=["raises", "unknown", "negative", "negative array", "text", "none", "two dimensions"],
)
def test_nonsense_ends_the_run_with_words(answer: Any, words: str) -> None:
    class Mine(Nonsense):
        pass

    Mine.answer = answer
    policies.register("mine")(Mine)
    with pytest.raises(isotherm.ScenarioError) as raised:
        played("mine")
    policies.unregister("mine")
    assert words in str(raised.value), str(raised.value)


def test_policies_that_cannot_be_made_or_named_are_refused() -> None:
    def broken() -> Policy:
        raise ValueError("no room")

    policies.register("mine")(broken)
    with pytest.raises(isotherm.ScenarioError, match="policy `mine`: it raised ValueError: no room"):
        played("mine")
    policies.unregister("mine")
    with pytest.raises(isotherm.ScenarioError, match="unknown policy `mine`"):
        played("mine")
    policies.register("lru")(Lru)
    with pytest.raises(ValueError, match="a policy cannot be called `lru`"):
        played("lru")
    policies.unregister("lru")


def test_ctrl_c_ends_a_run_under_a_python_policy() -> None:
    policies.register("mine")(Fifo)
    load = {"kind": "scan", "footprint": "64MiB", "repeat": 100_000}
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    # Played to its end it would take hours.
    with pytest.raises(KeyboardInterrupt):
        played("mine", load=load, limit="32MiB")
    policies.unregister("mine")


def test_an_own_order_decides() -> None:
    """Most recently used first: a cycle that does not fit has hardly any misses under it."""

    class Mru(ByKey):
        wants_touches = True
        ahead = 1

        def rank(self, kind: Any, page: Any, distance: Any, time: Any) -> Any:
            return page, -time

    policies.register("mine")(Mru)
    load = {"kind": "scan", "footprint": "4MiB", "repeat": 6}
    result = played("mine", "lru", load=load, limit="3MiB")
    policies.unregister("mine")
    misses = {policy: dict(rows(result, policy))["major_faults"] for policy in ("mine", "lru")}
    assert misses["mine"] < misses["lru"] / 2
