#!/usr/bin/env python3
"""Runs two programs under memory limits, with files that their group pays for (cold) and that others have read (warm).

Writes CSV: program, files, share of the peak in percent, limit in KiB, how it ended, seconds, major faults. Needs root, a memory controller
of cgroup v1, swap that is on, and mawk and xz. Programs, libraries and inputs are copies in a folder of their own, so that no other program
has them mapped; before a cold run they leave the page cache. Leaves nothing behind.

    python3 lab/native/cold_and_warm.py 3 > runs.csv      # three runs each, six minutes
"""

import os
import shutil
import subprocess
import sys
import tempfile
import time

HERE = os.path.dirname(os.path.abspath(__file__))
GROUP = f"/sys/fs/cgroup/memory/isotherm-cold-and-warm.{os.getpid()}"
SHARES = [95, 90, 85, 80, 70]
LONGEST_S = 60


def counters(path):
    with open(path) as lines:
        pairs = [line.split() for line in lines]
    return {pair[0]: int(pair[1]) for pair in pairs if len(pair) == 2 and pair[1].isdigit()}


def copy_of(program, folder):
    """Copies a program with its libraries; returns the command that starts the copy."""
    where = shutil.which(program) or sys.exit(f"{program} is not installed")
    shutil.copy(os.path.realpath(where), f"{folder}/{program}")
    for line in subprocess.check_output(["ldd", where], text=True).splitlines():
        for word in line.split():
            if word.startswith("/"):
                shutil.copy(word, folder)
    loader = next(name for name in os.listdir(folder) if name.startswith("ld-linux"))
    return [f"{folder}/{loader}", "--library-path", folder, f"{folder}/{program}"]


def forget(folder):
    """Has all files of a folder leave the page cache."""
    for name in os.listdir(folder):
        file = os.open(f"{folder}/{name}", os.O_RDONLY)
        os.fsync(file)
        os.posix_fadvise(file, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(file)


def run(command, limit, read_every_s=None):
    """How a run ends, its seconds, major faults and peak in KiB; `limit` in KiB, 0: none. `read_every_s`: time between two reads of the
    group's memory.stat while it runs; None: it is read at the end only."""
    os.mkdir(GROUP)
    try:
        return run_in_group(command, limit, read_every_s)
    finally:
        for _ in range(100):
            try:
                os.rmdir(GROUP)
                break
            except OSError:
                time.sleep(0.05)  # the kernel is not through with the last process


def run_in_group(command, limit, read_every_s):
    if limit:
        with open(f"{GROUP}/memory.limit_in_bytes", "w") as knob:
            knob.write(str(limit << 10))

    def enter():
        with open(f"{GROUP}/cgroup.procs", "w") as knob:
            knob.write(str(os.getpid()))

    begun = time.monotonic()
    with subprocess.Popen(command, preexec_fn=enter, stdout=subprocess.DEVNULL) as process:
        while process.poll() is None and time.monotonic() < begun + LONGEST_S:
            try:
                process.wait(read_every_s or LONGEST_S)
            except subprocess.TimeoutExpired:
                counters(f"{GROUP}/memory.stat")
        process.kill()
    seconds = time.monotonic() - begun
    killed = counters(f"{GROUP}/memory.oom_control")["oom_kill"] > 0
    ending = "killed" if killed else "finished" if process.returncode == 0 else "too long"
    with open(f"{GROUP}/memory.max_usage_in_bytes") as peak:
        return ending, seconds, counters(f"{GROUP}/memory.stat")["pgmajfault"], int(peak.read()) >> 10


def programs_in(folder):
    """Copies the programs and their input into a folder; returns their commands by name."""
    with open(f"{folder}/words.txt", "w") as words:
        subprocess.run([sys.executable, f"{HERE}/words.py", "60000"], stdout=words, check=True)
    return {
        "awk": [*copy_of("mawk", folder), "-f", f"{HERE}/pairs.awk", f"{folder}/words.txt"],
        "xz": [*copy_of("xz", folder), "-6", "-T1", "-k", "-c", f"{folder}/words.txt"],
    }


def main():
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 3
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        programs = programs_in(folder)
        print("program,files,share_percent,limit_kib,ending,seconds,major_faults")
        for name, command in programs.items():
            forget(folder)
            peak = run(command, 0)[3]
            for files in ["cold", "warm"]:
                for share in SHARES:
                    for _ in range(times):
                        if files == "cold":
                            forget(folder)
                        ending, seconds, faults, _ = run(command, peak * share // 100)
                        row = [name, files, share, peak * share // 100, ending, f"{seconds:.2f}", faults]
                        print(*row, sep=",", flush=True)


if __name__ == "__main__":
    main()
