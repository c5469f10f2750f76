"""Sweeps: the same bytes from Python, from the command and from a Ray cluster, whichever process dies in the middle."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path

import pytest
from conftest import Command, skip_or_fail

import isotherm
from isotherm import _native
from isotherm.sweep import Answer, Job, LocalExecutor, Row, Space, sweep

SCENARIO = """
name = "x"
limit = "50 %"
metrics = ["runtime_ns", "major_faults"]
[[workloads]]
name = "w"
load = { kind = "scan", footprint = "4MiB", repeat = 3 }
"""
AXES = [{"key": "policy", "values": ["lru", "mglru"]}, {"key": "limit", "low": "40 %", "high": "90 %"}]


@pytest.fixture
def space(tmp_path: Path) -> Path:
    """A space file and its scenario: 24 runs."""
    (tmp_path / "base.toml").write_text(SCENARIO)
    path = tmp_path / "space.toml"
    path.write_text(Space("base.toml", axes=AXES, draws={"points": 4}, repeats=3).to_toml())
    return path


def files(dataset: Path) -> dict[str, bytes]:
    """All files that equal sweeps have alike."""
    found = {str(path.relative_to(dataset)): path.read_bytes() for path in dataset.glob("run=*/*")}
    found["about"] = (dataset / "_sweep.toml").read_bytes()
    return found


def test_python_and_the_command_give_the_same_bytes(space: Path, tmp_path: Path, command: Command) -> None:
    swept = sweep(space, tmp_path / "python", executor=LocalExecutor(2))
    assert (swept.runs, swept.played, swept.failed, swept.left) == (24, 24, 0, 0)
    again = sweep(space, tmp_path / "python", executor=LocalExecutor(1))
    assert (again.played, again.done_before) == (0, 24)
    command("sweep", str(space), "-o", str(tmp_path / "command"), "--format", "json")
    ours, theirs = files(tmp_path / "python"), files(tmp_path / "command")
    assert len(ours) == 25
    if _native.__build__ not in theirs["about"].decode():
        skip_or_fail("the command and the package are of different commits")
    assert ours == theirs


def test_a_dataset_is_one_table(space: Path, tmp_path: Path) -> None:
    polars = pytest.importorskip("polars")
    sweep(space, tmp_path / "runs")
    table = polars.read_parquet(tmp_path / "runs" / "**" / "*.parquet", hive_partitioning=True)
    assert table.height == 24
    assert set(table["policy"]) == {"lru", "mglru"}
    assert table["seed"].n_unique() == 3
    assert table["run"].n_unique() == 24
    assert table["runtime_ns"].null_count() == 0
    duckdb = pytest.importorskip("duckdb")
    pattern = tmp_path / "runs" / "*" / "*.parquet"
    rows = duckdb.sql(
        f"SELECT policy, median(major_faults), count(DISTINCT run) FROM read_parquet('{pattern}', "
        "hive_partitioning = true) GROUP BY policy ORDER BY policy"
    ).fetchall()
    assert [(policy, runs) for policy, _, runs in rows] == [("lru", 12), ("mglru", 12)]


def test_a_killed_process_is_replaced(space: Path, tmp_path: Path) -> None:
    with LocalExecutor(1) as one:
        sweep(space, tmp_path / "whole", executor=one)
    executor = LocalExecutor(2)

    def kill(played: int, runs: int, to_go: object) -> None:
        if played == 3:
            children = Path(f"/proc/{os.getpid()}/task").glob("*/children")
            pids = [pid for path in children for pid in path.read_text().split()]
            # Those of earlier tests may have ended already.
            serving = [pid for pid in pids if b"isotherm.sweep.server" in Path(f"/proc/{pid}/cmdline").read_bytes()]
            os.kill(int(serving[-1]), signal.SIGKILL)

    with executor:
        swept = sweep(space, tmp_path / "killed", executor=executor, progress=kill)
    assert (swept.played, swept.failed) == (24, 0)
    assert executor.lost == 1
    assert files(tmp_path / "killed") == files(tmp_path / "whole")


def test_a_killed_driver_goes_on(space: Path, tmp_path: Path) -> None:
    sweep(space, tmp_path / "whole")
    module = [sys.executable, "-m", "isotherm.sweep", str(space), "-o", str(tmp_path / "killed"), "--processes", "1"]
    driver = subprocess.Popen(module, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    until = time.monotonic() + 60
    while len(list((tmp_path / "killed").glob("run=*/*.parquet"))) < 3 and time.monotonic() < until:
        time.sleep(0.002)
    driver.kill()
    assert driver.wait() == -signal.SIGKILL, "it was not over"
    assert len(list((tmp_path / "killed").glob("run=*/*.parquet"))) < 24, "it was in the middle"
    done = subprocess.run(module, check=True, capture_output=True, text=True)
    assert "24 runs" in done.stdout
    assert files(tmp_path / "killed") == files(tmp_path / "whole")


def test_an_executor_of_ones_own(space: Path, tmp_path: Path) -> None:
    class Here:
        def play(self, jobs: Iterable[Job]) -> Iterator[Answer]:
            for job in jobs:
                row = Row("w", "v", "7.2", "finished", {"runtime_ns": float(job.number)})
                yield Answer(job.number, 0.1, None, [row]) if job.number % 2 else Answer(job.number, 0.1, "odd")

    swept = sweep(space, tmp_path / "own", executor=Here())
    assert (swept.played, swept.failed) == (24, 12)
    assert len(list((tmp_path / "own").glob("run=*/failed.parquet"))) == 12
    retried = sweep(space, tmp_path / "own", retry_failed=True)
    assert (retried.played, retried.done_before, retried.failed) == (12, 12, 0)
    assert not list((tmp_path / "own").glob("run=*/failed.parquet"))


def test_ctrl_c_loses_nothing(space: Path, tmp_path: Path) -> None:
    def interrupt(played: int, runs: int, to_go: object) -> None:
        if played == 2:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        sweep(space, tmp_path / "runs", progress=interrupt)
    assert len(list((tmp_path / "runs").glob("run=*/*.parquet"))) == 2
    assert sweep(space, tmp_path / "runs").done_before == 2


@pytest.mark.parametrize(
    ("space", "words"),
    [
        (Space("none such"), "neither a scenario file nor a bundled scenario"),
        (Space("policies", axes=[{"key": "polici", "values": ["lru"]}]), "unknown field `polici`"),
        (Space("policies", axes=[{"key": "policy"}]), "an axis has `values`"),
        (Space("policies", repeats=0), "allowed are 1 to 10000"),
        (Space("policies", axes=[{"key": "machine.cpus", "values": [1, 2]}], repeats=10_000), "--limit"),
    ],
)
def test_what_cannot_be_swept_is_told(space: Space, words: str, tmp_path: Path) -> None:
    with pytest.raises(isotherm.Error, match=words):
        sweep(space, tmp_path / "runs")
    assert not (tmp_path / "runs").exists()


def test_a_full_disk_is_told_and_what_is_there_is_whole(space: Path, tmp_path: Path) -> None:
    if not Path("/dev/full").exists():
        skip_or_fail("no /dev/full here")
    sweep(space, tmp_path / "whole")
    dataset = tmp_path / "full"
    sweep(Space("base.toml", axes=AXES, draws={"points": 4}), dataset, scenario=space.parent / "base.toml")
    (dataset / "_costs.jsonl").unlink()
    (dataset / "_costs.jsonl").symlink_to("/dev/full")
    with pytest.raises(OSError, match="no room to write"):
        sweep(space, dataset, scenario=space.parent / "base.toml")
    (dataset / "_costs.jsonl").unlink()
    sweep(space, dataset)
    assert files(dataset) == files(tmp_path / "whole")
