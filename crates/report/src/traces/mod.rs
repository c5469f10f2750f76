//! Analyses of a trace as charts, heatmaps and tables. One file for each view; common code is here.

mod heatmap;
mod hot;
mod idle;
mod info;
mod mrc;
mod origin;
mod wss;

pub use heatmap::{PICTURE_CELLS, heatmap, heatmap_caveats, heatmap_csv, heatmap_of_file};
pub use hot::{hot_csv, hot_tables};
pub use idle::{idle, idle_course_chart};
pub use info::{info_csv, info_tables};
pub use mrc::{mrc_caveats, mrc_chart, mrc_csv, mrc_table};
pub use origin::origin;
pub use wss::{wss_chart, wss_csv, wss_table};

use isotherm_trace::TraceMeta;
use isotherm_units::Duration;

use crate::Table;

/// Pages of a trace in bytes; saturates.
pub(crate) fn bytes(pages: u64, page_bytes: u64) -> u64 {
    pages.saturating_mul(page_bytes)
}

/// For traces of a single process, whose name would only repeat itself.
pub(crate) fn without_process(table: &Table) -> Table {
    let names: Vec<&str> = table.columns.iter().map(|column| column.name.as_str()).collect();
    table.only(&names.into_iter().filter(|name| *name != "process").collect::<Vec<_>>())
}

/// The recorded command, or who made the trace, in one line.
pub fn subject(meta: &TraceMeta) -> String {
    let command = command_line(&meta.command);
    match (command.trim(), meta.recorder.as_str()) {
        ("", "") => "a trace of unknown origin".to_owned(),
        ("", recorder) => recorder.to_owned(),
        (command, _) => command.to_owned(),
    }
}

/// A command as one would type it.
pub(crate) fn command_line(words: &[String]) -> String {
    words.iter().map(|word| quoted(word)).collect::<Vec<_>>().join(" ")
}

/// A word of a command, quoted if it has special characters.
fn quoted(word: &str) -> String {
    let is_plain = !word.is_empty() && !word.contains(|c: char| c.is_whitespace() || "'\"$;&|<>()*?".contains(c));
    if is_plain { word.to_owned() } else { format!("'{}'", word.replace('\'', "'\\''")) }
}

/// Notes for judging numbers from this trace.
pub fn caveats(meta: &TraceMeta) -> Vec<String> {
    let mut notes = Vec::new();
    if meta.epoch_ns > 0 {
        let epoch = Duration::from_ns(meta.epoch_ns);
        notes.push(format!(
            "a page counts once in each epoch ({epoch} of a thread's CPU time); what happens within an epoch is not seen"
        ));
    }
    if !meta.complete {
        notes.push("the recording does not reach the program's end; what it has is right".to_owned());
    }
    notes.extend(meta.notes.iter().cloned());
    notes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_trace_is_named_by_what_is_known_of_it() {
        let mut meta = TraceMeta::default();
        assert_eq!(subject(&meta), "a trace of unknown origin");
        meta.recorder = "import csv".into();
        assert_eq!(subject(&meta), "import csv");
        meta.command = vec!["ls".into(), "-l".into()];
        assert_eq!(subject(&meta), "ls -l");
        meta.command = vec!["sh".into(), "-c".into(), "echo it's".into(), String::new()];
        assert_eq!(subject(&meta), r"sh -c 'echo it'\''s' ''");
    }

    #[test]
    fn caveats_say_what_is_missing() {
        let meta = TraceMeta { epoch_ns: 1_000_000, complete: false, notes: vec!["x".into()], ..TraceMeta::default() };
        let caveats = caveats(&meta);
        assert_eq!(caveats.len(), 3);
        assert!(caveats[0].contains("(1ms of") && caveats[1].contains("end"));
        assert!(super::caveats(&TraceMeta { complete: true, ..TraceMeta::default() }).is_empty());
    }
}
