# SPDX-License-Identifier: GPL-2.0-or-later
"""A small reader of the spool protocol (docs/use/recording.md#protocol), written apart from the recorder's own, and a runner that
starts a program under the tool."""

import os
import select
import shutil
import struct
import subprocess
import tempfile
import time
from collections import defaultdict

MAGIC = b"iTR1"
CHUNK_BYTES, HEADER_BYTES = 4096, 16
HELLO, EPOCH, ROW, MAP, UNMAP, DISCARD, REMAP, START, START_FAILED, IDLE, END, NOT_FOLLOWED, EXIT, FILE, \
    TRANSFER, KERNEL_ROW, CLOCK = range(1, 18)
FIELDS = {HELLO: 6, EPOCH: 2, ROW: 2, MAP: 4, UNMAP: 2, DISCARD: 2, REMAP: 4, START: 2, START_FAILED: 1, IDLE: 1, END: 1,
          NOT_FOLLOWED: 0, EXIT: 1, FILE: 2, TRANSFER: 2, KERNEL_ROW: 2, CLOCK: 2}
NAMED = {HELLO, MAP, NOT_FOLLOWED, FILE}
PROGRAM, THREAD, FORK, EXEC = range(4)


class Thread:
    """What one uid has sent."""

    def __init__(self, uid):
        self.uid, self.sequence, self.epoch, self.order = uid, 0, 0, 0
        self.records = []  # (epoch, order, tag, fields, name); a row's and a transfer's fields are (page, pages, written)

    def take(self, sequence, payload):
        if sequence < self.sequence:
            return  # seen already
        assert sequence == self.sequence, f"uid {self.uid}: chunk {sequence} after {self.sequence - 1}"
        self.sequence += 1
        offset, row_end, transfer_end, file = 0, 0, 0, None
        while offset < len(payload):
            tag = payload[offset]
            offset += 1
            fields = []
            for _ in range(FIELDS[tag]):
                value, offset = varint(payload, offset)
                fields.append(value)
            name = None
            if tag in NAMED:
                length, offset = varint(payload, offset)
                name, offset = payload[offset:offset + length], offset + length
                assert len(name) == length
            if tag == EPOCH:
                assert fields[0] >= self.epoch and fields[1] >= self.order, "time went back"
                self.epoch, self.order = fields
            if tag == FILE:
                transfer_end, file = 0, name
            if tag in (ROW, KERNEL_ROW):
                fields = run_after(row_end, fields)
                row_end = fields[0] + fields[1]
                assert 0 < fields[0] < 1 << 35
            if tag == TRANSFER:
                assert file is not None, "each chunk says which file it speaks of"
                fields, name = run_after(transfer_end, fields), file
                transfer_end = fields[0] + fields[1]
            self.records.append((self.epoch, self.order, tag, fields, name))

    def of(self, *tags):
        return [record for record in self.records if record[2] in tags]

    @property
    def hello(self):
        return self.of(HELLO)[0]

    def pages(self):
        """Page -> written at least once."""
        out = {}
        for _, _, _, (page, pages, written), _ in self.of(ROW, KERNEL_ROW):
            for each in range(page, page + pages):
                out[each] = out.get(each, 0) | written
        return out

    def touches(self):
        return [(epoch, each, written) for epoch, _, _, (page, pages, written), _ in self.of(ROW, KERNEL_ROW)
                for each in range(page, page + pages)]

    def by_kernel(self):
        """Pages that only the kernel touched in some epoch."""
        return {each for _, _, _, (page, pages, _), _ in self.of(KERNEL_ROW) for each in range(page, page + pages)}

    def transfers(self, path):
        """What was read and written of a file, in order: (page, pages, written)."""
        return [tuple(fields) for _, _, _, fields, name in self.of(TRANSFER) if name == os.fsencode(path)]

    def idle_ns(self):
        return sum(fields[0] for _, _, _, fields, _ in self.of(IDLE))

    def clock_ns(self):
        """CPU time, as told at its end or before its execve."""
        return self.of(CLOCK)[-1][3][0]

    def instructions(self):
        return self.of(END)[0][3][0]


def run_after(end, fields):
    """Page, pages and written of a run that is told by its distance from where the one before ended."""
    return [end + ((fields[0] >> 1) ^ -(fields[0] & 1)), (fields[1] >> 1) + 1, fields[1] & 1]


def varint(data, offset):
    value, shift = 0, 0
    while True:
        byte = data[offset]
        offset += 1
        value |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            return value, offset


class Recording:
    """A program under the tool. `threads`: by uid. `epoch_instructions` 0: time is counted by prices."""

    def __init__(self, directory, command, epoch_instructions=5_000_000, epoch_ns=1_000_000, options=(), **popen):
        base = "/dev/shm" if os.path.isdir("/dev/shm") else None
        self.spool = tempfile.mkdtemp(prefix="isorec-test-", dir=base)
        with open(f"{self.spool}/control", "wb") as control:
            control.write(struct.pack("<QII", 0, 1, 0).ljust(CHUNK_BYTES, b"\0"))
        os.mkfifo(f"{self.spool}/fifo")
        self.fifo = os.open(f"{self.spool}/fifo", os.O_RDWR | os.O_NONBLOCK)
        self.pending, self.threads, self.bytes = b"", {}, 0
        line = [f"{directory}/isorec-launcher", "--tool=isorec", "-q", "--command-line-only=yes", "--vgdb=no",
                "--fair-sched=yes", f"--spool={self.spool}",
                f"--epoch-instructions={epoch_instructions}", f"--epoch-ns={epoch_ns}", "--uid=0", *options, *command]
        self.child = subprocess.Popen(line, **popen)

    def receive(self, seconds):
        """Takes what is there; whether anything was."""
        if not select.select([self.fifo], [], [], seconds)[0]:
            return False
        data = os.read(self.fifo, 1 << 16)
        self.bytes += len(data)
        self.pending = self.take(self.pending + data)
        return True

    def take(self, data):
        while len(data) >= HEADER_BYTES:
            magic, length, uid, sequence = struct.unpack_from("<4sIII", data)
            assert magic == MAGIC, data[:16]
            assert length <= CHUNK_BYTES - HEADER_BYTES
            if len(data) < HEADER_BYTES + length:
                break
            self.threads.setdefault(uid, Thread(uid)).take(sequence, data[HEADER_BYTES:HEADER_BYTES + length])
            data = data[HEADER_BYTES + length:]
        return data

    def run(self, seconds=120):
        """Reads until the program has ended. Its exit status, negative for a signal."""
        end = time.monotonic() + seconds
        while self.child.poll() is None:
            self.receive(0.02)
            assert time.monotonic() < end, "the program does not end"
        while self.receive(0.2):
            pass
        assert not self.pending
        return self.child.returncode

    def left(self):
        """Chunk files of threads that did not end in an orderly way, taken in. Their uids."""
        uids = []
        for name in os.listdir(self.spool):
            if name.startswith("thread."):
                uids.append(int(name[7:]))
                with open(f"{self.spool}/{name}", "rb") as file:
                    data = file.read()
                assert len(data) == CHUNK_BYTES
                length = struct.unpack_from("<4sI", data)[1]
                if length:
                    assert self.take(data[:HEADER_BYTES + length]) == b""
        return uids

    def close(self):
        os.close(self.fifo)
        shutil.rmtree(self.spool, ignore_errors=True)

    def by_origin(self, origin):
        return [thread for thread in self.threads.values() if thread.of(HELLO) and thread.hello[3][4] == origin]

    def names(self):
        return sorted(os.path.basename(thread.hello[4]).decode() for thread in self.threads.values() if thread.of(HELLO))

    def writes_by_page(self):
        total = defaultdict(int)
        for thread in self.threads.values():
            for page, written in thread.pages().items():
                total[page] |= written
        return total
