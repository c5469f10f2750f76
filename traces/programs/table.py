"""Scans a table of 4 KiB records by read(), looks single ones up by pread(), and keeps an index of it in memory.

Usage: table.py FILE SCANS. The same each time: its chance is its own.
"""

import os
import sys

RECORD = 4096
CHUNK = 32 * RECORD


def scan(table, index):
    """Reads all records in order; every sixteenth changes the index."""
    os.lseek(table, 0, os.SEEK_SET)
    number = 0
    while chunk := os.read(table, CHUNK):
        for at in range(0, len(chunk), RECORD):
            if number % 16 == 0:
                index[number * 256 : number * 256 + 8] = chunk[at : at + 8]
            number += 1
    return number


def look_up(table, records, times, seed):
    """Reads `times` records, most of them from the first tenth."""
    for _ in range(times):
        seed = (seed * 6364136223846793005 + 1442695040888963407) % 2**64
        hot = (seed >> 60) < 13
        number = (seed >> 20) % (records // 10 if hot else records)
        os.pread(table, 100, number * RECORD)
    return seed


def main():
    path, scans = sys.argv[1], int(sys.argv[2])
    table = os.open(path, os.O_RDONLY)
    records = os.fstat(table).st_size // RECORD
    index = bytearray(records * 256 + 8)
    seed = 1
    for _ in range(scans):
        scan(table, index)
        seed = look_up(table, records, 4000, seed)


main()
