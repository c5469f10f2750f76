//! Reasons of a scheme's actions, or of their absence, as text.

use super::outcomes::{Reason, Why};
use super::report::SchemeReport;
use super::scheme::Scheme;
use super::watermark::WatermarkMetric;
use crate::vocabulary::Action;
use isotherm_units::{Bytes, Duration, Ratio};

/// Sentences on the results of `scheme`, ready to be shown; the reason that held it back most often comes first. `report` is its own, and
/// the sentences speak of all passes.
pub fn explain(scheme: &Scheme, report: &SchemeReport) -> Vec<String> {
    let why = &report.all_passes;
    let mut said = Vec::new();
    said.push(summary(scheme, report));
    if why.passes == 0 {
        said.push(no_pass(scheme, report));
        return said;
    }
    if report.inactive_ns > 0 || !report.is_active {
        said.push(switched_off(scheme, report));
    }
    if why.quota_too_small_passes > 0 {
        said.push(format!(
            "In {} of {} passes its quota was below the smallest region ({}), so that nothing could be done: {}.",
            why.quota_too_small_passes,
            why.passes,
            Bytes::new(report.smallest_region_bytes),
            quota_words(scheme, report),
        ));
    }
    if why.goal_unread_passes > 0 {
        said.push(format!(
            "In {} passes the metric of a goal could not be read; the quota stayed as it was.",
            why.goal_unread_passes
        ));
    }
    let shown = why.shown();
    if shown.regions == 0 && why.inactive_passes < why.passes {
        said.push("No region was shown to it: the monitor has none.".to_owned());
    }
    let mut stopped: Vec<(Reason, u64)> = HELD_BACK.iter().map(|reason| (*reason, why.of(*reason).bytes)).collect();
    stopped.retain(|(_, bytes)| *bytes > 0);
    // Largest first; equal ones in the order of the table.
    stopped.sort_by_key(|(_, bytes)| std::cmp::Reverse(*bytes));
    for (reason, bytes) in stopped {
        let share = share(bytes, shown.bytes);
        said.push(format!("{share} of what it was shown: {}.", words(reason, scheme, report)));
    }
    said.extend(page_filter_words(scheme, why));
    said.extend(untreated_words(why));
    said
}

/// Reasons that can keep a region from being treated.
const HELD_BACK: [Reason; 20] = [
    Reason::TooSmall,
    Reason::TooLarge,
    Reason::TooFewAccesses,
    Reason::TooManyAccesses,
    Reason::TooYoung,
    Reason::TooOld,
    Reason::QuotaFull,
    Reason::BeforeResume,
    Reason::LowPriority,
    Reason::SnapshotsUsedUp,
    Reason::CoreFilter,
    Reason::NoEffect,
    Reason::NoSwap,
    Reason::SwapFull,
    Reason::NothingThere,
    Reason::Free,
    Reason::Elsewhere,
    Reason::NotHere,
    Reason::Failed,
    Reason::Gone,
];

fn summary(scheme: &Scheme, report: &SchemeReport) -> String {
    let stats = &report.stats;
    let head = format!("Scheme {} ({})", report.index, scheme.action);
    match (stats.nr_tried, stats.nr_applied) {
        (0, _) => format!("{head} was tried on nothing."),
        (tried, _) if scheme.action == Action::Stat => {
            format!("{head} counted {tried} regions of {} in all.", approx(stats.sz_tried))
        }
        (tried, _) if report.all_passes.of(Reason::Applied).regions == 0 && report.all_passes.untreated.bytes() > 0 => {
            let counted = match stats.sz_applied {
                0 => String::new(),
                bytes => {
                    format!(" DAMON would count {} as treated: advice that meets no error counts whole.", approx(bytes))
                }
            };
            format!("{head} was tried {tried} times on {} and changed nothing.{counted}", approx(stats.sz_tried))
        }
        (tried, 0) => format!("{head} was tried {tried} times on {} and changed nothing.", approx(stats.sz_tried)),
        (tried, applied) => format!(
            "{head} was tried {tried} times on {}, and changed {} in {applied} of them.",
            approx(stats.sz_tried),
            approx(stats.sz_applied),
        ),
    }
}

fn no_pass(scheme: &Scheme, report: &SchemeReport) -> String {
    if report.is_active {
        return "It was never due: the run was shorter than its apply interval.".to_owned();
    }
    format!("It never had a turn. {}", switched_off(scheme, report))
}

fn switched_off(scheme: &Scheme, report: &SchemeReport) -> String {
    let marks = &scheme.watermarks;
    let why = &report.all_passes;
    let time = Duration::from_ns(report.inactive_ns).approx();
    let when = match (report.inactive_ns, why.inactive_passes) {
        (0, _) => "Its watermarks have it switched off".to_owned(),
        (_, 0) => format!("Its watermarks had it switched off for {time}"),
        (_, passes) => format!("Its watermarks had it switched off for {time}, in {passes} of {} passes", why.passes),
    };
    let rule =
        format!("it works from below {} free memory on, up to {} and down to {}", marks.mid, marks.high, marks.low);
    match report.free_permil {
        Some(free) if marks.metric == WatermarkMetric::FreeMemRate => {
            format!("{when}: {rule}; now {} is free.", Ratio::from_ppm(free.saturating_mul(1000)))
        }
        _ => format!("{when}: {rule}."),
    }
}

fn quota_words(scheme: &Scheme, report: &SchemeReport) -> String {
    let now = approx(report.effective_quota_bytes.unwrap_or_default());
    let quotas = &scheme.quotas;
    let limits: Vec<String> = [
        quotas.time.map(|time| format!("time {time}")),
        quotas.size.map(|size| format!("size {size}")),
        (!quotas.goals.is_empty()).then(|| format!("goals (now at {:?})", report.goal_values)),
    ]
    .into_iter()
    .flatten()
    .collect();
    format!("{now} a window of {} now, from {}", quotas.reset_interval, limits.join(", "))
}

fn words(reason: Reason, scheme: &Scheme, report: &SchemeReport) -> String {
    let pattern = &scheme.access_pattern;
    let most = |max: Option<String>| max.unwrap_or_else(|| "no limit".to_owned());
    match reason {
        Reason::TooSmall => format!("regions smaller than {}", pattern.size.min),
        Reason::TooLarge => format!("regions larger than {}", most(pattern.size.max.map(|max| max.to_string()))),
        Reason::TooFewAccesses => format!("used less often than its pattern asks for ({})", pattern.nr_accesses.min),
        Reason::TooManyAccesses => {
            let max = most(pattern.nr_accesses.max.map(|max| max.to_string()));
            format!("used more often than its pattern allows ({max})")
        }
        Reason::TooYoung => format!("behaviour changed more recently than its pattern asks for ({})", pattern.age.min),
        Reason::TooOld => {
            let max = most(pattern.age.max.map(|max| max.to_string()));
            format!("behaviour has lasted longer than its pattern allows ({max})")
        }
        Reason::QuotaFull => format!("qualified, but the quota was used up: {}", quota_words(scheme, report)),
        Reason::BeforeResume => "qualified, but had its turn before the quota ran out".to_owned(),
        Reason::LowPriority => {
            format!("qualified, but the quota is for regions of score {} and more", report.min_score)
        }
        Reason::SnapshotsUsedUp => {
            format!("qualified, but the scheme stops after {} snapshots", scheme.max_nr_snapshots)
        }
        Reason::CoreFilter => core_filter_words(scheme, &report.all_passes),
        Reason::NoEffect => {
            "tried, but nothing was changed: page filters left it alone, or it was so already".to_owned()
        }
        Reason::NoSwap => {
            "tried, and it stays: anonymous memory goes to swap alone, and this machine has none".to_owned()
        }
        Reason::SwapFull => "tried, and it stays: anonymous memory goes to swap alone, and that is full".to_owned(),
        Reason::NothingThere => "tried, but nothing is mapped there, or was ever touched".to_owned(),
        Reason::Free => "tried, but it is free memory: nobody's pages".to_owned(),
        Reason::Elsewhere => "tried, but this machine has no memory at these addresses".to_owned(),
        Reason::NotHere => format!("tried, but this host cannot do it ({})", refusal(report)),
        Reason::Failed => format!("tried, and the host failed ({})", refusal(report)),
        Reason::Gone => "tried, but the target had ended".to_owned(),
        Reason::Applied | Reason::Counted => "treated".to_owned(),
    }
}

fn refusal(report: &SchemeReport) -> &str {
    report.all_passes.last_refusal.as_deref().unwrap_or("no reason given")
}

fn core_filter_words(scheme: &Scheme, why: &Why) -> String {
    let mut parts = Vec::new();
    for (index, _) in why.core_filters.iter().enumerate().filter(|(_, tally)| tally.bytes > 0) {
        parts.push(match scheme.core_filters.get(index) {
            Some(filter) => format!("core-filters[{index}] ({})", filter.filter_type.entry().name),
            None => "core-filters (none allows it)".to_owned(),
        });
    }
    format!("qualified, but filtered out by {}", parts.join(" and "))
}

fn page_filter_words(scheme: &Scheme, why: &Why) -> Vec<String> {
    let last = why.page_filter_bytes.len().saturating_sub(1);
    let stopped = why.page_filter_bytes.iter().enumerate().filter(|(_, bytes)| **bytes > 0);
    stopped
        .map(|(index, bytes)| {
            let what = match scheme.ops_filters.get(index) {
                Some(filter) => format!("ops-filters[{index}] ({})", filter.filter_type.entry().name),
                None if index == last => "ops-filters (none allows it)".to_owned(),
                None => "the rule that pageout spares pages accessed a moment ago".to_owned(),
            };
            format!("{} of what was tried was left alone by {what}.", share(*bytes, why.tried().bytes))
        })
        .collect()
}

/// The untreated rest of regions that were treated in part.
fn untreated_words(why: &Why) -> Vec<String> {
    let whole = [Reason::NoSwap, Reason::SwapFull, Reason::NothingThere, Reason::Free, Reason::Elsewhere];
    let what = [
        "could not go, as there is no swap",
        "could not go, as swap was full",
        "had nothing mapped, or was never touched",
        "was free memory",
        "is no memory of this machine",
    ];
    let mut words = Vec::new();
    for ((bytes, reason), what) in why.untreated.by_why().into_iter().zip(whole).zip(what) {
        if bytes > why.of(reason).bytes {
            words.push(format!("{} of what was tried {what}.", share(bytes, why.tried().bytes)));
        }
    }
    words
}

fn share(part: u64, whole: u64) -> String {
    let permil = u128::from(part) * 1000 / u128::from(whole.max(1));
    match (permil / 10, permil % 10) {
        (0, 0) => "Less than 0.1%".to_owned(),
        (percent, 0) => format!("{percent}%"),
        (percent, tenths) => format!("{percent}.{tenths}%"),
    }
}

fn approx(bytes: u64) -> String {
    Bytes::new(bytes).approx()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_told_in_percent() {
        let table = [
            (0, "Less than 0.1%"),
            (9, "Less than 0.1%"),
            (10, "0.1%"),
            (125, "1.2%"),
            (5000, "50%"),
            (9999, "99.9%"),
            (10_000, "100%"),
        ];
        for (part, expected) in table {
            assert_eq!(share(part, 10_000), expected);
        }
    }
}
