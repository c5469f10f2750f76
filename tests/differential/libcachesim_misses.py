"""Which requests of a trace miss in libCacheSim.

    libcachesim_misses.py PAGES[,PAGES…] TRACE…

Reads oracleGeneral traces of 4 KiB pages, replays each under LRU, FIFO, Clock and Belady with memory for PAGES pages, and
prints one line each, separated by tabs:

    trace  policy  pages  requests  misses  digest

policy is isotherm's name for it. digest is FNV-1a (64 bits, hexadecimal) over a bitmap of the misses: bit i % 8 of byte
i // 8 is set when request i (counted from 0) missed. Equal digests mean: the same requests missed.
"""

import pathlib
import sys

import libcachesim

POLICIES = {
    "lru": libcachesim.LRU,
    "fifo": libcachesim.FIFO,
    "clock": libcachesim.Clock,
    "opt": libcachesim.Belady,
}
PAGE_BYTES = 4096


def misses(trace, policy, pages):
    """(requests, misses, digest) of one replay."""
    reader = libcachesim.TraceReader(str(trace), libcachesim.TraceType.ORACLE_GENERAL_TRACE)
    cache = POLICIES[policy](pages * PAGE_BYTES, hashpower=16)
    bitmap = bytearray()
    requests = missed = 0
    for request in reader:
        if requests % 8 == 0:
            bitmap.append(0)
        if not cache.get(request):
            bitmap[requests // 8] |= 1 << requests % 8
            missed += 1
        requests += 1
    return requests, missed, fnv1a(bitmap)


def fnv1a(data):
    digest = 0xCBF29CE484222325
    for byte in data:
        digest = (digest ^ byte) * 0x100000001B3 & 0xFFFFFFFFFFFFFFFF
    return digest


def main():
    if len(sys.argv) < 3:
        sys.exit(__doc__)
    sizes = [int(size) for size in sys.argv[1].split(",")]
    for trace in map(pathlib.Path, sys.argv[2:]):
        for policy in POLICIES:
            for pages in sizes:
                requests, missed, digest = misses(trace, policy, pages)
                print(trace.stem, policy, pages, requests, missed, f"{digest:016x}", sep="\t")


if __name__ == "__main__":
    main()
