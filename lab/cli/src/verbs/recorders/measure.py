"""Runs a shell line, and a load on it if it is a server; prints its cost as JSON, its children included."""

import json
import os
import subprocess
import sys
import time

line, load = sys.argv[1], sys.argv[2]
SOCKET, WAIT_S = "server.sock", 120
if os.path.exists(SOCKET):
    os.unlink(SOCKET)
began = time.monotonic()
with open("said", "wb") as said:
    program = subprocess.Popen(["sh", "-c", line], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=said)
if load:
    deadline = time.monotonic() + WAIT_S
    while not os.path.exists(SOCKET) and time.monotonic() < deadline and not os.waitid(
        os.P_PID, program.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT
    ):
        time.sleep(0.01)
    subprocess.run(["sh", "-c", load], stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
_, status, usage = os.wait4(program.pid, 0)
wall = time.monotonic() - began
print(json.dumps({
    "cpu_ns": round((usage.ru_utime + usage.ru_stime) * 1e9),
    "wall_ns": round(wall * 1e9),
    "exit_code": os.waitstatus_to_exitcode(status),
}))
