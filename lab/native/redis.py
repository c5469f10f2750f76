"""Starts redis-server without persistence, fills it with 40,000 values, and reads 200 of them each 50 ms, four of five among a tenth.
Prints how long each round took, in ns."""
import os
import random
import socket
import subprocess
import sys
import tempfile
import time

ROUNDS = int(sys.argv[1])
VALUES = 40_000


def command(*words):
    parts = [word.encode() if isinstance(word, str) else word for word in words]
    return b"".join([b"*%d\r\n" % len(parts), *(b"$%d\r\n%s\r\n" % (len(part), part) for part in parts)])


def connect(path):
    for _ in range(3000):
        try:
            client = socket.socket(socket.AF_UNIX)
            client.connect(path)
            return client
        except OSError:
            client.close()
            time.sleep(0.02)
    sys.exit("redis-server did not start")


def ask(client, commands, bytes_expected):
    client.sendall(b"".join(commands))
    got = 0
    while got < bytes_expected:
        part = client.recv(1 << 20)
        if not part:
            sys.exit("redis-server went away")
        got += len(part)


with tempfile.TemporaryDirectory() as folder:
    path = os.path.join(folder, "socket")
    server = subprocess.Popen(["redis-server", "--port", "0", "--unixsocket", path, "--save", "", "--daemonize", "no"],
                              stdout=subprocess.DEVNULL)
    client = connect(path)
    value = b"v" * 600
    for start in range(0, VALUES, 500):
        ask(client, [command("SET", f"key:{number}", value) for number in range(start, start + 500)], 500 * len(b"+OK\r\n"))
    chance = random.Random(7)
    took = []
    for _ in range(ROUNDS):
        time.sleep(0.05)
        keys = [chance.randrange(VALUES // 10 if chance.random() < 0.8 else VALUES) for _ in range(200)]
        began = time.perf_counter_ns()
        ask(client, [command("GET", f"key:{key}") for key in keys], 200 * (len(b"$600\r\n\r\n") + len(value)))
        took.append(time.perf_counter_ns() - began)
    client.sendall(command("SHUTDOWN", "NOSAVE"))
    server.wait()
print("\n".join(map(str, took)))
