"""The figures of docs/use/python.md: `python -P python/bench.py`, with the wheel and Polars installed. 10^8 rows take 6 GB of memory.

With `-P` Python takes the wheel, and not the sources next to this file, which have no compiled part.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np
import polars as pl

import isotherm
from isotherm import Scenario, Workload, policies

ROWS = 10**8
T = TypeVar("T")


def timed(work: Callable[[], T]) -> tuple[float, T]:
    """Seconds, and the result."""
    begin = time.perf_counter()
    result = work()
    return time.perf_counter() - begin, result


def import_time() -> None:
    """The shortest time of five fresh interpreters."""
    code = "import time; begin = time.perf_counter(); import isotherm; print(time.perf_counter() - begin)"
    seconds = min(float(subprocess.check_output([sys.executable, "-c", code], cwd="/")) for _ in range(5))
    print(f"import isotherm: {seconds:.3f} s")


def rows_to_polars(rows: int) -> None:
    """Rows of scattered touches, decoded, and handed on."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "rows.parquet"
        isotherm.Trace.from_arrays(np.random.default_rng(1).integers(0, 1 << 20, rows), path=path)
        trace = isotherm.Trace.open(path)
        decoding, table = timed(trace.table)
        handing_on, frame = timed(lambda: pl.DataFrame(table))
        assert frame.height == rows
        print(f"{rows:.0e} rows: decoded in {decoding:.1f} s, to Polars in {handing_on:.3f} s")


LOADS = [
    ("scan", {"kind": "scan", "footprint": "400MiB", "repeat": 10}, "200MiB"),
    ("store", {"kind": "key-value", "footprint": "400MiB", "operations": 3_000_000}, "100MiB"),
]


def faults_a_second() -> None:
    """The engine's policies and those in Python, on one thread."""
    policies.register("python-fifo")(policies.Fifo)
    policies.register("python-lru")(policies.Lru)
    for name, load, limit in LOADS:
        for policy in ("fifo", "python-fifo", "lru", "python-lru"):
            scenario = Scenario("speed", workloads=[Workload("w", load)], policy=policy, limit=limit)
            seconds, result = timed(lambda: isotherm.simulate(scenario, threads=1, metrics=["major_faults"]))
            faults = result.table()["mean"][0]
            print(f"{name} under {policy}: {faults:,.0f} major faults, {faults / seconds:,.0f} a second")


if __name__ == "__main__":
    import_time()
    faults_a_second()
    rows_to_polars(ROWS)
