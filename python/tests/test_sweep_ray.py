"""Sweeps on a Ray cluster of this machine."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from test_sweep import AXES, SCENARIO, files

import isotherm
from isotherm.sweep import LocalExecutor, Space, sweep
from isotherm.sweep.ray import RayExecutor

# If nothing may be missing, a missing Ray is an error.
if os.environ.get("ISOTHERM_REQUIRE_ALL") == "1":
    import ray
else:
    ray = pytest.importorskip("ray", reason="Ray is not installed: pip install ray")


@pytest.fixture(scope="module")
def cluster() -> Iterator[RayExecutor]:
    """Two workers."""
    with RayExecutor("local", processes=2) as executor:
        yield executor


def space(folder: Path) -> Path:
    """A space file and its scenario: 24 runs."""
    (folder / "base.toml").write_text(SCENARIO)
    path = folder / "space.toml"
    path.write_text(Space("base.toml", axes=AXES, draws={"points": 4}, repeats=3).to_toml())
    return path


def test_the_same_bytes_though_a_worker_is_killed(cluster: RayExecutor, tmp_path: Path) -> None:
    local = sweep(space(tmp_path), tmp_path / "local", executor=LocalExecutor(1))
    assert local.played == 24

    killed = []

    def kill(played: int, runs: int, to_go: object) -> None:
        if played >= 2 and not killed:
            for status in Path("/proc").glob("[0-9]*/cmdline"):
                try:
                    if b"ray::_play_all" in status.read_bytes():
                        os.kill(int(status.parent.name), signal.SIGKILL)
                        killed.append(status)
                        return
                except OSError:
                    continue

    cluster.task_seconds = 0.02
    swept = sweep(space(tmp_path), tmp_path / "ray", executor=cluster, progress=kill)
    assert killed, "a worker was in the middle of a task"
    assert (swept.played, swept.failed, swept.left) == (24, 0, 0)
    assert files(tmp_path / "ray") == files(tmp_path / "local")


def test_a_killed_driver_goes_on(tmp_path: Path) -> None:
    space(tmp_path)
    dataset = tmp_path / "ray"
    module = [sys.executable, "-m", "isotherm.sweep", str(tmp_path / "space.toml"), "-o", str(dataset)]
    driver = subprocess.Popen(
        [*module, "--ray", "local", "--processes", "1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    until = time.monotonic() + 60
    while not list(dataset.glob("run=*/*.parquet")) and time.monotonic() < until:
        time.sleep(0.001)
    driver.kill()
    assert driver.wait() == -signal.SIGKILL, "it was not over"
    assert 0 < len(list(dataset.glob("run=*/*.parquet"))) < 24, "it was in the middle"
    # Any executor continues with the same result.
    subprocess.run(module, check=True, capture_output=True)
    sweep(space(tmp_path), tmp_path / "local", executor=LocalExecutor(1))
    assert files(dataset) == files(tmp_path / "local")


@pytest.mark.parametrize("storage", [None, "file"])
def test_recordings_are_brought_to_nodes(
    cluster: RayExecutor, tmp_path: Path, sqlite: Path, storage: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    axes = [{"key": "workloads[0].load", "values": [{"kind": "trace", "path": str(sqlite)}]}]
    (tmp_path / "base.toml").write_text(SCENARIO)
    asked = Space(str(tmp_path / "base.toml"), axes=axes, repeats=2)
    sweep(asked, tmp_path / "local", executor=LocalExecutor(1))
    shared = tmp_path / "shared"
    monkeypatch.setattr(cluster, "ship", True)
    monkeypatch.setattr(cluster, "storage", None if storage is None else f"file://{shared}")
    sweep(asked, tmp_path / "ray", executor=cluster)
    assert files(tmp_path / "ray") == files(tmp_path / "local")
    assert storage is None or len(list(shared.glob("*.parquet"))) == 1


def test_a_run_that_cannot_be_played_is_a_row(cluster: RayExecutor, tmp_path: Path) -> None:
    asked = Space("policies", axes=[{"key": "policy", "values": ["none such"]}], metrics=["runtime_ns"])
    swept = sweep(asked, tmp_path / "runs", scenario=space(tmp_path).parent / "base.toml", executor=cluster)
    assert (swept.played, swept.failed) == (1, 1)


def test_tuning_gives_the_same_as_on_this_machine(cluster: RayExecutor) -> None:
    tune = pytest.importorskip("isotherm.tune", reason="Optuna is not installed: pip install optuna").tune
    load = {"kind": "key-value", "footprint": "4MiB", "operations": 2_000}
    scenario = isotherm.Scenario("small", workloads=[isotherm.Workload("kv", load)]).to_dict()
    quick = {"trials": 4, "seeds": 1, "choosing": 2, "fresh": 2, "front": 1}
    on_cluster = tune(scenario, "runtime", [], executor=cluster, **quick)
    assert on_cluster.to_json() == tune(scenario, "runtime", [], processes=1, **quick).to_json()


def test_a_worker_of_another_build_is_told(
    cluster: RayExecutor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from isotherm import _native

    monkeypatch.setattr(_native, "__build__", "0.0.1 other")
    with pytest.raises(isotherm.Error, match=r"has isotherm .*, and this sweep is of 0\.0\.1 other: install one wheel on all nodes"):
        sweep(space(tmp_path), tmp_path / "runs", executor=cluster)
    assert not list((tmp_path / "runs").glob("run=*")), "no run of another build is kept"


def test_a_cluster_that_asks_for_a_token_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def init(**_: object) -> None:
        raise ConnectionError("Failed to connect to Ray cluster at head:6379")

    ray.shutdown()
    monkeypatch.setattr(ray, "init", init)
    monkeypatch.delenv("RAY_AUTH_MODE", raising=False)
    with pytest.raises(isotherm.Error, match=r"Failed to connect .*; where it asks for a token, .* set RAY_AUTH_MODE=token; "):
        RayExecutor("auto")


def test_another_version_is_told(monkeypatch: pytest.MonkeyPatch) -> None:
    def init(**_: object) -> None:
        # The message of Ray 2.60.
        raise RuntimeError(
            "Version mismatch: The cluster was started with:\n    Ray: 2.59.0\nThis process was started with:\n    Ray: 2.60.0\n"
        )

    ray.shutdown()
    monkeypatch.setattr(ray, "init", init)
    with pytest.raises(isotherm.Error, match=r"another version of Ray or Python .* cluster .* Ray: 2.59.0 This process .* Ray: 2.60.0"):
        RayExecutor("local")


def test_no_cluster_at_the_address() -> None:
    ray.shutdown()
    with pytest.raises(isotherm.Error, match="no Ray cluster can be reached at 127.0.0.1:1"):
        RayExecutor("127.0.0.1:1")
