"""This machine: its kernel, the bundled recordings, the folder of kept replays."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import Optional, Union

from . import _native

PathLike = Union[str, "os.PathLike[str]"]


def kernels(asked: Optional[str]) -> list[str]:
    """Releases of Linux by whose rules to simulate: the asked one, or the one that runs here if there are rules."""
    uname = os.uname()
    return _native.kernel_rules(asked, uname.release if uname.sysname == "Linux" else None)


def data_folder(data: Optional[PathLike]) -> Path:
    """The folder that holds ``traces`` with the bundled recordings.

    ``data``, else ``$ISOTHERM_DATA``, else next to an installed ``isotherm`` command, else the current folder.
    """
    configured = os.fspath(data) if data is not None else os.environ.get("ISOTHERM_DATA")
    command = shutil.which("isotherm")
    return Path(_native.data_folder(configured, os.path.realpath(command) if command else None))


def kept_replays() -> Optional[tuple[str, str]]:
    """Where replays are kept for the next question, and the file that identifies this engine."""
    if os.environ.get("ISOTHERM_NO_CACHE"):
        return None
    engine = _native.__file__
    cache = os.environ.get("XDG_CACHE_HOME") or os.path.join(os.path.expanduser("~"), ".cache")
    return os.path.join(cache, "isotherm", "replays"), engine
