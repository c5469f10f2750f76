"""Workloads in Python: generators of batches of accesses.

A workload is a function that yields :class:`Batch` after batch. A name makes it usable in scenarios of this process, as
the kind ``registered``::

    @isotherm.workloads.register("stairs", pages=4096)
    def stairs(seed: int, pages: int = 4096, rounds: int = 3):
        for round in range(rounds):
            yield Batch(np.arange(round % 2, pages, 2), write=True)

    Workload("w", {"kind": "registered", "name": "stairs", "parameters": {"rounds": 5}})

The same seed must give the same batches: draw from ``numpy.random.default_rng(seed)``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Optional, TypeVar, Union

from . import _registry
from ._flags import flags

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt


@dataclass
class Batch:
    """The next accesses of a thread, in order. Columns are arrays of shape ``(n,)`` or one value for all."""

    #: First page of each access: pages of 4 KiB from 0. Behind private memory lie the pages of the file.
    page: npt.ArrayLike
    #: Number of pages, ascending; at least 1.
    pages: npt.ArrayLike = 1
    #: Whether it stores; otherwise it loads.
    write: npt.ArrayLike = False
    #: Time that the thread computes before it, nanoseconds below 2^32.
    think_ns: npt.ArrayLike = 0
    #: Whether the accesses are ``read()`` and ``write()`` of the file, which the kernel sees at once.
    by_descriptor: bool = False
    #: Operations that are complete with the batch: the unit of throughput.
    operations: int = 0
    #: How long the thread sleeps after it, nanoseconds.
    sleep_ns: int = 0


Batches = Iterable[Union[Batch, "npt.ArrayLike"]]
F = TypeVar("F", bound=Callable[..., Union[Batches, Sequence[Batches]]])


def register(
    name: str,
    *,
    pages: Union[int, str],
    file_pages: Union[int, str] = 0,
    threads: Optional[Union[int, str]] = None,
) -> Callable[[F], F]:
    """A decorator: scenarios of this process may name the function as a workload.

    The function is called with ``seed`` and the scenario's ``parameters`` as keyword arguments, and gives an iterable of
    batches; an array alone is a batch of loads. ``pages``: private memory, pages; ``file_pages``: a mapped file behind it.
    A text in place of a number names the parameter with it. ``threads``: the function gets ``thread`` too, and is
    called this number of times [default: once, without ``thread``].
    """

    def keep(make: F) -> F:
        def plan(seed: int, parameters: Mapping[str, Any]) -> dict[str, object]:
            def number(what: str, value: Union[int, str]) -> int:
                found = parameters.get(value) if isinstance(value, str) else value
                if not isinstance(found, int) or isinstance(found, bool) or found < 0:
                    raise ValueError(f"`{what}` is {found!r}; allowed: a whole number, 0 and more")
                return found

            if threads is None:
                generators: list[Any] = [make(seed=seed, **parameters)]
            else:
                nr_threads = number("threads", threads)
                generators = [make(seed=seed, thread=thread, **parameters) for thread in range(nr_threads)]
            return {
                "pages": number("pages", pages),
                "file_pages": number("file_pages", file_pages),
                "threads": [_Columns(iter(batches)) for batches in generators],
            }

        _registry.add_workload(name, plan)
        return make

    return keep


def unregister(name: str) -> None:
    """Removes the workload of this name."""
    _registry.remove(name)


class _Columns:
    """Batches one after the other, as the engine takes them; ``None`` at the end."""

    def __init__(self, batches: Iterator[Any]) -> None:
        self._batches = batches

    def __call__(self) -> Optional[tuple[Any, ...]]:
        batch = next(self._batches, None)
        if batch is None:
            return None
        if not isinstance(batch, Batch):
            batch = Batch(batch)
        import numpy as np

        page = _whole("page", batch.page, np.uint64)
        rows = len(page)
        return (
            page,
            _whole("pages", batch.pages, np.uint32, rows),
            _flags("write", batch.write, rows),
            _whole("think_ns", batch.think_ns, np.uint32, rows),
            bool(batch.by_descriptor),
            int(batch.operations),
            int(batch.sleep_ns),
        )


def _whole(what: str, values: npt.ArrayLike, dtype: Any, rows: Optional[int] = None) -> npt.NDArray[Any]:
    import numpy as np

    array = np.asarray(values)
    if array.dtype.kind not in "ui":
        raise ValueError(f"`{what}` of a batch is {array.dtype}; allowed: whole numbers")
    if array.size > 0 and (int(array.min()) < 0 or int(array.max()) > np.iinfo(dtype).max):
        raise ValueError(
            f"`{what}` of a batch is from {array.min()} to {array.max()}; allowed: 0 to {np.iinfo(dtype).max}"
        )
    return np.ascontiguousarray(_shaped(what, array, rows), dtype=dtype)


def _flags(what: str, values: npt.ArrayLike, rows: int) -> npt.NDArray[Any]:
    import numpy as np

    return np.ascontiguousarray(_shaped(what, flags(f"`{what}` of a batch", np.asarray(values)), rows))


def _shaped(what: str, array: npt.NDArray[Any], rows: Optional[int]) -> npt.NDArray[Any]:
    import numpy as np

    if rows is None:
        if array.ndim > 1:
            raise ValueError(f"`{what}` of a batch has the shape {array.shape}; allowed: one dimension")
        return np.atleast_1d(array)
    if array.ndim == 0:
        return np.full(rows, array)
    if array.shape != (rows,):
        raise ValueError(f"`{what}` of a batch has the shape {array.shape}; allowed: ({rows},) as `page` has")
    return array
