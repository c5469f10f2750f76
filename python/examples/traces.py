"""A recording as a table: what is hot, and how much memory the program needs."""

from __future__ import annotations

import sys

import numpy as np

import isotherm


def main(path: str) -> None:
    """Prints the hottest pages of a trace, its working set, and the advice on it."""
    trace = isotherm.Trace.open(path)
    table = trace.table()
    page, pages = table["page"], table["pages"]
    hottest, touches = np.unique(page[pages == 1], return_counts=True)
    order = np.argsort(touches)[::-1][:5]
    print(trace)
    print("most touched:", [(hex(int(hottest[at]) * trace.page_bytes), int(touches[at])) for at in order])
    print("largest working set of 100 ms:", int(trace.wss()["touched_bytes"].max()), "bytes")
    advice = isotherm.advise(trace, effort="quick", memory=["50%", "75%"])
    print(advice)
    if advice.recommendation is not None:
        print(f"memory.max = {advice.recommendation.memory_bytes}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "traces/sqlite.parquet")
