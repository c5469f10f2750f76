// A heatmap that can be zoomed into: one picture a strip of memory, with the level of each cell behind its colour.
async function heatmap(figure) {
    const data = JSON.parse(figure.dataset.heatmap);
    const images = await Promise.all(
        data.strips.map(async strip => {
            const image = new Image();
            image.src = 'data:image/png;base64,' + strip.png;
            await image.decode();
            return image;
        }),
    );
    const levels = images.map(image => {
        const canvas = element('canvas');
        [canvas.width, canvas.height] = [image.width, image.height];
        const ctx = canvas.getContext('2d', { willReadFrequently: true });
        ctx.drawImage(image, 0, 0);
        return (x, y) => {
            const [r, g, b] = ctx.getImageData(x, y, 1, 1).data;
            return data.palette.indexOf(r * 65536 + g * 256 + b);
        };
    });
    const host = element('div', 'plot'),
        bar = element('div', 'plot-bar'),
        box = element('div', 'plot-box');
    host.append(element('div', 'plot-title', data.title));
    if (data.subtitle) host.append(element('div', 'plot-subtitle', data.subtitle));
    const button = (name, what, act) => {
        const made = element('button', '', name);
        made.type = 'button';
        made.title = what;
        made.setAttribute('aria-label', what);
        made.addEventListener('click', act);
        bar.append(made);
    };
    const scale = element('span', 'plot-scale');
    const gradient = data.palette.filter((_, i) => i % 32 === 1).map(c => '#' + c.toString(16).padStart(6, '0'));
    const ramp = element('span', 'plot-ramp');
    ramp.style.background = 'linear-gradient(90deg,' + gradient.join(',') + ')';
    scale.append(digits(data.coldest, 2), ramp, digits(data.hottest, 2) + ' ' + data.words);
    host.append(
        element('div', 'plot-subtitle', 'Drag a rectangle to zoom, double-click for all; charts over time follow.'),
        bar,
        box,
    );
    const canvas = element('canvas', 'plot-cells');
    canvas.setAttribute('role', 'img');
    canvas.setAttribute('aria-label', data.title);
    box.append(canvas);
    enliven(figure, host);
    const tip = tipOf(box);
    const rows = data.height,
        all = { t0: data.start, t1: data.end, y0: 0, y1: rows };
    let view = { ...all },
        width = 0,
        drag = null,
        crosshair = null;
    const height = 520;
    const room = () =>
        width < 700 ? { left: 4, right: 4, top: 4, bottom: 24 } : { left: 108, right: 150, top: 4, bottom: 24 };
    const area = () => {
        const r = room();
        return { x: r.left, y: r.top, w: Math.max(10, width - r.left - r.right), h: height - r.top - r.bottom };
    };
    const px = t => area().x + ((t - view.t0) / (view.t1 - view.t0)) * area().w;
    const py = y => area().y + ((y - view.y0) / (view.y1 - view.y0)) * area().h;
    const time = x => view.t0 + ((x - area().x) / area().w) * (view.t1 - view.t0);
    const row = y => view.y0 + ((y - area().y) / area().h) * (view.y1 - view.y0);
    const me = {
        narrow(low, high) {
            const [t0, t1] = [Math.max(low, all.t0), Math.min(high, all.t1)];
            view = t0 < t1 ? { ...view, t0, t1 } : { ...view, t0: all.t0, t1: all.t1 };
            draw();
        },
        point(value) {
            crosshair = value;
            draw();
        },
    };
    linked.ns.push(me);
    const see = next => {
        const t0 = Math.max(all.t0, next.t0),
            t1 = Math.min(all.t1, next.t1);
        const y0 = Math.max(0, next.y0),
            y1 = Math.min(rows, next.y1);
        if (t1 - t0 < (all.t1 - all.t0) / 1e5 || y1 - y0 < 1) return;
        view = { t0, t1, y0, y1 };
        draw();
        narrow('ns', me, t0, t1);
    };
    const zoom = by => {
        const [t, y] = [(view.t0 + view.t1) / 2, (view.y0 + view.y1) / 2];
        const [dt, dy] = [((view.t1 - view.t0) / 2) * by, ((view.y1 - view.y0) / 2) * by];
        see({ t0: t - dt, t1: t + dt, y0: y - dy, y1: y + dy });
    };
    button('+', 'zoom in', () => zoom(0.5));
    button('−', 'zoom out', () => zoom(2));
    button('all', 'show all', () => see(all));
    bar.append(scale);

    function draw() {
        if (!width) return;
        const ratio = devicePixelRatio,
            ctx = canvas.getContext('2d'),
            a = area();
        canvas.width = Math.round(width * ratio);
        canvas.height = Math.round(height * ratio);
        canvas.style.height = height + 'px';
        ctx.scale(ratio, ratio);
        ctx.clearRect(0, 0, width, height);
        ctx.imageSmoothingEnabled = false;
        ctx.save();
        ctx.beginPath();
        ctx.rect(a.x, a.y, a.w, a.h);
        ctx.clip();
        data.strips.forEach((strip, i) => {
            const image = images[i];
            const top = Math.max(strip.top, view.y0),
                bottom = Math.min(strip.top + strip.rows, view.y1);
            if (bottom <= top) return;
            const span = all.t1 - all.t0;
            const sx = ((view.t0 - all.t0) / span) * image.width,
                sw = ((view.t1 - view.t0) / span) * image.width;
            const sy = ((top - strip.top) / strip.rows) * image.height,
                sh = ((bottom - top) / strip.rows) * image.height;
            ctx.drawImage(image, sx, sy, sw, sh, a.x, py(top), a.w, py(bottom) - py(top));
        });
        if (crosshair !== null && crosshair >= view.t0 && crosshair <= view.t1) {
            ctx.strokeStyle = '#ffffff';
            ctx.setLineDash([4, 4]);
            ctx.beginPath();
            ctx.moveTo(px(crosshair), a.y);
            ctx.lineTo(px(crosshair), a.y + a.h);
            ctx.stroke();
            ctx.setLineDash([]);
        }
        if (drag) {
            ctx.fillStyle = 'rgba(255,255,255,.25)';
            ctx.fillRect(drag.x, drag.y, drag.toX - drag.x, drag.toY - drag.y);
        }
        ctx.restore();
        ctx.font = '12px system-ui, sans-serif';
        ctx.textBaseline = 'middle';
        let free = -Infinity,
            low = -Infinity;
        for (const strip of data.strips) {
            const top = py(strip.top),
                bottom = py(strip.top + strip.rows);
            if (bottom < a.y || top > a.y + a.h) continue;
            const middle = (Math.max(top, a.y) + Math.min(bottom, a.y + a.h)) / 2;
            if (room().right > 50 && middle - 8 >= free) {
                ctx.fillStyle = style('--ink');
                ctx.textAlign = 'left';
                ctx.fillText(cut(ctx, strip.label, 142), a.x + a.w + 8, middle);
                free = middle + 8;
                if (middle + 14 <= Math.min(bottom, a.y + a.h)) {
                    ctx.fillStyle = style('--muted');
                    ctx.fillText(cut(ctx, strip.size, 142), a.x + a.w + 8, middle + 14);
                    free += 14;
                }
            } else if (room().right < 50 && Math.min(bottom, a.y + a.h) - Math.max(top, a.y) > 15) {
                ctx.textAlign = 'left';
                const label = cut(ctx, strip.label + ', ' + strip.size, a.w - 8);
                ctx.fillStyle = 'rgba(0,0,0,.6)';
                ctx.fillRect(a.x, Math.max(top, a.y), ctx.measureText(label).width + 8, 15);
                ctx.fillStyle = '#ffffff';
                ctx.fillText(label, a.x + 4, Math.max(top, a.y) + 8);
            }
            const foot = Math.min(bottom, a.y + a.h) - 6;
            if (room().left > 50 && bottom <= a.y + a.h + 1 && foot - 7 >= low) {
                ctx.fillStyle = style('--muted');
                ctx.textAlign = 'right';
                ctx.fillText(strip.start, a.x - 8, foot);
                low = foot + 7;
            }
        }
        ctx.fillStyle = style('--muted');
        const count = Math.max(2, Math.floor(a.w / 110)),
            step = nice((view.t1 - view.t0) / count);
        for (let t = Math.ceil(view.t0 / step) * step; t <= view.t1; t += step) {
            const label = show('ns', t, view.t1),
                half = ctx.measureText(label).width / 2,
                x = px(t);
            ctx.textAlign = 'center';
            ctx.fillText(label, Math.min(Math.max(x, half), width - half), a.y + a.h + 14);
            ctx.fillRect(x, a.y + a.h, 1, 4);
        }
    }
    const at = event => {
        const edge = canvas.getBoundingClientRect(),
            a = area();
        return [
            Math.min(Math.max(event.clientX - edge.left, a.x), a.x + a.w),
            Math.min(Math.max(event.clientY - edge.top, a.y), a.y + a.h),
        ];
    };
    canvas.addEventListener('pointerdown', event => {
        if (event.pointerType === 'touch') return;
        const [x, y] = at(event);
        drag = { x, y, toX: x, toY: y };
        canvas.setPointerCapture(event.pointerId);
    });
    canvas.addEventListener('pointermove', event => {
        const [x, y] = at(event);
        if (drag) [drag.toX, drag.toY] = [x, y];
        crosshair = time(x);
        draw();
        point('ns', me, crosshair);
        readOut(x, y);
    });
    canvas.addEventListener('pointerup', () => {
        const done = drag;
        drag = null;
        if (!done || Math.abs(done.toX - done.x) < 5 || Math.abs(done.toY - done.y) < 5) return draw();
        const [x0, x1] = [Math.min(done.x, done.toX), Math.max(done.x, done.toX)];
        const [y0, y1] = [Math.min(done.y, done.toY), Math.max(done.y, done.toY)];
        see({ t0: time(x0), t1: time(x1), y0: row(y0), y1: row(y1) });
    });
    canvas.addEventListener('pointerleave', () => {
        tip(null);
        crosshair = null;
        draw();
        point('ns', me, null);
    });
    canvas.addEventListener('dblclick', () => see(all));
    function readOut(x, y) {
        const r = row(y),
            i = data.strips.findIndex(strip => r >= strip.top && r < strip.top + strip.rows);
        if (i < 0) return tip(['left out: ' + data.folded, show('ns', time(x))], x, y);
        const strip = data.strips[i],
            image = images[i];
        const column = Math.min(image.width - 1, Math.floor(((time(x) - all.t0) / (all.t1 - all.t0)) * image.width));
        const cell = Math.min(image.height - 1, Math.floor(((r - strip.top) / strip.rows) * image.height));
        const level = levels[i](column, cell);
        const heat =
            level <= 0
                ? data.absent
                : digits(data.coldest * (data.hottest / data.coldest) ** ((level - 1) / 254), 2) + ' ' + data.words;
        const bytes = (1 - (cell + 1) / image.height) * strip.bytes;
        tip(
            [
                strip.label + ', ' + show('bytes', bytes) + ' above its start (' + strip.start + ')',
                'at ' + show('ns', time(x)) + ': ' + heat,
            ],
            x,
            y,
        );
    }
    fit(box, wide => {
        width = wide;
        draw();
        return {
            resize(wide) {
                width = wide;
                draw();
            },
            redraw: draw,
        };
    });
    figure.heatmap = { view: () => ({ ...view }), see };
}
function cut(ctx, text, room) {
    if (ctx.measureText(text).width <= room) return text;
    while (text && ctx.measureText(text + '…').width > room) text = text.slice(0, -1);
    return text + '…';
}
function nice(least) {
    const power = 10 ** Math.floor(Math.log10(least));
    return [1, 2, 5, 10].map(n => n * power).find(step => step >= least) || least;
}
