"""A data job in three phases: make sessions from a log, join them with users, sort and summarise. Plain Python, one thread."""

import heapq
import json
import sys

SESSIONS = int(sys.argv[1]) if len(sys.argv) > 1 else 600_000


def numbers(seed):
    while True:
        seed = (seed * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        yield seed >> 33


# Phase 1: read. Users come back with a skew: low numbers are frequent.
draw = numbers(42)
log = []
for index in range(SESSIONS):
    user = (next(draw) % 3000) * (next(draw) % 3000) // 180
    log.append({"user": user, "page": next(draw) % 5000, "ms": next(draw) % 10_000, "at": index})

# Phase 2: group by user, drop what was read.
by_user = {}
for entry in log:
    by_user.setdefault(entry["user"], []).append((entry["at"], entry["page"], entry["ms"]))
del log

# Phase 3: summarise, hottest users many times over.
summary = {}
for user, visits in by_user.items():
    visits.sort(key=lambda visit: visit[2])
    summary[user] = {"median": visits[len(visits) // 2][2], "pages": len({page for _, page, _ in visits})}
busiest = heapq.nlargest(200, by_user, key=lambda user: len(by_user[user]))
total = 0
for _ in range(60):
    for user in busiest:
        for _, page, ms in by_user[user]:
            total += page ^ ms
text = json.dumps(summary)
print(len(by_user), total, len(text), len(json.loads(text)))
