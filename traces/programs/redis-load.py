"""Load on a Redis server: fill, skewed reads and writes, expiry of a part, reads again, then shut the server down."""

import socket
import sys
import time

KEYS, REQUESTS, PIPELINE = 160_000, 1_400_000, 100


def connect(port):
    for _ in range(600):
        try:
            return socket.create_connection(("127.0.0.1", port))
        except ConnectionRefusedError:
            time.sleep(0.1)
    sys.exit("the server does not answer")


def command(*words):
    parts = [b"*%d\r\n" % len(words)]
    for word in words:
        parts.append(b"$%d\r\n%s\r\n" % (len(word), word))
    return b"".join(parts)


def exchange(connection, reader, commands):
    """Sends a pipeline and reads as many answers."""
    connection.sendall(b"".join(commands))
    for _ in commands:
        line = reader.readline()
        if line.startswith(b"$") and not line.startswith(b"$-1"):
            reader.read(int(line[1:]) + 2)


def numbers(seed):
    while True:
        seed = (seed * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        yield seed >> 33


def batches(commands):
    batch = []
    for one in commands:
        batch.append(one)
        if len(batch) == PIPELINE:
            yield batch
            batch = []
    if batch:
        yield batch


def key(number):
    # Spread, so that neighbours in popularity are not neighbours in memory.
    return b"key:%06d" % (number * 48271 % KEYS)


def fill():
    for number in range(KEYS):
        yield command(b"SET", key(number), b"v" * (100 + number % 500))


def skewed(draw, count, writes_in_ten):
    for _ in range(count):
        # The product of two even draws: small numbers are far more frequent.
        number = (next(draw) % KEYS) * (next(draw) % KEYS) // KEYS
        if next(draw) % 10 < writes_in_ten:
            yield command(b"SET", key(number), b"w" * (100 + next(draw) % 500))
        else:
            yield command(b"GET", key(number))


def main():
    connection = connect(int(sys.argv[1]))
    reader = connection.makefile("rb")
    draw = numbers(1)
    phases = [
        fill(),
        skewed(draw, REQUESTS // 2, 1),
        (command(b"DEL", key(number)) for number in range(KEYS // 2, KEYS)),
        skewed(draw, REQUESTS // 2, 3),
    ]
    for phase in phases:
        for batch in batches(phase):
            exchange(connection, reader, batch)
    connection.sendall(command(b"SHUTDOWN", b"NOSAVE"))
    reader.read()


main()
