"""Workloads in Python: the engine plays their accesses, and invalid ones give errors."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import isotherm
from isotherm import Scenario, Workload, workloads
from isotherm.workloads import Batch


@pytest.fixture(autouse=True)
def _forget() -> Iterator[None]:
    yield
    workloads.unregister("mine")


def played(parameters: Any = None, **more: Any) -> isotherm.Result:
    load = {"kind": "registered", "name": "mine", "parameters": parameters or {}}
    return isotherm.simulate(Scenario("own", workloads=[Workload("w", load)], policy="lru", **more))


def figure(result: isotherm.Result, metric: str) -> float:
    return next(row["mean"] for row in result.table().to_pylist() if row["metric"] == metric)


def test_batches_are_played_in_order_with_their_operations() -> None:
    calls: list[Any] = []

    @workloads.register("mine", pages="pages")
    def mine(seed: int, pages: int, rounds: int) -> Iterator[Batch]:
        calls.append((seed, pages, rounds))
        for _ in range(rounds):
            yield Batch(np.arange(pages), write=True, operations=10)
        yield Batch(0, pages=pages, sleep_ns=5_000_000)

    result = played({"pages": 2000, "rounds": 3}, seed=7)
    assert calls == [(7, 2000, 3)]
    assert figure(result, "peak_bytes") == 2000 * 4096
    assert figure(result, "runtime_ns") > 5_000_000
    assert played({"pages": 2000, "rounds": 3}, seed=7, repeats=2).to_dict() != result.to_dict()
    assert played({"pages": 2000, "rounds": 3}, seed=7).to_json() == result.to_json()


def test_an_own_cycle_is_the_one_of_the_engine() -> None:
    """A cycle that does not fit misses each time under LRU, as `scan` does."""

    @workloads.register("mine", pages=1024)
    def mine(seed: int) -> Iterator[Any]:
        for _ in range(5):
            yield Batch(np.arange(1024), write=True)

    assert figure(played(limit="2MiB"), "major_faults") == 4 * 1024


def test_threads_and_files() -> None:
    @workloads.register("mine", pages=64, file_pages=256, threads="threads")
    def mine(seed: int, thread: int, threads: int) -> Iterator[Batch]:
        yield Batch(np.arange(64 + thread, 320, threads), by_descriptor=thread == 0)
        yield Batch(np.arange(thread, 64, threads), write=True)

    result = played({"threads": 2})
    assert figure(result, "peak_bytes") >= 320 * 4096


NONSENSE: list[tuple[Any, str]] = [
    (Batch([5, 64]), "it raised ValueError: 1 pages from page 64; allowed: 1 and more, below page 64"),
    (Batch([1], pages=0), "0 pages from page 1"),
    (Batch([-3]), "`page` of a batch is from -3 to -3; allowed: 0 to 18446744073709551615"),
    (Batch([0.5]), "`page` of a batch is float64; allowed: whole numbers"),
    (Batch([1, 2], write=[True]), "`write` of a batch has the shape (1,); allowed: (2,) as `page` has"),
    (Batch([1], by_descriptor=True), "page 1 by descriptor; allowed: pages of the file, from 64 on"),
    ("words", "`page` of a batch is <U5; allowed: whole numbers"),
]


@pytest.mark.parametrize(("batch", "words"), NONSENSE, ids=[words[-12:] for _, words in NONSENSE])
def test_nonsense_ends_the_run_with_words(batch: Any, words: str) -> None:
    @workloads.register("mine", pages=64)
    def mine(seed: int) -> Iterator[Any]:
        yield Batch([1, 2, 3])
        yield batch

    with pytest.raises(isotherm.ScenarioError) as raised:
        played()
    assert words in str(raised.value), str(raised.value)


def test_what_a_generator_raises_is_told_with_its_line() -> None:
    @workloads.register("mine", pages=64)
    def mine(seed: int) -> Iterator[Any]:
        yield Batch([1])
        raise RuntimeError("out of ideas")

    with pytest.raises(isotherm.ScenarioError, match=r"it raised RuntimeError: out of ideas \(.*test_workloads.py:\d+\)"):
        played()


def test_what_is_not_registered_is_refused() -> None:
    with pytest.raises(isotherm.ScenarioError, match="registered: `name` is `mine`; allowed: (none|what this program has registered: )"):
        played()

    @workloads.register("mine", pages="pages")
    def mine(seed: int, **parameters: int) -> Iterator[Any]:
        yield Batch([0])

    with pytest.raises(isotherm.ScenarioError, match="`pages` is None; allowed: a whole number"):
        played()
