// Brings the pictures of a page to life. Each figure is complete without it, as the SVG that stands in it, and on paper.
const style = name => getComputedStyle(document.documentElement).getPropertyValue(name).trim();
const element = (name, className, text) => {
    const made = document.createElement(name);
    if (className) made.className = className;
    if (text !== undefined) made.textContent = text;
    return made;
};

// Numbers with their units, as everywhere else in isotherm.
const BINARY = ['B', 'KiB', 'MiB', 'GiB', 'TiB', 'PiB', 'EiB'].map((suffix, i) => [
    2 ** (10 * i),
    2 ** (10 * i),
    ' ' + suffix,
]);
const COUNTS = ['', 'k', 'M', 'G', 'T', 'P', 'E'].map((suffix, i) => [
    i == 1 ? 1e4 : 10 ** (3 * i),
    10 ** (3 * i),
    suffix,
]);
const TIMES = [
    [0, 1, ' ns'],
    [1e3, 1e3, ' µs'],
    [1e6, 1e6, ' ms'],
    [1e9, 1e9, ' s'],
    [180e9, 60e9, ' min'],
    [10800e9, 3600e9, ' h'],
    [259200e9, 86400e9, ' d'],
];
const SCALES = {
    bytes: BINARY,
    ns: TIMES,
    ppm: [[0, 1e4, ' %']],
    factor: [[0, 1, '×']],
    count: COUNTS,
    pages: COUNTS,
    per_s: COUNTS.map(([from, by, suffix]) => [from, by, ' ' + (suffix || '1') + '/s']),
};
function scaleOf(unit, largest) {
    const steps = SCALES[unit] || COUNTS;
    return steps.findLast(step => Math.abs(largest) >= step[0]) || steps[0];
}
const digits = (value, n) =>
    value === 0 ? '0' : Math.abs(value) >= 10 ** (n - 1) ? value.toFixed(0) : String(Number(value.toPrecision(n)));
function show(unit, value, largest = value) {
    if (unit === 'address') return '0x' + Math.round(value).toString(16);
    const [, by, suffix] = scaleOf(unit, largest);
    return digits(value / by, 3) + suffix;
}

// What is measured along the same axis is looked at together: a cut of time or of memory holds for all pictures of it.
// What is unfolded later joins in.
const linked = { ns: [], bytes: [] },
    cuts = {};
function narrow(axis, from, low, high) {
    cuts[axis] = [low, high];
    for (const other of linked[axis] || []) if (other !== from) other.narrow(low, high);
}
function point(axis, from, value) {
    for (const other of linked[axis] || []) if (other !== from) other.point(value);
}

// Plots are made when they are first seen with a width, and follow it.
function fit(host, make) {
    let made = null,
        last = 0;
    const look = () => {
        const width = Math.floor(host.clientWidth);
        if (width < 1 || width === last) return;
        last = width;
        if (!made) made = make(width);
        else made.resize(width);
    };
    new ResizeObserver(() => requestAnimationFrame(look)).observe(host);
    const redraw = () => made && made.redraw();
    matchMedia('(prefers-color-scheme: dark)').addEventListener('change', redraw);
}

function enliven(figure, host) {
    figure.append(host);
    figure.classList.add('live');
}

const tipOf = host => {
    const tip = element('div', 'tip');
    tip.hidden = true;
    host.append(tip);
    return (lines, x, y) => {
        tip.hidden = !lines;
        if (!lines) return;
        tip.replaceChildren(...lines.map(line => element('div', '', line)));
        const half = tip.offsetWidth / 2,
            height = tip.offsetHeight;
        tip.style.left = Math.min(Math.max(x, half), Math.max(half, host.clientWidth - half)) + 'px';
        tip.style.top = (y - height - 12 < 0 ? y + 16 : y - height - 12) + 'px';
    };
};
