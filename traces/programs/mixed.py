"""A mixed file for a compressor: mixed.py BYTES > FILE. The same bytes every time.

Blocks of log text, of JSON, of sensor values in binary, of noise, and old blocks once more with small changes, which only a
compressor with a long window finds.
"""

import random
import struct
import sys

BLOCK = 1 << 20


def log(chance):
    """Lines of a server's log: few different words, many different numbers."""
    verbs, paths = ("GET", "PUT", "POST"), [f"/item/{i}/{chance.randrange(10**6)}" for i in range(200)]
    lines, size = [], 0
    while size < BLOCK:
        line = (
            f"2024-03-{chance.randrange(1, 29):02} {chance.choice(verbs)} {chance.choice(paths)} "
            f"{chance.choice((200, 200, 200, 304, 404))} {chance.randrange(10**5)}\n"
        )
        lines.append(line)
        size += len(line)
    return "".join(lines).encode()[:BLOCK]


def json(chance):
    """Records with names from a vocabulary of 5000 words."""
    letters = "etaoinshrdlu"
    words = ["".join(chance.choices(letters, k=chance.randrange(3, 10))) for _ in range(5000)]
    records, size = [], 0
    while size < BLOCK:
        text = " ".join(chance.choices(words, k=12))
        record = f'{{"id": {chance.randrange(10**9)}, "name": "{chance.choice(words)}", "text": "{text}"}},\n'
        records.append(record)
        size += len(record)
    return "".join(records).encode()[:BLOCK]


def sensor(chance):
    """Little-endian 32-bit walks of eight sensors."""
    values, out = [chance.randrange(10**6) for _ in range(8)], []
    for _ in range(BLOCK // 32):
        values = [value + chance.randrange(-20, 21) for value in values]
        out.append(struct.pack("<8i", *values))
    return b"".join(out)


def again(chance, blocks):
    """An old block with a hundred changed bytes."""
    block = bytearray(chance.choice(blocks))
    for _ in range(100):
        block[chance.randrange(BLOCK)] = chance.randrange(256)
    return bytes(block)


def main():
    chance = random.Random(13)
    blocks = []
    for number in range(int(sys.argv[1]) // BLOCK):
        kind = number % 5
        if kind == 4 and number > 10:
            blocks.append(again(chance, blocks))
        elif kind == 3:
            blocks.append(chance.randbytes(BLOCK))
        else:
            blocks.append((log, json, sensor, log, json)[kind](chance))
        sys.stdout.buffer.write(blocks[-1])


main()
