"""The answer as text for people: markdown, and a page."""

from __future__ import annotations

import html
from collections.abc import Sequence

from .judge import Figure, Kept, Point
from .tuned import Tuned, as_it_is

_STEPS: dict[str, tuple[tuple[float, str], ...]] = {
    "ns": ((1e9, "s"), (1e6, "ms"), (1e3, "us"), (1, "ns")),
    "bytes": ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"), (1, "B")),
}


def amount(value: float, unit: str) -> str:
    """A value with its unit: ``61.2 MiB``."""
    for size, name in _STEPS.get(unit, ()):
        if abs(value) >= size:
            return f"{value / size:.3g} {name}"
    return f"{value:.4g}" + (f" {unit}" if unit else "")


def _share(figure: Figure) -> str:
    """Relative to the defaults, with the interval."""
    ratio = figure.ratio
    if ratio.low is None or ratio.high is None:
        return f"{ratio.mean:.3f}"
    return f"{ratio.mean:.3f} ({ratio.low:.3f} to {ratio.high:.3f})"


def _kept(kept: Kept) -> str:
    seeds = f"kept on {kept.seeds_met} of {kept.value.n} seeds"
    verdict = "kept" if kept.is_met else "**broken**"
    return (
        f"`{kept.text}`: {verdict}, mean {kept.value.mean:.4g}, worst {kept.worst:.4g}, bound {kept.bound:.4g}; {seeds}"
    )


def _verdict(tuned: Tuned) -> str:
    best = tuned.best
    if best.failure is not None:
        return f"**The chosen point fails on fresh seeds: {best.failure}**"
    if tuned.is_partial:
        return f"**Interrupted after {len(tuned.trials)} trials: figures are of the tuning seeds, and not judged.**"
    if as_it_is(best):
        return "**Nothing that was tried is better than the defaults and keeps the constraints: leave it as it is.**"
    parts = [
        f"{figure.name} {_share(figure)} of the defaults, {figure.gain:.2f} times better" for figure in best.figures
    ]
    return f"**`{best.configuration}`: {'; '.join(parts)}, on {len(best.seeds)} fresh seeds.**"


def _rows(tuned: Tuned) -> list[list[str]]:
    """Plain values of the chosen point: case, objective, tuned, defaults."""
    from .objective import measure

    rows = []
    for figure in tuned.best.figures:
        unit = measure(figure.name).unit
        for part, value, default in zip(tuned.parts, figure.values, figure.defaults):
            rows.append([part, figure.name, amount(value, unit), amount(default, unit)])
    return rows


def _front_rows(points: Sequence[Point]) -> list[list[str]]:
    return [
        [
            point.configuration,
            *(_share(figure) for figure in point.figures),
            *(f"{kept.value.mean:.4g}{'' if kept.is_met else ' (broken)'}" for kept in point.constraints),
            ", ".join(f"{name} {value}" for name, value in point.settings.items()),
        ]
        for point in points
    ]


def _front_columns(tuned: Tuned) -> list[str]:
    return ["configuration", *tuned.objectives, *tuned.constraints, "settings"]


def _notes(tuned: Tuned) -> list[str]:
    seeds = tuned.seeds
    dropped = {why: sum(trial.dropped == why for trial in tuned.trials) for why in ("worse", "constraint", "failed")}
    notes = [
        f"{len(tuned.trials)} trials by `{tuned.sampler}` in {tuned.runs} runs. {dropped['worse']} dropped out of their race as "
        f"worse, {dropped['constraint']} for a constraint, {dropped['failed']} failed.",
        f"Tuned on seeds {_range(seeds.tuning)}, chosen on {_range(seeds.choosing)}, confirmed on "
        f"{_range(seeds.confirming)}, judged on {_range(seeds.fresh)}: no seed is "
        "in two of the sets.",
    ]
    if len(tuned.parts) > 1:
        notes.append(f"Of {len(tuned.parts)} cases counts: {tuned.robust}.")
    for name, (failed, tried, why) in sorted(tuned.failures.items()):
        notes.append(f"`{name}` failed in {failed} of {tried} trials; the first says: {why}")
    missing = tuned.not_live()
    if missing:
        notes.append(f"There is no live configuration of it: {'; '.join(missing)}.")
    return notes


def _range(seeds: Sequence[int]) -> str:
    if len(seeds) > 2 and list(seeds) == list(range(seeds[0], seeds[0] + len(seeds))):
        return f"{seeds[0]} to {seeds[-1]}"
    return ", ".join(map(str, seeds))


def markdown(tuned: Tuned) -> str:
    """The report in markdown."""

    def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
        lines = [columns, ["---"] * len(columns), *rows]
        return [f"| {' | '.join(line)} |" for line in lines]

    lines = [_verdict(tuned), ""]
    if tuned.best.settings:
        lines += [
            *table(["setting", "value"], [[f"`{name}`", str(value)] for name, value in tuned.best.settings.items()]),
            "",
        ]
    lines += [*table(["case", "objective", "tuned", "defaults"], _rows(tuned)), ""]
    lines += [f"- {_kept(kept)}" for kept in tuned.best.constraints] + [f"- {note}" for note in _notes(tuned)]
    if tuned.front:
        lines += ["", "Points that no other beats in everything, next to the defaults:", ""]
        lines += table(_front_columns(tuned), _front_rows(tuned.front))
    return "\n".join(lines) + "\n"


_STYLE = (
    "body{font:15px/1.5 system-ui,sans-serif;max-width:70em;margin:2em auto;padding:0 1em;color:#222;background:#fff}"
    "table{border-collapse:collapse;margin:1em 0}th,td{border-bottom:1px solid #ccc;padding:.2em .8em;text-align:left}"
    "svg{max-width:100%;height:auto}code{background:#eee;padding:0 .2em}"
    "@media(prefers-color-scheme:dark){body{color:#ddd;background:#111}th,td{border-color:#444}code{background:#222}}"
)


def page(tuned: Tuned) -> str:
    """The report as a self-contained page."""
    title = f"Tuning of {html.escape(', '.join(tuned.parts))}"
    return (
        f'<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{title}</title><style>{_STYLE}</style></head>'
        f"<body><h1>{title}</h1>{body(tuned)}</body></html>\n"
    )


def body(tuned: Tuned) -> str:
    """The report as a fragment of a page."""

    def text(words: str) -> str:
        marked = html.escape(words).replace("**", "")
        pieces = marked.split("`")
        return "".join(f"<code>{piece}</code>" if at % 2 else piece for at, piece in enumerate(pieces))

    def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
        def line(cells: Sequence[str], tag: str) -> str:
            return "<tr>" + "".join(f"<{tag}>{text(cell)}</{tag}>" for cell in cells) + "</tr>"

        return f"<table>{line(columns, 'th')}{''.join(line(row, 'td') for row in rows)}</table>"

    made = [f"<p><strong>{text(_verdict(tuned))}</strong></p>"]
    if tuned.best.settings:
        made.append(table(["setting", "value"], [[name, str(value)] for name, value in tuned.best.settings.items()]))
    made.append(table(["case", "objective", "tuned", "defaults"], _rows(tuned)))
    items = [*(_kept(kept) for kept in tuned.best.constraints), *_notes(tuned)]
    made.append("<ul>" + "".join(f"<li>{text(item)}</li>" for item in items) + "</ul>")
    if tuned.front:
        made.append("<h2>Points that no other beats in everything</h2>")
        made.append(_picture(tuned))
        made.append(table(_front_columns(tuned), _front_rows(tuned.front)))
    return "".join(made)


def _picture(tuned: Tuned) -> str:
    """The front: the first objective against the second, or against the first constraint, with intervals."""
    points = [point for point in tuned.front if point.figures]
    if len(tuned.objectives) > 1:
        name, across = tuned.objectives[1], [point.figures[1].ratio for point in points]
    elif tuned.constraints:
        name, across = tuned.constraints[0], [point.constraints[0].value for point in points]
    else:
        return ""
    up = [point.figures[0].ratio for point in points]

    def ends(values: Sequence[float]) -> tuple[float, float]:
        low, high = min(values), max(values)
        room = (high - low) * 0.08 or abs(high) * 0.05 or 1.0
        return low - room, high + room

    xs = ends([end for one in across for end in (one.low or one.mean, one.high or one.mean)])
    ys = ends([end for one in up for end in (one.low or one.mean, one.high or one.mean)])

    def x(value: float) -> float:
        return 70 + (value - xs[0]) / (xs[1] - xs[0]) * 610

    def y(value: float) -> float:
        return 350 - (value - ys[0]) / (ys[1] - ys[0]) * 330

    drawn = []
    for point, a, b in zip(points, across, up):
        cx, cy = x(a.mean), y(b.mean)
        for one, line in (
            (a, lambda low, high, cy=cy: (x(low), cy, x(high), cy)),
            (b, lambda low, high, cx=cx: (cx, y(low), cx, y(high))),
        ):
            if one.low is not None and one.high is not None:
                x1, y1, x2, y2 = line(one.low, one.high)
                drawn.append(f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="#888"/>')
        drawn.append(
            f'<circle cx="{cx:.1f}" cy="{cy:.1f}" r="5" fill="#06c"><title>{html.escape(point.configuration)}</title></circle>'
        )
    axes = (
        '<path d="M70 20V350H680" fill="none" stroke="currentColor"/>'
        f'<text x="375" y="392" text-anchor="middle" fill="currentColor">{html.escape(name)}</text>'
        f'<text x="16" y="185" text-anchor="middle" transform="rotate(-90 16 185)" fill="currentColor">'
        f"{html.escape(tuned.objectives[0])}, next to the defaults</text>"
    )
    for value in xs:
        axes += f'<text x="{x(value):.1f}" y="370" text-anchor="middle" fill="currentColor">{value:.3g}</text>'
    for value in ys:
        axes += f'<text x="64" y="{y(value) + 5:.1f}" text-anchor="end" fill="currentColor">{value:.3g}</text>'
    return f'<svg viewBox="0 0 700 400" role="img" aria-label="Pareto front">{axes}{"".join(drawn)}</svg>'
