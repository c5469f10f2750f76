"""Advice on how much memory a program needs, and under which configuration."""

from __future__ import annotations

import html
import json
import os
import shutil
from collections.abc import Callable, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any, NamedTuple, Optional, Union

from . import _host, _native
from ._host import PathLike
from ._scenario import Scenario
from ._table import Table


class Recommendation(NamedTuple):
    """The smallest memory from which on the program surely stays within the allowed slow-down."""

    #: Name of the configuration: a policy, alone or with schemes.
    configuration: str
    #: ``memory.max`` of the program's group, bytes.
    memory_bytes: int
    #: Runtime next to that with unlimited memory, in millionths: 1,050,000 is 5 % longer.
    runtime_ratio_ppm: int


class Advice:
    """The answer to :func:`advise`. A notebook shows it as a report; ``print`` shows it as the command does, in short."""

    def __init__(self, native: _native.Advice) -> None:
        self._native = native

    @property
    def recommendation(self) -> Optional[Recommendation]:
        """The recommendation; ``None`` if no configuration tried is safe."""
        best = self._native.recommendation()
        return None if best is None else Recommendation(*best)

    @property
    def peak_bytes(self) -> int:
        """Most memory that the program held, bytes."""
        return self._native.peak_bytes()

    @property
    def is_partial(self) -> bool:
        """Whether it was interrupted: then it is the answer known at that time."""
        return self._native.is_partial()

    @property
    def sentences(self) -> list[str]:
        """The verdict, the predicted gain, and its certainty, in sentences."""
        return self._native.sentences()

    def table(self) -> Table:
        """Every configuration at every size that was tried, with the intervals of runtime and faults."""
        return Table(self._native.table())

    def config(self) -> Optional[Scenario]:
        """The recommended configuration as a scenario for :func:`isotherm.simulate`."""
        text = self._native.config()
        return None if text is None else Scenario.parse(text)

    def to_json(self) -> str:
        """The same bytes as ``isotherm advise --format json``."""
        return self._native.to_json()

    def to_csv(self) -> str:
        """The same bytes as ``isotherm advise --format csv``."""
        return self._native.to_csv()

    def to_html(self) -> str:
        """The report that ``isotherm advise --report`` writes: one page that needs nothing else. It has the day, that of
        ``SOURCE_DATE_EPOCH`` if this is set."""
        seconds = os.environ.get("SOURCE_DATE_EPOCH", "")
        now = datetime.now(timezone.utc)
        day = datetime.fromtimestamp(int(seconds), timezone.utc) if seconds.isdecimal() else now
        return self._native.to_html(day.strftime("%Y-%m-%d"))

    def to_dict(self) -> dict[str, Any]:
        """The whole answer as nested dictionaries."""
        document: dict[str, Any] = json.loads(self.to_json())
        return document

    def __str__(self) -> str:
        columns = shutil.get_terminal_size((100, 24)).columns
        return "\n".join([*self.sentences, "", self._native.text(columns)])

    def _repr_html_(self) -> str:
        # In a frame of its own: the page's styles must not reach the notebook's.
        page = html.escape(self.to_html(), quote=True)
        return f'<iframe srcdoc="{page}" style="width: 100%; height: 800px; border: 0" title="isotherm advise"></iframe>'


def advise(
    trace: Union[str, os.PathLike[str], Any],
    *,
    memory: Optional[Sequence[str]] = None,
    storage: Optional[str] = None,
    swap: Optional[str] = None,
    slowdown: Optional[str] = None,
    latency: Optional[str] = None,
    cpus: Optional[int] = None,
    kernel: Optional[str] = None,
    limits: bool = False,
    baselines: bool = False,
    details: bool = False,
    effort: Optional[str] = None,
    sample: Optional[str] = None,
    threads: Optional[int] = None,
    anyway: bool = False,
    cache: bool = True,
    progress: Optional[Callable[[int, int], object]] = None,
) -> Advice:
    """How much memory a program needs: a recording replayed under every policy at many sizes.

    ``trace``: a page trace's file, or a :class:`Trace` that was opened. ``memory``: sizes to try (``"50%"`` of peak,
    ``"200MiB"``). ``storage``, ``swap``: devices by name or as ``"latency=4ms,bandwidth=30MiB/s,queue=1"``.
    ``slowdown``: allowed slow-down [default: ``"5%"``]. ``latency``: what memory may add to 99 of 100 bursts of work, such as
    ``"2ms"`` [default: that share of their length]. ``kernel``: ``"6.12"``, ``"7.2"``, ``"host"``, ``"all"``
    [default: the release that runs here if there are rules, else the newest]. ``effort``: ``"quick"``, ``"normal"``,
    ``"thorough"``. ``baselines``: whether policies that no kernel has are played too; ``details``: whether other devices,
    huge pages and the smallest sizes of combinations are. ``anyway``: recommend from a recording that is too short, too.
    ``cache``: whether replays of earlier questions are used and kept.

    Raises :class:`ScenarioError` or :class:`TraceError`. After Ctrl-C, replays that ended are kept for the next question.
    """
    path = Path(getattr(trace, "path", trace))
    wishes = {
        "memory": None if memory is None else list(memory),
        "storage": storage,
        "swap": swap,
        "slowdown": slowdown,
        "latency": latency,
        "cpus": cpus,
        "limits": limits,
        "baselines": baselines,
        "details": details,
        "effort": effort,
        "sample": sample,
        "threads": threads,
        "anyway": anyway,
    }
    keep = _host.kept_replays() if cache else None
    return Advice(_native.advise(path.stem, os.path.abspath(path), _host.kernels(kernel), wishes, keep, progress))
