#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Fits the prices of prices.c, and judges them.

    fit.py measure TOOL FOLDER [NAME …]   runs the programs of programs.py natively and under the tool in the directory TOOL;
                                          results go to FOLDER/measured.json
    fit.py time FOLDER ROUNDS             runs them natively only, so often more: on a busy machine the least time comes seldom
    fit.py fit FOLDER                     fits the prices to the first list and prints both tables

Needs numpy. A program's native time is the least user and system time of several runs (earlier ones in measured.json count too),
less its page faults at the price of one (measured by `loops faults`), because the simulated machine adds faults itself. The amounts of
work do not depend on the prices in the tool."""

import json
import os
import resource
import struct
import subprocess
import sys
import tempfile
import time

import programs

RUNS = 3
CALIBRATION = ["./loops", "faults", "4", "131072"]


def wait(child):
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    return usage


def start(program, line):
    quiet = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "stdin": subprocess.DEVNULL}
    beside = subprocess.Popen(program.beside, **quiet) if program.beside else None
    usage = wait(child := subprocess.Popen(line, **quiet))
    if beside:
        beside.wait()
    if child.returncode not in (0, 1):
        print(f"    {program.name}: exit code {child.returncode}", flush=True)
    return usage


def native(program, runs=RUNS):
    usages = [start(program, program.command) for _ in range(runs)]
    times = [usage.ru_utime + usage.ru_stime for usage in usages]
    return {"s": min(times), "all": times, "faults": min(usage.ru_minflt for usage in usages)}


def counted(program, tool):
    """Amounts of work by kind, of all processes."""
    with tempfile.TemporaryDirectory(dir="/dev/shm") as spool:
        with open(f"{spool}/control", "wb") as control:
            control.write(struct.pack("<QII", 0, 1, 1).ljust(4096, b"\0"))  # nobody reads
        line = [f"{tool}/isorec-launcher", "--tool=isorec", "-q", "--command-line-only=yes", "--vgdb=no", "--fair-sched=yes",
                f"--spool={spool}", "--epoch-ns=1000000", "--uid=0", f"--count-mix={spool}/mix", *program.command]
        start(program, line)
        total = {}
        with open(f"{spool}/mix", encoding="ascii") as mix:
            for text in mix:
                for word in text.split():
                    name, count = word.split("=")
                    total[name] = total.get(name, 0) + int(count)
    return total


def measure(tool, folder, names):
    tool, path = os.path.abspath(tool), os.path.join(os.path.abspath(folder), "measured.json")
    programs.prepare(folder)
    results = {}
    if os.path.exists(path):
        with open(path, encoding="utf-8") as file:
            results = json.load(file)
    fault = native(programs.Program("faults", CALIBRATION))
    results["fault_ns"] = min(results.get("fault_ns", 1e9), fault["s"] / fault["faults"] * 1e9)
    for kind in ("fitting", "judged"):
        for program in getattr(programs, kind)():
            if names and program.name not in names:
                continue
            began = time.monotonic()
            before = results.get(program.name, {}).get("native", {"all": []})
            now = native(program)
            now["all"] += before["all"]
            now["s"] = min(now["all"])
            work = counted(program, tool)
            results[program.name] = {"list": kind, "native": now, "work": work}
            print(f"{program.name}: {now['s']:.3f} s, {work['instruction'] / 1e9:.3f} G, "
                  f"{time.monotonic() - began:.0f} s", flush=True)
            with open(path, "w", encoding="utf-8") as file:
                json.dump(results, file, indent=1)


def add_times(folder, rounds):
    path = os.path.join(os.path.abspath(folder), "measured.json")
    os.chdir(folder)
    with open(path, encoding="utf-8") as file:
        results = json.load(file)
    for _ in range(rounds):
        fault = native(programs.Program("faults", CALIBRATION), 1)
        results["fault_ns"] = min(results["fault_ns"], fault["s"] / fault["faults"] * 1e9)
        for program in [*programs.fitting(), *programs.judged()]:
            times = results[program.name]["native"]
            times["all"] += native(program, 1)["all"]
            times["s"] = min(times["all"])
        with open(path, "w", encoding="utf-8") as file:
            json.dump(results, file, indent=1)


def main():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    if sys.argv[1:2] == ["measure"] and len(sys.argv) >= 4:
        measure(sys.argv[2], sys.argv[3], sys.argv[4:])
    elif sys.argv[1:2] == ["time"] and len(sys.argv) == 4:
        add_times(sys.argv[2], int(sys.argv[3]))
    elif sys.argv[1:2] == ["fit"] and len(sys.argv) == 3:
        import solve
        solve.report(os.path.join(sys.argv[2], "measured.json"))
    else:
        sys.exit(__doc__)


if __name__ == "__main__":
    main()
