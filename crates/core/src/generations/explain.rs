//! Reasons of a tool's actions, or of their absence, as text.

use super::estimator::EstimatorConfig;
use super::outcomes::{GenerationReason, GenerationWhy};
use super::reclaimer::ReclaimerConfig;
use isotherm_units::{Bytes, Ratio};

/// Sentences on the results of proactive reclaim; the reason that held it back most often comes first.
pub fn explain_reclaimer(config: &ReclaimerConfig, why: &GenerationWhy) -> Vec<String> {
    let evicted = why.of(GenerationReason::Evicted);
    let mut said = vec![match (why.passes.begun, evicted.bytes) {
        (0, _) => "Proactive reclaim was never due: the run was shorter than its interval.".to_owned(),
        (passes, 0) => format!("Proactive reclaim evicted nothing in {passes} passes."),
        (passes, bytes) => format!("Proactive reclaim evicted {} in {passes} passes.", approx(bytes)),
    }];
    said.extend(common(why));
    let threshold = config.threshold;
    let mut held: Vec<(u64, u64, String)> = [
        (GenerationReason::NothingOld, format!("no generation but the two youngest was {threshold} old")),
        (GenerationReason::BudgetUsed, format!("the budget of {} a pass was used up", config.budget)),
        (
            GenerationReason::Pressure,
            format!("some task was stalled by memory for more than {} of an interval", percent(config.pressure)),
        ),
        (
            GenerationReason::Refaults,
            format!("more than {} of what was evicted came back within an interval", percent(config.refaults)),
        ),
        (
            GenerationReason::StillThere,
            "asked for, but in use after all, being written, locked, or without a place in swap".to_owned(),
        ),
    ]
    .into_iter()
    .map(|(reason, words)| (why.of(reason).bytes, why.of(reason).times, words))
    .filter(|(_, times, _)| *times > 0)
    .collect();
    held.sort_by_key(|&(bytes, times, _)| std::cmp::Reverse((bytes, times)));
    said.extend(held.into_iter().map(|(bytes, times, words)| match bytes {
        0 => format!("{times} times a group had nothing to give: {words}."),
        bytes => format!("{} was left in {times} turns: {words}.", approx(bytes)),
    }));
    said
}

/// Sentences on the results of working-set estimation.
pub fn explain_estimator(config: &EstimatorConfig, why: &GenerationWhy) -> Vec<String> {
    let aged = why.of(GenerationReason::Aged).times;
    let mut said = vec![format!("Generations were made {aged} times in {} passes.", why.passes.begun)];
    if !config.is_reported() {
        said.push(format!(
            "The window of {} is not one or two intervals of {}: only bounds can be told of it.",
            config.window(),
            config.interval
        ));
    }
    said.extend(common(why));
    said
}

fn common(why: &GenerationWhy) -> Vec<String> {
    let mut said = Vec::new();
    let refusal = why.last_refusal.as_deref().unwrap_or("no reason given");
    for (reason, words) in
        [(GenerationReason::NotHere, "this host cannot do it"), (GenerationReason::Failed, "the host refused an order")]
    {
        match why.of(reason).times {
            0 => {}
            times => said.push(format!("{times} times {words}: {refusal}.")),
        }
    }
    if let times @ 1.. = why.of(GenerationReason::NoGroup).times {
        said.push(format!("In {times} passes none of the target groups existed."));
    }
    if let times @ 1.. = why.passes.unread {
        said.push(format!("In {times} passes pressure or refaults could not be read; they were taken as calm."));
    }
    said
}

/// Up to three places: `0.1%`.
pub(crate) fn percent(share: Ratio) -> String {
    let (whole, rest) = (share.ppm() / 10_000, share.ppm() % 10_000 / 10);
    if rest == 0 { format!("{whole}%") } else { format!("{whole}.{rest:03}").trim_end_matches('0').to_owned() + "%" }
}

fn approx(bytes: u64) -> String {
    Bytes::new(bytes).approx()
}
