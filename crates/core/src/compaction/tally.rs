//! Work of a design on a node, as counts and as text.

use super::{Activity, Budget, Design, Hold, Verdict, Why};
use crate::host::HostError;
use isotherm_units::Duration;
use std::collections::BTreeMap;

/// Work of a design on a node so far.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Checks of the node.
    pub checks: u64,
    /// Checks that started a compaction.
    pub starts: u64,
    /// Calls that the host refused or failed.
    pub refusals: u64,
    /// The last refusal.
    refused: Option<String>,
    /// Times it did nothing, by reason.
    holds: BTreeMap<&'static str, u64>,
    /// Times it finished a zone, and page blocks that became wholly free, by reason.
    ends: BTreeMap<String, (u64, u64)>,
}

impl Tally {
    /// Counts the result of a call.
    pub fn note(&mut self, activity: &Activity) {
        if let Some(decision) = &activity.decision {
            self.checks += 1;
            match decision.verdict {
                Verdict::Start(_) => self.starts += 1,
                Verdict::Hold(hold) => *self.holds.entry(reason(hold)).or_default() += 1,
            }
        }
        if let Some(report) = &activity.report {
            let (times, freed) = self.ends.entry(end(report.why)).or_default();
            *times += 1;
            *freed += report.work.blocks_freed;
        }
    }

    /// Counts a call that the host refused.
    pub fn note_refusal(&mut self, refusal: &HostError) {
        self.refusals += 1;
        self.refused = Some(refusal.to_string());
    }

    /// All counts as text, with the reasons that held the design back.
    pub fn words(&self, design: &Design) -> Vec<String> {
        let Self { checks, starts, .. } = self;
        let mut words = vec![format!("looked {checks} times, started {starts} times")];
        if let Some(limit) = empty_budget(design) {
            words.push(format!("its budget of {limit} is 0: nothing is done"));
        }
        if let Design::Merged(config) = design
            && config.proactiveness.marks(config.leeway).high >= 100
        {
            let proactiveness = u32::from(config.proactiveness);
            words.push(format!("its proactiveness of {proactiveness} never starts it: no score is above 100 percent"));
        }
        if let Design::Rfc(config) = design {
            words.extend(config.idle_orders().into_iter().map(|(order, larger)| {
                format!("the mark of order {order} never decides: that of order {larger} is as low, and comes first")
            }));
        }
        words.extend(self.holds.iter().map(|(reason, times)| format!("held still {times} times: {reason}")));
        words.extend(
            self.ends
                .iter()
                .map(|(why, (times, freed))| format!("ended {times} times with {freed} blocks freed: {why}")),
        );
        if let Some(refused) = &self.refused {
            words.push(format!("refused {} times, the last time: {refused}", self.refusals));
        }
        words
    }
}

/// The limit of a design's budget that lets it do nothing at all.
fn empty_budget(design: &Design) -> Option<&'static str> {
    let budget: &Budget = match design {
        Design::Explicit(config) => &config.budget,
        Design::Controller(config) => &config.budget,
        Design::Rfc(_) | Design::Merged(_) => return None,
    };
    let zero = Some(Duration::ZERO);
    let limits = [
        ("pages", budget.pages == Some(0)),
        ("CPU time", budget.cpu == zero),
        ("waits", budget.stall == zero),
        ("time", budget.wall == zero),
        ("pages looked at in vain", budget.fruitless_pages == Some(0)),
    ];
    limits.into_iter().find(|&(_, is_empty)| is_empty).map(|(limit, _)| limit)
}

const fn reason(hold: Hold) -> &'static str {
    match hold {
        Hold::Enough => "not fragmented enough, or enough blocks free",
        Hold::Deferred => "earlier attempts failed",
        Hold::Reclaiming => "kswapd was at work",
        Hold::Busy => "tasks waited for processors",
        Hold::BackingOff => "the last attempt gained too little",
        Hold::NoYield => "no block was predicted to become free",
        Hold::YieldUnknown => "nothing to predict a yield from",
    }
}

fn end(why: Why) -> String {
    why.to_string()
}

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&words(*self))
    }
}

fn words(why: Why) -> String {
    match why {
        Why::AlreadyBelowHigh => "not fragmented enough to begin".to_owned(),
        Why::ReachedLow => "the goal was reached".to_owned(),
        Why::ScannersMet => "all of the zone was gone through".to_owned(),
        Why::NoTargets => "too little is free to move pages into".to_owned(),
        Why::Budget(limit) => format!("a limit of its budget was reached ({limit:?})").to_lowercase(),
        Why::NoProgress => "too much was looked at in vain".to_owned(),
        Why::ReclaimRunning => "kswapd was at work".to_owned(),
        Why::Cancelled => "it was called off".to_owned(),
        Why::Contended => "locks were not to be had".to_owned(),
        Why::Deferred => "earlier attempts failed".to_owned(),
    }
}
