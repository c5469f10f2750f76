//! The contract of [`Generational`].

use super::Findings;
use crate::host::{Ageing, Answer, Eviction, Generational, Listing};
use crate::vocabulary::Swappiness;

/// Exercises it: listings are in order, each order has an answer, a command from the future is refused.
pub fn generations(host: &mut dyn Generational) -> Findings {
    let mut findings = Findings::default();
    let can = host.generation_capabilities();
    let has_all = can.read && can.age && can.evict;
    findings.expect(has_all || can.missing.is_some(), "it lacks something, and does not say what would be needed");
    let mut listings: Vec<Listing> = Vec::new();
    let read = host.read_generations(&mut listings);
    findings.expect_offered(can.read, "read_generations", &read);
    if read.is_err() {
        findings.expect(listings.is_empty(), "generations that failed have left something behind");
        return findings;
    }
    for listing in &listings {
        let ascends =
            listing.rows.windows(2).all(|pair| pair[0].seq + 1 == pair[1].seq && pair[0].age_ms >= pair[1].age_ms);
        findings.expect(ascends, "generations of a group do not ascend by one, or a younger one is older");
    }
    let Some(Listing { lruvec, rows, .. }) = listings.first() else { return findings };
    let youngest = rows.last().map_or(0, |row| row.seq);
    let swappiness = Swappiness::AnonOnly;
    let mut answers = vec![Answer::Partly { bytes: 7 }];
    let future = Ageing { lruvec: *lruvec, max_gen_nr: youngest + 1000, swappiness, force_scan: false };
    host.age_generations(&[future, future], &mut answers);
    findings.expect(
        answers.len() == 3 && answers[0] == Answer::Partly { bytes: 7 },
        "an ageing has not one answer an order",
    );
    findings.expect(answers.iter().skip(1).all(is_refused), "a generation from the future was made");
    answers.clear();
    let young = Eviction { lruvec: *lruvec, min_gen_nr: youngest, swappiness, limit_pages: Some(1) };
    host.evict_generations(&[young], &mut answers);
    findings.expect(answers.len() == 1 && answers.iter().all(is_refused), "the youngest generation was evicted");
    let mut after = Vec::new();
    let again = host.read_generations(&mut after);
    let seqs = |listings: &[Listing]| -> Vec<Option<u64>> {
        listings.iter().map(|listing| listing.rows.last().map(|row| row.seq)).collect()
    };
    findings.expect(again.is_ok() && seqs(&after) == seqs(&listings), "what was refused has changed something");
    findings
}

fn is_refused(answer: &Answer) -> bool {
    matches!(answer, Answer::Failed(_) | Answer::NotHere(_))
}
