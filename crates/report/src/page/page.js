// Bars stay as they are drawn; the one under the pointer is read out.
function bars(figure) {
    const points = JSON.parse(figure.dataset.points),
        svg = figure.querySelector('svg');
    if (!points.length) return;
    const tip = tipOf(figure);
    svg.addEventListener('pointermove', event => {
        const box = svg.getBoundingClientRect(),
            edge = figure.getBoundingClientRect(),
            scale = box.width / svg.viewBox.baseVal.width;
        const x = (event.clientX - box.left) / scale,
            y = (event.clientY - box.top) / scale;
        let best = null,
            least = 60 * 60;
        for (const point of points) {
            const d = (point[0] - x) ** 2 + (point[1] - y) ** 2;
            if (d < least) {
                least = d;
                best = point;
            }
        }
        if (!best) return tip(null);
        tip(
            [best[2]],
            best[0] * scale + box.left - edge.left + figure.scrollLeft,
            best[1] * scale + box.top - edge.top,
        );
    });
    svg.addEventListener('pointerleave', () => tip(null));
}

// Columns sort their rows; what has no number goes last.
function sortable(table) {
    const body = table.tBodies[0];
    if (!body || body.rows.length < 2) return;
    [...table.tHead.rows[0].cells].forEach((head, column) => {
        const turn = element('button', 'sort', head.textContent);
        turn.type = 'button';
        turn.title = 'sort';
        head.replaceChildren(turn);
        turn.addEventListener('click', () => {
            const down = head.getAttribute('aria-sort') === 'ascending';
            for (const other of table.tHead.rows[0].cells) other.removeAttribute('aria-sort');
            head.setAttribute('aria-sort', down ? 'descending' : 'ascending');
            const key = row => {
                const cell = row.cells[column];
                return cell.dataset.value === undefined ? cell.textContent : Number(cell.dataset.value);
            };
            const missing = value => value === '–' || value === '';
            const rows = [...body.rows].sort((one, other) => {
                const [a, b] = [key(one), key(other)];
                if (missing(a) || missing(b)) return missing(a) - missing(b);
                const order =
                    typeof a === 'number' && typeof b === 'number' ? a - b : String(a).localeCompare(String(b));
                return down ? -order : order;
            });
            body.append(...rows);
        });
    });
}

// Pages of a report: one is seen at a time; all of them without scripts and on paper.
function tabs(bar) {
    const pages = [...document.querySelectorAll('.leaf')],
        links = [...bar.querySelectorAll('a')];
    let shown = pages[0];
    const turn = () => {
        const target = linkedTo();
        // A link to what is on no page turns none.
        shown = pages.find(page => target && page.contains(target)) || shown;
        pages.forEach(page => page.classList.toggle('off', page !== shown));
        links.forEach(link => link.toggleAttribute('aria-current', link.hash === '#' + shown.id));
    };
    addEventListener('hashchange', turn);
    turn();
}
const linkedTo = () => document.getElementById(decodeURIComponent(location.hash.slice(1)));

// A link into a folded section unfolds it; paper has all unfolded.
function unfold() {
    const target = linkedTo();
    if (!target) return;
    const fold = target.closest('details');
    if (fold) fold.open = true;
    target.closest('section, .leaf')?.scrollIntoView();
}
addEventListener('hashchange', unfold);
document.querySelectorAll('nav.contents').forEach(list =>
    // A second click on the same link is no change of the address.
    list.addEventListener('click', event => event.target.hash === location.hash && unfold()),
);
addEventListener('beforeprint', () =>
    document.querySelectorAll('details:not([open])').forEach(fold => {
        fold.open = true;
        addEventListener('afterprint', () => (fold.open = false), { once: true });
    }),
);

document.querySelectorAll('nav.pages').forEach(tabs);
unfold();
document.querySelectorAll('figure[data-chart]').forEach(chart);
document.querySelectorAll('figure[data-points]').forEach(bars);
document
    .querySelectorAll('figure[data-heatmap]')
    .forEach(figure => heatmap(figure).catch(error => console.error(error)));
document.querySelectorAll('table').forEach(sortable);
