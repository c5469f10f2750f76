"""Which policy is best for a workload, and how good is one written in Python?"""

from __future__ import annotations

from typing import TYPE_CHECKING

import isotherm
from isotherm import Matrix, Scenario, Workload
from isotherm.policies import ByKey

if TYPE_CHECKING:
    from isotherm.policies import I64, U8, U32


@isotherm.policies.register("most-recent")
class MostRecent(ByKey):
    """Evicts the most recently used page: right for cycles that do not fit, wrong for most others."""

    wants_touches = True
    ahead = 1

    def rank(self, kind: U8, page: U32, distance: I64, time: I64) -> tuple[U32, I64]:
        """The later the use, the smaller the key."""
        return page, -time


def main() -> None:
    """Plays a cycle and a store under five policies with half of their peak memory."""
    isotherm.testing.conformance("most-recent", histories=4)
    scenario = Scenario(
        "own-policy",
        workloads=[
            Workload("cycle", {"kind": "scan", "footprint": "8MiB", "repeat": 8}),
            Workload("store", {"kind": "key-value", "footprint": "8MiB", "operations": 20_000}),
        ],
        matrix=Matrix(["classic", "mglru", "lru", "most-recent"], ["50%"]),
        metrics=["major_faults", "runtime_ns"],
    )
    print(isotherm.simulate(scenario))


if __name__ == "__main__":
    main()
