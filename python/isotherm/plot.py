"""Pictures by matplotlib, which ``pip install 'isotherm[plot]'`` brings. Each function draws on ``ax`` and returns it.

Tables are those of :class:`isotherm.Trace` and :class:`isotherm.Result`; a trace is taken as its table.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Optional, Union

from ._simulate import Result
from ._table import Table
from ._trace import Trace

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def heatmap(source: Union[Trace, Table], ax: Optional[Axes] = None, *, columns: int = 240, rows: int = 120) -> Axes:
    """Touches by time (to the right, seconds) and address (upwards); colour for how many in the cell.

    Address space without accesses is folded away: a row of the picture is a row of the heatmap, regardless of gaps.
    """
    import numpy as np

    table = source.heatmap(columns, rows) if isinstance(source, Trace) else source
    ax = _axes(ax)
    times = np.unique(table["time_ns"])
    starts = np.unique(table["start_address"]) if "start_address" in table.column_names else np.unique(table["start"])
    start = table["start_address"] if "start_address" in table.column_names else table["start"]
    cells = np.full((len(starts), len(times)), np.nan)
    cells[np.searchsorted(starts, start), np.searchsorted(times, table["time_ns"])] = table["accesses"]
    edges = (times[0] / 1e9 if len(times) else 0, (times[-1] if len(times) else 1) / 1e9, 0, max(len(starts), 1))
    image = ax.imshow(cells, aspect="auto", origin="lower", extent=edges, interpolation="nearest", cmap="viridis")
    ax.figure.colorbar(image, ax=ax, label="accesses")
    ax.set(xlabel="time [s]", ylabel="address, folded", title="Memory touched over time")
    return ax


def wss(source: Union[Trace, Table], ax: Optional[Axes] = None) -> Axes:
    """The working set over time: memory touched and memory written in each window, MiB."""
    table = source.wss() if isinstance(source, Trace) else source
    ax = _axes(ax)
    seconds = table["start_ns"] / 1e9
    ax.step(seconds, table["touched_bytes"] / 2**20, where="post", label="touched")
    ax.step(seconds, table["written_bytes"] / 2**20, where="post", label="written")
    ax.set(xlabel="time [s]", ylabel="memory [MiB]", title="Working set", ylim=(0, None))
    ax.legend()
    return ax


def mrc(source: Union[Trace, Table], ax: Optional[Axes] = None) -> Axes:
    """The miss-ratio curve of an exact LRU memory of every size, MiB and percent."""
    table = source.mrc() if isinstance(source, Trace) else source
    ax = _axes(ax)
    ax.step(table["memory_bytes"] / 2**20, table["miss_ratio_ppm"] / 1e4, where="post")
    ax.set(xlabel="memory [MiB]", ylabel="misses [%]", title="Miss-ratio curve", ylim=(0, None))
    return ax


def result(
    source: Result, metric: str, ax: Optional[Axes] = None, *, workloads: Optional[Sequence[str]] = None
) -> Axes:
    """A metric of every variant and workload as bars, with the 95 % interval of the mean where there is one."""
    import numpy as np

    ax = _axes(ax)
    rows = [row for row in source.table().to_pylist() if row["metric"] == metric]
    if not rows:
        raise ValueError(f"the result has no metric `{metric}`")
    names: list[Any] = list(workloads) if workloads is not None else list(dict.fromkeys(row["workload"] for row in rows))
    variants = list(dict.fromkeys(row["variant"] for row in rows))
    width = 0.8 / len(names)
    for place, workload in enumerate(names):
        of_variant = {row["variant"]: row for row in rows if row["workload"] == workload}
        at = [index for index, variant in enumerate(variants) if variant in of_variant]
        means = np.array([of_variant[variants[index]]["mean"] for index in at])
        highs = [of_variant[variants[index]]["ci95_high"] for index in at]
        halves = np.array([0 if high is None else high - mean for high, mean in zip(highs, means)])
        ax.bar(np.array(at) + place * width, means, width, yerr=halves if halves.any() else None, label=workload)
    ax.set_xticks(np.arange(len(variants)) + 0.4 - width / 2, variants, rotation=30, ha="right")
    ax.set(ylabel=metric, title=source.scenario)
    ax.legend()
    return ax


def _axes(ax: Optional[Axes]) -> Axes:
    if ax is not None:
        return ax
    try:
        import matplotlib.pyplot as plt
    except ImportError as missing:
        raise ImportError("pictures need matplotlib: pip install 'isotherm[plot]'") from missing
    axes: Axes = plt.subplots()[1]
    return axes
