//! How much memory has not been touched for how long, exactly.

use isotherm_trace::analysis::IdleMoment;

use super::bytes;
use crate::records::IdleTimes;

/// The mean of moments whose bins are [`IDLE_BOUNDS_NS`](crate::records::IDLE_BOUNDS_NS), as the chart and tables of idle times
/// take it.
pub fn idle(moments: &[IdleMoment], page_bytes: u64) -> IdleTimes {
    let count = moments.len().max(1) as u128;
    let mean = |pages: &dyn Fn(&IdleMoment) -> u64| {
        let sum: u128 = moments.iter().map(|moment| u128::from(bytes(pages(moment), page_bytes))).sum();
        u64::try_from(sum / count).unwrap_or(u64::MAX)
    };
    let bins = moments.first().map_or(0, |moment| moment.idle_pages.len());
    IdleTimes {
        time_ns: moments.last().map_or(0, |moment| moment.time_ns),
        snapshots: moments.len() as u64,
        in_use_bytes: mean(&|moment| moment.in_use_pages),
        idle_bytes: (0..bins).map(|bin| mean(&|moment| moment.idle_pages[bin])).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_become_their_mean_in_bytes() {
        let moment = |time_ns, in_use_pages, idle_pages: &[u64]| IdleMoment {
            time_ns,
            in_use_pages,
            idle_pages: idle_pages.to_vec(),
        };
        let mean = idle(&[moment(5, 1, &[0, 4]), moment(9, 3, &[2, 0])], 4096);
        assert_eq!((mean.time_ns, mean.snapshots, mean.in_use_bytes), (9, 2, 8192));
        assert_eq!(mean.idle_bytes, [4096, 8192]);
        assert!(idle(&[], 4096).idle_bytes.is_empty());
        assert_eq!(idle(&[moment(0, u64::MAX, &[])], 4096).in_use_bytes, u64::MAX, "no overflow");
    }
}
