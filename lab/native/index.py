"""An index of a text, where each word stands, and 3,000 questions for lines that have two words: `index.py FILE`."""
import collections
import random
import sys

places = collections.defaultdict(set)
with open(sys.argv[1]) as text:
    for number, line in enumerate(text):
        for word in line.split():
            places[word].add(number)
names = sorted(places, key=lambda word: (-len(places[word]), word))
chance = random.Random(2)
found = 0
for _ in range(3_000):
    first, second = (names[int(chance.random() ** 2 * len(names))] for _ in range(2))
    found += len(places[first] & places[second])
print(found)
