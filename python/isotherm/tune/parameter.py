"""Parameters that tuning varies, and the data that their bounds are fitted to."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Union

if TYPE_CHECKING:
    import optuna

#: A value that a parameter takes: times in ns, sizes in bytes, shares as ratios, or as it stands in the scenario.
Value = Union[float, int, str, bool]


@dataclass(frozen=True)
class Parameter:
    """A number between bounds, both included, or one of some choices."""

    name: str
    #: ``"time"`` (ns), ``"size"`` (bytes), ``"share"`` (ratio), ``"integer"``, ``"number"``, ``"choice"``.
    kind: str
    default: Value
    low: float = 0.0
    high: float = 0.0
    is_log: bool = False
    choices: tuple[Value, ...] = ()

    def suggest(self, trial: optuna.trial.Trial) -> Value:
        """A value that the sampler chooses."""
        if self.kind == "choice":
            at = trial.suggest_categorical(self.name, list(self.choices))
            return at if at is not None else self.default
        if self.kind == "integer":
            return trial.suggest_int(self.name, int(self.low), int(self.high), log=self.is_log)
        return trial.suggest_float(self.name, self.low, self.high, log=self.is_log)

    def text(self, value: Value) -> Value:
        """The value in a scenario's form."""
        if self.kind == "time":
            return f"{max(round(float(value) / 1e3), 1)}us"
        if self.kind == "size":
            return f"{max(round(float(value) / 4096), 1) * 4}KiB"
        if self.kind == "share":
            return f"{round(float(value) * 100, 2)}%"
        return value


@dataclass(frozen=True)
class Fitted:
    """The data that bounds and defaults of parameters are fitted to."""

    #: Runtime of the shortest case under its defaults, ns.
    runtime_ns: float
    #: Memory of the smallest node of all machines, KiB.
    node_kib: int = 256 << 20

    @property
    def cold_ns(self) -> float:
        """When memory counts as cold by default: a tenth of the runtime, 100 ms to 2 min, as in docs/use/advise.md."""
        return min(max(self.runtime_ns / 10 // 1e8 * 1e8, 1e8), 120e9)

    @property
    def window_ns(self) -> float:
        """The window of quotas: the cold age, a second at most."""
        return min(self.cold_ns, 1e9)
