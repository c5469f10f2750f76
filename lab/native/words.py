"""Prints a text of made words, the same each time: `words.py LINES`. Word n comes up about as often as words of texts do."""
import random
import sys

chance = random.Random(1)
words = ["".join(chance.choice("etaoinshrdlucmfwypvbgkjqxz") for _ in range(chance.randint(2, 9))) for _ in range(60_000)]
for _ in range(int(sys.argv[1])):
    print(" ".join(words[int(chance.random() ** 3 * len(words))] for _ in range(12)))
