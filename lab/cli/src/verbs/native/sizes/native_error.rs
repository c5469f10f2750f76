//! How much more time limits added than was said: fitted to half of the programs, for `isotherm advise`, and judged on the others.

use std::collections::BTreeMap;

use isotherm_advise::NativeError;

use super::super::programs::PROGRAMS;
use super::judged::{Count, Seen};
use super::said::Said;
use super::tables::ANSWERS;
use super::{AtSize, Measured, Results};

/// Whether the programs that compute and have an answer are fitted to: every second of all by name, the first one included. `None`: it is
/// left out.
fn is_fitted_to(results: &Results, program: &Measured) -> Option<bool> {
    // The answers of JVMs are withheld.
    let is_jvm = PROGRAMS.iter().any(|one| one.name == program.program && one.is_jvm());
    let before = results.programs.iter().filter(|one| one.program < program.program).count();
    (!program.waits && !is_jvm).then_some(before.is_multiple_of(2))
}

/// The upper end that was said of a size, and the time that it took; both in millionths of the time without a limit.
fn said_and_seen(program: &Measured, size: &AtSize, said: &Said) -> Option<(u64, u64)> {
    let seen = Seen::new(program, &size.runs).slower_ppm?;
    (said.slower_ppm.median > 0).then_some((said.slower_ppm.high, seen))
}

/// What `crates/advise/data/native-error.json` holds.
pub(super) fn fit(results: &Results) -> Vec<NativeError> {
    let mut worst: BTreeMap<(bool, bool), BTreeMap<&str, Vec<u64>>> = BTreeMap::new();
    for program in results.programs.iter().filter(|program| is_fitted_to(results, program) == Some(true)) {
        for size in &program.sizes {
            for (answer, (_, of)) in ANSWERS.into_iter().enumerate() {
                let Some((high, seen)) = of(size).and_then(|said| said_and_seen(program, size, said)) else { continue };
                let said = NativeError::said(high);
                let times = u128::from(seen.saturating_sub(1_000_000)) * 1_000_000 / u128::from(said);
                let kind = worst.entry((answer == 1, said <= NativeError::SMALL.ppm())).or_default();
                kind.entry(&program.program).or_default().push(u64::try_from(times).unwrap_or(u64::MAX));
            }
        }
    }
    let error = |((is_calibrated, is_small), programs): ((bool, bool), BTreeMap<&str, Vec<u64>>)| NativeError {
        is_calibrated,
        is_small,
        programs: programs.len() as u64,
        sizes: programs.values().map(Vec::len).sum::<usize>() as u64,
        times_ppm: programs.values().flatten().copied().max().unwrap_or(0),
    };
    worst.into_iter().map(error).collect()
}

/// Measured slow-downs of the programs that were not fitted to.
#[derive(Debug, Default)]
pub(super) struct OfOthers {
    /// At or below the end by `fitted`, of sizes that were said to add little, and of the others.
    pub(super) within: [Count; 2],
    /// At or below the upper end that was said.
    pub(super) below_high: Count,
    /// Of each program with a recommendation: that over the smallest size that was run and holds, with all larger ones.
    pub(super) prices: Vec<f64>,
}

/// One of [`ANSWERS`], by its place there.
pub(super) fn judge(results: &Results, fitted: &[NativeError], answer: usize) -> OfOthers {
    let mut others = OfOthers::default();
    let (_, of) = ANSWERS[answer];
    for program in results.programs.iter().filter(|program| is_fitted_to(results, program) == Some(false)) {
        for size in &program.sizes {
            let Some((high, seen)) = of(size).and_then(|said| said_and_seen(program, size, said)) else { continue };
            let is_small = NativeError::said(high) <= NativeError::SMALL.ppm();
            let error = fitted.iter().find(|one| (one.is_calibrated, one.is_small) == (answer == 1, is_small));
            let within = &mut others.within[usize::from(!is_small)];
            within.add(error.is_some_and(|error| seen <= error.at_most_ppm(high)));
            others.below_high.add(seen <= high);
        }
        let holds = |size: &&AtSize| {
            let seen = Seen::new(program, &size.runs);
            seen.holds(seen.slower_ppm)
        };
        let smallest = program.sizes.iter().rev().take_while(holds).last();
        let best = program.sizes.iter().find(|size| of(size).is_some_and(|said| said.is_recommended));
        if let (Some(smallest), Some(best)) = (smallest, best) {
            others.prices.push(best.memory_bytes as f64 / smallest.memory_bytes as f64);
        }
    }
    others
}

#[cfg(test)]
mod tests {
    use super::super::Brief;
    use super::super::said::Range;
    use super::*;

    /// Of three programs the first and the third are fitted to: 20 % in place of 10, and 4 % where 1 was said.
    #[test]
    fn the_worst_of_every_second_program_counts() {
        let run = |ns: i64| Brief { is_complete: true, work_ns: 1000, kernel_ns: ns, ..Brief::default() };
        let program = |name: &str, high: u64, added: i64| {
            let said =
                Said { slower_ppm: Range { low: high, median: high, high }, is_recommended: true, ..Said::default() };
            let size = AtSize { memory_bytes: 1, table: Some(said), calibrated: None, runs: vec![run(100 + added)] };
            Measured { program: name.to_owned(), waits: false, peak_bytes: 1, free: vec![run(100)], sizes: vec![size] }
        };
        let programs = vec![program("c", 1_010_000, 40), program("b", 1_100_000, 201), program("a", 1_100_000, 200)];
        let results = Results { programs };
        let error =
            |is_small, times_ppm| NativeError { is_calibrated: false, is_small, programs: 1, sizes: 1, times_ppm };
        let fitted = fit(&results);
        assert_eq!(fitted, [error(false, 2_000_000), error(true, 800_000)]);
        let others = judge(&results, &fitted, 0);
        assert_eq!((others.within[0].n, others.within[1], others.below_high.of), (0, Count { of: 0, n: 1 }, 0));
        assert!(others.prices.is_empty(), "it does not hold");
    }

    #[test]
    fn what_advise_has_is_fitted_to_the_stored_runs() {
        let results: Results = serde_json::from_str(include_str!("../../../../../native/sizes.json")).unwrap();
        let stored: Vec<NativeError> =
            serde_json::from_str(include_str!("../../../../../../crates/advise/data/native-error.json")).unwrap();
        let by =
            "isotherm-lab native --tables-of-sizes lab/native/sizes.json --fit crates/advise/data/native-error.json";
        assert_eq!(stored, fit(&results), "write it by: {by}");
    }
}
