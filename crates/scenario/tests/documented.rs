//! docs/use/report.md#results lists all metrics, as the code has them. `cargo xtask bless results` writes
//! its table.

use isotherm_scenario::{METRICS, MetricUnit};
use std::fmt::Write as _;

const PAGE: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/use/report.md");
const BEGIN: &str = "<!-- metrics: made by crates/scenario/tests/documented.rs -->\n";

#[test]
fn the_page_of_results_has_all_metrics() {
    let mut table = "| metric | counts | what |\n|---|---|---|\n".to_owned();
    for metric in METRICS {
        let unit = match metric.unit {
            MetricUnit::Nanoseconds => "ns",
            MetricUnit::Bytes => "bytes",
            MetricUnit::Pages => "pages of 4 KiB",
            MetricUnit::Count => "",
        };
        writeln!(table, "| `{}` | {unit} | {} |", metric.name, metric.what).unwrap();
    }
    let page = std::fs::read_to_string(PAGE).unwrap();
    let (head, old) = page.split_once(BEGIN).expect("the page has the line before the table");
    if std::env::var_os("ISOTHERM_BLESS").is_some_and(|value| value == "1") {
        std::fs::write(PAGE, format!("{head}{BEGIN}{table}")).unwrap();
        return;
    }
    assert!(
        old == table,
        "docs/use/report.md#results is not what the code has; the top of this file says how to write it anew"
    );
}
