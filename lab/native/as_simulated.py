#!/usr/bin/env python3
"""Plays a recording of a program of cold_and_warm.py on the simulated machine, under the same limits.

Writes CSV: share of the peak in percent, limit in KiB, switches of the machine that are on, how it ended, major faults.

    isotherm record --epoch 100us --native-first -o xz.parquet -- xz -6 -T1 -k -c words.txt
    python3 lab/native/as_simulated.py isotherm xz.parquet 63708     # the peak in KiB, of cold_and_warm.py without a limit
"""

import json
import pathlib
import subprocess
import sys
import tempfile

SHARES = [95, 90, 85, 80, 70]
SWITCHES = [[], ["code-in-use"], ["code-in-use", "lru-batches"], ["code-in-use", "lru-batches", "warm-files"]]

SCENARIO = """
name = "program"
title = "A program under a limit"
policy = "classic"
limit = "{limit}KiB"

[machine]
kernel = "6.12"
lazy-statistics = true
page-cluster = 0
{switches}

[[workloads]]
name = "program"
load = {{ kind = "trace", path = "{trace}" }}
"""


def play(isotherm, trace, limit, switches):
    """How the program ends, and its major faults."""
    lines = "\n".join(f"{switch} = true" for switch in switches)
    with tempfile.NamedTemporaryFile("w", suffix=".toml") as scenario:
        scenario.write(SCENARIO.format(limit=limit, switches=lines, trace=trace))
        scenario.flush()
        command = [isotherm, "simulate", scenario.name, "--repeats", "1", "--metrics", "all", "--format", "json"]
        rows = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)["rows"]
    means = {row["metric"]: row["mean"] for row in rows}
    return "killed" if means["oom_kills"] else "finished", int(means["major_faults"])


def main():
    isotherm, trace, peak = sys.argv[1], pathlib.Path(sys.argv[2]).resolve(), int(sys.argv[3])
    print("share_percent,limit_kib,switches,ending,major_faults")
    for share in SHARES:
        for switches in SWITCHES:
            limit = peak * share // 100
            print(share, limit, "+".join(switches), *play(isotherm, trace, limit, switches), sep=",", flush=True)


if __name__ == "__main__":
    main()
