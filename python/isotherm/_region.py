"""Region records of monitors."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, Optional

from . import _native
from ._host import PathLike
from ._table import Table


class RegionRecord:
    """A record of regions on disk, in any of the formats that isotherm reads (docs/mechanism/formats.md#region-records)."""

    def __init__(self, native: _native.RegionRecord) -> None:
        self._native = native

    @classmethod
    def open(cls, path: PathLike) -> RegionRecord:
        """Opens a record; its format is detected from its contents.

        Raises :class:`TraceError` with what it is instead, or ``FileNotFoundError``.
        """
        return cls(_native.RegionRecord.open(path))

    @property
    def path(self) -> Path:
        """The record's file."""
        return self._native.path

    @property
    def form(self) -> str:
        """The form in which it is stored."""
        return self._native.form

    @property
    def warnings(self) -> list[str]:
        """Notes for judging the results."""
        return self._native.warnings

    @property
    def meta(self) -> dict[str, Any]:
        """All metadata of the record: contexts with their intervals, targets, counts."""
        meta: dict[str, Any] = json.loads(self._native.meta_json())
        return meta

    def __repr__(self) -> str:
        meta = self.meta
        return f"isotherm.RegionRecord({os.fspath(self.path)!r}: {meta['snapshots']} snapshots)"

    def __arrow_c_stream__(self, requested_schema: Optional[object] = None) -> object:
        """The regions as a stream of Arrow's C data interface."""
        return self.table().__arrow_c_stream__(requested_schema)

    def table(self) -> Table:
        """A row for each region of each snapshot.

        ``snapshot`` (number), ``time_ns`` (its end, on the record's clock), ``target`` (index), ``start`` and ``end``
        (bytes, the end is not part), ``nr_accesses`` (in an aggregation), ``age`` (aggregations), ``level``.
        """
        return Table(self._native.table())

    def heatmap(self, columns: int = 120, rows: int = 60, *, all: bool = False) -> Table:
        """How often memory was found accessed, by time and address. ``all``: not only the busy part."""
        return Table(self._native.heatmap(columns, rows, all))

    def wss(self, min_accesses: int = 1, skip: int = 0) -> Table:
        """Memory in regions with this number of accesses or more, over time. ``skip``: first snapshots to leave out."""
        return Table(self._native.wss(min_accesses, skip))

    def idle(self, at_ns: Optional[int] = None) -> Table:
        """Memory by the age of regions that were not found accessed, at a time or in the last snapshots."""
        return Table(self._native.idle(at_ns))
