"""Scenarios as objects, and results of playing them."""

from __future__ import annotations

import json
import os
import signal
import threading
import time
from pathlib import Path

import pytest

import isotherm
from isotherm import Matrix, Scenario, Variant, Workload

SMALL = Scenario(
    "small",
    workloads=[Workload("kv", {"kind": "key-value", "footprint": "8MiB", "operations": 20_000})],
    matrix=Matrix(["lru", "fifo"], ["50%"]),
    against="lru@50%",
    repeats=2,
    metrics=["runtime_ns", "major_faults"],
)


@pytest.mark.parametrize("name", [row.name for row in isotherm.bundled_scenarios()])
def test_every_bundled_scenario_survives_objects_and_printing(name: str) -> None:
    scenario = Scenario.bundled(name)
    assert Scenario.parse(str(scenario), scenario.base_dir) == scenario
    assert Scenario.from_dict(scenario.to_dict(), scenario.base_dir) == scenario


SHORT = ["right-sizing", "mglru-thrashing"]
#: These take minutes.
MINUTES = [pytest.param(name, marks=pytest.mark.nightly) for name in ("mglru-tenants", "plrus", "policies")]


@pytest.mark.parametrize("name", [*SHORT, *MINUTES])
def test_python_gives_the_bytes_of_the_command(name: str, command) -> None:  # type: ignore[no-untyped-def]
    printed = command("simulate", name, "--format", "json", "--allow-missed", "--repeats", "1")
    result = isotherm.simulate(name, repeats=1)
    assert result.to_json().encode() == printed
    assert bool(result.explain()) == (name == "plrus"), "the one with schemes"


def test_a_file_a_dictionary_text_and_an_object_are_one_scenario(tmp_path: Path) -> None:
    path = tmp_path / "small.toml"
    path.write_text(str(SMALL))
    results = [
        isotherm.simulate(SMALL),
        isotherm.simulate(SMALL.to_dict()),
        isotherm.simulate(str(SMALL)),
        isotherm.simulate(path),
        isotherm.simulate(str(path), threads=1),
    ]
    assert len({result.to_json() for result in results}) == 1


def test_tables_have_the_numbers_of_the_document() -> None:
    result = isotherm.simulate(SMALL)
    document = json.loads(result.to_json())
    assert document == result.to_dict()
    table, ratios = result.table(), result.ratios()
    assert len(table) == len(document["rows"]) == 4
    assert list(table["mean"]) == [row["mean"] for row in document["rows"]]
    assert table.to_pylist()[0]["metric"] == document["rows"][0]["metric"]
    assert list(ratios["mean"]) == [row["mean"] for row in document["ratios"]]
    assert result.value("kv", "fifo@50%", "major_faults") > 0
    with pytest.raises(KeyError):
        result.value("kv", "fifo@50%", "no_such_metric")
    assert "fifo@50%" in str(result)


@pytest.mark.parametrize(
    ("scenario", "words"),
    [
        ("polcies", "`polcies` is neither a scenario file nor a bundled scenario; bundled: compaction"),
        ({"name": "x", "polcy": "lru"}, "unknown field `polcy`"),
        ({"name": "x", "policy": "lro", "workloads": []}, "unknown policy `lro`; allowed: classic, mglru"),
        ("name = 3\n", "scenario:1:8: "),
        (Scenario("empty"), "workloads"),
    ],
)
def test_errors_have_the_words_of_the_command(scenario: object, words: str) -> None:
    with pytest.raises(isotherm.ScenarioError) as raised:
        isotherm.simulate(scenario)  # type: ignore[arg-type]
    assert words in str(raised.value)


def test_arguments_that_are_not_allowed_are_named() -> None:
    for arguments, words in [
        ({"kernel": "5.4"}, "kernel: there are no rules of Linux `5.4`; allowed: 6.12, 6.18, 7.2, host, all"),
        ({"metrics": ["runtime"]}, "metrics: "),
    ]:
        with pytest.raises(ValueError, match=words.split(":")[0]) as raised:
            isotherm.simulate(SMALL, **arguments)  # type: ignore[arg-type]
        assert words in str(raised.value)
    with pytest.raises(FileNotFoundError, match="none.toml"):
        isotherm.simulate("none.toml")


LONG = Scenario("long", workloads=[Workload("kv", {"kind": "key-value", "footprint": "64MiB", "operations": 10**9})])


def test_ctrl_c_ends_a_run_soon() -> None:
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    # Played to its end it would take hours.
    with pytest.raises(KeyboardInterrupt):
        isotherm.simulate(LONG)
    assert isotherm.simulate(SMALL).table().num_rows == 4


def test_other_threads_go_on_meanwhile() -> None:
    """The lock is released: a thread of Python's counts while the engine works, until progress ends it."""
    counted = 0
    done = threading.Event()

    def count() -> None:
        nonlocal counted
        while not done.is_set():
            counted += 1
            time.sleep(0.001)

    # A failure must not leave a process that counts for ever.
    counter = threading.Thread(target=count, daemon=True)
    counter.start()
    threading.Timer(0.5, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
    with pytest.raises(KeyboardInterrupt):
        isotherm.simulate(LONG)
    done.set()
    counter.join()
    assert counted > 0


def test_an_exception_of_progress_ends_the_run() -> None:
    def progress(done: int, planned: int) -> None:
        assert done <= planned
        raise RuntimeError("enough")

    with pytest.raises(RuntimeError, match="enough"):
        isotherm.simulate(LONG, progress=progress)
