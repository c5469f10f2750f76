"""Disjoint sets of seeds: to tune on, to choose on, to confirm on, to judge on."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Union


@dataclass(frozen=True)
class Seeds:
    """Seeds of a tuning."""

    #: Trials race on these.
    tuning: tuple[int, ...]
    #: The best few trials are played again on these, and one is chosen.
    choosing: tuple[int, ...]
    #: The one that was chosen must do as well on these.
    confirming: tuple[int, ...]
    #: The chosen point and the defaults are judged on these, which nothing before has seen.
    fresh: tuple[int, ...]


def seeds(tuning: Union[int, Sequence[int]], choosing: int, fresh: Union[int, Sequence[int]]) -> Seeds:
    """The sets: given, or counted from 1, 10,001, 20,001 and 30,001 on. There are as many to confirm as to choose.

    Raises ``ValueError`` for empty sets, seeds below 0, or sets with a seed in common.
    """
    own = _of("seeds", tuning, 1)
    fresh_ones = _of("fresh", fresh, 30_001)
    taken = {*own, *fresh_ones}
    chosen, confirming = (
        tuple(itertools.islice((seed for seed in itertools.count(first) if seed not in taken), choosing))
        for first in (10_001, 20_001)
    )
    common = sorted(set(own) & set(fresh_ones))
    if common:
        raise ValueError(f"fresh: {common[0]} is a seed that is tuned on; allowed: seeds that nothing was tuned on")
    return Seeds(own, chosen, confirming, fresh_ones)


def _of(what: str, asked: Union[int, Sequence[int]], first: int) -> tuple[int, ...]:
    if isinstance(asked, int):
        if not 1 <= asked <= 10_000:
            raise ValueError(f"{what}: {asked}; allowed: 1 to 10,000")
        return tuple(range(first, first + asked))
    found = tuple(asked)
    if not found or min(found) < 0 or len(set(found)) < len(found):
        raise ValueError(f"{what}: {list(found)}; allowed: at least one seed, from 0 on, none of them twice")
    return found
