"""Settings that are better than the defaults, found by trials on the simulated machine (docs/use/tune.md).

>>> from isotherm.tune import tune
>>> tuned = tune("traces/gcc.parquet", "memory", "runtime <= 2 %", trials=100)
>>> print(tuned)

On the command line: ``python -m isotherm.tune traces/gcc.parquet --trials 100``.
"""

from .judge import Figure, Kept, Point
from .parts import PARTS
from .search import OptunaMissing
from .seeds import Seeds
from .space import CONFIGURATIONS, Setting
from .tuned import Tuned, TuneError
from .tuning import tune

__all__ = [
    "CONFIGURATIONS",
    "PARTS",
    "Figure",
    "Kept",
    "OptunaMissing",
    "Point",
    "Seeds",
    "Setting",
    "TuneError",
    "Tuned",
    "tune",
]
