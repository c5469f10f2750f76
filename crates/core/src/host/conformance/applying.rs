//! The contract of [`Applying`].

use super::{Findings, Fixture};
use crate::host::{Action, Applied, Applying, HostError, NodeId, Order, PageFilter, PageFilters, PageTest, TargetId};
use crate::vocabulary::ACTIONS;

/// Exercises it on the process: unsupported actions are refused, `stat` changes nothing, and filters that no page passes treat
/// nothing.
pub fn applying(host: &mut dyn Applying, fixture: &Fixture) -> Findings {
    let mut findings = Findings::default();
    let can = host.scheme_capabilities(fixture.process);
    let is_filtered = |action: &Action| can.actions.contains(action);
    findings.expect(can.filtered_actions.iter().all(is_filtered), "it filters pages for actions that it has not");
    for entry in ACTIONS {
        let name = entry.name;
        if !can.actions.contains(&entry.action) {
            let answer = apply(host, fixture.process, entry.action, fixture, PageFilters::default());
            let is_refused = matches!(answer, Err(HostError::NotHere(_) | HostError::Failed(_)));
            let is_nothing = entry.action == Action::Stat && answer.is_ok_and(|applied| applied.bytes == 0);
            findings.expect(is_refused || is_nothing, &format!("`{name}` is not among the capabilities, and is done"));
        }
        if can.filtered_actions.contains(&entry.action) {
            // No page passes: anonymous or not, each is rejected.
            let reject = |matching| PageFilter { test: PageTest::Anon, matching, allow: false };
            let filter = PageFilters::new(vec![reject(true), reject(false)], true);
            let answer = apply(host, fixture.process, entry.action, fixture, filter);
            findings.expect(
                answer.is_ok_and(|applied| applied.bytes == 0),
                &format!("`{name}` treats pages that no filter lets through"),
            );
        }
    }
    let counted = apply(host, fixture.process, Action::Stat, fixture, PageFilters::default());
    findings.expect(counted.is_err() || counted.is_ok_and(|applied| applied.bytes == 0), "`stat` treats memory");
    if let (Some(gone), Some(&action)) = (fixture.gone, can.actions.iter().find(|action| **action != Action::Stat)) {
        findings.expect_gone("apply", gone, &apply(host, gone, action, fixture, PageFilters::default()));
    }
    findings
}

fn apply(
    host: &mut dyn Applying,
    target: TargetId,
    action: Action,
    fixture: &Fixture,
    mut filter: PageFilters,
) -> Result<Applied, HostError> {
    let target_nid = action.migrates().then_some(NodeId(0));
    let range = fixture.mapped;
    host.apply(
        target,
        &mut Order {
            action,
            range,
            filter: &mut filter,
            target_nid,
            destinations: &[],
            marks_accessed: false,
            last_folio: &mut None,
        },
    )
}
