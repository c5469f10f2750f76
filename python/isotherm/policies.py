"""Page-replacement policies in Python.

A policy is a class. The engine passes it the events of pages in batches of NumPy arrays (:meth:`Policy.observe`), and
asks it for the next pages to evict (:meth:`Policy.victims`). A name makes it usable in scenarios of this process::

    @isotherm.policies.register("my-fifo")
    class MyFifo(isotherm.policies.Fifo): ...

    isotherm.simulate({..., "policy": "my-fifo"})

The machine treats it as a page-exact baseline, as it does ``lru`` and ``fifo`` (docs/mechanism/reclaim.md#baselines): one page is evicted
for each page that is needed. :func:`isotherm.testing.conformance` checks that it loses none.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

from . import _registry

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    U8 = npt.NDArray[np.uint8]
    U32 = npt.NDArray[np.uint32]
    I64 = npt.NDArray[np.int64]

#: Kinds of events: the page became resident; was used; is resident no more; was chosen and could not go for want of swap.
ADDED, TOUCHED, REMOVED, KEPT = 0, 1, 2, 3


class Policy:
    """Interface of a policy. Derive from it and implement ``observe`` and ``victims``.

    One object decides for one simulated machine and is made without arguments. Results are the same on every machine as
    long as it does not use time, random numbers or files.
    """

    #: Whether it wants to know of every touch. Otherwise only of pages that come and go, which is much cheaper.
    wants_touches: bool = False

    #: How many victims are asked for at a time. They are taken one by one, and one that is touched meanwhile is not taken
    #: (if ``wants_touches``). An order that only touches change is exact with any number; with 1, every policy is.
    ahead: int = 1024

    def observe(self, kind: U8, page: U32, lruvec: U32, distance: I64) -> None:
        """Events since the last call, in order; four arrays of shape ``(events,)``.

        ``kind``: :data:`ADDED`, :data:`TOUCHED`, :data:`REMOVED` or :data:`KEPT`. ``page``: a number that names the page
        from its ``ADDED`` to its ``REMOVED``, small and used again for other pages later. ``lruvec``: number of its
        group and node together, which ``victims`` asks for. ``distance``: of an added page, how many pages were evicted since
        this one was; -1 for a page that comes for the first time.
        """
        raise NotImplementedError(f"{type(self).__name__} has no `observe`")

    def victims(self, count: int, lruvecs: U32) -> npt.ArrayLike:
        """The next ``count`` pages to evict, in order; fewer if there are fewer.

        Only pages whose ``lruvec`` is among ``lruvecs``. They stay resident until ``REMOVED`` is reported, and not all of them need be
        taken. Anything else than numbers of such pages, each once, ends the run with an error.
        """
        raise NotImplementedError(f"{type(self).__name__} has no `victims`")


class ByKey(Policy):
    """Evicts the page with the smallest key first. :meth:`rank` computes the keys.

    Keys live in one array by page, so that a batch costs a few calls of NumPy regardless of its length.
    """

    def __init__(self) -> None:
        import numpy as np

        self._np = np
        self._time = 0
        #: Key of each page, by its number; the largest possible for pages that are not resident.
        self.key = np.full(1024, np.iinfo(np.int64).max, np.int64)
        self._lruvec = np.zeros(1024, np.uint32)

    def rank(self, kind: U8, page: U32, distance: I64, time: I64) -> tuple[U32, I64]:
        """Pages whose keys change, and their keys, in the order of events: for a page that comes twice the later one counts.

        ``time``: a number for each event that only grows.
        """
        raise NotImplementedError(f"{type(self).__name__} has no `rank`")

    def observe(self, kind: U8, page: U32, lruvec: U32, distance: I64) -> None:
        """Keeps the keys up to date."""
        np = self._np
        if len(self.key) <= (last := int(page.max())):
            grown = max(last + 1, 2 * len(self.key))
            old = len(self.key)
            self.key = np.concatenate([self.key, np.full(grown - old, np.iinfo(np.int64).max, np.int64)])
            self._lruvec = np.concatenate([self._lruvec, np.zeros(grown - old, np.uint32)])
        time = np.arange(self._time, self._time + len(page), dtype=np.int64)
        self._time += len(page)
        self._lruvec[page] = lruvec
        ranked, keys = self.rank(kind, page, distance, time)
        self.key[ranked] = keys
        # A page that was removed is gone unless its number came again later in the batch.
        last_event = np.full(last + 1, -1, np.int64)
        last_event[page] = time
        removed = (kind == REMOVED) & (last_event[page] == time)
        self.key[page[removed]] = np.iinfo(np.int64).max

    def victims(self, count: int, lruvecs: U32) -> npt.ArrayLike:
        """The resident pages of these groups with the smallest keys."""
        np = self._np
        resident = np.flatnonzero(self.key != np.iinfo(np.int64).max)
        # Most machines have one group with pages.
        is_asked = np.isin(self._lruvec[resident], lruvecs)
        if not is_asked.all():
            resident = resident[is_asked]
        keys = self.key[resident]
        if len(keys) > count:
            smallest = np.argpartition(keys, count - 1)[:count]
            resident, keys = resident[smallest], keys[smallest]
        chosen: npt.ArrayLike = resident[np.argsort(keys, kind="stable")]
        return chosen


class ByLastEvent(Policy):
    """Evicts the page first whose last event of certain kinds is oldest. The cost does not depend on the number of pages.

    Events go on a log as they come. An entry counts if its page had no later one, so that nothing is ever sorted.
    """

    #: Kinds of events that move a page to the young end.
    kinds: tuple[int, ...] = (ADDED, KEPT)

    def __init__(self) -> None:
        import numpy as np

        self._np = np
        self._time = 0
        # By page: time of its last event; -1 for pages that are not resident.
        self._last = np.full(1024, -1, np.int64)
        self._lruvec = np.zeros(1024, np.uint32)
        # The log; the entries from `head` to `end` are in use.
        self._pages = np.zeros(1024, np.uint32)
        self._times = np.zeros(1024, np.int64)
        self._head = self._end = 0

    def observe(self, kind: U8, page: U32, lruvec: U32, distance: I64) -> None:
        """Puts the events on the log."""
        np = self._np
        if (missing := int(page.max()) + 1 - len(self._last)) > 0:
            missing = max(missing, len(self._last))
            self._last = np.concatenate([self._last, np.full(missing, -1, np.int64)])
            self._lruvec = np.concatenate([self._lruvec, np.zeros(missing, np.uint32)])
        time = np.arange(self._time, self._time + len(page), dtype=np.int64)
        self._time += len(page)
        self._lruvec[page] = lruvec
        moves = kind == self.kinds[0]
        for more in self.kinds[1:]:
            moves |= kind == more
        moved, when = page[moves], time[moves]
        self._last[moved] = when  # for a page that comes twice the later one stays
        is_removed = kind == REMOVED
        removed = page[is_removed]
        self._last[removed[self._last[removed] < time[is_removed]]] = -1
        is_last = self._last[moved] == when
        self._append(moved[is_last], when[is_last])

    def _append(self, page: U32, time: I64) -> None:
        np = self._np
        if self._end + len(page) > len(self._pages):
            used = slice(self._head, self._end)
            live = self._last[self._pages[used]] == self._times[used]
            pages, times = self._pages[used][live], self._times[used][live]
            room = max(1024, 2 * (len(pages) + len(page)))
            self._pages, self._times = np.zeros(room, np.uint32), np.zeros(room, np.int64)
            self._head, self._end = 0, len(pages)
            self._pages[: self._end], self._times[: self._end] = pages, times
        place = slice(self._end, self._end + len(page))
        self._pages[place], self._times[place] = page, time
        self._end += len(page)

    def victims(self, count: int, lruvecs: U32) -> npt.ArrayLike:
        """The resident pages of these groups in the order of the log."""
        np = self._np
        found: list[U32] = []
        nr_found, at, is_first = 0, self._head, True
        while nr_found < count and at < self._end:
            part = slice(at, min(at + max(2 * count, 1024), self._end))
            pages = self._pages[part]
            live = np.flatnonzero(self._last[pages] == self._times[part])
            if is_first:
                # Entries before the first live one are no longer needed.
                self._head = at + (int(live[0]) if len(live) else len(pages))
                is_first = len(live) == 0
            pages = pages[live]
            if len(lruvecs) == 1:
                pages = pages[self._lruvec[pages] == lruvecs[0]]
            else:
                pages = pages[np.isin(self._lruvec[pages], lruvecs)]
            found.append(pages[: count - nr_found])
            nr_found += len(found[-1])
            at = part.stop
        chosen: npt.ArrayLike = np.concatenate(found) if found else np.zeros(0, np.uint32)
        return chosen


class Fifo(ByLastEvent):
    """First in, first out: the misses of the engine's ``fifo``."""


class Lru(ByLastEvent):
    """Least recently used: the misses of the engine's ``lru``."""

    wants_touches = True
    kinds = (ADDED, TOUCHED, KEPT)


P = TypeVar("P", bound=Callable[[], Policy])


def register(name: str) -> Callable[[P], P]:
    """A decorator: scenarios of this process may name the class (or another maker of a policy) as their policy.

    It replaces one of the same name. Names of the engine's own policies are refused when a scenario is read.
    """

    def keep(make: P) -> P:
        _registry.add_policy(name, make)
        return make

    return keep


def unregister(name: str) -> None:
    """Removes the policy of this name."""
    _registry.remove(name)
