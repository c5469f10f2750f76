//! What the daemon did, and what limited it, from its audit.

use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::ExitCode;

use chrono::{DateTime, Utc};
use isotherm_daemon::control_loop::{Effect, Line, Stalled};
use isotherm_units::{Bytes, Duration, PAGE_BYTES};
use serde::{Deserialize as _, Serialize};
use serde_json::Value;

use crate::error::CliError;
use crate::format::Format;
use crate::live::daemon::pace_words;
use crate::ui::Ui;

/// A longer line is not from isotherm.
const LINE_MAX: usize = 1 << 20;
/// Reasons of one kind that are shown.
const REASONS_MAX: usize = 5;

/// Number of times, by reason.
type Reasons = BTreeMap<String, u64>;

/// Actions of one section.
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
    /// Zones that were compacted, or that it was tried for.
    compacted: u64,
    moved_bytes: u64,
    huge_pages_freed: u64,
    /// The last forecast of what its writes do to the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    forecast: Option<String>,
    writes: u64,
    would_write: u64,
    put_back: u64,
    /// How often it was kept off a group, or off the machine, because tasks there waited for memory.
    stalled: Reasons,
    /// The largest factor by which its intervals were longer than configured; 0 if they never were.
    slowest: u32,
    /// Groups by why they are left alone.
    left_alone: BTreeMap<String, String>,
    troubles: Reasons,
}

impl Told {
    fn add(&mut self, acted: u64, asked_bytes: u64, verified_bytes: u64) {
        self.acted += acted;
        self.asked_bytes = self.asked_bytes.saturating_add(asked_bytes);
        self.verified_bytes = self.verified_bytes.saturating_add(verified_bytes);
    }
}

/// Actions of all sections.
#[derive(Debug, Default, Serialize)]
struct Explained {
    from: Option<String>,
    to: Option<String>,
    lines: u64,
    /// Lines that are not audit lines.
    strange: u64,
    starts: u64,
    /// Seconds in which no section could act, by reason.
    paused_s: BTreeMap<String, u64>,
    /// Seconds in which sections did not act on a group, or on the machine, because its tasks waited for memory.
    stalled_s: BTreeMap<String, u64>,
    /// Changes of the pace of sections, and the slowest of all.
    paced: u64,
    slowest: u32,
    not_reloaded: Reasons,
    sections: BTreeMap<String, Told>,
}

/// What has begun and not ended yet: a pause of everything, and what waits for memory.
#[derive(Default)]
struct Open {
    paused: Option<(DateTime<Utc>, String)>,
    stalled: BTreeMap<String, DateTime<Utc>>,
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
            ui.print_data(format_args!("{text}\n"))?;
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
    let (mut explained, mut line, mut open) = (Explained::default(), Vec::new(), Open::default());
    loop {
        line.clear();
        if reader.read_until(b'\n', &mut line).map_err(failed)? == 0 {
            break;
        }
        let value: Option<Value> = (line.len() <= LINE_MAX).then(|| serde_json::from_slice(&line).ok()).flatten();
        let stamp = value.as_ref().and_then(|value| value["time"].as_str());
        let time = stamp.and_then(|stamp| stamp.parse::<DateTime<Utc>>().ok());
        let (Some(value), Some(stamp), Some(time)) = (&value, stamp, time) else {
            explained.strange += 1;
            continue;
        };
        if earliest.is_some_and(|earliest| time < earliest) {
            continue;
        }
        explained.from.get_or_insert_with(|| stamp.to_owned());
        explained.to = Some(stamp.to_owned());
        explained.lines += 1;
        // Events of other versions are skipped.
        if let Ok(line) = Line::deserialize(value) {
            explained.take(line, time, &mut open);
        }
    }
    Ok(explained)
}

impl Explained {
    /// The report on one section. Sections of limits name their group after a blank.
    fn of(&mut self, section: &str) -> &mut Told {
        self.sections.entry(section.split(' ').next().unwrap_or_default().to_owned()).or_default()
    }

    fn take(&mut self, line: Line, time: DateTime<Utc>, open: &mut Open) {
        let seconds = |since: DateTime<Utc>| u64::try_from((time - since).num_seconds()).unwrap_or(0);
        // A pause ends when sections act again, when its reason changes, or when the daemon ends.
        if matches!(line, Line::Paused { .. } | Line::Resumed | Line::Ended { .. })
            && let Some((since, why)) = open.paused.take()
        {
            *self.paused_s.entry(why).or_default() += seconds(since);
        }
        let calmed = match &line {
            Line::Ended { .. } => std::mem::take(&mut open.stalled),
            Line::Calmed { target } => open.stalled.remove_entry(target).into_iter().collect(),
            _ => BTreeMap::new(),
        };
        for (target, since) in calmed {
            *self.stalled_s.entry(target).or_default() += seconds(since);
        }
        match line {
            Line::Began { .. } => self.starts += 1,
            Line::Resumed | Line::Calmed { .. } | Line::Ended { .. } => {}
            Line::Paused { why } => open.paused = Some((time, why)),
            Line::Stalled(Stalled { target, sections, .. }) => {
                for section in sections {
                    *self.of(&section).stalled.entry(target.clone()).or_default() += 1;
                }
                open.stalled.insert(target, time);
            }
            Line::Paced { section, stretch } => {
                self.paced += 1;
                self.slowest = self.slowest.max(stretch);
                if let Some(section) = section {
                    let told = self.of(&section);
                    told.slowest = told.slowest.max(stretch);
                }
            }
            Line::NotReloaded { why } => *self.not_reloaded.entry(why).or_default() += 1,
            Line::Section { section, engine, enabled, .. } => {
                let told = self.of(&section);
                (told.engine, told.enabled) = (engine.into_owned(), enabled);
            }
            Line::Came { section, .. }
            | Line::Went { section, .. }
            | Line::MoreMoved { section, .. }
            | Line::Asks { section, .. } => {
                self.of(&section);
            }
            Line::MoreLeftAlone { section, groups } => {
                let target = format!("{groups} more groups, which the audit does not name");
                self.of(&section).left_alone.insert(target, "as those before them".to_owned());
            }
            Line::LeftAlone { section, target, why } => drop(self.of(&section).left_alone.insert(target, why)),
            Line::Acted { section, act, .. } => {
                let told = self.of(&section);
                match act.effect {
                    Effect::Done | Effect::Partly => told.add(1, act.asked_bytes, act.verified_bytes),
                    Effect::Would => told.would += 1,
                    Effect::Refused { why } => *told.refused.entry(why).or_default() += 1,
                }
            }
            Line::Compacted { section, pages_moved, blocks_freed, .. } => {
                let told = self.of(&section);
                told.compacted += 1;
                told.moved_bytes = told.moved_bytes.saturating_add(pages_moved.saturating_mul(PAGE_BYTES));
                told.huge_pages_freed = told.huge_pages_freed.saturating_add(blocks_freed);
            }
            Line::Counted { section, asked_bytes, verified_bytes } => {
                self.of(&section).add(0, asked_bytes, verified_bytes);
            }
            Line::Forecast { section, words } => self.of(&section).forecast = Some(words),
            Line::Writes { section, .. } => self.of(&section).writes += 1,
            Line::WouldWrite { section, .. } => self.of(&section).would_write += 1,
            Line::PutBack { section } => self.of(&section).put_back += 1,
            Line::Trouble { section, why } => *self.of(&section).troubles.entry(why).or_default() += 1,
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
    for (target, seconds) in &explained.stalled_s {
        let time = Duration::from_secs(*seconds).approx();
        line(format!("sections did not act on {target} for {time}: its tasks waited for memory"));
    }
    if explained.slowest > 1 && explained.sections.values().all(|told| told.slowest == 0) {
        line(format!("at the slowest, all sections ran {}", pace_words(explained.slowest)));
    }
    for (why, number) in ranked(&explained.not_reloaded) {
        line(format!("a new configuration was refused {}: {why}", times(*number)));
    }
    let size = |bytes| Bytes::new(bytes).approx().to_string();
    for (name, told) in &explained.sections {
        let mode = if told.enabled { "may act" } else { "observes" };
        line(format!("\n{name} ({}; {mode})", if told.engine.is_empty() { "begun earlier" } else { &told.engine }));
        if told.slowest > 1 {
            line(format!("  at the slowest, it ran {}", pace_words(told.slowest)));
        }
        if told.acted + told.asked_bytes > 0 {
            let by = if told.acted > 0 { times(told.acted) } else { "by itself".to_owned() };
            line(format!(
                "  acted {by}: asked for {}, of which {} went",
                size(told.asked_bytes),
                size(told.verified_bytes)
            ));
        }
        if told.compacted > 0 {
            let moved = size(told.moved_bytes);
            let (compacted, freed) = (times(told.compacted), told.huge_pages_freed);
            line(format!("  compacted {compacted}: moved {moved}, which freed {freed} huge pages"));
        }
        if told.acted + told.asked_bytes + told.compacted + told.would + told.would_write == 0 {
            line("  did nothing".to_owned());
        }
        if told.would + told.would_write > 0 {
            line(format!("  would have acted {}; enable = true lets it", times(told.would + told.would_write)));
        }
        if let Some(forecast) = &told.forecast {
            line(format!("  forecast when it was last written, or would have been: {forecast}"));
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
        for (target, number) in ranked(&told.stalled).into_iter().take(REASONS_MAX) {
            line(format!("  kept off {target} {}: its tasks waited for memory", times(*number)));
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
    use isotherm_core::compaction::Why;

    #[test]
    fn an_audit_is_summed_up() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("actions.jsonl");
        let line = |second: u32, rest: &str| format!("{{\"time\":\"2026-01-01T00:00:{second:02}.000Z\",{rest}}}\n");
        let act = |effect: &str| {
            format!(
                "\"event\":\"acted\",\"section\":\"generations.cold\",\"at_ns\":1,\"act\":{{\"action\":\"evict\",\"target\":\"/a\",\"node\":0,\"write\":\"-\",\"asked_bytes\":8192,\"verified_bytes\":4096,{effect}}}"
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
            line(5, "\"event\":\"stalled\",\"target\":\"/a\",\"sections\":[\"generations.cold\"],\"share_ppm\":30000"),
            line(8, "\"event\":\"calmed\",\"target\":\"/a\""),
            line(9, "\"event\":\"resumed\""),
            "garbage\n".to_owned(),
            line(10, "\"event\":\"left-alone\",\"section\":\"generations.cold\",\"target\":\"/s\",\"why\":\"people\""),
            line(11, "\"event\":\"forecast\",\"section\":\"min-ttl.kernel\",\"words\":\"it would take x\""),
            "{\"torn".to_owned(),
        ];
        std::fs::write(&path, text.concat()).unwrap();
        let explained = read(&path, None).unwrap();
        let told = &explained.sections["generations.cold"];
        assert_eq!((told.acted, told.asked_bytes, told.verified_bytes), (1, 8192, 4096));
        assert_eq!((explained.lines, explained.strange, explained.paused_s["pressure"]), (10, 2, 5));
        assert_eq!((explained.stalled_s["/a"], explained.sections["generations.cold"].stalled["/a"]), (3, 1));
        let words = words(&explained);
        for part in [
            "nothing could act for 5.00 s: pressure",
            "was refused once: EBUSY",
            "left /s alone: people",
            "4.00 KiB went",
            "would have been: it would take x",
        ] {
            assert!(words.contains(part), "{part}: {words}");
        }
        assert!(super::words(&Explained::default()).contains("no line"));
        assert_eq!(read(&path, Some(Duration::from_secs(1))).unwrap().lines, 0, "all of it is older");
        assert!(read(&folder.path().join("none"), None).is_err());
    }

    fn sum_of(lines: &[String]) -> Explained {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("actions.jsonl");
        let dated = |(second, line): (usize, &String)| {
            format!("{{\"time\":\"2026-01-01T00:00:{second:02}.000Z\",{}\n", &line[1..])
        };
        std::fs::write(&path, lines.iter().enumerate().map(dated).collect::<String>()).unwrap();
        read(&path, None).unwrap()
    }

    #[test]
    fn compaction_is_something_done() {
        let line = Line::Compacted {
            section: "compaction.huge".to_owned(),
            at_ns: 1,
            node: 0,
            zone: 2,
            order: 9,
            why: Why::ReachedLow,
            extfrag_before: 80,
            extfrag_after: 20,
            node_score_after: 30,
            huge_free_after: 40,
            pages_moved: 5120,
            blocks_freed: 12,
            cpu_ns: 7,
        };
        let explained = sum_of(&[serde_json::to_string(&line).unwrap()]);
        let told = &explained.sections["compaction.huge"];
        assert_eq!((told.compacted, told.moved_bytes, told.huge_pages_freed), (1, 5120 * PAGE_BYTES, 12));
        let words = words(&explained);
        assert!(words.contains("compacted once: moved 20.0 MiB, which freed 12 huge pages"), "{words}");
        assert!(!words.contains("did nothing"), "{words}");
    }

    #[test]
    fn audits_of_other_versions_are_read() {
        let explained = sum_of(&[
            "{\"event\":\"paused\",\"why\":\"pressure\"}".to_owned(),
            "{\"event\":\"slept\",\"section\":\"monitors.a\",\"hours\":3}".to_owned(),
            "{\"event\":\"trouble\",\"section\":\"monitors.a\",\"why\":\"no DAMON\",\"since\":3}".to_owned(),
            "{\"event\":\"ended\",\"why\":\"the time is over\"}".to_owned(),
        ]);
        assert_eq!((explained.lines, explained.strange, explained.paused_s["pressure"]), (4, 0, 3));
        assert_eq!(explained.sections["monitors.a"].troubles["no DAMON"], 1);
    }
}
