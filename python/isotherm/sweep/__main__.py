"""``python -m isotherm.sweep``: as ``isotherm sweep``, on Ray too."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict
from typing import Optional

from .. import Error
from .executors import executor_of
from .sweeps import Bar, plan, sweep

#: Exit code: some runs failed, or it was ended.
PARTIAL = 4


def _arguments() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m isotherm.sweep", description="Play a scenario at many points.")
    parser.add_argument("space", metavar="SPACE", help="space file")
    parser.add_argument("-o", "--output", metavar="FOLDER", help="folder of the dataset; it is made")
    parser.add_argument("--dry-run", action="store_true", help="say what would be played, and play nothing")
    parser.add_argument("--processes", type=int, metavar="N", help="processes that play runs [default: one per processor]")
    parser.add_argument("--ray", metavar="ADDRESS", help="play on a Ray cluster: local, auto, ray://HOST:PORT, HOST:PORT")
    parser.add_argument("--storage", metavar="URL", help="folder that all nodes reach, for recordings: any URL of fsspec")
    parser.add_argument("--retry-failed", action="store_true", help="play runs that failed before once more")
    parser.add_argument("--limit", type=int, default=10_000, metavar="RUNS", help="refuse spaces of more runs [10000]")
    parser.add_argument("--json", action="store_true", help="print what was done as JSON")
    parser.add_argument("--quiet", action="store_true", help="no progress")
    parser.add_argument("--color", help=argparse.SUPPRESS)
    return parser


def main() -> int:
    """Exit code: 0; 1 it failed; 2 usage error; 4 some runs are left or failed."""
    parser = _arguments()
    asked = parser.parse_args()
    if asked.output is None and not asked.dry_run:
        parser.error("the following arguments are required: -o/--output, or --dry-run")
    try:
        if asked.dry_run:
            runs = plan(asked.space, limit=asked.limit)
            print(json.dumps({"runs": len(runs), "predicted_touches": sum(runs.costs), "columns": runs.columns}, indent=2))
            return 0
        with executor_of(asked.ray, asked.processes, asked.storage) as executor:
            swept = sweep(
                asked.space,
                asked.output,
                executor=executor,
                retry_failed=asked.retry_failed,
                limit=asked.limit,
                progress=None if asked.quiet else Bar(),
            )
    except KeyboardInterrupt:
        return _ended("interrupted; the same command goes on with the runs that are left", PARTIAL)
    except (Error, OSError, ValueError, ImportError) as error:
        return _ended(f"error: {error}", 1)
    if asked.json:
        print(json.dumps({**asdict(swept), "dataset": str(swept.dataset)}, indent=2))
    else:
        print(
            f"{swept.runs} runs: {swept.played} played, {swept.done_before} done before, {swept.failed} failed, "
            f"{swept.left} left; {swept.seconds:.1f} s, {swept.cpu_seconds:.1f} s of runs"
        )
    if swept.failed:
        where = f"{swept.dataset}/run=*/failed.parquet"
        return _ended(f"{swept.failed} of {swept.runs} runs failed: the column `error` of {where} says why", PARTIAL)
    return 0


def _ended(words: Optional[str], code: int) -> int:
    if words:
        print(words, file=sys.stderr)
    return code


if __name__ == "__main__":
    sys.exit(main())
