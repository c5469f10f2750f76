"""Executors of runs: the interface, and processes of this machine."""

from __future__ import annotations

import os
import pickle
import queue
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import IO, Optional, Protocol, cast

from .. import _native


@dataclass(frozen=True)
class Job:
    """A run to play: a scenario as text, and the folder that its relative paths start from."""

    number: int
    scenario: str
    folder: str = "."
    #: Predicted cost in touches of pages; tasks of a cluster are sized by it.
    cost: int = 1


@dataclass(frozen=True)
class Row:
    """A workload under a variant: metrics by name, with their unit in it."""

    workload: str
    variant: str
    #: The release whose rules the simulated kernel followed.
    kernel: str
    #: ``finished``, or ``killed`` for lack of memory.
    ending: str
    values: dict[str, float]


@dataclass(frozen=True)
class Answer:
    """Result of playing a run: rows, or an error message."""

    number: int
    #: On one processor. Of no account for results.
    seconds: float
    error: Optional[str] = None
    rows: list[Row] = field(default_factory=list)


def play(job: Job) -> Answer:
    """Plays a run in this process. Errors are in the answer."""
    seconds, error, rows = _native.play_job(job.number, job.scenario, job.folder)
    return Answer(job.number, seconds, error, [Row(*row) for row in rows])


class Executor(Protocol):
    """Plays runs somewhere."""

    def play(self, jobs: Iterable[Job]) -> Iterator[Answer]:
        """The answers of all jobs, in any order. Closing the iterator ends runs under way."""
        ...


#: So many processes may a run end before it counts as failed.
ATTEMPTS_MAX = 3


class LocalExecutor:
    """Processes of this machine, each with one run at a time.

    One that ends in the middle of a run (killed for lack of memory, say) is replaced and its run played again.
    ``processes``: how many [default: one per processor]. ``lost`` counts the processes that were replaced. Processes stay from one
    call to the next, as starting one takes longer than a short run: use it in a ``with`` block, or :meth:`close` it. They end with this
    process, however it ends.
    """

    def __init__(self, processes: Optional[int] = None) -> None:
        if processes is not None and processes < 1:
            raise ValueError(f"processes: {processes}: allowed are 1 and more")
        self.processes = processes or len(os.sched_getaffinity(0))
        self.lost = 0
        self._idle: list[_Server] = []

    def close(self) -> None:
        """Ends the processes."""
        while self._idle:
            self._idle.pop().end()

    def __enter__(self) -> LocalExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def play(self, jobs: Iterable[Job]) -> Iterator[Answer]:
        """The answers as they come."""
        waiting: queue.SimpleQueue[Optional[Job]] = queue.SimpleQueue()
        number = 0
        for job in jobs:
            waiting.put(job)
            number += 1
        answers: queue.SimpleQueue[object] = queue.SimpleQueue()
        servers = [self._idle.pop() if self._idle else _Server() for _ in range(min(self.processes, number))]
        threads = [threading.Thread(target=self._serve, args=(server, waiting, answers)) for server in servers]
        for thread in threads:
            waiting.put(None)
            thread.start()
        is_done = False
        try:
            for _ in range(number):
                answer = answers.get()
                if isinstance(answer, BaseException):
                    raise answer
                yield cast(Answer, answer)
            is_done = True
        finally:
            # A process in the middle of a run that no one waits for is of no further use.
            for server in [] if is_done else servers:
                server.end()
            for thread in threads:
                thread.join()
            self._idle.extend(server for server in servers if not server.is_over)

    def _serve(
        self,
        server: _Server,
        waiting: queue.SimpleQueue[Optional[Job]],
        answers: queue.SimpleQueue[object],
    ) -> None:
        try:
            while not server.is_over and (job := waiting.get()) is not None:
                answers.put(self._answer(server, job))
        except BaseException as error:  # the caller that waits for answers must get it
            answers.put(error)

    def _answer(self, server: _Server, job: Job) -> Answer:
        for _ in range(ATTEMPTS_MAX):
            answer = server.play(job)
            if answer is not None or server.is_over:
                return answer or Answer(job.number, 0.0, "the sweep was ended")
            self.lost += 1
        return Answer(job.number, 0.0, f"it ended {ATTEMPTS_MAX} processes that played it, the last with {server.ending}")


def executor_of(
    ray: Optional[str], processes: Optional[int], storage: Optional[str]
) -> AbstractContextManager[Executor]:
    """The executor that command lines ask for: a Ray cluster at an address, or processes of this machine."""
    if ray is None:
        return LocalExecutor(processes)
    from .ray import RayExecutor

    return RayExecutor(ray, processes=processes, storage=storage)


class _Server:
    """A process that plays one run after the other."""

    def __init__(self) -> None:
        self.process: Optional[subprocess.Popen[bytes]] = None
        self.is_over = False
        self.ending = ""
        self._lock = threading.Lock()

    def play(self, job: Job) -> Optional[Answer]:
        """``None`` if the process has ended."""
        with self._lock:
            if self.is_over:
                return None
            if self.process is None:
                # A session of its own: Ctrl-C is for the waiting process.
                self.process = subprocess.Popen(
                    [sys.executable, "-m", "isotherm.sweep.server"],
                    stdin=subprocess.PIPE,
                    stdout=subprocess.PIPE,
                    start_new_session=True,
                )
            process = self.process
        try:
            pickle.dump(job, cast("IO[bytes]", process.stdin))
            cast("IO[bytes]", process.stdin).flush()
            return cast(Answer, pickle.load(cast("IO[bytes]", process.stdout)))
        except (EOFError, OSError, pickle.UnpicklingError):
            process.kill()
            self.ending = f"exit status {process.wait()}"
            self._close(process)
            self.process = None
            return None

    def end(self) -> None:
        """Ends the process, in the middle of a run if need be."""
        with self._lock:
            self.is_over = True
            if self.process is not None:
                self.process.kill()
                self.process.wait()

    @staticmethod
    def _close(process: subprocess.Popen[bytes]) -> None:
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                try:
                    pipe.close()
                except OSError:
                    pass  # unwritten data are of no further use
