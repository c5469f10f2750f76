//! The report of `advise` in headless Chromium: nothing in the console, switches work, nothing overlaps on wide and narrow screens,
//! readable without scripts and on paper. Needs Chromium; skipped with a message, or an error when ISOTHERM_REQUIRE_ALL=1.
//!
//! `cargo xtask bless pictures` renews the pictures under `docs/pictures/`.
#![expect(clippy::print_stderr, reason = "a test that is skipped says why")]

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::browser::{self, Browser};
use isotherm_report::Unit;
use serde_json::{Value, json};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap().to_owned()
}

fn browser() -> Option<Browser> {
    match browser::installed() {
        Some(name) => Some(Browser::start(name)),
        None => {
            let why = "chromium is not installed (apt-get install chromium)";
            assert!(std::env::var_os("ISOTHERM_REQUIRE_ALL").is_none_or(|value| value != "1"), "{why}");
            eprintln!("skipped: {why}");
            None
        }
    }
}

/// The report of the bundled SQLite for both releases.
fn report(directory: &Path) -> PathBuf {
    let page = directory.join("report.html");
    let output = Command::new(env!("CARGO_BIN_EXE_isotherm"))
        .current_dir(root())
        .env("SOURCE_DATE_EPOCH", "1700000000")
        .args([
            "advise",
            "traces/sqlite.parquet",
            "--for",
            "docker:db",
            "--kernel",
            "all",
            "--memory",
            "60%,75%,90%",
            "--effort",
            "quick",
            "-q",
            "--report",
        ])
        .arg(&page)
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    page
}

/// Elements that overlap without being nested, and elements wider than the screen.
const OVERLAPS: &str = r"(() => {
  const found = [];
  const seen = document.querySelectorAll('h1,h2,h3,p,li,dl>div,table,.plot-title,.plot-subtitle,.plot-bar,.plot-box,.u-legend,pre,nav a');
  const boxes = [...seen].filter(e => e.checkVisibility()).map(e => [e, e.getBoundingClientRect()]);
  boxes.forEach(([e, r]) => {
    const scrolls = e.closest('.scroll') || e.closest('pre');
    if (!scrolls && r.right > innerWidth + 1) found.push('wide: ' + e.className + e.textContent.slice(0, 40));
  });
  for (let i = 0; i < boxes.length; i++) for (let j = i + 1; j < boxes.length; j++) {
    const [a, r] = boxes[i], [b, s] = boxes[j];
    if (a.contains(b) || b.contains(a)) continue;
    const across = Math.min(r.right, s.right) - Math.max(r.left, s.left), down = Math.min(r.bottom, s.bottom) - Math.max(r.top, s.top);
    if (across > 2 && down > 2) found.push((a.className || a.tagName) + ' / ' + (b.className || b.tagName) + ': ' + a.textContent.slice(0, 30) + ' / ' + b.textContent.slice(0, 30));
  }
  if (document.documentElement.scrollWidth > innerWidth) found.push('the page is ' + document.documentElement.scrollWidth + ' wide');
  return found;
})()";

/// Position of the n-th match of `selector` on the page, scrolled into view.
fn place(browser: &mut Browser, selector: &str, nth: usize) -> [f64; 4] {
    let expression = format!(
        "(() => {{ const e = document.querySelectorAll({selector:?})[{nth}]; e.scrollIntoView({{ block: 'center' }}); \
         const r = e.getBoundingClientRect(); return [r.left, r.top, r.width, r.height]; }})()"
    );
    let found = browser.value(&expression);
    [0, 1, 2, 3].map(|i| found[i].as_f64().unwrap_or_else(|| panic!("{selector} {nth}: {found}")))
}

fn number(browser: &mut Browser, expression: &str) -> f64 {
    let value = browser.value(expression);
    value.as_f64().unwrap_or_else(|| panic!("{expression}: {value}"))
}

#[test]
fn the_report_works_in_a_browser() {
    let Some(mut browser) = browser() else { return };
    let directory = tempfile::tempdir().unwrap();
    let page = report(directory.path());
    assert!(std::fs::metadata(&page).unwrap().len() <= 3 << 20, "at most 3 MiB");

    browser.resize(1280, 900);
    browser.look("light", "screen");
    browser.open(&page);
    assert_eq!(browser.value(OVERLAPS), json!([]), "at 1280 pixels");
    let planted = "document.querySelector('h2').style.marginBottom = '-40px'";
    browser.value(planted);
    assert_ne!(browser.value(OVERLAPS), json!([]), "an overlap that was planted is found");
    browser.value("document.querySelector('h2').style.marginBottom = ''");
    numbers_read_as_elsewhere(&mut browser);
    the_answer_is_on_the_first_screen(&mut browser);
    most_is_folded_and_linked_to(&mut browser, &page);
    names_switch_curves(&mut browser);
    the_range_that_decides_is_seen_first(&mut browser);
    releases_have_pages_of_their_own(&mut browser);
    unfold(&mut browser);
    peaks_are_whole(&mut browser);
    values_are_read_out(&mut browser);
    a_cut_of_time_holds_for_all(&mut browser);
    columns_sort(&mut browser);
    browser.look("dark", "screen");
    browser.settle();
    let background = browser.value("getComputedStyle(document.body).backgroundColor");
    assert_eq!(background, json!("rgb(11, 13, 17)"), "dark");

    browser.value("document.querySelectorAll('details').forEach(fold => fold.open = false)");
    browser.look("light", "print");
    browser.settle();
    let on_paper = "[...document.querySelectorAll('figure.live')].every(f => f.querySelector('svg').checkVisibility() && \
                    !f.querySelector('.plot').checkVisibility())";
    assert_eq!(browser.value(on_paper), json!(true));

    browser.look("light", "screen");
    browser.resize(390, 844);
    browser.open(&page);
    assert_eq!(browser.value(OVERLAPS), json!([]), "at 390 pixels");
    unfold(&mut browser);
    assert_eq!(browser.value(OVERLAPS), json!([]), "at 390 pixels, unfolded");
    assert_eq!(browser.said, Vec::<String>::new(), "what the page said");

    browser.call("Emulation.setScriptExecutionDisabled", &json!({ "value": true }));
    browser.load(&page);
    browser.value("document.querySelectorAll('details').forEach(fold => fold.open = true)");
    let pictures = "[...document.querySelectorAll('figure')].map(f => !f.classList.contains('live') && f.querySelector('svg').checkVisibility())";
    let pictures = browser.value(pictures);
    let pictures = pictures.as_array().unwrap();
    assert!(
        pictures.len() > 8 && pictures.iter().all(|is_picture| *is_picture == json!(true)),
        "without scripts: {pictures:?}"
    );
}

/// The page's script formats its own numbers in the same way as all other output.
fn numbers_read_as_elsewhere(browser: &mut Browser) {
    let units = [
        ("bytes", Unit::Bytes),
        ("ns", Unit::Ns),
        ("ppm", Unit::Ppm),
        ("factor", Unit::Factor),
        ("count", Unit::Count),
        ("per_s", Unit::PerSecond),
        ("address", Unit::Address),
    ];
    let values = [0.0, 1.0, 4096.0, 12_345.0, 999_600.0, 1_645_000_000.0, 90e9, 7200e9, 1e15];
    for (name, unit) in units {
        for value in values {
            assert_eq!(browser.value(&format!("show('{name}', {value})")), json!(unit.approx(value)), "{name} {value}");
        }
    }
}

/// Opens all folds, and waits for the pictures in them.
fn unfold(browser: &mut Browser) {
    browser.value("document.querySelectorAll('details').forEach(fold => fold.open = true)");
    browser.until("[...document.querySelectorAll('figure[data-chart]')].every(f => f.plot || !f.checkVisibility())");
    browser.settle();
}

fn the_answer_is_on_the_first_screen(browser: &mut Browser) {
    browser.resize(1280, 800);
    browser.settle();
    let texts = |browser: &mut Browser, selector: &str| -> Vec<String> {
        let texts = browser.value(&format!("[...document.querySelectorAll('{selector}')].map(e => e.textContent)"));
        texts.as_array().unwrap().iter().map(|text| text.as_str().unwrap().to_owned()).collect()
    };
    let steps = texts(browser, ".verdict .steps code");
    assert!(
        steps[0].starts_with("docker update --memory ") && steps[0].ends_with("m --memory-swap -1 db"),
        "{steps:?}"
    );
    let origin = texts(browser, ".verdict .origin div");
    assert_eq!(origin[0], "report of2023-11-14");
    for name in ["recorded onLinux ", "recorder", "clock error", "exit code0"] {
        assert!(origin.iter().any(|fact| fact.starts_with(name)), "{name}: {origin:?}");
    }
    let end = number(browser, "document.querySelector('.verdict').getBoundingClientRect().bottom + scrollY");
    assert!(end <= 800.0, "the answer ends at {end}");
    // Two releases are compared in a section and listed twice; a page of one has neither.
    let second = "[...document.querySelectorAll('#what-each-release-says, nav.pages, nav.contents')].reduce((sum, e) => sum + e.offsetHeight, 0)";
    let height = number(browser, "document.documentElement.scrollHeight") - number(browser, second);
    assert!(height <= 5.0 * 800.0, "{height}: five screens at most");
    browser.resize(1280, 900);
    browser.settle();
}

/// Each section is on the list; a link to a folded one opens it.
fn most_is_folded_and_linked_to(browser: &mut Browser, page: &Path) {
    let lost = "[...document.querySelectorAll('section:not(.verdict) h2')].map(h => h.textContent).filter(heading => \
                ![...document.querySelectorAll('.contents a')].some(link => link.textContent === heading))";
    assert_eq!(browser.value(lost), json!([]));
    let dead =
        "[...document.querySelectorAll('.contents a')].filter(a => !document.getElementById(a.hash.slice(1))).length";
    assert_eq!(number(browser, dead), 0.0);
    assert!(number(browser, "document.querySelectorAll('.contents a').length") > 10.0);
    assert_eq!(number(browser, "document.querySelectorAll('details[open]').length"), 0.0);
    let mute = "[...document.querySelectorAll('summary span')].filter(e => e.textContent.length < 20).length";
    assert_eq!(number(browser, mute), 0.0, "each says what is inside");
    let opened = "[...document.querySelectorAll('details[open] h2')].map(h => h.textContent)";
    browser.value("document.querySelector('.contents a[href=\"#every-size\"]').click()");
    browser.settle();
    assert_eq!(browser.value(opened), json!(["Every size"]));
    let top = number(browser, "document.querySelector('details[open]').getBoundingClientRect().top");
    assert!((0.0..300.0).contains(&top), "in view: {top}");
    // The page of the other release is turned to, and only then.
    let leaf = "document.querySelector('.leaf:not(.off)').id";
    assert_eq!(browser.value(leaf), json!("linux-6.12"));
    browser.value("[...document.querySelectorAll('.contents a')].find(a => a.textContent === 'All configurations: Linux 7.2').click()");
    browser.settle();
    assert_eq!(browser.value(leaf), json!("linux-7.2"));
    assert_eq!(browser.value(opened), json!(["All configurations: Linux 7.2", "Every size"]));
    browser.open(page);
}

/// The allowed slow-down is 5 %.
fn the_range_that_decides_is_seen_first(browser: &mut Browser) {
    let top = "document.querySelector('figure[data-chart]').plot.scales.y.max";
    let press = "document.querySelector('figure[data-chart] .near').click()";
    assert_eq!(number(browser, top), 100_000.0);
    browser.value(press);
    browser.settle();
    let all = number(browser, top);
    assert!(all > 300_000.0, "{all}");
    browser.value(press);
    browser.settle();
    assert_eq!(number(browser, top), 100_000.0);
    let [x, y, width, height] = place(browser, "figure[data-chart] .u-over", 0);
    for count in [1, 2] {
        for kind in ["mousePressed", "mouseReleased"] {
            browser.click(kind, x + width / 2.0, y + height / 2.0, count);
        }
    }
    browser.settle();
    assert_eq!(number(browser, top), all, "a double-click shows all");
    browser.value(press);
    browser.settle();
}

/// The highest point that is shown lies below the top of each chart: at first, zoomed, and with a curve less.
fn peaks_are_whole(browser: &mut Browser) {
    let plots = "[...document.querySelectorAll('figure[data-chart]')].filter(f => f.plot && !f.querySelector('.near'))";
    let cut = format!(
        "{plots}.filter(f => {{ const u = f.plot, {{ min, max }} = u.scales.x; \
         return JSON.parse(f.dataset.chart).series.some((s, i) => u.series[i + 1].show && s.points.some((p, j) => \
         p[0] >= min && p[0] <= max && Math.max(p[1], s.band.length ? s.band[j][1] : 0) > u.scales.y.max)); }}).map(f => f.textContent)"
    );
    assert!(number(browser, &format!("{plots}.length")) >= 6.0);
    for act in [
        "0",
        "f.plot.setScale('x', { min: (f.plot.scales.x.min + f.plot.scales.x.max) / 2, max: f.plot.scales.x.max })",
        "f.querySelector('.u-legend th').click()",
        "f.plot.over.dispatchEvent(new MouseEvent('dblclick', { bubbles: true }))",
        "f.querySelector('.u-legend th').click()",
    ] {
        browser.value(&format!("{plots}.forEach(f => {{ {act}; }})"));
        browser.settle();
        assert_eq!(browser.value(&cut), json!([]), "after {act}");
    }
}

fn names_switch_curves(browser: &mut Browser) {
    let first = "document.querySelector('figure[data-chart]').plot";
    let shown = format!("{first}.series.slice(1).filter(s => s.show).length");
    let top = format!("{first}.scales.y.max");
    let (before, height) = (number(browser, &shown), number(browser, &top));
    assert!(before >= 7.0, "{before}");
    let name = "figure[data-chart] .u-legend th";
    assert_eq!(browser.value(&format!("document.querySelector('{name}').getAttribute('aria-pressed')")), json!("true"));
    let [x, y, width, tall] = place(browser, name, 0);
    let click = |browser: &mut Browser| {
        for kind in ["mouseMoved", "mousePressed", "mouseReleased"] {
            browser.mouse(kind, x + width / 2.0, y + tall / 2.0);
        }
        browser.settle();
    };
    click(browser);
    assert_eq!(number(browser, &shown), before - 1.0);
    assert_eq!(
        browser.value(&format!("document.querySelector('{name}').getAttribute('aria-pressed')")),
        json!("false")
    );
    click(browser);
    assert_eq!(number(browser, &shown), before);
    assert_eq!(number(browser, &top), height);
    let key = format!(
        "(e => {{ e.focus(); e.dispatchEvent(new KeyboardEvent('keydown', {{ key: 'Enter', bubbles: true }})); }})(document.querySelector('{name}'))"
    );
    browser.value(&key);
    browser.settle();
    assert_eq!(number(browser, &shown), before - 1.0, "by key");
    browser.value(&key);
    browser.settle();
}

fn releases_have_pages_of_their_own(browser: &mut Browser) {
    let seen = "[...document.querySelectorAll('.leaf')].filter(e => e.checkVisibility()).map(e => e.id)";
    assert_eq!(browser.value(seen), json!(["linux-6.12"]));
    browser.value("document.querySelectorAll('nav.pages a')[1].click()");
    browser.settle();
    assert_eq!(browser.value(seen), json!(["linux-7.2"]));
    let drawn = "[...document.querySelectorAll('#linux-7\\\\.2 > section:not(.fold) figure[data-chart]')].every(f => f.plot && f.plot.width > 500)";
    browser.until(drawn);
    assert_eq!(browser.value(OVERLAPS), json!([]), "on the second page");
    browser.value("document.querySelectorAll('nav.pages a')[0].click()");
    browser.settle();
}

fn values_are_read_out(browser: &mut Browser) {
    let [x, y, width, height] = place(browser, "figure[data-chart] .u-over", 0);
    let tip = "[...document.querySelector('figure[data-chart] .tip').children].map(line => line.textContent)";
    let mut heard = Vec::new();
    for part in 0..40 {
        browser.mouse("mouseMoved", x + width * f64::from(part) / 40.0, y + height * 0.8);
        heard.push(browser.value(tip));
    }
    let says = |text: &str| heard.iter().any(|tip| tip.to_string().contains(text));
    assert!(says(" at ") && says("MiB") && says("interval "), "{heard:?}");
    let [x, y, width, height] = place(browser, ".plot-cells", 0);
    let tip = "[...document.querySelector('figure[data-heatmap] .tip').children].map(line => line.textContent)";
    let mut heard = Vec::new();
    for part in 1..40 {
        browser.mouse("mouseMoved", x + width * 0.4, y + height * f64::from(part) / 40.0);
        heard.push(browser.value(tip));
    }
    let says = |text: &str| heard.iter().any(|tip| tip.to_string().contains(text));
    assert!(says("heap") && says("touches per page and second") && says("not touched"), "{heard:?}");
}

fn a_cut_of_time_holds_for_all(browser: &mut Browser) {
    let span = "(() => { const p = [...document.querySelectorAll('figure[data-chart]')].find(f => JSON.parse(f.dataset.chart).x.unit === 'ns').plot; \
                return p.scales.x.max - p.scales.x.min; })()";
    let view = "(v => v.t1 - v.t0)(document.querySelector('figure[data-heatmap]').heatmap.view())";
    let (whole, all) = (number(browser, span), number(browser, view));
    let [x, y, width, height] = place(browser, ".plot-cells", 0);
    browser.mouse("mouseMoved", x + width * 0.3, y + height * 0.2);
    browser.mouse("mousePressed", x + width * 0.3, y + height * 0.2);
    browser.mouse("mouseMoved", x + width * 0.5, y + height * 0.6);
    browser.mouse("mouseReleased", x + width * 0.5, y + height * 0.6);
    browser.settle();
    let (part, seen) = (number(browser, span), number(browser, view));
    assert!(part < whole * 0.4 && seen < all * 0.4, "{whole} to {part}, {all} to {seen}");
    assert!((part - seen).abs() < all / 1e6, "the same span: {part}, {seen}");
    browser.value("document.querySelector('.plot-bar button[title=\"show all\"]').click()");
    browser.settle();
    assert_eq!(number(browser, view), all);
}

fn columns_sort(browser: &mut Browser) {
    let column = |browser: &mut Browser| -> Vec<f64> {
        let values = browser.value(
            "(() => { const t = [...document.querySelectorAll('table')].at(-1); const h = t.tHead.rows[0]; \
             const i = [...h.cells].findIndex(c => c.textContent.startsWith('major faults')); \
             return [...t.tBodies[0].rows].map(r => Number(r.cells[i].dataset.value)); })()",
        );
        values.as_array().unwrap().iter().filter_map(Value::as_f64).collect()
    };
    let turn = "(() => { const t = [...document.querySelectorAll('table')].at(-1); \
                [...t.querySelectorAll('.sort')].find(b => b.textContent.startsWith('major faults')).click(); })()";
    let mut sorted = column(browser);
    assert!(sorted.len() > 20);
    sorted.sort_by(f64::total_cmp);
    browser.value(turn);
    assert_eq!(column(browser), sorted);
    browser.value(turn);
    sorted.reverse();
    assert_eq!(column(browser), sorted);
}

/// Pictures for the documentation, of the current report.
#[test]
fn pictures_of_the_report() {
    if std::env::var("ISOTHERM_BLESS").as_deref() != Ok("1") {
        return;
    }
    let mut browser = browser().expect("a browser");
    // A picture of a long page is taken without its scroll bar, which would move what is above.
    browser.call("Emulation.setScrollbarsHidden", &json!({ "hidden": true }));
    let directory = tempfile::tempdir().unwrap();
    let page = report(directory.path());
    let [verdict, runtime, heatmap] = [".verdict", "#linux-6\\.12 section:has(figure)", "section:has(.plot-cells)"];
    let wanted = [
        ("verdict", verdict, 1280, "light"),
        ("runtime", runtime, 1280, "dark"),
        ("heatmap", heatmap, 1280, "light"),
        ("runtime", runtime, 390, "light"),
        ("heatmap", heatmap, 390, "light"),
    ];
    for (name, selector, width, scheme) in wanted {
        browser.resize(width, 900);
        browser.look(scheme, "screen");
        browser.open(&page);
        unfold(&mut browser);
        let [x, y, wide, tall] = place(&mut browser, selector, 0);
        let above = number(&mut browser, "scrollY");
        let picture = browser.picture([(x - 8.0).max(0.0), y + above - 8.0, wide + 16.0, tall + 16.0]);
        std::fs::write(root().join(format!("docs/pictures/report-{name}-{width}-{scheme}.png")), picture).unwrap();
    }
}
