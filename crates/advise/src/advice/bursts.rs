//! What a limit does to each waking of a program, and to each of its processes, in sentences.

use super::words::is_recommended;
use crate::{Advice, AdviceRow, ProcessFigures, SlowdownOf};
use isotherm_units::Duration;

/// How long bursts are, and what the recommended limit adds to them. `None` where the program computes from start to end: its work says
/// all.
pub fn bursts(advice: &Advice) -> Option<String> {
    let stalls = recommended(advice)?.stalls?;
    let process = process(advice, stalls.process)?;
    let matter = waits_mostly(advice) || advice.latency_allowed_ns.is_some() || is_of_bursts(recommended(advice)?);
    let (length, added) = (process.burst, stalls.added);
    let allowed = advice.latency_allowed_ns.map_or_else(String::new, |ns| format!(" (allowed: {})", time(ns)));
    matter.then(|| {
        format!(
            "{} bursts of work{}, each from one wait to the next, take {} (median), {} (p99) and {} (longest). Memory adds at most {}, {}{allowed} \
             and {} to these.",
            process.bursts,
            of(advice, process),
            time(length.p50_ns),
            time(length.p99_ns),
            time(length.worst_ns),
            time(added.p50_ns),
            time(added.p99_ns),
            time(added.worst_ns),
        )
    })
}

/// Which part of the program decides how slow it is, if that is neither its whole time nor all its work.
pub fn slowest(advice: &Advice) -> Option<String> {
    let (index, what) = match recommended(advice)?.slowest? {
        SlowdownOf::Runtime | SlowdownOf::Work => return None,
        SlowdownOf::Process(index) => (index, "the work"),
        SlowdownOf::Bursts(index) => (index, "99 of 100 bursts"),
    };
    let process = process(advice, index)?;
    Some(match of(advice, process) {
        name if name.is_empty() => format!("What slows down most, {what}, decides."),
        name => format!("What slows down most, {what}{name}, decides."),
    })
}

/// Whether less than half of the runtime is work.
pub(crate) fn waits_mostly(advice: &Advice) -> bool {
    advice.unlimited_work_ns < advice.unlimited_runtime_ns / 2
}

fn is_of_bursts(row: &AdviceRow) -> bool {
    matches!(row.slowest, Some(SlowdownOf::Bursts(_)))
}

fn recommended(advice: &Advice) -> Option<&AdviceRow> {
    advice.rows.iter().find(|row| is_recommended(advice, row))
}

fn process(advice: &Advice, index: usize) -> Option<&ProcessFigures> {
    advice.processes.iter().find(|process| process.process == index)
}

/// ` of NAME`, where there are several processes.
fn of(advice: &Advice, process: &ProcessFigures) -> String {
    if advice.processes.len() < 2 {
        return String::new();
    }
    match process.name.as_str() {
        "" => format!(" of process {}", process.process),
        name => format!(" of `{}`", isotherm_units::text::printable(name)),
    }
}

fn time(ns: u64) -> String {
    Duration::from_ns(ns).approx()
}
