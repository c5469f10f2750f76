//! The contract of [`Mappings`].

use super::{Findings, Fixture, are_ordered};
use crate::host::{AddressRange, Mappings};

/// Exercises the role: mappings ascend, hold all mapped memory and nothing else, and are appended.
pub fn mappings(host: &mut dyn Mappings, fixture: &Fixture) -> Findings {
    let mut findings = Findings::default();
    let marker = AddressRange::new(1, 2);
    let mut reported = vec![marker];
    if host.mappings(fixture.process, &mut reported).is_err() {
        findings.expect(reported == [marker], "mappings that failed have left something behind");
        return findings;
    }
    findings.expect(reported.first() == Some(&marker), "mappings are not appended");
    let reported = &reported[1..];
    findings.expect(are_ordered(reported), "mappings are empty, overlap or do not ascend");
    let covers = |address: u64| reported.iter().any(|range| (range.start..range.end).contains(&address));
    let Fixture { mapped, hole, gone, .. } = *fixture;
    findings.expect(covers(mapped.start) && covers(mapped.end - 1), "what is mapped is not among the mappings");
    findings.expect(!covers(hole), "what is not mapped is among the mappings");
    if let Some(gone) = gone {
        let mut none = Vec::new();
        findings.expect_gone("mappings", gone, &host.mappings(gone, &mut none));
        findings.expect(none.is_empty(), "mappings of a target that has ended are told");
    }
    findings
}
