# SPDX-License-Identifier: GPL-2.0-or-later
"""The least-squares part of fit.py, and its tables.

Fitted is the logarithm of the ratio of priced to native time, so that half and double are equally wrong, and long programs do not
count more. A program that is off by more than half pulls no harder than one off by half: some cannot be met, because what makes them
slow (missed branches, near caches) is nothing that the tool sees. Prices are positive. A weak pull towards GUESS keeps those in
place that the programs say little about."""

import json

import numpy as np

UNITS_PER_NS = 256
# What processors of these years take, in ns: where the search begins, and where a price stays that no program tells.
GUESS = {
    "instruction": 0.05, "string_byte": 0.02, "load": 0.03, "chase": 0.1, "store": 0.03, "branch": 0.1, "loaded_branch": 0.2,
    "indirect": 0.5,
    "vector": 0.1, "multiply": 0.3, "divide": 1, "atomic": 5, "new_code": 200, "first_touch": 100, "far_touch": 30, "call": 150,
    "file_call": 1000, "map_call": 1000, "socket_call": 3000, "start_thread": 10_000, "fork": 100_000, "exec": 300_000,
    "copied_byte": 0.05,
}
KINDS = list(GUESS)
PULL = 0.03  # of a guess that is off e-fold, against a program that is
SOFT = 0.4   # residuals beyond count linearly
# As docs/use/recording.md had it before prices.
BEFORE_NS = 0.2


class Fit:
    def __init__(self, measured):
        self.fault_ns = measured["fault_ns"]
        self.programs = {name: value for name, value in measured.items() if isinstance(value, dict)}

    def target_ns(self, name):
        native = self.programs[name]["native"]
        return native["s"] * 1e9 - native["faults"] * self.fault_ns

    def row(self, name):
        return np.array([self.programs[name]["work"].get(kind, 0) for kind in KINDS], dtype=float)

    def names(self, which):
        return [name for name, value in self.programs.items() if value["list"] == which]

    def prices(self, names):
        rows = np.array([self.row(name) / self.target_ns(name) for name in names])
        guess = np.log(list(GUESS.values()))
        least = np.full(len(KINDS), -np.inf)
        for kind in ("instruction", "string_byte"):
            least[KINDS.index(kind)] = np.log(1 / UNITS_PER_NS)  # the translated code's counter relies on it
        at = guess.copy()

        def loss(at):
            residual = np.abs(np.log(rows @ np.exp(at)))
            soft = np.where(residual < SOFT, residual**2 / 2, SOFT * (residual - SOFT / 2))
            return soft.sum() + PULL * ((at - guess)**2).sum() / 2

        damping = 1e-2
        for _ in range(500):
            parts = rows * np.exp(at)
            total = parts.sum(axis=1)
            slope, residual = parts / total[:, None], np.log(total)
            weight = np.minimum(1, SOFT / np.maximum(np.abs(residual), 1e-12))
            left = slope.T @ (slope * weight[:, None]) + PULL * np.eye(len(at))
            right = slope.T @ (weight * residual) + PULL * (at - guess)
            step = np.linalg.solve(left + damping * np.diag(np.diag(left)), right)
            new = np.maximum(at - np.clip(step, -1, 1), least)
            if loss(new) < loss(at):
                at, damping = new, damping / 3
            else:
                damping *= 4
            if np.abs(step).max() < 1e-6 or damping > 1e12:
                break
        return np.exp(at)

    def ratio(self, prices, name):
        return float(self.row(name) @ prices / self.target_ns(name))

    def cross_validated(self):
        """For each program of the fitting list: priced by native time, with prices fitted to the others."""
        names = self.names("fitting")
        return {name: self.ratio(self.prices([other for other in names if other != name]), name) for name in names}


def within(ratios, share=0.4):
    return sum(abs(ratio - 1) <= share for ratio in ratios)


def report(path):
    with open(path, encoding="utf-8") as file:
        fit = Fit(json.load(file))
    prices = np.round(fit.prices(fit.names("fitting")) * UNITS_PER_NS) / UNITS_PER_NS
    print(f"a page fault: {fit.fault_ns:.0f} ns\n")
    for kind, price in zip(KINDS, prices):
        print(f"   [WORK_{kind.upper()}] = {round(price * UNITS_PER_NS)}, /* {price:.4g} ns */")
    cross = {name: ratio for name, ratio in fit.cross_validated().items() if not name.startswith("loop ")}
    mean = np.mean(np.abs(np.log(list(cross.values()))))
    print(f"\nfitting list, whole programs, each priced by the others: mean |log ratio| {mean:.3f}, "
          f"{within(cross.values())} of {len(cross)} within 40 %")
    for which in ("fitting", "judged"):
        names = fit.names(which)
        print(f"\n| {which} | native [s] | of that faults [s] | ns an instruction | error at {BEFORE_NS} ns | error by prices |")
        print("|---|--:|--:|--:|--:|--:|")
        for name in names:
            target, native = fit.target_ns(name), fit.programs[name]["native"]
            instructions = fit.programs[name]["work"]["instruction"]
            before, after = instructions * BEFORE_NS / target - 1, fit.ratio(prices, name) - 1
            print(f"| {name} | {native['s']:.3f} | {native['faults'] * fit.fault_ns / 1e9:.3f} | {target / instructions:.3f} "
                  f"| {before * 100:+.0f} % | {after * 100:+.0f} % |")
        ratios = [fit.ratio(prices, name) for name in names]
        print(f"within 40 %: {within(ratios)} of {len(names)}")
