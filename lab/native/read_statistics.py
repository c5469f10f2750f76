#!/usr/bin/env python3
"""What a reader of memory.stat changes: the programs of cold_and_warm.py under limits, alone, and with their group's memory.stat read
every 20 ms while they run. A read has the kernel add the group's counters up, which its worker does every 2 s otherwise.

Writes CSV: program, files, share of the peak in percent, milliseconds between reads (none: not read), how it ended, seconds, major faults.
Needs what cold_and_warm.py needs. Leaves nothing behind.

    python3 lab/native/read_statistics.py 4 > runs.csv
"""

import sys
import tempfile

import cold_and_warm as groups

SHARES = {"awk": [85, 80], "xz": [85, 80]}
READ_EVERY_S = [None, 0.02]


def main():
    times = int(sys.argv[1]) if len(sys.argv) > 1 else 4
    with tempfile.TemporaryDirectory(dir="/var/tmp") as folder:
        print("program,files,share_percent,read_every_ms,ending,seconds,major_faults")
        for name, command in groups.programs_in(folder).items():
            groups.forget(folder)
            peak = groups.run(command, 0)[3]
            for files, share in [(files, share) for files in ["cold", "warm"] for share in SHARES[name]]:
                for every in READ_EVERY_S * times:
                    if files == "cold":
                        groups.forget(folder)
                    ending, seconds, faults, _ = groups.run(command, peak * share // 100, every)
                    read = "none" if every is None else int(every * 1000)
                    print(name, files, share, read, ending, f"{seconds:.2f}", faults, sep=",", flush=True)


if __name__ == "__main__":
    main()
