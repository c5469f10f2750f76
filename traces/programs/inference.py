"""A recommender with weights of whole numbers, in NumPy: inference.py weights, then inference.py BATCHES.

`weights` writes eight tables of vectors for things that a user has looked at. A run maps them, looks up what users of a
batch have looked at (few things are popular, and what is popular drifts), adds the vectors up, and sends them through three
dense layers. Whole numbers, because the emulator computes with others a hundred times slower than the processor does.
"""

import sys

import numpy as np

TABLES, THINGS, WIDTH = 8, 300_000, 64
USERS, LOOKED = 512, 5
LAYERS = ((TABLES * WIDTH, 192), (192, 192), (192, 64))


def weights(path):
    chance = np.random.default_rng(13)
    shape = (TABLES, THINGS, WIDTH)
    tables = np.lib.format.open_memmap(path, mode="w+", dtype=np.int8, shape=shape)
    for table in tables:
        table[:] = chance.integers(-8, 8, (THINGS, WIDTH), dtype=np.int8)


def main():
    batches = int(sys.argv[1])
    tables = np.load("tables.npy", mmap_mode="r")
    chance = np.random.default_rng(14)
    dense = [chance.integers(-8, 8, shape, dtype=np.int32) for shape in LAYERS]
    history = np.zeros((batches, USERS, LAYERS[0][0]), np.int32)  # kept for the training of tomorrow
    best = np.zeros(THINGS, np.int32)
    for batch in range(batches):
        features = history[batch]
        for number, table in enumerate(tables):
            popular = THINGS * batch // (3 * batches)
            skewed = chance.random((USERS, LOOKED)) ** 8
            things = ((skewed * THINGS).astype(np.int64) + popular) % THINGS
            vectors = table[things]
            features[:, number * WIDTH : (number + 1) * WIDTH] = vectors.sum(axis=1, dtype=np.int32)
        values = features
        for layer in dense:
            values = (values @ layer) >> 5
            values = values * (values > 0)
        # The scores of a slice of candidates, for the first users.
        first = (batch * 7919 * 4) % (THINGS - 4000)
        scores = tables[0, first : first + 4000].astype(np.int32) @ values[:8].T
        best[first : first + 4000] = scores.max(axis=1)
    print(int(best.sum()), int(history.sum()))


if sys.argv[1] == "weights":
    weights("tables.npy")
else:
    main()
