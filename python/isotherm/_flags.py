"""Flags from Python: booleans, or the numbers 0 and 1 that other tools write."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy.typing as npt


def flags(what: str, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The same as booleans. ``what`` names the array in errors."""
    import numpy as np

    if array.dtype.kind in "ui" and array.size > 0 and (array.min() < 0 or array.max() > 1):
        raise ValueError(f"{what}: values from {array.min()} to {array.max()}; allowed: booleans, or 0 and 1")
    if array.dtype.kind not in "bui":
        raise ValueError(f"{what}: an array of {array.dtype}; allowed: booleans, or 0 and 1")
    return array.astype(np.bool_, copy=False)
