"""How fast libCacheSim replays a trace under LRU.

    libcachesim_speed.py TRACE PAGES [TIMES]

Reads an oracleGeneral trace of 4 KiB pages and replays it through `process_trace`, which runs in C without a call into
Python per request. Prints one line, separated by tabs: requests, misses, and nanoseconds of CPU time per request (the best
of TIMES replays, by default 3).
"""

import os
import sys
import time

import libcachesim

PAGE_BYTES = 4096
RECORD_BYTES = 24


def main():
    if len(sys.argv) not in (3, 4):
        sys.exit(__doc__)
    trace, pages = sys.argv[1], int(sys.argv[2])
    times = int(sys.argv[3]) if len(sys.argv) == 4 else 3
    requests = os.path.getsize(trace) // RECORD_BYTES
    best = None
    for _ in range(times):
        reader = libcachesim.TraceReader(trace, libcachesim.TraceType.ORACLE_GENERAL_TRACE)
        cache = libcachesim.LRU(pages * PAGE_BYTES)
        start = time.process_time_ns()
        miss_ratio, _ = cache.process_trace(reader)
        spent = time.process_time_ns() - start
        best = spent if best is None else min(best, spent)
    print(requests, round(miss_ratio * requests), f"{best / requests:.2f}", sep="\t")


if __name__ == "__main__":
    main()
