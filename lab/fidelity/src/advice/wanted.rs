//! Selects the plays to make.

use std::collections::BTreeSet;

use isotherm_units::Pages;

use crate::POLICIES;
use crate::advice::answer::{Answer, HOLD_PERCENT, Recommended};
use crate::advice::{Program, StoredPlay};

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

/// Plays that show whether recommendations for a kernel hold: their sizes, and 3 and 10 % more.
pub fn hold(kernel: &str, answers: &[Answer]) -> Vec<Wanted> {
    at(kernel, answers, || HOLD_PERCENT.into_iter())
}

/// Slow-down whose price is scanned, in percent: the default of the question.
pub const SCANNED_SLOWDOWN_PERCENT: u32 = 5;
/// Steps of a scan in one round.
const SCAN_STEPS: usize = 3;

/// The next plays of the scan for the price of safety on a kernel: from recommended sizes downwards, as long as the real kernel has no
/// more major faults than are allowed. `find` gives the play of a program, a policy and a limit in pages, if it was made.
pub fn scan(kernel: &str, answers: &[Answer], find: &dyn Fn(&str, &str, u64) -> Option<StoredPlay>) -> Vec<Wanted> {
    let mut wanted = Vec::new();
    let is_scanned = |answer: &&Answer| answer.kernel == kernel && answer.slowdown_percent == SCANNED_SLOWDOWN_PERCENT;
    for answer in answers.iter().filter(is_scanned) {
        let Some(recommended) = &answer.recommended else { continue };
        let Some(allowed) = recommended.allowed_faults else { continue };
        let is_safe = |pages: u64| {
            let faults = find(&answer.program, &recommended.policy, pages)?.counter("major_faults");
            Some(faults.is_some_and(|boots| boots.into_iter().all(|faults| faults <= allowed)))
        };
        let sizes = Recommended::scan_percents().rev().map(|percent| recommended.pages_at(percent));
        let not_known_safe = sizes.skip_while(|&pages| is_safe(pages) == Some(true));
        // The first size that is too slow ends the scan.
        let further = not_known_safe.take_while(|&pages| is_safe(pages).is_none()).take(SCAN_STEPS);
        wanted.extend(further.map(|limit_pages| Wanted {
            program: answer.program.clone(),
            policy: recommended.policy.clone(),
            limit_pages,
        }));
    }
    let mut seen = BTreeSet::new();
    wanted.retain(|wanted| seen.insert(wanted.clone()));
    wanted
}

/// Each size once, programs in the order of the answers.
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
    use crate::advice::{Boot, Key};

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
    }

    /// 1000 pages are recommended, 50 faults allowed.
    #[test]
    fn a_scan_goes_down_until_a_size_is_too_slow() {
        let mut answer = answer("a", "7.2", Some(1000));
        answer.recommended.as_mut().unwrap().allowed_faults = Some(50);
        let next = |known: &[(u64, u64)]| -> Vec<u64> {
            let find = |_: &str, _: &str, pages: u64| {
                let (_, faults) = known.iter().find(|(at, _)| *at == pages)?;
                let counts = [vec![*faults], vec![0; crate::METRICS.len() - 1]].concat();
                let (program, digest, policy) = ("a".to_owned(), "d".to_owned(), "mglru".to_owned());
                let key = Key { program, digest, policy, limit_pages: pages };
                Some(StoredPlay { key, boots: vec![Boot::Counted(counts)] })
            };
            scan("7.2", std::slice::from_ref(&answer), &find).into_iter().map(|wanted| wanted.limit_pages).collect()
        };
        assert_eq!(next(&[]), [1000, 980, 960]);
        assert_eq!(next(&[(1000, 10), (980, 20), (960, 50)]), [940, 920, 900]);
        assert_eq!(next(&[(1000, 10), (980, 20), (960, 51)]), [] as [u64; 0], "960 is too slow");
        assert_eq!(next(&[(1000, 90)]), [] as [u64; 0]);
    }
}
