//! What the daemon did, and what kept it from more, by its audit.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::ExitCode;

use chrono::{DateTime, Utc};
use isotherm_units::{Bytes, Duration};
use serde::Serialize;
use serde_json::Value;

use crate::error::CliError;
use crate::format::Format;
use crate::ui::Ui;

/// A longer line is none of ours.
const LINE_MAX: usize = 1 << 20;
/// Reasons of one kind that are shown.
const REASONS_MAX: usize = 5;

/// How often something was so, and why.
type Reasons = BTreeMap<String, u64>;

/// What one section did.
#[derive(Debug, Default, Serialize)]
struct Told {
    engine: String,
    enabled: bool,
    /// Actions that were carried out, whole or in part.
    acted: u64,
    /// Actions that it would have taken.
    would: u64,
    refused: Reasons,
    asked_bytes: u64,
    verified_bytes: u64,
    writes: u64,
    would_write: u64,
    put_back: u64,
    /// Groups by why they are left alone.
    left_alone: BTreeMap<String, String>,
    troubles: Reasons,
}

/// What all of it did.
#[derive(Debug, Default, Serialize)]
struct Explained {
    from: Option<String>,
    to: Option<String>,
    lines: u64,
    /// Lines that are none of the audit's.
    strange: u64,
    starts: u64,
    /// Seconds in which nothing could act, by reason.
    paused_s: BTreeMap<String, u64>,
    /// Changes of the pace, and the slowest.
    paced: u64,
    slowest: u64,
    not_reloaded: Reasons,
    sections: BTreeMap<String, Told>,
}

pub(crate) fn run(
    audit: &Path,
    since: Option<Duration>,
    section: Option<&str>,
    format: Format,
    ui: &Ui,
) -> Result<ExitCode, CliError> {
    let mut explained = read(audit, since)?;
    if let Some(section) = section {
        if !explained.sections.contains_key(section) {
            let known: Vec<&str> = explained.sections.keys().map(String::as_str).collect();
            return Err(CliError::usage(format!(
                "the audit has no section `{section}`; sections: {}",
                known.join(", ")
            )));
        }
        explained.sections.retain(|name, _| name == section);
    }
    match format {
        Format::Json => {
            let text = serde_json::to_string_pretty(&explained).map_err(CliError::failed)?;
            ui.print(format_args!("{text}\n"))?;
        }
        Format::Table | Format::Csv => ui.print(words(&explained))?,
    }
    Ok(ExitCode::SUCCESS)
}

fn read(path: &Path, since: Option<Duration>) -> Result<Explained, CliError> {
    let failed = |error: std::io::Error| {
        let what = format!("cannot read {}", path.display());
        match error.kind() {
            std::io::ErrorKind::PermissionDenied => {
                CliError::host_cannot(format!("{what}: {error}; run it as root, or say --audit FILE"))
            }
            std::io::ErrorKind::NotFound => CliError::failed(format!(
                "{what}: {error}; `isotherm daemon run` writes it; say --audit FILE if it lies elsewhere"
            )),
            _ => CliError::failed(error).while_doing(what),
        }
    };
    let mut reader = BufReader::new(std::fs::File::open(path).map_err(failed)?);
    let earliest =
        since.map(|since| Utc::now() - chrono::Duration::nanoseconds(i64::try_from(since.ns()).unwrap_or(i64::MAX)));
    let (mut explained, mut line, mut paused) = (Explained::default(), Vec::new(), None);
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line).map_err(failed)? == 0 {
            break;
        }
        let value: Option<Value> = (line.len() <= LINE_MAX).then(|| serde_json::from_slice(&line).ok()).flatten();
        let time = value.as_ref().and_then(|value| value["time"].as_str()?.parse::<DateTime<Utc>>().ok());
        let (Some(value), Some(time)) = (value, time) else {
            explained.strange += 1;
            continue;
        };
        if earliest.is_some_and(|earliest| time < earliest) {
            continue;
        }
        explained.take(&value, time, &mut paused);
    }
    Ok(explained)
}

/// A text of a line.
fn text(value: &Value, key: &str) -> String {
    value[key].as_str().unwrap_or_default().to_owned()
}

impl Explained {
    fn take(&mut self, value: &Value, time: DateTime<Utc>, paused: &mut Option<(DateTime<Utc>, String)>) {
        let stamp = text(value, "time");
        self.from.get_or_insert_with(|| stamp.clone());
        self.to = Some(stamp);
        self.lines += 1;
        let event = value["event"].as_str().unwrap_or_default();
        // A pause ends where sections act again, where another reason begins, and with the daemon.
        if matches!(event, "paused" | "resumed" | "ended")
            && let Some((since, why)) = paused.take()
        {
            let seconds = u64::try_from((time - since).num_seconds()).unwrap_or(0);
            *self.paused_s.entry(why).or_default() += seconds;
        }
        match event {
            "began" => self.starts += 1,
            "paused" => *paused = Some((time, text(value, "why"))),
            "paced" => {
                self.paced += 1;
                self.slowest = self.slowest.max(value["stretch"].as_u64().unwrap_or(1));
            }
            "not-reloaded" => *self.not_reloaded.entry(text(value, "why")).or_default() += 1,
            _ => {}
        }
        // Sections of limits name their group after a blank.
        let Some(section) = value["section"].as_str().and_then(|name| name.split(' ').next()) else { return };
        let told = self.sections.entry(section.to_owned()).or_default();
        let number = |value: &Value| value.as_u64().unwrap_or(0);
        match event {
            "section" => {
                told.engine = text(value, "engine");
                told.enabled = value["enabled"] == true;
            }
            "acted" => {
                let act = &value["act"];
                match act["effect"].as_str() {
                    Some("done" | "partly") => {
                        told.acted += 1;
                        told.asked_bytes = told.asked_bytes.saturating_add(number(&act["asked_bytes"]));
                        told.verified_bytes = told.verified_bytes.saturating_add(number(&act["verified_bytes"]));
                    }
                    Some("would") => told.would += 1,
                    _ => *told.refused.entry(text(act, "why")).or_default() += 1,
                }
            }
            "counted" => {
                told.asked_bytes = told.asked_bytes.saturating_add(number(&value["asked_bytes"]));
                told.verified_bytes = told.verified_bytes.saturating_add(number(&value["verified_bytes"]));
            }
            "writes" => told.writes += 1,
            "would-write" => told.would_write += 1,
            "put-back" => told.put_back += 1,
            "left-alone" => drop(told.left_alone.insert(text(value, "target"), text(value, "why"))),
            "trouble" => *told.troubles.entry(text(value, "why")).or_default() += 1,
            _ => {}
        }
    }
}

/// The most frequent reasons first.
fn ranked(reasons: &Reasons) -> Vec<(&String, &u64)> {
    let mut ranked: Vec<_> = reasons.iter().collect();
    ranked.sort_by_key(|(_, times)| std::cmp::Reverse(**times));
    ranked
}

fn times(number: u64) -> String {
    if number == 1 { "once".to_owned() } else { format!("{number} times") }
}

fn words(explained: &Explained) -> String {
    let mut out = String::new();
    let mut line = |text: String| writeln!(out, "{text}").expect("a string takes all");
    let (Some(from), Some(to)) = (&explained.from, &explained.to) else {
        line("the audit has no line of that time: no daemon ran, or nothing happened".to_owned());
        return out;
    };
    line(format!("{from} to {to}: {} lines, the daemon began {}", explained.lines, times(explained.starts)));
    if explained.strange > 0 {
        line(format!("{} lines are not the audit's, and were passed over", explained.strange));
    }
    for (why, seconds) in &explained.paused_s {
        line(format!("nothing could act for {}: {why}", Duration::from_secs(*seconds).approx()));
    }
    if explained.slowest > 1 {
        line(format!("at the slowest, sections ran {} times less often, to stay within max-cpu", explained.slowest));
    }
    for (why, number) in ranked(&explained.not_reloaded) {
        line(format!("a new configuration was refused {}: {why}", times(*number)));
    }
    let size = |bytes| Bytes::new(bytes).approx().to_string();
    for (name, told) in &explained.sections {
        let mode = if told.enabled { "may act" } else { "observes" };
        line(format!("\n{name} ({}; {mode})", if told.engine.is_empty() { "begun earlier" } else { &told.engine }));
        if told.acted + told.asked_bytes > 0 {
            let by = if told.acted > 0 { times(told.acted) } else { "by itself".to_owned() };
            line(format!(
                "  acted {by}: asked for {}, of which {} went",
                size(told.asked_bytes),
                size(told.verified_bytes)
            ));
        } else if told.would + told.would_write == 0 {
            line("  did nothing".to_owned());
        }
        if told.would + told.would_write > 0 {
            line(format!("  would have acted {}; enable = true lets it", times(told.would + told.would_write)));
        }
        if told.writes > 0 {
            line(format!("  wrote knobs {}, put back {}", times(told.writes), times(told.put_back)));
        }
        for (why, number) in ranked(&told.refused).into_iter().take(REASONS_MAX) {
            line(format!("  was refused {}: {why}", times(*number)));
        }
        for (why, number) in ranked(&told.troubles).into_iter().take(REASONS_MAX) {
            line(format!("  could not go on {}: {why}", times(*number)));
        }
        for (target, why) in &told.left_alone {
            line(format!("  left {target} alone: {why}"));
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_audit_is_summed_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("actions.jsonl");
        let line = |second: u32, rest: &str| format!("{{\"time\":\"2026-01-01T00:00:{second:02}.000Z\",{rest}}}\n");
        let act = |effect: &str| {
            format!(
                "\"event\":\"acted\",\"section\":\"generations.cold\",\"at_ns\":1,\"act\":{{\"action\":\"evict\",\"target\":\"/a\",\"asked_bytes\":8192,\"verified_bytes\":4096,{effect}}}"
            )
        };
        let text = [
            line(0, "\"event\":\"began\",\"sections\":1,\"acting\":1"),
            line(
                1,
                "\"event\":\"section\",\"section\":\"generations.cold\",\"engine\":\"kernel\",\"enabled\":true,\"why\":\"\"",
            ),
            line(2, &act("\"effect\":\"partly\"")),
            line(3, &act("\"effect\":\"refused\",\"why\":\"EBUSY\"")),
            line(4, "\"event\":\"paused\",\"why\":\"pressure\""),
            line(9, "\"event\":\"resumed\""),
            "garbage\n".to_owned(),
            line(10, "\"event\":\"left-alone\",\"section\":\"generations.cold\",\"target\":\"/s\",\"why\":\"people\""),
            "{\"torn".to_owned(),
        ];
        std::fs::write(&path, text.concat()).unwrap();
        let explained = read(&path, None).unwrap();
        let told = &explained.sections["generations.cold"];
        assert_eq!((told.acted, told.asked_bytes, told.verified_bytes), (1, 8192, 4096));
        assert_eq!((explained.lines, explained.strange, explained.paused_s["pressure"]), (7, 2, 5));
        let words = words(&explained);
        for part in [
            "nothing could act for 5.00 s: pressure",
            "was refused once: EBUSY",
            "left /s alone: people",
            "4.00 KiB went",
        ] {
            assert!(words.contains(part), "{part}: {words}");
        }
        assert!(super::words(&Explained::default()).contains("no line"));
        assert_eq!(read(&path, Some(Duration::from_secs(1))).unwrap().lines, 0, "all of it is older");
        assert!(read(&folder.path().join("none"), None).is_err());
    }
}
