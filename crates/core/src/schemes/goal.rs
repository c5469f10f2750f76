//! The goal of a quota's tuning, and its steps (docs/spec/schemes.md#s6).

use super::feedback::feedback;
use super::quota::Score;
use crate::OutOfRange;
use crate::host::{Gauge, HostError, MonitorHost, NodeId};
use crate::vocabulary::Metric;
use isotherm_units::Bytes;
use serde::{Deserialize, Serialize};

/// A value that a metric is to reach.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct Goal {
    pub metric: Metric,
    /// Value in the unit that the metric's name ends in. Not 0.
    #[serde(alias = "target_value", alias = "target")]
    pub target_value: u64,
    /// For `user-input`: the value that is reported at the start.
    #[serde(alias = "current_value", alias = "current")]
    pub current_value: u64,
    /// Number of the node, for metrics of a node; otherwise left out.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nid: Option<u32>,
    /// Path of the memory cgroup, for metrics of one; otherwise left out.
    #[serde(alias = "memcg_path", skip_serializing_if = "Option::is_none")]
    pub memcg_path: Option<String>,
}

impl Goal {
    /// Whether its current value must be given from outside: otherwise its quota stays at the least.
    pub fn needs_feeding(&self) -> bool {
        self.metric == Metric::UserInput && self.current_value == 0
    }

    pub(crate) fn validate(&self, place: &str) -> Result<(), OutOfRange> {
        let entry = self.metric.entry();
        let refuse =
            |key: &str, got: String, allowed: String| Err(OutOfRange::new(format!("{place}.{key}"), got, allowed));
        if self.target_value == 0 {
            return refuse("target-value", "0".to_owned(), "1 and more".to_owned());
        }
        let presence = [
            ("nid", self.nid.is_some(), entry.needs_node),
            ("memcg-path", self.memcg_path.is_some(), entry.needs_memcg),
        ];
        for (key, is_there, is_needed) in presence {
            match (is_there, is_needed) {
                (false, true) => return refuse(key, "not given".to_owned(), format!("one, for `{}`", entry.name)),
                (true, false) => return refuse(key, "given".to_owned(), format!("none with `{}`", entry.name)),
                _ => {}
            }
        }
        Ok(())
    }

    /// How far the goal is reached: 10,000 is exactly.
    pub fn score(&self, current: u64) -> u64 {
        let score = u128::from(current) * 10_000 / u128::from(self.target_value.max(1));
        u64::try_from(score).unwrap_or(u64::MAX)
    }
}

/// How the quota is changed from window to window to reach its goals.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Tuner {
    /// Step by step, and on for ever. From zero it takes 12 windows to the first page and 30 to a GiB.
    #[default]
    Consist,
    /// All that the other limits allow until the goals are reached, then nothing.
    Temporal,
}

impl Tuner {
    /// The next limit in 1/10,000 bytes.
    pub(crate) fn next(self, last_bp: u64, score: u64, size: Option<Bytes>) -> u64 {
        match self {
            Self::Consist => feedback(last_bp.max(10_000), score),
            Self::Temporal if score >= super::feedback::SCORE_GOAL => 0,
            Self::Temporal => size.map_or(u64::MAX, |size| size.get().saturating_mul(10_000)),
        }
    }
}

/// State of a goal between two readings.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct GoalState {
    /// The last value read or reported.
    pub(crate) current: u64,
    /// The stall total at the last reading. The first reading has none and gives 0; the kernel takes the total since
    /// boot.
    pub(crate) stall_us: Option<u64>,
}

/// Reads all goals; the score is the highest. `eligible` gives the bytes of the scheme's memory by node.
pub(crate) fn score(
    goals: &[Goal],
    states: &mut [GoalState],
    host: &mut dyn MonitorHost,
    mut eligible: impl FnMut(&mut dyn MonitorHost) -> Result<Vec<(NodeId, u64)>, HostError>,
) -> Result<Score, HostError> {
    debug_assert_eq!(goals.len(), states.len(), "each goal has its state");
    let mut highest = 0;
    for (goal, state) in goals.iter().zip(states) {
        state.current = measure(goal, state, host, &mut eligible)?;
        highest = highest.max(goal.score(state.current));
    }
    Ok(Score::At(highest))
}

fn measure(
    goal: &Goal,
    state: &mut GoalState,
    host: &mut dyn MonitorHost,
    eligible: &mut impl FnMut(&mut dyn MonitorHost) -> Result<Vec<(NodeId, u64)>, HostError>,
) -> Result<u64, HostError> {
    let node = NodeId(goal.nid.unwrap_or_default());
    let memcg = goal.memcg_path.as_deref().and_then(|path| host.memcg(path));
    let mut read = |gauges: [Gauge; 2]| {
        let mut values = [None; 2];
        host.gauges(&gauges, &mut values).map(|()| values)
    };
    // A node or group that is not there: nothing used, all free.
    let of_node =
        |part: Option<u64>, whole: Option<u64>| part.zip(whole).and_then(|(part, whole)| share_bp(part, whole));
    let group = |read: &mut dyn FnMut([Gauge; 2]) -> Result<[Option<u64>; 2], HostError>| match memcg {
        Some(memcg) => read([Gauge::MemcgBytes { node, memcg }, Gauge::TotalBytes(Some(node))]),
        None => Ok([None; 2]),
    };
    Ok(match goal.metric {
        Metric::UserInput => state.current,
        Metric::SomeMemPsiUs => {
            let [total, _] = read([Gauge::StallSomeUs, Gauge::StallSomeUs])?;
            let total = total.unwrap_or_default();
            total.saturating_sub(state.stall_us.replace(total).unwrap_or(total))
        }
        Metric::NodeMemUsedBp => {
            let [free, total] = read([Gauge::FreeBytes(Some(node)), Gauge::TotalBytes(Some(node))])?;
            let used = free.zip(total).map(|(free, total)| total.saturating_sub(free));
            of_node(used, total).unwrap_or(0)
        }
        Metric::NodeMemFreeBp => {
            let [free, total] = read([Gauge::FreeBytes(Some(node)), Gauge::TotalBytes(Some(node))])?;
            of_node(free, total).unwrap_or(10_000)
        }
        Metric::NodeMemcgUsedBp => {
            let [used, total] = group(&mut read)?;
            of_node(used, total).unwrap_or(0)
        }
        Metric::NodeMemcgFreeBp => {
            let [used, total] = group(&mut read)?;
            let free = used.zip(total).map(|(used, total)| total.saturating_sub(used));
            of_node(free, total).unwrap_or(10_000)
        }
        Metric::ActiveMemBp | Metric::InactiveMemBp => {
            let [active, inactive] = read([Gauge::ActiveBytes, Gauge::InactiveBytes])?;
            let (active, inactive) = (active.unwrap_or_default(), inactive.unwrap_or_default());
            let part = if goal.metric == Metric::ActiveMemBp { active } else { inactive };
            share_bp(part, active.saturating_add(inactive)).unwrap_or(0)
        }
        Metric::NodeEligibleMemBp => {
            let by_node = eligible(host)?;
            let sum = |wanted: Option<NodeId>| -> u64 {
                let of = by_node.iter().filter(|(other, _)| wanted.is_none_or(|wanted| wanted == *other));
                of.fold(0, |sum, (_, bytes)| sum.saturating_add(*bytes))
            };
            share_bp(sum(Some(node)), sum(None)).unwrap_or(0)
        }
    })
}

/// `None` of nothing.
fn share_bp(part: u64, whole: u64) -> Option<u64> {
    let share = (u128::from(part) * 10_000).checked_div(u128::from(whole))?;
    Some(u64::try_from(share).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::schemes::fake::Machine;
    use crate::vocabulary::METRICS;

    fn goal(metric: Metric, target_value: u64) -> Goal {
        Goal { metric, target_value, ..Goal::default() }
    }

    /// docs/spec/schemes.md#s15, example 6.
    #[test]
    fn scores_are_shares_of_the_target() {
        for (current, target, score) in
            [(3000, 5000, 6000), (5000, 4998, 10_004), (1, 3, 3333), (20_000, 10_000, 20_000)]
        {
            assert_eq!(goal(Metric::UserInput, target).score(current), score, "example 6: {current} of {target}");
        }
    }

    fn read(goals: &[Goal], states: &mut [GoalState], machine: &mut Machine) -> Score {
        score(goals, states, machine, |_| Ok(vec![(NodeId(0), 300), (NodeId(1), 100)])).expect("it has all gauges")
    }

    /// docs/spec/schemes.md#s15, example 7.
    #[test]
    fn of_several_goals_the_highest_score_counts() {
        let goals = [goal(Metric::UserInput, 5000), goal(Metric::UserInput, 4998)];
        let mut states = [3000, 5000].map(|current| GoalState { current, stall_us: None });
        assert_eq!(read(&goals, &mut states, &mut Machine::default()), Score::At(10_004), "example 7");
    }

    #[test]
    fn every_metric_is_computed_from_what_the_host_reads() {
        let mut machine =
            Machine { total: 1000, free: 250, active: 30, inactive: 10, group: 100, ..Machine::default() };
        let table = [
            (Metric::NodeMemUsedBp, 7500),
            (Metric::NodeMemFreeBp, 2500),
            (Metric::NodeMemcgUsedBp, 1000),
            (Metric::NodeMemcgFreeBp, 9000),
            (Metric::ActiveMemBp, 7500),
            (Metric::InactiveMemBp, 2500),
            (Metric::NodeEligibleMemBp, 7500),
        ];
        for (metric, value) in table {
            let entry = metric.entry();
            let of = |nid, path: &str| Goal {
                nid: entry.needs_node.then_some(nid),
                memcg_path: entry.needs_memcg.then(|| path.to_owned()),
                ..goal(metric, 10_000)
            };
            let good = of(0, "/group");
            assert_eq!(good.validate("goal"), Ok(()));
            assert_eq!(read(&[good], &mut [GoalState::default()], &mut machine), Score::At(value), "{metric:?}");
            let is_free = matches!(metric, Metric::NodeMemFreeBp | Metric::NodeMemcgFreeBp);
            let nowhere = match metric {
                _ if is_free => 10_000,
                Metric::ActiveMemBp | Metric::InactiveMemBp => continue,
                _ => 0,
            };
            assert_eq!(
                read(&[of(7, "/none")], &mut [GoalState::default()], &mut machine),
                Score::At(nowhere),
                "{metric:?}"
            );
        }
        let empty = read(&[goal(Metric::ActiveMemBp, 1)], &mut [GoalState::default()], &mut Machine::default());
        assert_eq!(empty, Score::At(0), "no pages on any list");
    }

    #[test]
    fn stall_time_counts_from_the_first_look() {
        let goals = [goal(Metric::SomeMemPsiUs, 1000)];
        let mut states = [GoalState::default()];
        let mut machine = Machine::default();
        for (total, score) in [(5_000_000, 0), (5_000_500, 5000), (5_002_500, 20_000)] {
            machine.stall_us = total;
            assert_eq!(read(&goals, &mut states, &mut machine), Score::At(score), "total {total}");
        }
    }

    #[test]
    fn goals_that_make_no_sense_are_refused() {
        let error = |goal: Goal| goal.validate("quotas.goals[0]").unwrap_err().to_string();
        assert_eq!(error(goal(Metric::UserInput, 0)), "`quotas.goals[0].target-value` is 0; allowed: 1 and more");
        let no_node = error(goal(Metric::NodeMemFreeBp, 50));
        assert_eq!(no_node, "`quotas.goals[0].nid` is not given; allowed: one, for `node-mem-free-bp`");
        let node = error(Goal { nid: Some(0), ..goal(Metric::UserInput, 50) });
        assert_eq!(node, "`quotas.goals[0].nid` is given; allowed: none with `user-input`");
    }

    #[test]
    fn names_are_read_in_both_spellings() {
        for entry in &METRICS {
            for name in [entry.name.to_owned(), entry.name.replace('-', "_")] {
                let read: Goal = toml::from_str(&format!("metric = \"{name}\"")).expect("a name of the table");
                assert_eq!(read.metric, entry.metric);
            }
        }
    }
}
