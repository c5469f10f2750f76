"""What tuning is worth: against the defaults, and against random search of the same budget, on fresh seeds.

``python -m isotherm.tune.compare --trials 100 --out table.md`` makes the table of docs/use/tune.md.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from .. import _host
from ..sweep.executors import LocalExecutor
from .case import Source
from .tuned import Tuned
from .tuning import tune

RECORDINGS = ("sqlite", "redis", "gcc", "node", "python", "table")

#: Machine of the synthetic workloads: that of recordings.
_MACHINE = {
    "cpus": 4,
    "nodes": [{"memory": "512MiB"}],
    "storage": "nvme",
    "swap": {"device": "zram", "compressor": "lzo-rle"},
}


def _synthetic(name: str, load: dict[str, Any]) -> dict[str, Any]:
    workloads = [{"name": name, "load": load}]
    return {"name": name, "run": "each", "policy": "classic", "machine": _MACHINE, "workloads": workloads}


#: A store with few popular items, a hot set that moves on, and phases that leave memory behind.
SYNTHETIC = (
    _synthetic(
        "store",
        {
            "kind": "key-value",
            "footprint": "96MiB",
            "item-size": "1KiB",
            "distribution": "zipfian",
            "writes": "20%",
            "operations": 300_000,
            "compute": "10us",
        },
    ),
    _synthetic(
        "moving",
        {
            "kind": "hot-cold",
            "footprint": "96MiB",
            "hot": "20%",
            "hot-accesses": "99.9%",
            "move-every": "1s",
            "writes": "20%",
            "compute": "10us",
            "operations": 300_000,
        },
    ),
    _synthetic(
        "phases",
        {
            "kind": "phases",
            "phases": [
                {"kind": "scan", "footprint": "96MiB", "storage": "file", "compute": "10us", "repeat": 2},
                {"kind": "hot-cold", "footprint": "64MiB", "hot": "25%", "compute": "10us", "operations": 250_000},
            ],
        },
    ),
)


def cases(names: Sequence[str]) -> list[tuple[str, Source]]:
    """The recordings and the synthetic workloads, those named or all."""
    folder = _host.data_folder(None) / "traces"
    known: list[tuple[str, Source]] = [(name, folder / f"{name}.parquet") for name in RECORDINGS]
    known += [(scenario["name"], scenario) for scenario in SYNTHETIC]
    unknown = set(names) - {name for name, _ in known}
    if unknown:
        raise ValueError(f"{', '.join(sorted(unknown))}: allowed: {', '.join(name for name, _ in known)}")
    return [(name, source) for name, source in known if not names or name in names]


def _row(name: str, sampler: str, tuned: Tuned, seconds: float) -> dict[str, Any]:
    best = tuned.best
    return {
        "case": name,
        "sampler": sampler,
        "best": best.to_dict(),
        "runs": tuned.runs,
        "trials": len(tuned.trials),
        "surely_worse": [figure.is_surely_worse for figure in best.figures],
        "seconds": round(seconds, 1),
    }


def _gain(row: dict[str, Any]) -> str:
    ratio = row["best"]["objectives"][0]["ratio"]
    if ratio["ci95_low"] is None or ratio["ci95_low"] == ratio["ci95_high"]:
        return f"{1 / ratio['mean']:.2f}"
    return f"{1 / ratio['mean']:.2f} ({1 / ratio['ci95_high']:.2f} to {1 / ratio['ci95_low']:.2f})"


def table(rows: Sequence[dict[str, Any]]) -> str:
    """The comparison in markdown, and how many cases reach what was asked for."""
    by = {(row["case"], row["sampler"]): row for row in rows}
    names = list(dict.fromkeys(row["case"] for row in rows))
    lines = [
        "| case | defaults [MiB] | tuned [MiB] | times better | random search, times better | slower, mean | slower, worst seed | "
        "chosen | by random search |",
        "|---|--:|--:|--:|--:|--:|--:|---|---|",
    ]
    for name in names:
        tuned, random = by[(name, "tpe")], by[(name, "random")]
        objective, kept = tuned["best"]["objectives"][0], tuned["best"]["constraints"][0]
        values = (objective["defaults"][0] / 2**20, objective["values"][0] / 2**20)
        slower = [f"{(value - 1) * 100:.1f} %" for value in (kept["value"]["mean"], kept["worst"])]
        cells = [name, *(f"{value:.1f}" for value in values), _gain(tuned), _gain(random), *slower]
        cells += [f"`{row['best']['configuration']}`" for row in (tuned, random)]
        lines.append(f"| {' | '.join(cells)} |")
    tuned_rows = [by[(name, "tpe")] for name in names]
    better = sum(row["best"]["objectives"][0]["gain"] >= 1.2 for row in tuned_rows)
    worse = sum(any(row["surely_worse"]) for row in tuned_rows)
    broken = sum(not row["best"]["feasible"] for row in tuned_rows)
    ahead = sum(
        row["best"]["objectives"][0]["gain"] >= by[(row["case"], "random")]["best"]["objectives"][0]["gain"]
        for row in tuned_rows
    )
    lines += [
        "",
        f"1.2 times better and more: {better} of {len(names)}. Worse than the defaults beyond the interval: {worse}. Constraint "
        f"broken on fresh seeds in the mean: {broken}. At least as good as random search: {ahead} of {len(names)}.",
    ]
    return "\n".join(lines) + "\n"


def main(arguments: Sequence[str]) -> int:
    """The command. Rows that its JSON file has already are not made again."""
    parser = argparse.ArgumentParser(prog="python -m isotherm.tune.compare", description=__doc__)
    parser.add_argument("names", nargs="*", metavar="CASE", help="recordings and synthetic workloads [default: all]")
    parser.add_argument("--trials", type=int, default=100)
    parser.add_argument("--fresh", type=int, default=20, help="fresh seeds to judge on")
    parser.add_argument("--processes", type=int)
    parser.add_argument("--rows", type=Path, default=Path("compare.json"), help="file that keeps the rows")
    parser.add_argument("--out", type=Path, help="file for the table [default: standard output]")
    asked = parser.parse_args(arguments)
    rows: list[dict[str, Any]] = json.loads(asked.rows.read_text()) if asked.rows.exists() else []
    try:
        wanted = cases(asked.names)
    except ValueError as error:
        parser.error(str(error))
    with LocalExecutor(asked.processes) as executor:
        for name, source in wanted:
            for sampler in ("tpe", "random"):
                if any((row["case"], row["sampler"]) == (name, sampler) for row in rows):
                    continue
                begin = time.monotonic()
                tuned = tune(
                    source, trials=asked.trials, fresh=asked.fresh, sampler=sampler, executor=executor, front=0
                )
                rows.append(_row(name, sampler, tuned, time.monotonic() - begin))
                asked.rows.write_text(json.dumps(rows, indent=1) + "\n")
                print(f"{name}, {sampler}: {_gain(rows[-1])} times better, {rows[-1]['seconds']} s", file=sys.stderr)
    text = table([row for row in rows if row["case"] in {name for name, _ in wanted}])
    if asked.out is None:
        print(text, end="")
    else:
        asked.out.write_text(text)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
