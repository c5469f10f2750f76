//! Why a limit was changed or left, as text.

use super::config::LimitsConfig;
use super::decision_counts::{LimitReason, LimitsWhy};
use crate::generations::percent;

/// Sentences on how right-sizing went, the most frequent reason first.
pub fn explain_limits(config: &LimitsConfig, why: &LimitsWhy) -> Vec<String> {
    let LimitsConfig { target, goal, .. } = config;
    let LimitsWhy { squeezes, relaxes, lifts, .. } = why;
    let mut words = vec![format!(
        "The limit of {target} was lowered {squeezes} times, raised {relaxes} times and taken away {lifts} times in {} decisions.",
        why.decisions()
    )];
    if why.sorts > 0 {
        words.push(format!("Lists were sorted before squeezes {} times.", why.sorts - why.sorts_refused));
    }
    let refusal = why.last_refusal.as_deref().unwrap_or("no reason given");
    if why.sorts_refused > 0 {
        words.push(format!("{} times lists could not be sorted by generations: {refusal}.", why.sorts_refused));
    }
    let mut reasons: Vec<(u64, String)> = [
        (
            LimitReason::Pressure,
            format!("some task of the group was stalled for more than {}", percent(goal.pressure_some)),
        ),
        (LimitReason::Refaults, format!("more than {} pages came back", goal.refaults)),
        (LimitReason::Elsewhere, "harm was above the goal, but the limit was not near".to_owned()),
        (LimitReason::Near, "harm was above half of the goal".to_owned()),
        (LimitReason::BackingOff, "harm was above the goal not long before".to_owned()),
        (LimitReason::AtFloor, format!("the floor of {} was reached", config.floor)),
        (LimitReason::AboveLimit, "memory stayed above the limit: nothing more could be evicted".to_owned()),
        (LimitReason::NoGroup, "the group was not there".to_owned()),
        (LimitReason::Refused, format!("the host refused: {refusal}")),
    ]
    .into_iter()
    .map(|(reason, words)| (why.of(reason), words))
    .filter(|(times, _)| *times > 0)
    .collect();
    reasons.sort_by_key(|(times, _)| std::cmp::Reverse(*times));
    words.extend(reasons.into_iter().map(|(times, words)| format!("{times} times {words}.")));
    words
}
