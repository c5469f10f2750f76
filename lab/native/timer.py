"""A daemon that wakes each 100 ms and reads all of its state, 24 MiB. Prints how long each waking took, in ns."""
import sys
import time

ROUNDS = int(sys.argv[1])
state = bytearray(24 << 20)
for start in range(0, len(state), 4096):
    state[start] = start & 0xFF
took = []
due = time.monotonic()
for _ in range(ROUNDS):
    due += 0.1
    time.sleep(max(0.0, due - time.monotonic()))
    began = time.perf_counter_ns()
    total = sum(state[::64])
    took.append(time.perf_counter_ns() - began)
print("\n".join(map(str, took)))
