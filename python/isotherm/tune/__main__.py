"""The command ``isotherm tune``, as ``python -m isotherm.tune TRACE…``."""

from __future__ import annotations

import argparse
import contextlib
import csv
import io
import os
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Optional

from .. import _native
from ..sweep.executors import executor_of
from .objective import NAMED
from .search import SAMPLERS, OptunaMissing
from .space import CONFIGURATIONS
from .tuned import Tuned
from .tuning import tune

#: Exit codes of all verbs.
FAILED, USAGE, CANNOT, PARTIAL = 1, 2, 3, 4


def parser() -> argparse.ArgumentParser:
    """The arguments."""
    made = argparse.ArgumentParser(
        prog="isotherm tune",
        description="Finds settings that are better than the defaults, and judges them on fresh seeds.",
        epilog="example: isotherm tune traces/gcc.parquet --objective memory --constraint 'runtime <= 2 %%'",
    )
    made.add_argument(
        "cases", nargs="+", metavar="TRACE", help="a recording, a scenario's file, or the name of a bundled scenario"
    )
    made.add_argument(
        "--objective",
        action="append",
        metavar="NAME",
        help=f"{', '.join(NAMED)}, a metric, or max:METRIC; again for several [default: memory]",
    )
    made.add_argument(
        "--constraint", action="append", metavar="BOUND", help="as in 'runtime <= 2 %%', the default; again for several"
    )
    made.add_argument("--no-constraint", action="store_true", help="no constraint at all")
    made.add_argument("--trials", type=int, default=100, metavar="N", help="settings to try [default: 100]")
    made.add_argument("--seeds", type=int, default=3, metavar="N", help="seeds that trials race on [default: 3]")
    made.add_argument(
        "--fresh", type=int, default=20, metavar="N", help="fresh seeds that the answer is judged on [default: 20]"
    )
    made.add_argument("--sampler", choices=SAMPLERS, default="tpe", help="who proposes settings [default: tpe]")
    made.add_argument(
        "--robust", default="worst", metavar="HOW", help="of several cases: worst, quantile:Q or mean [default: worst]"
    )
    made.add_argument(
        "--configuration", action="append", metavar="NAME", help=f"only these: {', '.join(CONFIGURATIONS)}"
    )
    made.add_argument(
        "--vary",
        action="append",
        metavar="KEY=VALUES",
        help="keys of the scenario in place of configurations: KEY=LOW..HIGH, KEY=LOW..HIGH,log, or KEY=A,B,C",
    )
    made.add_argument("--seed", type=int, default=1, metavar="N", help="of the sampler [default: 1]")
    made.add_argument(
        "--batch", type=int, default=4, metavar="N", help="trials that are proposed together [default: 4]"
    )
    made.add_argument(
        "--front", type=int, default=8, metavar="N", help="most points of the Pareto front to judge [default: 8]"
    )
    made.add_argument(
        "--processes",
        type=int,
        metavar="N",
        help="to play runs with; answers do not depend on it [default: one a processor]",
    )
    made.add_argument(
        "--format", choices=("table", "json", "csv"), default="table", help="how to print the answer [default: table]"
    )
    made.add_argument("--json", dest="format", action="store_const", const="json", help="the same as --format json")
    made.add_argument(
        "--report", type=Path, metavar="FILE", help="write the answer as a page, or as markdown into a file *.md"
    )
    made.add_argument(
        "--scenario", type=Path, metavar="FILE", help="write the chosen point as a scenario, next to the defaults"
    )
    made.add_argument("--config", type=Path, metavar="FILE", help="write the chosen point as `isotherm apply` takes it")
    made.add_argument("--ray", metavar="ADDRESS", help="play on a Ray cluster: local, auto, ray://HOST:PORT, HOST:PORT")
    made.add_argument("--storage", metavar="URL", help="folder that all nodes reach, for recordings: any URL of fsspec")
    made.add_argument("-q", "--quiet", action="store_true", help="no progress")
    made.add_argument("--color", help=argparse.SUPPRESS)
    return made


def vary(texts: Sequence[str]) -> dict[str, object]:
    """The space of `--vary`. Raises ``ValueError``."""
    space: dict[str, object] = {}
    for text in texts:
        path, equals, values = text.partition("=")
        if not path or not equals or not values:
            raise ValueError(f"--vary {text}: allowed: KEY=LOW..HIGH, KEY=LOW..HIGH,log, or KEY=A,B,C")
        parts = values.split(",")
        if ".." in parts[0]:
            low, _, high = parts[0].partition("..")
            space[path] = (_plain(low), _plain(high), *parts[1:])
        else:
            space[path] = [_plain(part) for part in parts]
    return space


def _plain(text: str) -> object:
    """A number if it is one, else the text."""
    with contextlib.suppress(ValueError):
        return int(text)
    with contextlib.suppress(ValueError):
        return float(text)
    return {"true": True, "false": False}.get(text, text)


def to_csv(tuned: Tuned) -> str:
    """A line for each objective of the chosen point and of the points of the front."""
    text = io.StringIO()
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(
        ["point", "configuration", "settings", "objective", "n", "ratio", "ci95_low", "ci95_high", "feasible"]
    )
    for name, point in [("best", tuned.best), *((f"front {at}", one) for at, one in enumerate(tuned.front))]:
        settings = " ".join(f"{key}={value}" for key, value in point.settings.items())
        for figure in point.figures:
            ratio = figure.ratio
            row = [figure.name, ratio.n, ratio.mean, ratio.low, ratio.high, str(point.is_feasible).lower()]
            lines.writerow([name, point.configuration, settings, *("" if cell is None else cell for cell in row)])
    return text.getvalue()


def _printed(tuned: Tuned, format: str) -> str:
    if format == "json":
        return tuned.to_json()
    return to_csv(tuned) if format == "csv" else tuned.report("markdown")


def _progress(quiet: bool) -> Optional[Callable[[int, int], object]]:
    if quiet or not sys.stderr.isatty():
        return None

    def show(done: int, planned: int) -> None:
        print(f"\r{done} of {planned} trials", end="\n" if done == planned else "", file=sys.stderr, flush=True)

    return show


def _write(tuned: Tuned, asked: argparse.Namespace) -> None:
    """The files that were asked for. Raises ``OSError``, ``ValueError`` or :class:`isotherm.Error`."""
    if asked.report is not None:
        is_markdown = asked.report.suffix == ".md"
        asked.report.write_text(tuned.report("markdown" if is_markdown else "html"))
    for path, make in ((asked.scenario, tuned.scenario), (asked.config, tuned.configuration)):
        if path is None:
            continue
        for case in tuned.cases:
            # With several cases each has a file of its own.
            own = path if len(tuned.cases) == 1 else path.with_name(f"{path.stem}-{case.name}{path.suffix}")
            own.write_text(make(case.name))


def main(arguments: Sequence[str]) -> int:
    """Runs the command; returns the exit code."""
    made = parser()
    asked = made.parse_args(arguments)
    constraints = [] if asked.no_constraint else asked.constraint or ["runtime <= 2 %"]
    try:
        with contextlib.ExitStack() as stack:
            executor = stack.enter_context(executor_of(asked.ray, asked.processes, asked.storage))
            tuned = tune(
                asked.cases,
                asked.objective or ["memory"],
                constraints,
                trials=asked.trials,
                seeds=asked.seeds,
                fresh=asked.fresh,
                sampler=asked.sampler,
                robust=asked.robust,
                configurations=asked.configuration,
                space=None if asked.vary is None else vary(asked.vary),
                executor=executor,
                seed=asked.seed,
                batch=asked.batch,
                front=asked.front,
                progress=_progress(asked.quiet),
            )
        print(_printed(tuned, asked.format), end="", flush=True)
        _write(tuned, asked)
    except OptunaMissing as error:
        print(f"error: {error}", file=sys.stderr)
        return CANNOT
    except ValueError as error:
        print(f"error: {error}", file=sys.stderr)
        return USAGE
    except BrokenPipeError:
        # The reader is gone. Python's flush at exit is discarded.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except (_native.Error, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        return FAILED
    except KeyboardInterrupt:
        print("error: interrupted before anything was known", file=sys.stderr)
        return PARTIAL
    return PARTIAL if tuned.is_partial else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
