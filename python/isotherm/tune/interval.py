"""95 % intervals of means, by Student's t as in all results."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Optional

import numpy as np

#: Of Student's t, the 97.5th percentile for 1 to 10 degrees of freedom.
_T975 = (12.7062, 4.3027, 3.1824, 2.7764, 2.5706, 2.4469, 2.3646, 2.3060, 2.2622, 2.2281)
_Z975 = 1.959964


def t975(degrees: int) -> float:
    """The 97.5th percentile of Student's t, to within 0.001 (Abramowitz and Stegun, 26.7.5, above 10 degrees)."""
    if degrees <= len(_T975):
        return _T975[degrees - 1]
    z = _Z975
    terms = ((z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384)
    return z + math.fsum(term / math.pow(degrees, power) for power, term in enumerate(terms, 1))


@dataclass(frozen=True)
class Interval:
    """A mean over seeds with its 95 % interval; one value has none."""

    n: int
    mean: float
    low: Optional[float]
    high: Optional[float]

    def to_dict(self) -> dict[str, Optional[float]]:
        """The figures by name."""
        return {"n": self.n, "mean": self.mean, "ci95_low": self.low, "ci95_high": self.high}


def interval(values: Sequence[float]) -> Interval:
    """The interval of a mean of independent values."""
    n, mean = len(values), float(np.mean(values))
    if n < 2:
        return Interval(n, mean, None, None)
    half = t975(n - 1) * float(np.std(values, ddof=1)) / math.sqrt(n)
    return Interval(n, mean, mean - half, mean + half)
