"""Playing runs a few at a time, as a search does: processes of this machine that stay between two calls."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from multiprocessing import connection, get_context, parent_process
from typing import Optional

from ..sweep.executors import ATTEMPTS_MAX, Answer, Job, LocalExecutor, play


def _begin() -> None:
    # Ctrl-C is for the process that waits.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_parent, daemon=True).start()


def _end_with_parent() -> None:
    """Ends this process once the one that waits for it is gone, killed say: nobody would ever take its answers."""
    parent = parent_process()
    if parent is not None:
        connection.wait([parent.sentinel])
        os._exit(1)


class LocalProcesses(LocalExecutor):
    """A :class:`isotherm.sweep.LocalExecutor` whose processes stay from one call to the next.

    A search asks for a few short runs hundreds of times, and starting processes would take longer than the runs. With
    one process, runs are played in this one. Use it in a ``with`` block.
    """

    def __init__(self, processes: Optional[int] = None) -> None:
        super().__init__(processes)
        self._pool: Optional[ProcessPoolExecutor] = None

    def play(self, jobs: Iterable[Job]) -> Iterator[Answer]:
        """The answers as they come."""
        left = list(jobs)
        if self.processes == 1:
            yield from map(play, left)
            return
        for _ in range(ATTEMPTS_MAX):
            answered: set[int] = set()
            try:
                for answer in self._play(left):
                    answered.add(answer.number)
                    yield answer
                return
            except BrokenProcessPool:
                # A process has ended in the middle of a run (killed for lack of memory, say); of which is not known.
                self.lost += 1
                self._pool = None
                left = [job for job in left if job.number not in answered]
        for job in left:
            yield Answer(job.number, 0.0, f"processes that played it or runs beside it ended {ATTEMPTS_MAX} times")

    def _play(self, jobs: list[Job]) -> Iterator[Answer]:
        if self._pool is None:
            # A fork of a process with threads may hold a lock for ever.
            self._pool = ProcessPoolExecutor(self.processes, get_context("spawn"), initializer=_begin)
        waiting = {self._pool.submit(play, job) for job in jobs}
        try:
            while waiting:
                done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
                for ended in done:
                    yield ended.result()
        finally:
            for run in waiting:
                run.cancel()

    def __enter__(self) -> LocalProcesses:
        return self

    def __exit__(self, *_: object) -> None:
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None
