//! Converts bits to runs of pages.

use isotherm_trace::PageRun;

/// Appends the runs of pages whose bit is set in `used`; `written` has the bits of written pages. `start` is the page of bit
/// 0.
pub(crate) fn append_runs(start: u64, used: &[u64], written: &[u64], runs: &mut Vec<PageRun>) {
    for (index, (&used, &written)) in used.iter().zip(written).enumerate() {
        let mut left = used;
        let base = start + index as u64 * 64;
        while left != 0 {
            let first = left.trailing_zeros();
            let write = written >> first & 1 == 1;
            // Length of the run of the same kind.
            let kind = if write { written & used } else { used & !written };
            let length = (!(kind >> first)).trailing_zeros().min(64 - first);
            append(base + u64::from(first), length, write, runs);
            left &= if first + length >= 64 { 0 } else { u64::MAX << (first + length) };
        }
    }
}

fn append(page: u64, pages: u32, write: bool, runs: &mut Vec<PageRun>) {
    if let Some(last) = runs.last_mut()
        && last.write == write
        && last.page + u64::from(last.pages) == page
        && let Some(sum) = last.pages.checked_add(pages)
    {
        last.pages = sum;
        return;
    }
    runs.push(PageRun { page, pages, write, kernel: false });
}

#[cfg(test)]
mod tests {
    use super::*;

    fn runs(start: u64, used: &[u64], written: &[u64]) -> Vec<(u64, u32, bool)> {
        let mut runs = Vec::new();
        append_runs(start, used, written, &mut runs);
        runs.iter().map(|run| (run.page, run.pages, run.write)).collect()
    }

    #[test]
    fn bits_become_runs() {
        assert_eq!(runs(100, &[0, 0], &[0, 0]), []);
        assert_eq!(runs(100, &[u64::MAX, 1], &[0, 0]), [(100, 65, false)]);
        assert_eq!(runs(0, &[0b1110_0110], &[0b0110_0100]), [(1, 1, false), (2, 1, true), (5, 2, true), (7, 1, false)]);
        assert_eq!(runs(64, &[1 << 63, 1], &[1 << 63, 0]), [(127, 1, true), (128, 1, false)]);
        assert_eq!(runs(0, &[0b1], &[0b11]), [(0, 1, true)], "what was not used is no run");
    }

    #[test]
    fn runs_hold_exactly_the_bits() {
        let mut state = 3u64;
        for _ in 0..500 {
            let mut word = || {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
                (state ^ state >> 31) & (state << 7 | state >> 9)
            };
            let (used, written) = ([word(), word(), word()], [word(), word(), word()]);
            let mut again = ([0u64; 3], [0u64; 3]);
            for (page, pages, write) in runs(0, &used, &written) {
                for page in page..page + u64::from(pages) {
                    let word = usize::try_from(page / 64).unwrap();
                    again.0[word] |= 1 << (page % 64);
                    again.1[word] |= u64::from(write) << (page % 64);
                }
            }
            let both: Vec<u64> = used.iter().zip(&written).map(|(used, written)| used & written).collect();
            assert_eq!((again.0, again.1.to_vec()), (used, both));
        }
    }
}
