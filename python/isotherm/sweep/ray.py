"""Runs played on a Ray cluster.

A task plays as many runs as are predicted to take :data:`TASK_SECONDS`. Ray repeats a task whose worker was lost. A node
that has a recording at the same path reads it there. Other nodes get it once, from shared storage if configured, else
through the object store.
"""

from __future__ import annotations

import hashlib
import os
import socket
import tempfile
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, Any, Optional, cast

from .. import Error, _native
from .executors import ATTEMPTS_MAX, Answer, Job, play

#: What a task should take: handing it out and collecting it takes milliseconds.
TASK_SECONDS = 2.0
#: Before any run was played: seconds for each touch of a page.
SECONDS_A_TOUCH = 5e-7
#: An address that does not answer for so long has no cluster.
CONNECT_SECONDS = 10.0
#: Tasks handed out ahead, for each processor of the cluster.
TASKS_AHEAD = 2


class RayExecutor:
    """Plays runs on a Ray cluster.

    ``address``: ``"local"`` starts one on this machine, ``"auto"`` takes the one that this machine is part of, anything
    else is an address of Ray's (``ray://head:10001``, ``head:6379``). ``processes``: processors of a local one. ``storage``:
    a folder that all nodes reach, as any URL of fsspec (``s3://bucket/traces``): recordings go there once, in place of the
    object store. ``ship``: send recordings even to nodes that have them at the same path.

    Raises :class:`isotherm.Error` if there is no Ray, or none at the address, or one of another version.
    """

    def __init__(
        self,
        address: str,
        *,
        processes: Optional[int] = None,
        storage: Optional[str] = None,
        ship: bool = False,
        task_seconds: float = TASK_SECONDS,
    ) -> None:
        try:
            import ray
        except ImportError as error:
            raise Error(f"Ray is not installed ({error}): pip install 'isotherm[sweep]'") from error
        self._ray: Any = ray
        self.storage = storage
        self.ship = ship
        self.task_seconds = task_seconds
        #: Times that a task was handed out again.
        self.lost = 0
        self._is_own = not ray.is_initialized()
        if self._is_own:
            _connect(ray, address, processes)

    def close(self) -> None:
        """Leaves the cluster; one that was started here ends."""
        if self._is_own and self._ray.is_initialized():
            self._ray.shutdown()

    def __enter__(self) -> RayExecutor:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def play(self, jobs: Iterable[Job]) -> Iterator[Answer]:
        """The answers as they come."""
        ray = self._ray
        # Ray replaces a lost worker or node; tasks that raise in Python are not tried again.
        task = ray.remote(num_cpus=1, max_retries=ATTEMPTS_MAX)(_play_all)
        packages = _Packages(ray, self.storage, self.ship)
        waiting = _Batches(list(jobs), self.task_seconds)
        ahead = max(int(ray.cluster_resources().get("CPU", 1)), 1) * TASKS_AHEAD
        running: dict[Any, list[Job]] = {}
        try:
            while True:
                while len(running) < ahead and (batch := waiting.next()):
                    running[task.remote(batch, *packages.of(batch), _native.__build__)] = batch
                if not running:
                    return
                ready, _ = ray.wait(list(running), num_returns=1)
                batch = running.pop(ready[0])
                answers = self._collect(ready[0], batch, waiting)
                waiting.learn(batch, answers)
                yield from answers
        finally:
            for left in running:
                ray.cancel(left, force=True)
            packages.drop()

    def _collect(self, reference: Any, batch: list[Job], waiting: _Batches) -> list[Answer]:
        """The answers of a task; if it was lost for good, its runs are played one by one, and a run lost alone has failed."""
        exceptions = self._ray.exceptions
        lost = (exceptions.WorkerCrashedError, exceptions.NodeDiedError, exceptions.OutOfMemoryError)
        try:
            return cast("list[Answer]", self._ray.get(reference))
        except lost as error:
            self.lost += 1
            if len(batch) > 1:
                waiting.alone(batch)
                return []
            return [Answer(batch[0].number, 0.0, f"it ended every worker that played it: {_first_line(error)}")]
        except exceptions.RayError as error:
            # The exception of the task itself.
            cause = getattr(error, "cause", None)
            if isinstance(cause, Error):
                raise Error(str(cause)) from error
            words = str(error)
            if "No module named 'isotherm'" in words or "ModuleNotFoundError" in words:
                raise Error(
                    "a worker of the cluster has no package `isotherm`: install the same wheel on all nodes, or name it in "
                    "the cluster's runtime_env"
                ) from error
            raise Error(f"Ray could not play a task: {_first_line(error)}") from error


def _connect(ray: Any, address: str, processes: Optional[int]) -> None:
    options: dict[str, Any] = {"log_to_driver": False, "logging_level": "error"}
    if address == "local":
        options.update(address="local", num_cpus=processes, include_dashboard=False)
    else:
        _must_answer(address)
        options.update(address=address)
    try:
        ray.init(**options)
    except Exception as error:  # Ray has no single type for it
        words = " ".join(str(error).split())
        if "ersion mismatch" in words:
            raise Error(f"the cluster at {address} runs another version of Ray or Python than this process: {words}") from error
        token = "" if os.environ.get("RAY_AUTH_MODE") else "; where it asks for a token, as of `ray start`, set RAY_AUTH_MODE=token"
        raise Error(f"no Ray cluster can be reached at {address}: {words}{token}; `local` starts one on this machine") from error


def _must_answer(address: str) -> None:
    """Ray itself would try for minutes."""
    host, separator, port = address.split("://")[-1].rpartition(":")
    if not separator or not port.isdigit():
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), timeout=CONNECT_SECONDS).close()
    except OSError as error:
        raise Error(f"no Ray cluster can be reached at {address}: {error}; `local` starts one on this machine") from error


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


class _Batches:
    """Runs in tasks of about the same length, by predicted cost; the time of a touch is learnt."""

    def __init__(self, jobs: list[Job], seconds: float) -> None:
        self._jobs = jobs[::-1]
        self._single: list[Job] = []
        self._seconds = seconds
        self._played_seconds, self._played_touches = 0.0, 0

    def next(self) -> list[Job]:
        if self._single:
            return [self._single.pop()]
        a_touch = self._played_seconds / self._played_touches if self._played_touches else SECONDS_A_TOUCH
        batch: list[Job] = []
        seconds = 0.0
        while self._jobs and (not batch or seconds + self._jobs[-1].cost * a_touch <= self._seconds):
            batch.append(self._jobs.pop())
            seconds += batch[-1].cost * a_touch
        return batch

    def learn(self, batch: list[Job], answers: list[Answer]) -> None:
        if answers:
            self._played_seconds += sum(answer.seconds for answer in answers)
            self._played_touches += sum(job.cost for job in batch)

    def alone(self, batch: list[Job]) -> None:
        self._single.extend(reversed(batch))


class _Packages:
    """Recordings for workers: their paths, and how to fetch them."""

    def __init__(self, ray: Any, storage: Optional[str], ship: bool) -> None:
        self._ray, self._storage, self._ship = ray, storage, ship
        self._brought: dict[str, tuple[str, int, Any]] = {}

    def of(self, batch: list[Job]) -> tuple[dict[str, tuple[str, int, Any]], bool]:
        """By path: digest, size, and a URL or a reference of the object store."""
        return {path: self._one(path) for job in batch for path in _recordings(job).values()}, self._ship

    def _one(self, path: str) -> tuple[str, int, Any]:
        if path not in self._brought:
            try:
                content = Path(path).read_bytes()
            except OSError:
                # The run will report it.
                self._brought[path] = ("", -1, None)
                return self._brought[path]
            digest = hashlib.sha256(content).hexdigest()
            source: Any
            if self._storage is None:
                source = [self._ray.put(content)]
            else:
                source = f"{self._storage.rstrip('/')}/{digest}.parquet"
                _upload(source, content)
            self._brought[path] = (digest, len(content), source)
        return self._brought[path]

    def drop(self) -> None:
        self._brought.clear()


def _upload(url: str, content: bytes) -> None:
    fsspec = _fsspec()
    try:
        filesystem, path = fsspec.core.url_to_fs(url)
        if not filesystem.exists(path):
            filesystem.makedirs(path.rsplit("/", 1)[0], exist_ok=True)
            unfinished = f"{path}.{os.getpid()}"
            filesystem.pipe_file(unfinished, content)
            filesystem.mv(unfinished, path)
    except Exception as error:  # every kind of storage has its own type
        raise Error(f"cannot write recordings to {url}: {_first_line(error)}") from error


def _fsspec() -> Any:
    try:
        import fsspec
    except ImportError as error:
        raise Error("shared storage is read by fsspec, which is not installed: pip install 'isotherm[sweep]'") from error
    return fsspec


def _recordings(job: Job) -> dict[int, str]:
    recordings = _native.recordings_of(job.scenario)
    return {index: os.path.join(job.folder, path) for index, path in recordings}


def _play_all(
    batch: list[Job], recordings: dict[str, tuple[str, int, Any]], ship: bool, build: str
) -> list[Answer]:
    """The work of a task on a worker, which must be of the build that the dataset names."""
    if _native.__build__ != build:
        raise Error(
            f"{os.uname().nodename} has isotherm {_native.__build__}, and this sweep is of {build}: install one wheel on all nodes"
        )
    answers = []
    for job in batch:
        try:
            answers.append(play(_placed(job, recordings, ship)))
        except (OSError, Error) as error:
            answers.append(Answer(job.number, 0.0, f"its recording cannot be brought to {os.uname().nodename}: {error}"))
    return answers


def _placed(job: Job, recordings: dict[str, tuple[str, int, Any]], ship: bool) -> Job:
    """The job with the paths of its recordings on this node."""
    here = {index: _bring(path, *recordings[path], ship) for index, path in _recordings(job).items()}
    if not here:
        return job
    return Job(job.number, _native.with_recordings(job.scenario, dict(here)), job.folder, job.cost)


def _bring(path: str, digest: str, size: int, source: Any, ship: bool) -> str:
    if source is None or (not ship and os.path.exists(path) and os.path.getsize(path) == size and _is(path, digest)):
        return path
    folder = Path(tempfile.gettempdir()) / f"isotherm-recordings-{os.getuid()}"
    folder.mkdir(mode=0o700, exist_ok=True)
    if folder.stat().st_uid != os.getuid():
        raise Error(f"{folder} is another user's")
    brought = folder / f"{digest}.parquet"
    # An earlier task has checked it.
    if not brought.exists() or brought.stat().st_size != size:
        handle, unfinished = tempfile.mkstemp(dir=folder)
        with os.fdopen(handle, "wb") as file:
            file.write(_content(source))
        if not _is(unfinished, digest):
            os.unlink(unfinished)
            raise Error("it arrived damaged")
        os.replace(unfinished, brought)
    return str(brought)


def _content(source: Any) -> bytes:
    if isinstance(source, str):
        filesystem, path = _fsspec().core.url_to_fs(source)
        return cast(bytes, filesystem.cat_file(path))
    import ray

    return cast(bytes, ray.get(source[0]))


#: By path: digest and size of files that this process has read.
_digests: dict[str, tuple[str, int]] = {}


def _is(path: str, digest: str) -> bool:
    """Whether a file has the expected contents; read once by each process."""
    size = os.path.getsize(path)
    known = _digests.get(path)
    if known is None or known[1] != size:
        with open(path, "rb") as file:
            known = (_sha256(file), size)
        _digests[path] = known
    return known[0] == digest


def _sha256(file: IO[bytes]) -> str:
    digest = hashlib.sha256()
    while block := file.read(1 << 20):
        digest.update(block)
    return digest.hexdigest()
