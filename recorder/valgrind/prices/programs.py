# SPDX-License-Identifier: GPL-2.0-or-later
"""The programs that prices are fitted to, and the other ones that they are judged on. Both lists were fixed before the first fit."""

import glob
import os
import re
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
ROOT = os.path.normpath(f"{HERE}/../../..")
PORT = 7981

LOOPS = [
    "add 200000000 0", "multiply 150000000 0", "divide 60000000 0", "floats 100000000 0", "float_array 200000 64",
    "float_array 200000 16384", "float_divide 60000000 0", "chase 100000000 32", "chase 20000000 1024", "chase 6000000 16384",
    "chase 3000000 131072", "stream 200000000 65536", "stride 60000000 4096", "stride 20000000 131072", "fill 100000000 32768",
    "copy 1000000 4096", "branches 50000000 0", "indirect 50000000 0", "atomics 40000000 0", "calls 2000000 0",
    "files 60000 0", "reads 60000 16", "maps 100000 64", "pipes 200000 4", "sockets 60000 1", "sockets 20000 16",
    "forks 1000 1000", "threads 10000 0",
]

PYTHON_JSON = """
import json, re
words = re.compile(r"[a-z]+")
for _ in range(6):
    rows = [{"id": i, "name": f"row {i}", "tags": ["a", str(i % 7)], "x": i / 3} for i in range(20000)]
    text = json.dumps(rows)
    back = json.loads(text)
    print(len(text), sum(len(word) for word in words.findall(text)), sum(row["x"] for row in back))
"""
PYTHON_FLOATS = """
def step(a, b, c):
    for i in range(len(a)):
        a[i], b[i], c[i] = a[i] + 0.01 * b[i], b[i] - 0.01 * c[i] * a[i], (c[i] * 0.9 + a[i]) / 2.0
a, b, c = ([0.1 * i for i in range(1000)] for _ in range(3))
for _ in range(1500):
    step(a, b, c)
print(sum(a))
"""
PERL = r"""
my %count; open my $in, '<', 'words.txt';
while (<$in>) { $count{$_}++ for split ' '; }
my @top = sort { $count{$b} <=> $count{$a} || $a cmp $b } keys %count;
print join(' ', @top[0..9]), "\n";
"""
LUA = """
local function fib(n) if n < 2 then return n end return fib(n - 1) + fib(n - 2) end
local parts = {}
for i = 1, 300000 do parts[#parts + 1] = tostring(i * 7 % 1000) end
table.sort(parts)
print(fib(29), #table.concat(parts, ","))
"""
JAVA = """
import java.util.*;
public class Work {
   public static void main(String[] arguments) {
      long sum = 0;
      for (int round = 0; round < 12; round++) {
         Map<Integer, String> map = new TreeMap<>();
         for (int i = 0; i < 100000; i++) map.put((i * 48271) % 1000003, "value " + i);
         for (String value : map.values()) sum += value.hashCode();
      }
      System.out.println(sum);
   }
}
"""
RANDOM = """
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
int main(void)
{
   size_t length = 256 << 20;
   uint8_t* bytes = mmap(0, length, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
   uint64_t x = 1, sum = 0;
   memset(bytes, 1, length);
   for (int i = 0; i < 20000000; i++) {
      x = x * 6364136223846793005u + 1442695040888963407u;
      sum += bytes[x >> 36];
   }
   printf("%lu\\n", sum);
}
"""
THREADS = """
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#define SLOTS (1 << 20)
static uint64_t table[SLOTS];
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static long merged;
static void* work(void* argument)
{
   uint64_t x = (uint64_t)argument + 1, own[512] = { 0 };
   for (int i = 0; i < 60000000; i++) {
      x = x * 2862933555777941757u + 3037000493u;
      own[x >> 55] += x & 15;
      if (i % 8 == 0) table[(x >> 40) % SLOTS] = x;
      if (i % 4096 == 0) {
         pthread_mutex_lock(&mutex);
         for (int j = 0; j < 512; j++) merged += own[j];
         pthread_mutex_unlock(&mutex);
      }
   }
   return 0;
}
int main(void)
{
   pthread_t threads[4];
   for (long i = 0; i < 4; i++) pthread_create(&threads[i], 0, work, (void*)i);
   for (int i = 0; i < 4; i++) pthread_join(threads[i], 0);
   printf("%ld\\n", merged);
}
"""
UNIT = """
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
struct item { int key; char name[16]; struct item* next; };
static int compare(const void* a, const void* b) { return ((const struct item*)a)->key - ((const struct item*)b)->key; }
int unit_%d(int count)
{
   struct item* items = calloc((size_t)count, sizeof *items);
   for (int i = 0; i < count; i++) {
      items[i].key = (i * 7919 + %d) %% count;
      snprintf(items[i].name, sizeof items[i].name, "%%d", i);
   }
   qsort(items, (size_t)count, sizeof *items, compare);
   int sum = 0;
   for (int i = 1; i < count; i++) sum += strcmp(items[i].name, items[i - 1].name) < 0 ? items[i].key : 1;
   free(items);
   return sum;
}
"""
UNITS = 12


class Program:
    def __init__(self, name, command, beside=None):
        self.name, self.command, self.beside = name, command, beside


def fitting():
    yield from (Program("loop " + line, ["./loops", *line.split()]) for line in LOOPS)
    yield Program("perl", ["perl", "words.pl"])
    yield Program("gawk", ["gawk", "{ for (i = 1; i <= NF; i++) n[$i]++ } END { for (w in n) if (n[w] > 900) print w, n[w] }", "words.txt"])
    yield Program("mawk", ["mawk", "{ s += length($2); x[$3 % 100] += $4 * 1.5 } END { print s, x[7] }", "table.txt"])
    yield Program("sort", ["sort", "--parallel=1", "-o", "sorted.txt", "table.txt"])
    yield Program("sed", ["sed", "-n", "s/[aeiou]\\+\\([bcd]\\)/<\\1>/gp", "words.txt"])
    yield Program("grep", ["grep", "-cE", "(ab|cd)+[xyz]{2}.*e$", "words.txt"])
    yield Program("gzip", ["gzip", "-kf", "words.txt"])
    yield Program("bzip2", ["bzip2", "-kf", "half.txt"])
    yield Program("xz", ["xz", "-kf", "-T1", "-4", "quarter.txt"])
    yield Program("zstd", ["zstd", "-qf", "--single-thread", "-9", "words.txt"])
    yield Program("tar", ["tar", "-cf", "files.tar", "many"])
    yield Program("sha256sum", ["sha256sum", "big.bin"])
    yield Program("openssl", ["openssl", "enc", "-chacha20", "-pass", "pass:x", "-iter", "200000", "-in", "big.bin", "-out", "big.enc"])
    yield Program("git", ["git", "-C", ROOT, "log", "--stat", "-n", "60"])
    yield Program("git grep", ["git", "-C", ROOT, "grep", "-c", "-E", "fn [a-z]+_[a-z]+\\("])
    yield Program("python json", ["/usr/bin/python3", "-c", PYTHON_JSON])
    yield Program("python floats", ["/usr/bin/python3", "-c", PYTHON_FLOATS])
    yield Program("lua", ["lua5.4", "work.lua"])
    yield Program("java", ["java", "-XX:+UseSerialGC", "-Xmx256m", "-cp", ".", "Work"])
    yield Program("shell", ["/bin/sh", "-c", "i=0; while [ $i -lt 150 ]; do /bin/true; i=$((i+1)); done; ls -lR many | wc -l"])


def judged():
    yield Program("Python, sessions.py", ["/usr/bin/python3", f"{ROOT}/traces/programs/sessions.py", "120000"])
    yield Program("SQLite", ["sqlite3", "orders.db", ".read orders.sql"])
    yield Program("gcc -O2 of one file", ["gcc", "-O2", "-c", "-I", f"{zstd()}", "-o", "zstd.o", f"{zstd()}/compress/zstd_compress.c"])
    yield Program("redis-server under load", ["redis-server", "--port", str(PORT), "--save", "", "--appendonly", "no"],
                  beside=["/usr/bin/python3", "load.py", str(PORT)])
    yield Program("Node.js", ["node", f"{ROOT}/traces/programs/objects.js", "600000"])
    yield Program("C, four threads", ["./threads"])
    yield Program("build (fork and exec)", ["/bin/sh", "build.sh"])
    yield Program("C, random accesses", ["./random"])


def zstd():
    found = sorted(glob.glob(os.path.expanduser("~/.cargo/registry/src/*/zstd-sys-*/zstd/lib")))
    return found[-1] if found else sys.exit("zstd's sources are missing: cargo fetch")


def write(name, text):
    with open(name, "w", encoding="utf-8") as file:
        file.write(text)


def numbers(seed):
    while True:
        seed = (seed * 6364136223846793005 + 1442695040888963407) % (1 << 64)
        yield seed >> 33


def compile(name, text):
    write(f"{name}.c", text)
    subprocess.run(["gcc", "-O2", "-o", name, f"{name}.c", "-lpthread"], check=True)


def prepare(folder):
    """Makes the inputs in `folder` and goes there."""
    os.makedirs(f"{folder}/many", exist_ok=True)
    os.chdir(folder)
    subprocess.run(["gcc", "-O2", "-o", "loops", f"{HERE}/loops.c", "-lpthread"], check=True)
    compile("random", RANDOM)
    compile("threads", THREADS)
    draw = numbers(11)
    letters = "etaoinshrdlucmfwypvbgkqjxz"
    vocabulary = ["".join(letters[min(next(draw) % 26, next(draw) % 26)] for _ in range(2 + next(draw) % 9)) for _ in range(20000)]
    words = " ".join(vocabulary[next(draw) % 20000 * (next(draw) % 20000) // 20000] + ("\n" if next(draw) % 10 == 0 else "")
                     for _ in range(1_200_000))
    write("words.txt", words)
    write("half.txt", words[:len(words) // 2])
    write("quarter.txt", words[:len(words) // 4])
    write("table.txt", "".join(f"{next(draw)} {vocabulary[next(draw) % 20000]} {next(draw) % 1000} {i}.5\n" for i in range(200_000)))
    with open("big.bin", "wb") as file:
        file.write(words.encode() * 16)
    for i in range(300):
        write(f"many/file{i}", words[i * 1000:i * 1000 + 9000])
    write("words.pl", PERL)
    write("work.lua", LUA)
    write("Work.java", JAVA)
    subprocess.run(["javac", "Work.java"], check=True)
    with open(f"{ROOT}/traces/programs/sqlite.sql", encoding="utf-8") as file:
        write("orders.sql", "DROP TABLE IF EXISTS orders;\n" + file.read().replace("1100000", "250000").replace("320000", "80000"))
    with open(f"{ROOT}/traces/programs/redis-load.py", encoding="utf-8") as file:
        write("load.py", re.sub(r"= 160_000, 1_400_000, 100", "= 60_000, 400_000, 20", file.read()))
    lines = []
    for i in range(UNITS):
        write(f"unit{i}.c", UNIT % (i, i))
        lines.append(f"gcc -O1 -c -o unit{i}.o unit{i}.c")
    calls = "".join(f"int unit_{i}(int);" for i in range(UNITS)), "+".join(f"unit_{i}(1000)" for i in range(UNITS))
    write("main.c", f"{calls[0]} int main(void) {{ return ({calls[1]}) & 1; }}")
    write("build.sh", "set -e\n" + "\n".join(lines) + "\nar rc units.a unit*.o\ngcc -o built main.c units.a\n")
