"""Page traces: which pages each thread of a program touched, and when."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Optional, Union

from . import _native
from ._flags import flags
from ._host import PathLike
from ._table import Table

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

#: Anything that NumPy makes a one-dimensional array of.
Column = Union["npt.ArrayLike", Sequence[int]]


class Trace:
    """A page trace on disk (docs/mechanism/formats.md).

    A row says that a thread touched ``pages`` consecutive pages from ``page`` on: ``time_ns`` (CPU time of the thread at
    the start of its epoch), ``thread`` (index), ``page`` and ``pages`` (in units of :attr:`page_bytes`), ``write``,
    ``kernel`` (touched by the kernel alone, for the thread).

    Polars, pandas, pyarrow and DuckDB take a trace as it is by Arrow's PyCapsule interface, batch by batch:
    ``polars.DataFrame(trace)``, ``pyarrow.RecordBatchReader.from_stream(trace)``.
    """

    def __init__(self, native: _native.Trace, owned: Optional[tempfile.TemporaryDirectory[str]] = None) -> None:
        self._native = native
        self._owned = owned

    @classmethod
    def open(cls, path: PathLike) -> Trace:
        """Opens a trace: finished (Parquet), being written, or torn, which opens up to its last whole batch.

        Raises :class:`TraceError` with what it is instead, or ``FileNotFoundError``.
        """
        return cls(_native.Trace.open(path))

    @classmethod
    def from_arrays(
        cls,
        page: Column,
        *,
        time_ns: Optional[Column] = None,
        thread: Optional[Column] = None,
        pages: Optional[Column] = None,
        write: Optional[Column] = None,
        kernel: Optional[Column] = None,
        path: Optional[PathLike] = None,
        name: str = "arrays",
        command: Sequence[str] = (),
        page_bytes: int = 4096,
        epoch_ns: int = 0,
    ) -> Trace:
        """Makes a trace of arrays of shape ``(rows,)`` and opens it.

        ``time_ns``: never decreases within a thread [default: a microsecond each]. ``thread``: indices from 0 [default:
        all 0]. ``pages``: at least 1 [default: 1]. ``epoch_ns``: 0 means that each row is one request. ``path``: the file
        [default: a temporary one that goes with the object].

        Raises ``ValueError`` for arrays that do not fit and :class:`TraceError` for rows that are not allowed.
        """
        import numpy as np

        pages_touched = _column("page", page, np.uint64)
        rows = len(pages_touched)

        def column(what: str, values: Optional[Column], dtype: Any, usual: Any) -> npt.NDArray[Any]:
            array = usual() if values is None else _column(what, values, dtype)
            if len(array) != rows:
                raise ValueError(f"{what}: {len(array)} rows, but `page` has {rows}")
            return array

        path, owned = _place(path)
        _native.write_arrays(
            path,
            {"name": name, "command": list(command), "page_bytes": page_bytes, "epoch_ns": epoch_ns},
            column("time_ns", time_ns, np.uint64, lambda: np.arange(rows, dtype=np.uint64) * np.uint64(1000)),
            column("thread", thread, np.uint32, lambda: np.zeros(rows, np.uint32)),
            pages_touched,
            column("pages", pages, np.uint32, lambda: np.ones(rows, np.uint32)),
            column("write", write, np.bool_, lambda: np.zeros(rows, np.bool_)),
            column("kernel", kernel, np.bool_, lambda: np.zeros(rows, np.bool_)),
        )
        return cls(_native.Trace.open(path), owned)

    @classmethod
    def from_arrow(
        cls,
        rows: Any,
        *,
        path: Optional[PathLike] = None,
        name: str = "arrow",
        command: Sequence[str] = (),
        page_bytes: int = 4096,
        epoch_ns: int = 0,
    ) -> Trace:
        """Makes a trace of any object with Arrow's PyCapsule interface, and opens it.

        ``page`` is the only required column of a trace; the others have the defaults of :meth:`from_arrays`.
        """
        path, owned = _place(path)
        meta = {"name": name, "command": list(command), "page_bytes": page_bytes, "epoch_ns": epoch_ns}
        _native.write_arrow(path, meta, rows)
        return cls(_native.Trace.open(path), owned)

    @classmethod
    def record(
        cls,
        command: Sequence[str],
        path: Optional[PathLike] = None,
        *,
        epoch: Optional[str] = None,
        native_first: bool = False,
        isotherm: str = "isotherm",
        timeout: Optional[float] = None,
    ) -> Trace:
        """Runs a program, records the pages that it touches, and opens the trace.

        The recording itself is the work of the ``isotherm`` command with its engine, which must be installed
        (docs/use/recording.md). ``path``: the file [default: a temporary one that goes with the object]. ``epoch``: time in
        which a page of a thread is written down once [default: ``"1ms"``]. ``timeout``: seconds; then the program is
        ended, and what was recorded is kept.

        Raises ``FileNotFoundError`` without the command and :class:`TraceError` when it cannot record. A program that
        ends with an exit code of its own is no error: it is in ``meta["exit_code"]``. After Ctrl-C, what was recorded
        until then is at ``path``.
        """
        program = shutil.which(isotherm)
        if program is None:
            raise FileNotFoundError(
                f"`{isotherm}` is not found: recording needs the isotherm command with its engine; install it, or give "
                "its path as `isotherm`"
            )
        path, owned = _place(path)
        arguments = [program, "record", "--output", os.fspath(path)]
        if epoch is not None:
            arguments += ["--epoch", epoch]
        if native_first:
            arguments.append("--native-first")
        arguments += ["--", *command]
        with subprocess.Popen(arguments, stderr=subprocess.PIPE, text=True, errors="replace") as recorder:
            try:
                _, talk = recorder.communicate(timeout=timeout)
            except BaseException as interrupted:
                # The recorder ends the program and finishes the trace of what was recorded until then.
                recorder.terminate()
                _, talk = recorder.communicate()
                if not isinstance(interrupted, subprocess.TimeoutExpired):
                    raise
        if not os.path.exists(path):
            words = talk.strip().removeprefix("error: ")
            raise _native.TraceError(words or f"`isotherm record` ended with exit code {recorder.returncode}")
        return cls(_native.Trace.open(path), owned)

    @property
    def path(self) -> Path:
        """The trace's file."""
        return self._native.path

    @property
    def rows(self) -> int:
        """Number of rows."""
        return self._native.rows

    @property
    def accesses(self) -> int:
        """Pages touched by all rows: the sum of their ``pages``."""
        return self._native.accesses

    @property
    def page_bytes(self) -> int:
        """Bytes a page."""
        return self._native.page_bytes

    @property
    def meta(self) -> dict[str, Any]:
        """All metadata of the trace: command, threads, mappings over time, clock, notes."""
        meta: dict[str, Any] = json.loads(self._native.meta_json())
        return meta

    def __len__(self) -> int:
        return self.rows

    def __repr__(self) -> str:
        return f"isotherm.Trace({os.fspath(self.path)!r}: {self.rows} rows, {self.accesses} accesses)"

    def __arrow_c_stream__(self, requested_schema: Optional[object] = None) -> object:
        """The rows as a stream of Arrow's C data interface, decoded as they are taken."""
        return self._native.__arrow_c_stream__()

    def table(self) -> Table:
        """All rows in memory, some 24 bytes each. ``trace.table()["page"]`` is a view without a copy."""
        return Table(self._native.table())

    def heatmap(self, columns: int = 120, rows: int = 60) -> Table:
        """Touches by time and address, a row for each cell: the table of ``isotherm report heatmap --format csv``."""
        return Table(self._native.heatmap(columns, rows))

    def wss(self, window_ns: Optional[int] = None) -> Table:
        """The working set in each window: the amount of distinct memory touched.

        ``window_ns`` [default: 100 ms, rounded up to whole epochs].
        """
        epoch_ns = max(self._native.epoch_ns, 1)
        usual_ns = -(-100_000_000 // epoch_ns) * epoch_ns
        return Table(self._native.wss(usual_ns if window_ns is None else window_ns))

    def mrc(self, sample: str = "auto") -> Table:
        """The miss-ratio curve: the share of touches that miss in an exact-LRU memory of every size.

        ``sample``: ``"off"``, ``"auto"``, or a part of the pages such as ``"1/16"``.
        """
        return Table(self._native.mrc(sample))

    def idle(self, at_ns: Optional[int] = None, *, moments: Optional[int] = None) -> Table:
        """Memory by idle time.

        At trace time ``at_ns`` [default: at the last access], or the mean over this number of ``moments``.
        """
        return Table(self._native.idle(at_ns, moments))


def _column(what: str, values: Column, dtype: Any) -> npt.NDArray[Any]:
    """``values`` as an array of this type; numbers that do not fit are refused, not wrapped."""
    import numpy as np

    array = np.asarray(values)
    if array.ndim != 1:
        raise ValueError(f"{what}: an array of shape {array.shape}; allowed: one dimension")
    if array.size == 0:  # an empty list is an array of floats to NumPy
        return np.empty(0, dtype)
    if np.dtype(dtype).kind == "b":
        array = flags(what, array)
    elif array.dtype != dtype:
        if array.dtype.kind not in "ui":
            raise ValueError(f"{what}: an array of {array.dtype}; allowed: {np.dtype(dtype)}, or other whole numbers")
        limits = np.iinfo(dtype)
        if int(array.min()) < limits.min or int(array.max()) > limits.max:
            raise ValueError(f"{what}: values from {array.min()} to {array.max()}; allowed: 0 to {limits.max}")
    return np.ascontiguousarray(array, dtype=dtype)


def _place(path: Optional[PathLike]) -> tuple[str, Optional[tempfile.TemporaryDirectory[str]]]:
    if path is not None:
        return os.fspath(path), None
    folder = tempfile.TemporaryDirectory(prefix="isotherm-")
    return os.path.join(folder.name, "trace.parquet"), folder
