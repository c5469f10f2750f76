//! Draws every kind of picture from made-up data: `cargo run -p isotherm-report --example gallery -- DIRECTORY`.
//!
//! The data is a program with phases: it fills its heap, works on a part of it, then on another, while it reads a file
//! again and again. Used to judge the drawing by eye.

#![expect(clippy::print_stdout, reason = "an example that shows terminal pictures")]

use isotherm_report::{
    Axis, Band, Callout, Cell, Chart, ColourDepth, Column, Emphasis, Heatmap, HtmlPage, Measure, PictureSize,
    Reference, Series, Table, TermStyle, Unit, Verdict,
};
use std::path::Path;

const MIB: f64 = 1_048_576.0;

fn main() -> std::io::Result<()> {
    let directory = std::env::args().nth(1).unwrap_or_else(|| ".".to_owned());
    let directory = Path::new(&directory);
    std::fs::create_dir_all(directory)?;
    let style = TermStyle { colour: ColourDepth::TrueColour, unicode: true, width: 120, height: 36 };

    let heatmap = heatmap();
    let heatmap_size = PictureSize { width: 960, height: 600 };
    write(directory, "heatmap", &heatmap.picture(heatmap_size))?;
    println!("{}", heatmap.to_text(&style));
    println!("{}", heatmap.to_text(&TermStyle { colour: ColourDepth::None, ..style }));

    let mut page = HtmlPage::new("How much memory does sqlite3 need?", "sqlite3 index.db < queries.sql");
    page.verdict(&verdict());
    page.section("Runtime at each memory size").chart(&runtime(), PictureSize::default()).table(&table());
    page.section("Memory over time").heatmap(&heatmap, heatmap_size);
    page.section("More");
    for (name, chart) in [("runtime", runtime()), ("mrc", miss_ratio()), ("wss", working_set()), ("faults", faults())] {
        write(directory, name, &chart.picture(PictureSize { width: 960, height: 460 }))?;
        println!("{}", chart.to_text(&style));
        println!("{}", chart.to_text(&TermStyle { unicode: false, colour: ColourDepth::None, ..style }));
        page.chart(&chart, PictureSize { width: 960, height: 400 });
    }
    page.notes(
        "What this does not know",
        &[
            "The recording keeps one touch of a page in each millisecond; misses within a millisecond are not seen."
                .to_owned(),
            "Accesses the kernel makes on the program's behalf are not recorded.".to_owned(),
        ],
    );
    page.section("Configuration").code("[machine]\nmemory = \"170MiB\"\npolicy = \"classic\"");
    page.footer("isotherm 0.1.0").footer("isotherm advise traces/sqlite.parquet --swap zram --report report.html");
    println!("{}", table().to_text(&style));
    std::fs::write(directory.join("report.html"), page.to_html())
}

fn write(directory: &Path, name: &str, picture: &isotherm_report::Picture) -> std::io::Result<()> {
    std::fs::write(directory.join(format!("{name}.svg")), picture.to_svg())
}

fn band(label: &str, start: u64, pages: u64, rows: u32, rate: impl Fn(f64, f64) -> f64) -> Band {
    const COLUMNS: u32 = 400;
    let mut counts = Vec::new();
    for row in 0..rows {
        for column in 0..COLUMNS {
            let noise = 0.6 + 0.8 * f64::from((row * 7919 + column * 104_729) % 1000) / 1000.0;
            let touches = rate(f64::from(row) / f64::from(rows), f64::from(column) / f64::from(COLUMNS));
            #[expect(clippy::cast_possible_truncation, reason = "made-up data")]
            counts.push((touches * noise * pages as f64 / f64::from(rows)) as u64);
        }
    }
    let rows = usize::try_from(rows).unwrap_or(0);
    Band { space: 0, label: label.to_owned(), start, end: start + pages * 4096, rows, counts }
}

fn heatmap() -> Heatmap {
    let heap = |y: f64, t: f64| match t {
        t if t < 0.25 => (if (y - t * 4.0).abs() < 0.03 { 10.0 } else { 0.0 }) + if y < t * 4.0 { 0.02 } else { 0.0 },
        t if t < 0.6 => 9.0 * (-((y - 0.3) / 0.12).powi(2)).exp() + if y < 0.8 { 0.03 } else { 0.0 },
        t if t < 0.8 => 8.0 * (-((y - 0.75) / 0.05).powi(2)).exp(),
        _ => 3.0 * (-y * 6.0).exp(),
    };
    let file = |y: f64, t: f64| {
        let at = (t * 3.0).fract();
        if (0.0..0.06).contains(&(at - y)) { 5.0 } else { 0.0 }
    };
    Heatmap {
        title: "Memory touched over time".into(),
        subtitle: "sqlite3 index.db < queries.sql, epochs of 1 ms".into(),
        start_ns: 0,
        end_ns: 4_300_000_000,
        columns: 400,
        measure: Measure::Touches,
        bands: vec![
            band("sqlite3", 0x5555_5555_4000, 300, 12, |y, _| if y < 0.6 { 4.0 } else { 0.01 }),
            band("heap", 0x5555_5575_0000, 50_000, 200, heap),
            band("index.db", 0x7fff_a000_0000, 20_000, 100, file),
            band("libc.so.6", 0x7fff_f7c0_0000, 450, 16, |y, _| if y > 0.3 && y < 0.5 { 6.0 } else { 0.005 }),
            band("libsqlite3.so.0.8.6", 0x7fff_f7e0_0000, 350, 16, |y, _| if y < 0.4 { 10.0 } else { 0.02 }),
            band("ld-linux-x86-64.so.2", 0x7fff_f7fc_0000, 50, 4, |_, t| if t < 0.02 { 5.0 } else { 0.0 }),
            band("stack", 0x7fff_fffd_e000, 34, 4, |y, _| if y > 0.7 { 10.0 } else { 0.0 }),
        ],
    }
}

fn runtime() -> Chart {
    let sizes = [80.0, 100.0, 120.0, 140.0, 150.0, 160.0, 170.0, 180.0, 190.0, 200.0];
    let curve = |steepness: f64| -> Vec<(f64, f64)> {
        sizes.iter().map(|mib| (mib * MIB, 1.0 + steepness * ((200.0 - mib) / 120.0f64).powi(3))).collect()
    };
    let classic = curve(1.9);
    let band = classic.iter().map(|(_, y)| (1.0 + (y - 1.0) * 0.9, 1.0 + (y - 1.0) * 1.1)).collect();
    Chart {
        title: "Runtime against memory".into(),
        subtitle: "sqlite3 index.db < queries.sql, swap on zram, 95 % confidence interval of 5 repeats".into(),
        x: Axis::new("memory limit", Unit::Bytes),
        y: Axis::new("runtime against unlimited memory", Unit::Factor),
        series: vec![
            Series::line("classic", classic).band(band).emphasis(Emphasis::Strong),
            Series::line("lru", curve(1.6)),
            Series::line("clock", curve(1.75)),
            Series::line("fifo", curve(2.6)),
            Series::line("opt", curve(0.7)).emphasis(Emphasis::Muted),
        ],
        references: vec![Reference::AtY { value: 1.05, label: "5 % slower".into() }],
        callouts: vec![Callout { x: 170.0 * MIB, y: 1.03, label: "recommended: classic at 170 MiB".into() }],
    }
}

fn miss_ratio() -> Chart {
    let points = (0..4000).map(|i| {
        let mib = f64::from(i) / 20.0;
        (mib * MIB, 1e6 * (0.03 + 0.97 * (-mib / 35.0).exp()) * if mib > 150.0 { 0.4 } else { 1.0 })
    });
    Chart {
        title: "Miss ratio of exact LRU by memory size".into(),
        subtitle: "misses per page touch, first touches included".into(),
        x: Axis::new("memory", Unit::Bytes),
        y: Axis::new("miss ratio", Unit::Ppm).range(0.0, 1e6),
        series: vec![Series::step("LRU", points.collect())],
        references: vec![Reference::AtX { value: 196.0 * MIB, label: "all pages touched".into() }],
        callouts: vec![],
    }
}

fn working_set() -> Chart {
    let series = |scale: f64| {
        (0..215).map(move |i| {
            let t = f64::from(i) * 0.02;
            let level = if t < 1.0 {
                20.0 + 30.0 * t
            } else if t < 2.6 {
                90.0
            } else if t < 3.4 {
                45.0
            } else {
                60.0
            };
            let noise = f64::from((i * 7919) % 100) / 25.0;
            (t * 1e9, (level + noise) * scale * MIB)
        })
    };
    Chart {
        title: "Working set over time".into(),
        subtitle: "distinct pages touched in each window of 20 ms and of 1 s".into(),
        x: Axis::new("time", Unit::Ns),
        y: Axis::new("working set", Unit::Bytes),
        series: vec![Series::step("20 ms", series(0.6).collect()), Series::step("1 s", series(1.5).collect())],
        references: vec![Reference::AtY { value: 150.0 * MIB, label: "p95 of 1 s: 142 MiB".into() }],
        callouts: vec![],
    }
}

fn faults() -> Chart {
    let names = ["sqlite", "gcc", "redis", "python", "java", "zipf"].map(str::to_owned).to_vec();
    Chart {
        title: "Major faults at 75 % of peak memory".into(),
        subtitle: String::new(),
        x: Axis::categories("workload", names),
        y: Axis::new("major faults", Unit::Count),
        series: vec![
            Series::bars("classic", &[41_000.0, 12_000.0, 30_500.0, 8_100.0, 22_000.0, 51_000.0]),
            Series::bars("lru", &[38_000.0, 11_000.0, 28_500.0, 9_100.0, 19_000.0, 50_000.0]),
            Series::bars("opt", &[19_000.0, 5_000.0, 17_500.0, 3_100.0, 9_000.0, 33_000.0]),
        ],
        ..Chart::default()
    }
}

fn verdict() -> Verdict {
    Verdict {
        headline: "Give it 170 MiB: 13 % less than its peak, 3 % slower".to_owned(),
        text: vec![
            "At 170 MiB under the kernel's classic LRU with swap on zram the program runs 1.03 times as long as with \
             unlimited memory, within the 5 % asked for. At 160 MiB it would take 1.07 times as long."
                .to_owned(),
        ],
        facts: [
            ("memory", "170 MiB"),
            ("peak", "196 MiB"),
            ("slow-down", "1.03×"),
            ("policy", "classic"),
            ("swap", "zram"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .to_vec(),
        ..Verdict::default()
    }
}

fn table() -> Table {
    let mut table = Table::new(
        "",
        vec![
            Column::text("policy"),
            Column::number("memory", Unit::Bytes),
            Column::number("runtime", Unit::Ns),
            Column::number("slow-down", Unit::Factor),
            Column::number("major faults", Unit::Count),
            Column::number("memory pressure", Unit::Ppm),
            Column::number("reclaim CPU", Unit::Ns),
        ],
    );
    let rows = [
        ("classic", 150, 1.09, 9_800),
        ("classic", 170, 1.03, 3_100),
        ("lru", 170, 1.025, 2_700),
        ("opt", 170, 1.01, 900),
    ];
    for (policy, mib, slow_down, faults) in rows {
        table.push(vec![
            policy.into(),
            Cell::Int(mib << 20),
            Cell::Float(4.3e9 * slow_down),
            Cell::Float(slow_down),
            Cell::Int(faults),
            Cell::Int(faults * 7),
            Cell::Int(faults * 9_000),
        ]);
    }
    table.highlight = Some(1);
    table
}
