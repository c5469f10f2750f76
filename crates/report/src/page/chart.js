// Charts of lines, steps and points, drawn by uPlot.

function chart(figure) {
    const data = JSON.parse(figure.dataset.chart);
    const host = element('div', 'plot'),
        title = element('div', 'plot-title', data.title);
    const axis = data.x.unit;
    host.append(title);
    if (data.subtitle) host.append(element('div', 'plot-subtitle', data.subtitle));
    host.append(
        element(
            'div',
            'plot-subtitle',
            (data.y.name ? 'up: ' + data.y.name + '; across: ' + data.x.name + '. ' : '') +
                (data.series.length > 1 ? 'Click a name to hide or show it, twice for it alone. ' : '') +
                'Drag across to zoom, double-click for all.',
        ),
    );
    const box = element('div', 'plot-box');
    host.append(box);
    enliven(figure, host);
    const tip = tipOf(box);
    const colour = series => style('--series-' + series.colour);
    const x = uPlot.join(data.series.map(series => [series.points.map(p => p[0]), series.points.map(p => p[1])]));
    const ends = side => {
        const all = data.series.flatMap(s => s.points.map(p => p[side]));
        return [Math.min(...all), Math.max(...all)];
    };
    const whole = [data.x.low ?? ends(0)[0], data.x.high ?? ends(0)[1]];
    // The range that decides is seen first; the rest is a click away.
    const first = data.y.first;
    let near = first !== null;
    let me = null;
    fit(box, width => {
        const tall = Math.max(240, Math.min(420, Math.round(width * 0.42)));
        const incrs = unit => (unit === 'bytes' ? [...Array(52).keys()].map(i => 2 ** i) : undefined);
        const values = unit => (u, splits) => {
            const largest = Math.max(...splits.map(v => Math.abs(v ?? 0)));
            return splits.map(v => (v === null ? '' : show(unit, v, largest)));
        };
        const axisOf = (side, unit) => ({
            stroke: () => style('--muted'),
            grid: { stroke: () => style('--line'), width: 1 },
            ticks: { stroke: () => style('--line'), width: 1 },
            font: '12px system-ui, sans-serif',
            incrs: incrs(unit),
            values: values(unit),
            size: side === 'y' ? 74 : 34,
            space: side === 'x' ? 80 : 34,
        });
        const u = new uPlot(
            {
                width,
                height: tall,
                padding: [10, 24, 0, 0],
                legend: { live: false },
                cursor: { drag: { x: true, y: false }, points: { show: false }, focus: { prox: 24 } },
                focus: { alpha: 0.35 },
                scales: {
                    x: {
                        time: false,
                        distr: data.x.log ? 3 : 1,
                        range: (u, low, high) => (low === high ? [low - 1, high + 1] : [low, high]),
                    },
                    y: {
                        distr: data.y.log ? 3 : 1,
                        // The least and the most of what is shown within the range of x: that of the scale itself may still be the old one.
                        range: (u, low, high) => {
                            if (near) return [data.y.low ?? 0, first];
                            if (low === null || high === null) return data.y.log ? [1, 10] : [0, 1];
                            if (data.y.log) return [data.y.low ?? low, data.y.high ?? high];
                            const least = data.y.low ?? (data.y.unit === 'factor' ? low : Math.min(0, low));
                            const most = data.y.high ?? Math.max(high, highestBand(u, data));
                            return most > least ? [least, most + (most - least) * 0.05] : [least, least + 1];
                        },
                    },
                },
                axes: [axisOf('x', data.x.unit), axisOf('y', data.y.unit)],
                series: [
                    {},
                    ...data.series.map(series => ({
                        label: series.name,
                        show: !series.hidden,
                        spanGaps: true,
                        width: series.width,
                        dash: series.dash,
                        stroke: () => colour(series),
                        alpha: 1,
                        paths:
                            series.kind === 'points'
                                ? () => null
                                : series.kind === 'step'
                                  ? uPlot.paths.stepped({ align: 1 })
                                  : uPlot.paths.linear(),
                        points: {
                            show: series.kind === 'line' && series.points.length <= 40,
                            size: 6,
                            width: 1,
                            fill: () => colour(series),
                        },
                    })),
                ],
                hooks: {
                    drawSeries: [
                        (u, i) => {
                            band(u, data.series[i - 1], colour);
                            dots(u, data.series[i - 1], colour);
                        },
                    ],
                    draw: [u => marks(u, data)],
                    setScale: [
                        (u, key) => {
                            if (key === 'x' && me && !me.quiet) narrow(axis, me, u.scales.x.min, u.scales.x.max);
                        },
                    ],
                    setCursor: [
                        u => {
                            const { left, top } = u.cursor;
                            if (me && me.quiet) return;
                            if (!(left >= 0)) {
                                tip(null);
                                if (me) point(axis, me, null);
                                return;
                            }
                            nearest(u, data, left, top, tip);
                            if (me) point(axis, me, u.posToVal(left, 'x'));
                        },
                    ],
                },
            },
            x,
            box,
        );
        legend(u);
        if (first !== null) {
            const turn = nearOrAll(host, data, isNear => {
                near = isNear;
                u.redraw();
            });
            u.over.addEventListener('dblclick', () => turn(false));
        }
        const silently = act => {
            me.quiet = true;
            u.batch(act);
            me.quiet = false;
        };
        me = {
            quiet: false,
            narrow(low, high) {
                const [from, to] = [Math.max(low, whole[0]), Math.min(high, whole[1])];
                silently(() => u.setScale('x', from < to ? { min: from, max: to } : { min: whole[0], max: whole[1] }));
            },
            point(value) {
                tip(null);
                me.quiet = true;
                const left = value === null ? -10 : u.valToPos(value, 'x');
                u.setCursor(
                    { left: left >= 0 && left <= u.bbox.width / devicePixelRatio ? left : -10, top: -10 },
                    false,
                );
                me.quiet = false;
            },
        };
        (linked[axis] || []).push(me);
        if (cuts[axis]) me.narrow(...cuts[axis]);
        figure.plot = u;
        return {
            resize: width => u.setSize({ width, height: Math.max(240, Math.min(420, Math.round(width * 0.42))) }),
            redraw: () => {
                u.redraw();
                paintLegend(u, data, colour);
            },
        };
    });
}

// The upper end of the intervals that are shown within the range of x.
function highestBand(u, data) {
    const { min, max } = u.series[0];
    const seen = data.series.filter((_, i) => u.series[i + 1]?.show);
    const ends = seen.flatMap(s => s.band.filter((_, i) => s.points[i][0] >= min && s.points[i][0] <= max));
    return Math.max(...ends.map(end => end[1]));
}

// A button under a chart that opens with a part of its height; returns what presses it.
function nearOrAll(host, data, act) {
    const bar = element('div', 'plot-bar'),
        button = element('button', 'near');
    const upTo = show(data.y.unit, data.y.first);
    let near = true;
    const name = () => (button.textContent = near ? 'Zoom out: show all' : 'Show up to ' + upTo);
    const turn = isNear => {
        near = isNear;
        name();
        act(near);
    };
    name();
    button.type = 'button';
    button.addEventListener('click', () => turn(!near));
    bar.append(button);
    host.append(bar);
    return turn;
}

// Names in the legend are switches, by keys as well.
function legend(u) {
    const rows = [...u.root.querySelectorAll('.u-legend .u-series')];
    const tell = () =>
        rows.forEach((row, i) => row.firstChild.setAttribute('aria-pressed', String(u.series[i + 1].show)));
    rows.forEach((row, i) => {
        const name = row.firstChild;
        name.tabIndex = 0;
        name.setAttribute('role', 'button');
        name.addEventListener('click', () => setTimeout(tell));
        name.addEventListener('keydown', event => {
            if (event.key !== 'Enter' && event.key !== ' ') return;
            event.preventDefault();
            name.click();
        });
        name.addEventListener('dblclick', () => {
            const alone = u.series.every((series, j) => j === 0 || j === i + 1 || !series.show);
            u.batch(() => rows.forEach((_, j) => u.setSeries(j + 1, { show: alone || j === i })));
            tell();
        });
    });
    tell();
}
function paintLegend(u, data, colour) {
    u.root.querySelectorAll('.u-legend .u-marker').forEach((marker, i) => {
        marker.style.borderColor = colour(data.series[i]);
    });
}

// The interval around a curve.
function band(u, series, colour) {
    if (!series || !series.band.length) return;
    const at = (value, key) => u.valToPos(value, key, true);
    const ctx = u.ctx;
    ctx.save();
    ctx.beginPath();
    ctx.rect(u.bbox.left, u.bbox.top, u.bbox.width, u.bbox.height);
    ctx.clip();
    ctx.beginPath();
    series.points.forEach((p, i) => ctx.lineTo(at(p[0], 'x'), at(series.band[i][1], 'y')));
    for (let i = series.points.length - 1; i >= 0; i--)
        ctx.lineTo(at(series.points[i][0], 'x'), at(series.band[i][0], 'y'));
    ctx.closePath();
    ctx.globalAlpha = 0.16;
    ctx.fillStyle = colour(series);
    ctx.fill();
    ctx.restore();
}

// Points that no line joins; there may be several above each other.
function dots(u, series, colour) {
    if (!series || series.kind !== 'points') return;
    const ctx = u.ctx,
        { left, top, width, height } = u.bbox;
    ctx.save();
    ctx.beginPath();
    ctx.rect(left, top, width, height);
    ctx.clip();
    ctx.fillStyle = colour(series);
    for (const p of series.points) {
        ctx.beginPath();
        ctx.arc(u.valToPos(p[0], 'x', true), u.valToPos(p[1], 'y', true), 4 * devicePixelRatio, 0, 7);
        ctx.fill();
    }
    ctx.restore();
}

// Straight lines across, and points that are pointed out.
function marks(u, data) {
    const ctx = u.ctx,
        ratio = devicePixelRatio,
        { left, top, width, height } = u.bbox;
    ctx.save();
    ctx.strokeStyle = ctx.fillStyle = style('--accent');
    ctx.lineWidth = 1.2 * ratio;
    ctx.font = 12 * ratio + 'px system-ui, sans-serif';
    const text = (label, x, y) => {
        const room = ctx.measureText(label).width;
        const at = Math.max(left + 4, Math.min(x, left + width - room - 4)),
            foot = Math.max(y, top + 16 * ratio);
        ctx.globalAlpha = 0.75;
        ctx.fillStyle = style('--card');
        ctx.fillRect(at - 2 * ratio, foot - 14 * ratio, room + 4 * ratio, 14 * ratio);
        ctx.globalAlpha = 1;
        ctx.fillStyle = style('--accent');
        [ctx.textAlign, ctx.textBaseline] = ['left', 'bottom'];
        ctx.fillText(label, at, foot);
    };
    for (const line of data.lines) {
        const [x, y] = [
            line.x === undefined ? null : u.valToPos(line.x, 'x', true),
            line.y === undefined ? null : u.valToPos(line.y, 'y', true),
        ];
        if (x !== null ? x < left || x > left + width : y < top || y > top + height) continue;
        ctx.setLineDash([6 * ratio, 4 * ratio]);
        ctx.beginPath();
        ctx.moveTo(x ?? left, y ?? top);
        ctx.lineTo(x ?? left + width, y ?? top + height);
        ctx.stroke();
        text(line.label, x === null ? left + width : x + 5 * ratio, y === null ? top + 16 * ratio : y - 2 * ratio);
    }
    ctx.setLineDash([]);
    for (const mark of data.marks) {
        const [x, y] = [u.valToPos(mark.x, 'x', true), u.valToPos(mark.y, 'y', true)];
        if (x < left || x > left + width || y < top - 2 || y > top + height + 2) continue;
        ctx.beginPath();
        ctx.arc(x, y, 7 * ratio, 0, 7);
        ctx.lineWidth = 2.5 * ratio;
        ctx.stroke();
        text(mark.label, x + 11 * ratio, y - 6 * ratio);
    }
    ctx.restore();
}

// Reads out the point of a visible curve that is nearest to the pointer.
function nearest(u, data, left, top, tip) {
    let best = null,
        least = 60 * 60;
    data.series.forEach((series, i) => {
        if (!u.series[i + 1].show) return;
        series.points.forEach((p, nth) => {
            const x = u.valToPos(p[0], 'x'),
                y = u.valToPos(p[1], 'y');
            const d = (x - left) ** 2 + (y - top) ** 2;
            if (d < least) {
                least = d;
                best = { series, p, nth, x, y };
            }
        });
    });
    if (!best) return tip(null);
    const { series, p, nth, x, y } = best,
        interval = series.band[nth];
    const lines = [series.name + ': ' + show(data.y.unit, p[1]) + ' at ' + show(data.x.unit, p[0])];
    if (interval && interval[0] !== interval[1])
        lines.push('interval ' + show(data.y.unit, interval[0]) + ' to ' + show(data.y.unit, interval[1]));
    tip(lines, x + u.over.offsetLeft, y + u.over.offsetTop);
}
