//! Which plays are wanted.

use std::collections::BTreeSet;

use isotherm_units::Pages;

use crate::POLICIES;
use crate::advice::Program;
use crate::advice::answer::{Answer, HOLD_PERCENT, Recommended};

/// Sizes of the grid in percent of the peak.
pub const GRID_PERCENT: &[u32] = &[45, 55, 65, 75, 85, 95];

/// A play that is wanted.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Wanted {
    /// Name of the program.
    pub program: String,
    /// `classic` or `mglru`.
    pub policy: String,
    /// Limit in pages of the script.
    pub limit_pages: u64,
}

/// Both policies at each size of the grid.
pub fn grid(program: &Program) -> Vec<Wanted> {
    let sizes = GRID_PERCENT.iter().map(|&percent| program.workload.limit(percent));
    let of = |policy: &&str, limit: Pages| Wanted {
        program: program.name().to_owned(),
        policy: (*policy).to_owned(),
        limit_pages: limit.get(),
    };
    POLICIES.iter().flat_map(|policy| sizes.clone().map(move |limit| of(policy, limit))).collect()
}

/// What shows whether recommendations for a kernel hold: their sizes, and 3 and 10 % more.
pub fn hold(kernel: &str, answers: &[Answer]) -> Vec<Wanted> {
    at(kernel, answers, || HOLD_PERCENT.into_iter())
}

/// What shows what safety costs on a kernel: each 2 % from 20 % below the recommended size to 20 % above it.
pub fn scan(kernel: &str, answers: &[Answer]) -> Vec<Wanted> {
    at(kernel, answers, Recommended::scan_percents)
}

/// Each once, programs in the order of the answers.
fn at<I: Iterator<Item = u64>>(kernel: &str, answers: &[Answer], percents: impl Fn() -> I) -> Vec<Wanted> {
    let mut wanted = Vec::new();
    for answer in answers.iter().filter(|answer| answer.kernel == kernel) {
        let Some(recommended) = &answer.recommended else { continue };
        wanted.extend(percents().map(|percent| Wanted {
            program: answer.program.clone(),
            policy: recommended.policy.clone(),
            limit_pages: recommended.pages_at(percent),
        }));
    }
    let mut seen = BTreeSet::new();
    wanted.retain(|wanted| seen.insert(wanted.clone()));
    wanted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(program: &str, kernel: &str, pages: Option<u64>) -> Answer {
        let recommended = pages.map(|pages| Recommended {
            candidate: "mglru".to_owned(),
            policy: "mglru".to_owned(),
            memory_bytes: pages * 4096,
            upper_faults: [0; 3],
            allowed_faults: None,
        });
        Answer { program: program.to_owned(), kernel: kernel.to_owned(), slowdown_percent: 5, recommended }
    }

    #[test]
    fn recommended_sizes_are_wanted_once_for_the_kernel_they_are_for() {
        let answers = [
            answer("b", "7.2", Some(100)),
            answer("a", "7.2", Some(100)),
            answer("b", "7.2", Some(100)),
            answer("b", "7.2", None),
            answer("c", "6.12", Some(100)),
        ];
        let short = |wanted: Vec<Wanted>| {
            wanted.into_iter().map(|wanted| (wanted.program, wanted.limit_pages)).collect::<Vec<_>>()
        };
        let of = |program: &str| [100, 103, 110].map(|pages| (program.to_owned(), pages));
        assert_eq!(short(hold("7.2", &answers)), [of("b"), of("a")].concat());
        let scanned = short(scan("6.12", &answers));
        assert_eq!((scanned.len(), scanned[0].1, scanned[20].1), (21, 80, 120));
    }
}
