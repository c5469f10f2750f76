"""Tuning: its results, its judgement, and its errors."""

from __future__ import annotations

import importlib.util
import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import isotherm
import pytest
from isotherm.sweep.executors import Answer, Job, LocalExecutor, play
from isotherm.tune import Tuned, TuneError, tune
from isotherm.tune.__main__ import main
from isotherm.tune.interval import interval, t975
from isotherm.tune.keys import set_key
from isotherm.tune.objective import constraint, measure
from isotherm.tune.race import Trial, is_surely_worse
from isotherm.tune.score import Score
from isotherm.tune.seeds import seeds as seed_sets
from isotherm.tune.space import AS_IT_IS, Setting
from isotherm.tune.world import limit_bytes, world

if importlib.util.find_spec("optuna") is None and os.environ.get("ISOTHERM_REQUIRE_ALL") != "1":
    pytest.skip("optuna is not installed: pip install 'isotherm[tune]'", allow_module_level=True)

#: A tenth of the memory is used all the time; the rest hardly ever.
SMALL: dict[str, Any] = {
    "name": "small",
    "run": "each",
    "policy": "classic",
    "machine": {"cpus": 2, "nodes": [{"memory": "64MiB"}], "swap": {"device": "zram", "compressor": "lzo-rle"}},
    "workloads": [
        {
            "name": "small",
            "load": {
                "kind": "key-value",
                "footprint": "8MiB",
                "item-size": "4KiB",
                "index-fanout": 0,
                "distribution": {"shape": "hotspot", "hot": "10%", "hot-accesses": "99.9%"},
                "compute": "50us",
                "operations": 20_000,
            },
        }
    ],
}
#: All of it is used all the time.
FULL = json.loads(json.dumps(SMALL))
FULL["name"] = "full"
FULL["workloads"][0].update({"name": "full"})
FULL["workloads"][0]["load"].update({"distribution": "uniform"})

QUICK: dict[str, Any] = {"trials": 12, "seeds": 2, "fresh": 4, "choosing": 4, "front": 2}


class Watched:
    """Plays runs, and records them."""

    def __init__(self) -> None:
        self.jobs: list[Job] = []

    def play(self, jobs: Iterable[Job]) -> Iterator[Answer]:
        for job in jobs:
            self.jobs.append(job)
            yield play(job)

    def seeds(self, since: int = 0) -> set[int]:
        return {int(found) for job in self.jobs[since:] for found in re.findall(r"(?m)^seed = (\d+)$", job.scenario)}


@pytest.fixture(scope="module")
def tuned() -> Tuned:
    with LocalExecutor(1) as executor:
        return tune(SMALL, executor=executor, **QUICK)


def test_it_finds_memory_that_nobody_needs(tuned: Tuned) -> None:
    figure = tuned.best.figures[0]
    assert figure.gain > 1.5 and figure.ratio.high is not None and figure.ratio.high < 1
    assert tuned.best.constraints[0].is_met and tuned.best.constraints[0].value.mean <= 1.02
    assert figure.values[0] < figure.defaults[0]
    assert f"{figure.gain:.2f} times better" in str(tuned)


def test_no_seed_is_in_two_of_the_sets() -> None:
    for tuning, choosing, fresh in ((3, 5, 20), ([10_001, 7], 5, 20), (2, 3, [10_001, 20_002])):
        sets = seed_sets(tuning, choosing, fresh)
        all_ = [*sets.tuning, *sets.choosing, *sets.confirming, *sets.fresh]
        assert len(set(all_)) == len(all_) and len(sets.choosing) == len(sets.confirming) == choosing
    with pytest.raises(ValueError, match="fresh: 7 is a seed that is tuned on"):
        seed_sets([7, 8], 2, [6, 7])


def test_fresh_seeds_are_played_last_and_by_both() -> None:
    watched, played = Watched(), 0

    def progress(done: int, planned: int) -> None:
        nonlocal played
        if done == planned:
            played = len(watched.jobs)

    found = tune(SMALL, executor=watched, progress=progress, **QUICK)
    searched = {int(seed) for job in watched.jobs[1:played] for seed in re.findall(r"(?m)^seed = (\d+)$", job.scenario)}
    assert searched == set(found.seeds.tuning)
    assert not searched & set(found.best.seeds)
    after = watched.jobs[played:]
    chosen = [job for job in after if "[[generations]]" in job.scenario or "[[monitors]]" in job.scenario]
    plain = [job for job in after if job not in chosen and "\nlimit" not in job.scenario]
    for seed in found.seeds.fresh:
        line = f"\nseed = {seed}\n"
        assert any(line in job.scenario for job in plain), "the defaults"
        assert any(line in job.scenario for job in after if job not in plain), "the chosen point"
    assert found.best.seeds == found.seeds.fresh


def test_the_scenario_of_the_chosen_point_gives_the_figures_again(tuned: Tuned) -> None:
    result = isotherm.simulate(tuned.scenario())
    ratio = next(
        row for row in result.ratios().to_pylist() if row["variant"] == "tuned" and row["metric"] == "mean_bytes"
    )
    figure = tuned.best.figures[0].ratio
    assert (ratio["n"], ratio["mean"]) == (4, pytest.approx(figure.mean))
    assert ratio["ci95_low"] == pytest.approx(figure.low, rel=1e-3)
    assert result.value("small", "defaults", "mean_bytes") == pytest.approx(tuned.best.figures[0].defaults[0])


def test_equal_calls_give_equal_answers_with_any_number_of_processes(tuned: Tuned) -> None:
    assert tune(SMALL, processes=2, **QUICK).to_json() == tuned.to_json()


def test_another_seed_of_the_sampler_tries_something_else(tuned: Tuned) -> None:
    other = tune(SMALL, processes=1, seed=2, **{**QUICK, "trials": 16})
    known = {trial.setting for trial in tuned.trials}
    assert any(trial.setting not in known for trial in other.trials)


@pytest.mark.parametrize("sampler", ["random", "nsga2"])
def test_other_samplers(sampler: str) -> None:
    found = tune(SMALL, ["memory", "cpu"], processes=1, sampler=sampler, **{**QUICK, "trials": 14})
    assert [figure.name for figure in found.best.figures] == ["memory", "cpu"]
    assert 1 <= len(found.front) <= 2


def test_where_nothing_is_better_the_defaults_stay() -> None:
    found = tune(SMALL, "runtime", [], processes=1, space={"machine.swappiness": (60, 60)}, **{**QUICK, "trials": 2})
    assert found.best.setting == AS_IT_IS
    assert found.best.figures[0].ratio.mean == 1
    assert "leave it as it is" in str(found)


def test_of_a_set_the_worst_case_counts() -> None:
    watched = Watched()
    space = {"policy": ["classic"], "memory": ("30%", "30%")}
    few = {**QUICK, "trials": 1}
    worst = tune([SMALL, FULL], "runtime", [], executor=watched, space=space, **few)
    alone = tune(FULL, "runtime", [], executor=watched, space=space, **few)
    mean = tune([SMALL, FULL], "runtime", [], executor=watched, robust="mean", space=space, **few)
    assert worst.parts == ["small", "full"]
    assert worst.trials[0].objectives[0] == pytest.approx(alone.trials[0].objectives[0])
    assert mean.trials[0].objectives[0] < worst.trials[0].objectives[0]
    for name in ("small", "full"):
        assert isotherm.Scenario.parse(worst.scenario(name)).name == name
    with pytest.raises(ValueError, match="case: None; allowed: small, full"):
        worst.scenario()


def test_several_workloads_of_a_scenario_each_have_their_share() -> None:
    both = json.loads(json.dumps(SMALL))
    both["workloads"].append({**FULL["workloads"][0], "load": {**FULL["workloads"][0]["load"], "footprint": "2MiB"}})
    found = tune(both, "peak", [], processes=1, space={"memory": ("50%", "50%")}, **{**QUICK, "trials": 1})
    assert found.parts == ["small/small", "small/full"]
    figure = found.best.figures[0]
    assert [value / default for value, default in zip(figure.values, figure.defaults)] == pytest.approx(
        [0.5, 0.5], abs=0.02
    )
    assert "share of each workload's peak" in found.not_live()[0]
    assert isotherm.Scenario.parse(found.scenario()).limit == "50%"


def test_a_recording_meets_another_world_on_each_seed() -> None:
    worlds = [world(seed, 1e9, 4, 1 << 28) for seed in range(200)]
    limits = [limit_bytes(seed, 1 << 28) / (1 << 28) for seed in range(200)]
    assert 0.955 <= min(limits) < 0.97 and 1.02 < max(limits) <= 1.03
    for key in ("start", "cpus", "device-latency", "other-tasks"):
        assert len({drawn[key] for drawn in worlds}) > 1
    assert world(7, 1e9, 4, None) == world(7, 1e9, 4, None) and "limit" not in world(7, 1e9, 4, None)


def test_a_recording_is_tuned(sqlite: Path) -> None:
    watched = Watched()
    table = sqlite.with_name("table.parquet")
    found = tune(table, executor=watched, configurations=["classic", "mglru + proactive"], **{**QUICK, "trials": 3})
    assert found.parts == ["table"]
    assert all("[[worlds]]" in job.scenario for job in watched.jobs[1:])
    assert not found.best.figures[0].is_surely_worse


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"objective": "speed"}, "`speed` is no objective; allowed: runtime, memory, peak, cpu, p99-stall, a metric"),
        ({"objective": []}, "objective: there must be at least one"),
        ({"objective": ["cpu", "cpu"]}, "names one twice"),
        ({"constraints": "runtime < 2 %"}, "constraint `runtime < 2 %`: allowed: NAME <= NUMBER UNIT"),
        ({"constraints": "speed <= 2 %"}, "constraint `speed <= 2 %`: `speed` is no objective"),
        ({"constraints": "memory <= 5ms"}, "unit `ms`; allowed: %, B, KiB, MiB, GiB"),
        ({"trials": 0}, "trials: 0; allowed: 1 and more"),
        ({"seeds": 0}, "seeds: 0; allowed: 1 to 10,000"),
        ({"seeds": [1], "fresh": [1]}, "fresh: 1 is a seed that is tuned on"),
        ({"sampler": "grid"}, "sampler: `grid`; allowed: tpe, nsga2, random"),
        ({"robust": "quantile:2"}, "robust: `quantile:2`; allowed: worst, mean, or quantile:Q"),
        ({"configurations": ["classic + magic"]}, "`magic` is not known; allowed: lru_sort, reclaim"),
        ({"space": {}}, "space: there must be at least one key"),
        ({"space": {"machine.swappiness": (3, "5ms")}}, "have different units"),
        ({"space": {"machine.swappiness": 3}}, "`machine.swappiness` is 3; allowed: (LOW, HIGH)"),
        ({"processes": 0}, "processes: 0: allowed are 1 and more"),
        ({"machine": {"cpus": 2}}, "machine: a scenario says its machine itself"),
    ],
)
def test_arguments_that_are_not_allowed_are_named(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=re.escape(words)):
        tune(SMALL, **{"objective": "memory", "processes": 1, **QUICK, **change})


def test_cases_that_are_not_there_are_named(tmp_path: Path) -> None:
    with pytest.raises((FileNotFoundError, isotherm.TraceError), match="nothing.parquet"):
        tune(tmp_path / "nothing.parquet", processes=1, **QUICK)
    with pytest.raises(ValueError, match="at least one recording"):
        tune([], processes=1, **QUICK)
    with pytest.raises(ValueError, match="each must have a name of its own"):
        tune([SMALL, SMALL], processes=1, **QUICK)
    with pytest.raises(isotherm.ScenarioError, match="there is no workload"):
        tune({"name": "x", "workloads": []}, processes=1, **QUICK)


def test_a_setting_that_always_fails_is_told() -> None:
    found = tune(SMALL, processes=1, space={"policy": ["classic", "magic"]}, **{**QUICK, "trials": 8})
    (failed, tried, why) = found.failures["as it is"]
    assert 0 < failed < tried == 8 and "unknown policy `magic`" in why
    assert "failed in" in str(found)
    with pytest.raises(TuneError, match="no trial runs; the first says: small: .*unknown policy `magic`"):
        tune(SMALL, processes=1, space={"policy": ["magic"]}, **QUICK)


def test_a_program_that_is_killed_is_no_result() -> None:
    space = {"memory": ("20%", "20%"), "machine.swap.device": ["none"]}
    with pytest.raises(TuneError, match="was killed for lack of memory"):
        tune(SMALL, processes=1, space=space, **QUICK)


def test_ctrl_c_gives_what_is_known_so_far() -> None:
    def progress(done: int, planned: int) -> None:
        if done >= 12:
            raise KeyboardInterrupt

    found = tune(SMALL, processes=1, progress=progress, **{**QUICK, "trials": 1000})
    assert found.is_partial and len(found.trials) == 12
    assert found.best.seeds == () and "Interrupted after 12 trials" in str(found)


def test_ctrl_c_before_anything_is_known_is_raised_on(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    class Interrupted(Watched):
        def play(self, jobs: Iterable[Job]) -> Iterator[Answer]:
            if self.jobs:
                raise KeyboardInterrupt
            return super().play(jobs)

    with pytest.raises(KeyboardInterrupt):
        tune(SMALL, executor=Interrupted(), **QUICK)


def test_processes_that_end_are_replaced() -> None:
    job = Job(0, isotherm.Scenario.from_dict(SMALL).to_toml())
    with LocalExecutor(2) as executor:
        (before,) = executor.play([job])
        (server,) = executor._idle
        assert server.process is not None
        os.kill(server.process.pid, signal.SIGKILL)
        (after,) = executor.play([job])
        assert after.error is None and after.rows == before.rows
        assert executor.lost == 1


def test_processes_end_with_whom_they_play_for(tmp_path: Path) -> None:
    scenario = tmp_path / "small.toml"
    scenario.write_text(isotherm.Scenario.from_dict(SMALL).to_toml())
    script = tmp_path / "waits.py"
    script.write_text(
        "import sys, time\n"
        "from isotherm.sweep.executors import Job, LocalExecutor\n"
        "executor = LocalExecutor(2)\n"
        "job = Job(0, open(sys.argv[1]).read())\n"
        "list(executor.play([job, Job(1, job.scenario)]))\n"
        "print(*(server.process.pid for server in executor._idle), flush=True)\n"
        "time.sleep(600)\n"
    )
    with subprocess.Popen([sys.executable, str(script), str(scenario)], stdout=subprocess.PIPE, text=True) as waits:
        assert waits.stdout is not None
        pids = [int(pid) for pid in waits.stdout.readline().split()]
        waits.kill()
    assert pids
    end = time.monotonic() + 30
    while any(_is_running(pid) for pid in pids):
        assert time.monotonic() < end, "they are left behind"
        time.sleep(0.1)


def _is_running(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_without_optuna_it_says_what_to_type(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "optuna", None)
    with pytest.raises(ImportError, match=re.escape("pip install 'isotherm[tune]'")):
        tune(SMALL, **QUICK)


def test_intervals_are_students() -> None:
    for degrees, expected in ((1, 12.7062), (4, 2.7764), (11, 2.2010), (19, 2.0930), (60, 2.0003)):
        assert t975(degrees) == pytest.approx(expected, abs=1e-3)
    found = interval([1.0, 2.0, 3.0, 4.0])
    assert (found.n, found.mean) == (4, 2.5)
    assert found.high == pytest.approx(2.5 + 3.1824 * 1.29099 / 2, abs=1e-4)
    assert interval([1.0]).low is None


def _trial(*objectives: float) -> Trial:
    return Trial(0, AS_IT_IS, [Score((value,), (), (), ()) for value in objectives])


def test_races_drop_who_is_surely_worse_and_no_other() -> None:
    best = _trial(0.50, 0.70, 0.60)
    assert is_surely_worse(_trial(0.60), best)
    assert not is_surely_worse(_trial(0.51), best)
    # Pairs show it: each seed is worse by about the same, though the spread over seeds is larger.
    assert is_surely_worse(_trial(0.52, 0.72, 0.621), best)
    assert not is_surely_worse(_trial(0.45, 0.80, 0.58), best)


def test_constraints_say_what_they_mean() -> None:
    assert constraint("runtime <= 2 %").excess(1020, 1000) == pytest.approx(0)
    assert constraint("runtime<=2%").excess(1040, 1000) > 0
    assert constraint("memory <= 64MiB").excess(32 << 20, 1) == -0.5
    assert constraint("operations >= -10 %").excess(80, 100) > 0 > constraint("operations >= -10 %").excess(95, 100)
    assert constraint("p99-stall <= 5ms").excess(6e6, 0) > 0
    assert measure("max:operations_per_second").is_raised


def test_keys_are_set_by_path() -> None:
    scenario: dict[str, Any] = {"monitors": [{"name": "m"}]}
    set_key(scenario, "monitors[0].preset.quota-time", "5ms")
    set_key(scenario, "machine.swappiness", 3)
    assert scenario == {"monitors": [{"name": "m", "preset": {"quota-time": "5ms"}}], "machine": {"swappiness": 3}}
    with pytest.raises(ValueError, match=re.escape("no entry [1]")):
        set_key(scenario, "monitors[1].preset", "reclaim")
    with pytest.raises(ValueError, match="name an entry"):
        set_key(scenario, "monitors.preset", "reclaim")


def test_the_live_configuration_is_what_apply_takes(tuned: Tuned, command, tmp_path: Path) -> None:  # type: ignore[no-untyped-def]
    file = tmp_path / "tuned.toml"
    file.write_text(tuned.configuration())
    flags = ["--cgroup", "/small", "--daemon-config", "-"]
    written = command("apply", str(file), *flags).decode()
    assert "[[generations]]" in written or "[[monitors]]" in written or "[[limits]]" in written


def test_what_has_no_live_configuration_is_told() -> None:
    space = {"machine.swappiness": (0, 100), "memory": ("40%", "40%")}
    found = tune(SMALL, processes=1, space=space, constraints=[], **{**QUICK, "trials": 2})
    with pytest.raises(TuneError, match=re.escape("`machine.swappiness` is a key of the simulated machine")):
        found.configuration()
    assert isotherm.Scenario.parse(found.scenario()).variants


def test_parts_of_a_machine_are_varied_where_it_has_them() -> None:
    tiered = json.loads(json.dumps(SMALL))
    tiered["machine"] = {
        "cpus": 2,
        "nodes": [{"kind": "dram", "memory": "6MiB"}, {"kind": "cxl", "memory": "64MiB"}],
        "swap": {"device": "none"},
    }
    tiered["tiering"] = {"policy": "none"}
    tiered["workloads"][0]["node"] = 1
    found = tune(tiered, "runtime", [], processes=1, **QUICK)
    policies = {dict(trial.setting.values)["tiering.policy"] for trial in found.trials if trial.failure is None}
    assert len(policies) > 2
    assert all("compaction.design" not in dict(trial.setting.values) for trial in found.trials)


def test_compaction_is_varied_where_huge_pages_are_asked_for() -> None:
    huge = {
        "name": "huge",
        "run": "together",
        "until": "4s",
        "machine": {
            "cpus": 2,
            "nodes": [{"memory": "128MiB"}],
            "transparent-hugepages": True,
            "swap": {"device": "none"},
        },
        "workloads": [
            {
                "name": "fragmenter",
                "load": {
                    "kind": "fragmenter",
                    "footprint": "96MiB",
                    "lead": "2MiB",
                    "pattern": "contiguous",
                    "duration": "4s",
                },
            },
            {
                "name": "driver",
                "start": "1s",
                "load": {"kind": "huge-pages", "effort": "fallback", "delay": "1s", "failures": 5},
            },
        ],
    }
    found = tune(huge, "runtime", [], processes=1, **QUICK)
    assert [trial.failure for trial in found.trials if trial.failure] == []
    designs = {dict(trial.setting.values)["compaction.design"] for trial in found.trials}
    assert len(designs) > 2
    parsed = isotherm.Scenario.parse(found.scenario())
    assert [variant.name for variant in parsed.variants]


def _command(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> tuple[int, str, str]:
    code = main(arguments)
    printed = capsys.readouterr()
    return code, printed.out, printed.err


def test_the_command(tuned: Tuned, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "small.toml"
    file.write_text(isotherm.Scenario.from_dict(SMALL).to_toml())
    outputs = {name: tmp_path / f"out.{name}" for name in ("html", "md", "toml")}
    flags = ["--trials", "12", "--seeds", "2", "--fresh", "3", "--front", "1", "--processes", "1"]
    code, out, err = _command(
        [str(file), *flags, "--json", "--report", str(outputs["html"]), "--scenario", str(outputs["toml"])], capsys
    )
    assert code == 0, err
    document = json.loads(out)
    assert document["best"]["objectives"][0]["gain"] > 1
    assert document["trials"] == len(document["trial_rows"]) == 12
    assert "<svg" in outputs["html"].read_text() and isotherm.Scenario.load(outputs["toml"]).name == "small"
    code, out, _ = _command(
        [str(file), *flags, "--format", "csv", "--vary", "memory=30%..100%", "--vary", "policy=classic,mglru"], capsys
    )
    assert code == 0 and out.startswith("point,configuration,settings,objective,n,ratio")


def test_the_command_names_what_is_wrong(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert _command(["none.parquet"], capsys)[::2][0] == 1
    code, out, err = _command(["x", "--objective", "speed"], capsys)
    assert (code, out) == (2, "") and err.startswith("error: `speed` is no objective")
    assert _command(["x", "--vary", "a"], capsys)[0] == 2
    monkeypatch.setitem(sys.modules, "optuna", None)
    code, _, err = _command(["x"], capsys)
    assert code == 3 and "pip install 'isotherm[tune]'" in err


def test_the_module_is_the_command() -> None:
    done = subprocess.run([sys.executable, "-m", "isotherm.tune", "--help"], capture_output=True, text=True, check=True)
    assert "--objective" in done.stdout and "isotherm tune" in done.stdout


def test_a_setting_is_a_value() -> None:
    assert Setting("classic", (("memory", 0.5),)).memory == 0.5
    assert Setting("classic", (("memory", 1.04),)).memory is None
