#!/usr/bin/env python3
# SPDX-License-Identifier: GPL-2.0-or-later
"""Tests of the tool in DIRECTORY, where the Makefile put it: `test/run.py DIRECTORY [NAME …]`."""

import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
import time

from spool import CLOCK, END, EXEC, EXIT, FILE, FORK, HELLO, IDLE, MAP, NOT_FOLLOWED, START, START_FAILED, THREAD, Recording

HERE = os.path.dirname(os.path.abspath(__file__))
TOOL = None
BUILD = None
PIPE = subprocess.PIPE
MS = 1_000_000

# Page of the mapping in pattern.c -> written.
EXPECTED = {1: 0, 3: 1, 5: 1, 7: 0, 8: 0, 10: 1, 11: 1, 13: 1, 15: 1, 20: 1, 21: 1, 22: 1, 30: 0, 31: 0, 32: 0, 40: 0, 41: 0,
            44: 1, 48: 1, 50: 1, 51: 1, 60: 1, 62: 1, 63: 1, 65: 1, 67: 0, 69: 0, 70: 0, 72: 1, 73: 1, 120: 1}
# Of these what only the kernel touched: buffers of system calls.
BY_KERNEL = {60, 62, 63, 65, 67, 69, 70}
EXPECTED_OF_THREAD = {100: 1, 101: 0}
EXPECTED_OF_FORK = {110: 1}
EXPECTED_AFTER_EXEC = {200: 1}
PATTERN_PAGES = 256


def program(name):
    """Compiles test/NAME.c once."""
    out = os.path.join(BUILD, name)
    if not os.path.exists(out):
        subprocess.run(["gcc", "-O1", "-Wall", "-Wextra", "-o", out, f"{HERE}/{name}.c", "-lpthread"], check=True)
    return out


def record(*command, status=0, **options):
    recording = Recording(TOOL, command, stdout=PIPE, stderr=PIPE, **options)
    got = recording.run()
    recording.out, recording.err = recording.child.stdout.read(), recording.child.stderr.read()
    recording.close()
    assert got == status, (got, recording.out, recording.err)
    return recording


def native(*command, **options):
    done = subprocess.run(command, capture_output=True, **options)
    return done.returncode, done.stdout, done.stderr


def within(thread, base):
    return {page - base: written for page, written in thread.pages().items() if base <= page < base + PATTERN_PAGES}


def test_pattern():
    recording = record(program("pattern"), status=7)
    first, second = (int(line, 16) for line in recording.out.split())
    assert within(recording.threads[0], first) == EXPECTED, within(recording.threads[0], first)
    assert {page - first for page in recording.threads[0].by_kernel()} & set(EXPECTED) == BY_KERNEL
    (thread,), (fork,) = recording.by_origin(THREAD), recording.by_origin(FORK)
    assert within(thread, first) == EXPECTED_OF_THREAD
    assert within(fork, first) == EXPECTED_OF_FORK
    (after,) = recording.by_origin(EXEC)
    assert within(after, second) == EXPECTED_AFTER_EXEC
    assert after.of(EXIT)[0][3] == [7] and len(after.of(END)) == 1
    assert after.hello[3][3] == 1 and thread.hello[3][3] == 1, "both were started by uid 0"
    started = [(fields[0], fields[1]) for _, _, _, fields, _ in recording.threads[0].of(START)]
    assert started == [(thread.uid, THREAD), (fork.uid, FORK), (after.uid, EXEC)]
    repeated = [page for epoch, page, _ in recording.threads[0].touches() if epoch == 0 and page == first + 5]
    assert len(repeated) == 1, "read and then written is one row"


def test_files():
    data, memory = os.path.join(BUILD, "data"), f"/dev/shm/isorec-test-{os.getpid()}"
    with open(data, "wb") as file:
        file.write(bytes(20 * 4096 + 100))
    try:
        recording = record(program("files"), data, memory)
    finally:
        os.unlink(memory)
    first = recording.threads[0]
    # test/files.c says what it does. Going on in a page is no new use; each transfer ends with its last byte.
    assert first.transfers(data) == [(0, 3, 0), (3, 2, 0), (20, 1, 0), (7, 2, 0), (9, 1, 0), (10, 1, 0), (2, 1, 1), (4, 2, 1),
                                     (5, 1, 0), (12, 2, 0), (21, 1, 1)], first.transfers(data)
    assert first.transfers(memory) == [(0, 1, 1), (1, 1, 1), (1, 2, 1), (0, 3, 0)], first.transfers(memory)
    named = {name: fields for _, _, _, fields, name in first.of(FILE)}
    assert named[os.fsencode(data)][1] == 0 and named[os.fsencode(memory)][1] == 1
    assert [fields[0] for _, _, _, fields, name in first.of(FILE) if name == os.fsencode(data)][0] == 21, "its length in pages"
    assert not [name for name in named if name.startswith((b"/proc", b"/sys", b"/dev/null"))], named
    (child,) = recording.by_origin(FORK)
    assert child.transfers(data) == [(6, 1, 0)]


def test_epochs_repeat_pages():
    # With epochs of 1000 instructions each epoch says anew what it touches.
    recording = record(program("behaviour"), "alone", epoch_instructions=1000, epoch_ns=200)
    thread = recording.threads[0]
    assert thread.epoch == thread.instructions() // 1000
    stack = max(page for page, written in thread.pages().items() if written)
    epochs = {epoch for epoch, page, _ in thread.touches() if page == stack}
    assert len(epochs) > 20


def prices():
    """Kind of work -> units, from the source."""
    with open(f"{HERE}/../src/prices.c", encoding="utf-8") as file:
        return {kind.lower(): int(units) for kind, units in re.findall(r"\[WORK_(\w+)\] = (\d+),", file.read())}


def amounts(path):
    """Kind of work -> amount, of all lines of a --count-mix file."""
    total = {}
    with open(path, encoding="ascii") as file:
        for word in file.read().split():
            kind, amount = word.split("=")
            total[kind] = total.get(kind, 0) + int(amount)
    return total


def work(*arguments):
    """The work of a program by kind, and its clock."""
    path = os.path.join(BUILD, "mix")
    if os.path.exists(path):
        os.remove(path)
    recording = record(program("work"), *arguments, epoch_instructions=0, options=[f"--count-mix={path}"])
    return amounts(path), recording.threads[0]


def test_work_is_counted_exactly():
    # A loop twice as long: the difference is the loop. What it does stands in work.c, as assembly.
    price, rounds = prices(), 100_000
    for kind, per_round in [
        ("plain", {"instruction": 4, "branch": 1}),
        ("loads", {"instruction": 4, "load": 1, "chase": 1, "branch": 1}),
        ("stores", {"instruction": 4, "store": 2, "branch": 1}),
        ("divides", {"instruction": 5, "divide": 1, "branch": 1}),
        ("multiplies", {"instruction": 3, "multiply": 1, "branch": 1}),
        ("floats", {"instruction": 4, "vector": 1, "divide": 1, "branch": 1}),
        ("strings", {"instruction": 5, "string_byte": 64, "branch": 1}),
        ("atomics", {"instruction": 3, "atomic": 1, "branch": 1}),
        ("calls", {"instruction": 4, "call": 1, "branch": 1}),
    ]:
        (once, first), (twice, second) = work(kind, str(rounds)), work(kind, str(2 * rounds))
        done = {name: twice[name] - once[name] for name in once}
        for name in set(done) - {"first_touch", "far_touch", "new_code", "branch", "loaded_branch", "load", "atomic"}:
            assert done[name] == per_round.get(name, 0) * rounds, (kind, name, done[name])
        for name in {"load", "atomic"} & set(per_round):
            assert done[name] >= per_round[name] * rounds, (kind, name, done[name])
        # The clock is the sum, to a nanosecond a reading.
        for amounts_done, thread in ((once, first), (twice, second)):
            units = sum(price.get(name, 0) * amount for name, amount in amounts_done.items())
            assert abs(thread.clock_ns() - units // 256) <= 1, (kind, thread.clock_ns(), units // 256)
            strings = amounts_done["string_byte"] // 8 if kind == "strings" else 0
            assert amounts_done["instruction"] <= thread.instructions() - strings


def test_divisions_take_longer_than_additions():
    (_, plain), (_, divides) = work("plain", "4000000"), work("divides", "4000000")
    assert divides.clock_ns() > 2 * plain.clock_ns(), (plain.clock_ns(), divides.clock_ns())


def test_far_memory_takes_longer():
    near, far = (record(program("work"), "touches", str(4_000_000), pages, epoch_instructions=0).threads[0]
                 for pages in ("100", "40000"))
    assert far.clock_ns() > 1.5 * near.clock_ns(), (near.clock_ns(), far.clock_ns())
    # However long the epoch is, the clock is the same but for the tool's own pages of code.
    others = [record(program("work"), "touches", "4000000", "40000", epoch_instructions=0, epoch_ns=ns).threads[0].clock_ns()
              for ns in (100_000, 50_000_000)]
    assert all(0.99 < other / far.clock_ns() < 1.01 for other in others), (far.clock_ns(), others)


def test_the_clock_is_the_same_each_time():
    def rows():
        thread = record(program("work"), "touches", "1000000", "9000", epoch_instructions=0).threads[0]
        return [each for each in thread.records if each[2] != HELLO]
    assert rows() == rows()


def test_instructions_of_one_length():
    # As `--time-per-kinstructions` wants it: nothing but instructions counts.
    thread = record(program("work"), "divides", "1000000", epoch_instructions=10_000, epoch_ns=3_000).threads[0]
    assert thread.clock_ns() == thread.instructions() * 3 // 10, (thread.clock_ns(), thread.instructions())


def test_clock_before_an_exec():
    recording = record("/bin/sh", "-c", "exec /bin/true", epoch_instructions=0)
    (after,) = recording.by_origin(EXEC)
    assert len(recording.threads[0].of(CLOCK)) == 1 and len(after.of(CLOCK)) == 1
    assert recording.threads[0].clock_ns() <= after.hello[3][5]


def test_native_programs():
    environment = {"PATH": "/usr/bin:/bin", "LC_ALL": "C"}
    for command, processes in [
        (["/bin/ls", "/"], 1),
        (["/bin/sh", "-c", "echo a; ls / | wc -l"], 3),
        (["/bin/sh", "-c", "ls /nonexistent; exit 4"], 2),
        (["/usr/bin/python3", "-c", "import sys; print(sum(range(1000))); sys.stderr.write('e'); sys.exit(9)"], 1),
        (["/bin/cat"], 1),
    ]:
        if not os.path.exists(command[0]):
            continue
        status, out, err = native(*command, env=environment, input=b"" if command[0] != "/bin/cat" else b"hello\n")
        recording = Recording(TOOL, command, stdin=PIPE, stdout=PIPE, stderr=PIPE, env=environment)
        recording.child.stdin.write(b"hello\n")
        recording.child.stdin.close()
        assert recording.run() == status, command
        assert recording.child.stdout.read() == out, command
        assert recording.child.stderr.read() == err, command
        threads = [thread for thread in recording.threads.values() if thread.of(HELLO)]
        pids = {thread.hello[3][1] for thread in threads}
        assert len(pids) == processes, (command, pids)
        assert all(thread.of(MAP) for thread in threads if thread.hello[3][4] in (0, EXEC))
        ended = {thread.uid for thread in threads if thread.of(END)} | {
            thread.uid for thread in threads if any(record[3][1] == EXEC for record in thread.of(START))}
        assert ended == {thread.uid for thread in threads}
        recording.close()


def test_signals():
    recording = record(program("behaviour"), "fault", status=-signal.SIGSEGV)
    assert recording.err == b"" and recording.threads[0].of(END)
    record(program("behaviour"), "registers")
    record("/bin/sh", "-c", "kill -TERM $$", status=-signal.SIGTERM)
    assert record("/bin/sh", "-c", "trap 'echo caught' USR1; kill -USR1 $$").out == b"caught\n"


def test_kill_leaves_the_chunk():
    recording = Recording(TOOL, [program("behaviour"), "victim"], stdout=PIPE)
    os.set_blocking(recording.child.stdout.fileno(), False)
    line, end = None, time.monotonic() + 60
    while not line and time.monotonic() < end:
        recording.receive(0.02)
        line = recording.child.stdout.read()
    before = len(recording.threads[0].records)
    recording.child.kill()
    assert recording.run() == -signal.SIGKILL
    assert recording.left() == [0], "the chunk file is there"
    assert len(recording.threads[0].records) > before, "and had what was not sent"
    base = int(line, 16)
    epochs = {epoch for epoch, page, written in recording.threads[0].touches() if page == base + 1 and written}
    assert len(epochs) >= 9, epochs
    recording.close()


def test_a_reader_that_goes_away():
    recording = Recording(TOOL, ["/bin/sh", "-c", "sleep 1; i=0; while [ $i -lt 20000 ]; do i=$((i+1)); done; echo done"],
                          stdout=PIPE)
    while not recording.threads:
        recording.receive(0.1)
    os.close(recording.fifo)
    out = recording.child.communicate()[0]
    assert (recording.child.returncode, out) == (0, b"done\n"), "the program runs on"
    with open(f"{recording.spool}/control", "rb") as control:
        assert control.read(16)[12] == 1
    recording.fifo = os.open("/dev/null", os.O_RDONLY)
    recording.close()


def test_closed_descriptors():
    recording = record(program("behaviour"), "closer")
    count, base = recording.out.split()
    assert count == b"0", "no descriptor of the tool's is in sight"
    pages = recording.threads[0].pages()
    assert all(pages.get(int(base, 16) + page) == 1 for page in range(64))


def test_idle_alone():
    # A machine that wakes it late changes nothing: the sleep lasts as long as the program asked for.
    recording = record(program("behaviour"), "alone")
    assert 199 * MS <= recording.threads[0].idle_ns() <= 200 * MS


def virtual_ns(thread):
    """Where a thread ended: start, computing and sleep. The default epoch: 5 instructions are 1 ns."""
    return thread.hello[3][5] + thread.instructions() // 5 + thread.idle_ns()


def test_idle_while_others_compute():
    # The sleeper goes on where the others are, whatever the wall said; those have not slept at all.
    for mode, count in [("sleeper", 2), ("readers", 2), ("many", 12)]:
        recording = record(program("behaviour"), mode)
        others = recording.by_origin(THREAD)
        assert len(others) == count
        reached = max(virtual_ns(thread) for thread in others)
        slept = recording.threads[0].idle_ns()
        assert slept < 150 * MS and slept <= reached, (mode, slept, reached)
        idle = [thread.idle_ns() for thread in others]
        assert sum(idle) < reached // 10, (mode, idle, reached)
        print(f"    {mode}: slept {slept / MS:.2f} ms, others reached {reached / MS:.2f} ms, their idle {sum(idle) / MS:.2f}")


def test_idle_side_by_side():
    recording = record(program("behaviour"), "side")
    (other,) = recording.by_origin(THREAD)
    assert 99 * MS <= other.idle_ns() <= 101 * MS, other.idle_ns()
    assert 199 * MS <= recording.threads[0].idle_ns() <= 205 * MS, recording.threads[0].idle_ns()


class BusyLoops:
    """Other programs on the one processor that the recorded one has."""

    def __enter__(self):
        processor = min(os.sched_getaffinity(0))
        loop = f"import os\nos.sched_setaffinity(0, [{processor}])\nwhile True: pass"
        self.loops = [subprocess.Popen([sys.executable, "-c", loop]) for _ in range(4)]
        return processor

    def __exit__(self, *_):
        for loop in self.loops:
            loop.kill()
            loop.wait()


def test_pollers_on_a_busy_machine():
    # A thread that computes and has no processor is no reason to sleep longer: pollers go on where it is.
    with BusyLoops() as processor:
        before = os.sched_getaffinity(0)
        os.sched_setaffinity(0, [processor])
        try:
            recording = record(program("behaviour"), "pollers")
        finally:
            os.sched_setaffinity(0, before)
    first = recording.threads[0]
    computed = first.instructions() // 5
    print(f"    computed {computed / MS:.2f} ms, ends {virtual_ns(first) / MS:.2f} ms")
    for thread in [first, *recording.by_origin(THREAD)]:
        assert virtual_ns(thread) < 1.1 * computed, (virtual_ns(thread), computed)


def test_idle_for_what_comes_from_outside():
    recording = Recording(TOOL, ["/bin/cat"], stdin=PIPE, stdout=PIPE, stderr=PIPE)
    writer = threading.Timer(1.5, recording.child.stdin.close)
    writer.start()
    assert recording.run() == 0
    writer.join()
    recording.close()
    assert 200 * MS < recording.threads[0].idle_ns() < 1600 * MS, recording.threads[0].idle_ns()


def test_a_killed_process_does_not_stop_the_idle_clock():
    script = "while :; do :; done & /bin/sleep 0.5; kill -9 $!; wait; /bin/sleep 1.2"
    recording = record("/bin/sh", "-c", script)
    slept = sum(thread.idle_ns() for thread in recording.by_origin(EXEC))
    assert slept >= 1200 * MS, slept


def test_programs_that_cannot_be_followed_count_as_outside():
    privileged = os.path.join(BUILD, "privileged")
    shutil.copy("/bin/sleep", privileged)
    os.chmod(privileged, 0o4755)
    recording = record("/bin/sh", "-c", f"{privileged} 0.5 & /bin/sleep 0.3; wait")
    (sleeper,) = recording.by_origin(EXEC)
    assert 299 * MS <= sleeper.idle_ns() <= 301 * MS, sleeper.idle_ns()


def test_idle_of_a_futex_ping_pong():
    # Two threads in turns: each sleeps while the other computes, and both end at the sum.
    recording = record(program("behaviour"), "futexes")
    (other,) = recording.by_origin(THREAD)
    first = recording.threads[0]
    computed = (first.instructions() + other.instructions()) // 5
    print(f"    ends {virtual_ns(first) / MS:.2f}, {virtual_ns(other) / MS:.2f} ms; computed in all {computed / MS:.2f} ms")
    for thread in (first, other):
        assert 0.9 * computed < virtual_ns(thread) < 1.1 * computed, (virtual_ns(thread), computed)


def test_idle_of_a_consumer():
    # The consumer waits for each item: its end is the producer's, not later; the producer never waits.
    recording = record(program("behaviour"), "producer")
    (consumer,) = recording.by_origin(THREAD)
    producer = recording.threads[0]
    computed = producer.instructions() // 5
    print(f"    producer {virtual_ns(producer) / MS:.2f}, consumer {virtual_ns(consumer) / MS:.2f} ms, computed "
          f"{computed / MS:.2f}, idle {producer.idle_ns() / MS:.2f} and {consumer.idle_ns() / MS:.2f} ms")
    assert producer.idle_ns() < computed // 10
    assert 0.9 * virtual_ns(producer) < virtual_ns(consumer) < 1.1 * virtual_ns(producer)


def texts(recording):
    return [name.decode() for thread in recording.threads.values() for _, _, _, _, name in thread.of(NOT_FOLLOWED)]


def test_exec():
    # One that fails, then one that works; a script; a name of its own.
    script = os.path.join(BUILD, "script")
    with open(script, "w", encoding="utf-8") as file:
        file.write("#! /bin/sh -e\necho \"$0\" \"$1\"\n")
    os.chmod(script, 0o755)
    code = (f"import os\ntry:\n os.execv('{BUILD}/nothing', ['x'])\nexcept OSError as error:\n print(error.errno, flush=True)\n"
            f"os.execv('{script}', ['x', 'argument'])")
    recording = record("/usr/bin/python3", "-c", code)
    assert recording.out == b"2\n" + script.encode() + b" argument\n", recording.out
    assert not texts(recording) and len(recording.by_origin(EXEC)) == 1
    recording = record("/usr/bin/python3", "-c", "import os; os.execv('/bin/cat', ['tac', '/proc/self/cmdline'])")
    recording = record("/usr/bin/python3", "-c", "import os; os.execv('/bin/sh', ['-x', '-c', 'echo $0'])")
    assert recording.out == b"-x\n", recording.out
    # Found to be no program after all: the announced one did not start.
    empty = os.path.join(BUILD, "empty")
    with open(empty, "wb") as file:
        file.write(b"\x7fELF\x02\x01\x01".ljust(18, b"\0") + b"\x3e\x00")
    os.chmod(empty, 0o755)
    code = f"import os\ntry:\n os.execv('{empty}', ['x'])\nexcept OSError as error:\n print('failed')"
    recording = record("/usr/bin/python3", "-c", code)
    started, not_started = recording.threads[0].of(START), recording.threads[0].of(START_FAILED)
    assert recording.out == b"failed\n" and [record[3][0] for record in started] == [record[3][0] for record in not_started]


def test_not_followed():
    other = os.path.join(BUILD, "other-machine")  # 32-bit: exits with 3
    code = bytes.fromhex("b801000000bb03000000cd80")
    address, header = 0x8048000, 52 + 32
    elf = b"\x7fELF\x01\x01\x01".ljust(16, b"\0")
    elf += (2).to_bytes(2, "little") + (3).to_bytes(2, "little") + (1).to_bytes(4, "little")
    for word in (address + header, 52, 0, 0):
        elf += word.to_bytes(4, "little")
    for half in (52, 32, 1, 0, 0, 0):
        elf += half.to_bytes(2, "little")
    for word in (1, 0, address, address, header + len(code), header + len(code), 5, 4096):
        elf += word.to_bytes(4, "little")
    with open(other, "wb") as file:
        file.write(elf + code)
    os.chmod(other, 0o755)
    status = native(other)[0]
    recording = record("/bin/sh", "-c", f"{other}; echo $?")
    assert recording.out == f"{status}\n".encode(), (recording.out, recording.err, status)
    assert texts(recording) == [f"{other} (not for x86-64)"]


def test_missing_options():
    for options, words in [(["--spool=/nonexistent", "--epoch-ns=1"], b"cannot map /nonexistent"),
                           ([], b"started by `isotherm record`")]:
        status, out, err = native(f"{TOOL}/isorec-launcher", "--tool=isorec", "-q", *options, "/bin/true")
        assert status == 1 and out == b"" and words in err, (status, err)


def main():
    global TOOL, BUILD
    TOOL, wanted = os.path.abspath(sys.argv[1]), sys.argv[2:]
    failed = 0
    with tempfile.TemporaryDirectory() as BUILD:
        os.chmod(BUILD, 0o755)
        for name, test in list(globals().items()):
            if not name.startswith("test_") or (wanted and name not in wanted):
                continue
            print(name, flush=True)
            try:
                test()
            except AssertionError as error:
                failed += 1
                line = error.__traceback__.tb_next
                while line.tb_next:
                    line = line.tb_next
                print(f"    FAILED at line {line.tb_lineno}: {error}", flush=True)
    print(f"{failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
