"""Tables of columns."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Optional

from . import _native

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt
    import polars
    import pyarrow


class Table:
    """Columns of one length, in Arrow's format.

    Other libraries take it over without copying, because it has Arrow's PyCapsule interface: ``pyarrow.table(t)``,
    ``polars.DataFrame(t)``, ``pandas.DataFrame.from_arrow(t)``, and DuckDB's ``FROM t`` after ``pyarrow.table``.
    """

    def __init__(self, native: _native.Table) -> None:
        self._native = native

    @property
    def column_names(self) -> list[str]:
        """Names of the columns, in order."""
        return self._native.column_names

    @property
    def num_rows(self) -> int:
        """Number of rows."""
        return self._native.num_rows

    def __len__(self) -> int:
        return self._native.num_rows

    def __repr__(self) -> str:
        return repr(self._native)

    def __arrow_c_stream__(self, requested_schema: Optional[object] = None) -> object:
        """The table as a stream of Arrow's C data interface; a requested schema is ignored."""
        return self._native.__arrow_c_stream__(requested_schema)

    def __getitem__(self, name: str) -> npt.NDArray[Any]:
        """A column as an array of shape ``(num_rows,)``.

        Numbers without gaps are a read-only view of the column's memory. Numbers with gaps are a copy, with NaN for a
        gap; words are a copy of dtype ``object``.
        """
        import numpy as np

        buffer = self._native.buffer(name)
        if buffer is not None:
            return np.asarray(buffer)
        values = self._native.values(name)
        if any(isinstance(value, (str, bool)) for value in values):
            return np.array(values, dtype=object)
        return np.array([np.nan if value is None else value for value in values], dtype=np.float64)

    def to_pylist(self) -> list[dict[str, Any]]:
        """The rows as dictionaries; a gap is ``None``."""
        return self._native.rows()

    def to_pyarrow(self) -> pyarrow.Table:
        """The table for pyarrow, of the same memory."""
        import pyarrow

        return pyarrow.table(self)

    def to_polars(self) -> polars.DataFrame:
        """The table for Polars."""
        import polars

        return polars.DataFrame(self)

    def to_pandas(self) -> Any:
        """The table as a ``pandas.DataFrame``, by way of pyarrow."""
        return self.to_pyarrow().to_pandas()
