//! The page of metrics, the board and the alerts match the program's metrics.

use isotherm_daemon::metrics::{Kind, METRICS};
use std::collections::BTreeSet;
use std::path::PathBuf;

fn repository(path: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

fn read(path: &str) -> String {
    std::fs::read_to_string(repository(path)).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// `cargo xtask bless metrics` writes the table of the page.
#[test]
fn the_page_has_all_metrics() {
    let mut table = String::from("\n| metric | kind | labels | what |\n|---|---|---|---|\n");
    for metric in METRICS {
        let kind = if metric.kind == Kind::Gauge { "gauge" } else { "counter" };
        let labels: Vec<String> = metric.labels.iter().map(|label| format!("`{label}`")).collect();
        table.push_str(&format!("| `{}` | {kind} | {} | {} |\n", metric.name, labels.join(", "), metric.help));
    }
    table.push('\n');
    let page = read("docs/use/operate.md");
    let (begin, end) = ("<!-- metrics -->\n", "<!-- /metrics -->");
    let (head, rest) = page.split_once(begin).expect("the page has the mark");
    let (old, tail) = rest.split_once(end).expect("the page has the second mark");
    if old != table && std::env::var_os("ISOTHERM_BLESS").is_some_and(|value| value == "1") {
        std::fs::write(repository("docs/use/operate.md"), format!("{head}{begin}{table}{end}{tail}")).unwrap();
        return;
    }
    assert_eq!(old, table, "`cargo xtask bless metrics` writes docs/use/operate.md#metrics");
}

/// Names of metrics in a text.
fn names(text: &str) -> BTreeSet<String> {
    let is_part = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
    text.split(|letter: char| !is_part(letter))
        .filter(|word| word.starts_with("isotherm_"))
        .map(str::to_owned)
        .collect()
}

#[test]
fn board_and_alerts_ask_for_what_there_is() {
    let board = read("contrib/grafana/isotherm.json");
    let alerts = read("contrib/prometheus/isotherm.rules.yml");
    let parsed: serde_json::Value = serde_json::from_str(&board).expect("JSON");
    assert!(parsed["panels"].as_array().is_some_and(|panels| panels.len() >= 10));
    let known: BTreeSet<&str> = METRICS.iter().map(|metric| metric.name).collect();
    for (file, text) in [("the board", &board), ("the alerts", &alerts)] {
        let asked = names(text);
        assert!(asked.len() >= 6, "{file} asks for {asked:?}");
        for name in asked {
            assert!(known.contains(name.as_str()), "{file} asks for {name}");
        }
    }
}
