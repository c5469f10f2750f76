"""A workload in Python: random lookups, a small part of them hot, in two threads."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

import isotherm
from isotherm import Scenario, Workload
from isotherm.workloads import Batch


@isotherm.workloads.register("lookups", pages="pages", threads="threads")
def lookups(seed: int, thread: int, threads: int, pages: int, rounds: int = 20) -> Iterator[Batch]:
    """Nine of ten lookups go to a tenth of the pages."""
    chance = np.random.default_rng([seed, thread])
    for _ in range(rounds):
        hot = chance.random(10_000) < 0.9
        page = np.where(hot, chance.integers(0, pages // 10, 10_000), chance.integers(0, pages, 10_000))
        yield Batch(page, write=~hot, think_ns=200, operations=10_000)


def main() -> None:
    """Compares two policies at 30 % of the peak."""
    load = {"kind": "registered", "name": "lookups", "parameters": {"pages": 20_000, "threads": 2}}
    scenario = Scenario("own-workload", workloads=[Workload("lookups", load)], limit="30%")
    for policy in ("classic", "mglru"):
        scenario.policy = policy
        result = isotherm.simulate(scenario, metrics=["major_faults", "runtime_ns"])
        print(policy, result.table().to_pylist())


if __name__ == "__main__":
    main()
