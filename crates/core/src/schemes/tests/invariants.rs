//! Properties that hold after every pass, for any regions, limits and filters.

use super::*;
use proptest::prelude::*;

pub(super) fn regions() -> impl Strategy<Value = Vec<(u64, u64, u32, u32)>> {
    prop::collection::vec((0..3u64, 1..60u64, 0..=20u32, 0..40u32), 1..20).prop_map(|pieces| {
        let mut at = 0;
        let place = |(gap, len, nr, age): (u64, u64, u32, u32)| {
            let start = at + gap / 2 * 4;
            at = start + len * 4;
            (start, at, nr, age)
        };
        pieces.into_iter().map(place).collect()
    })
}

pub(super) fn scheme() -> impl Strategy<Value = Scheme> {
    let action = prop::sample::select(vec![Action::Stat, Action::Pageout, Action::LruPrio, Action::LruDeprio]);
    let filter = prop::option::of((0..300u64, 1..200u64, any::<bool>(), any::<bool>()));
    let charge = prop::option::of((0..4u32, 1..5u32));
    (action, prop::option::of(1..600u64), 0..3u32, 0..3u32, 0..15u32, filter, charge).prop_map(
        |(action, size, weight_nr, weight_age, min_age, filter, charge)| {
            let mut scheme = Scheme { action, ..Scheme::default() };
            scheme.access_pattern.age = Bounds::from(Age::Aggregations(min_age));
            scheme.quotas.size = size.map(Bytes::new);
            scheme.quotas.reset_interval = Duration::from_secs(2);
            scheme.quotas.weights = Weights { sz: 0, nr_accesses: weight_nr, age: weight_age };
            scheme.quotas.fail_charge = charge.map(|(num, denom)| FailCharge { num: num.min(denom), denom });
            scheme.core_filters = filter
                .map(|(start, len, matching, allow)| Filter {
                    address_range: Some(FilterRange { start, end: start + len }),
                    ..Filter::new(FilterType::Addr, matching, allow)
                })
                .into_iter()
                .collect();
            scheme
        },
    )
}

/// Joins what touches.
fn covered(regions: &[(u64, u64)]) -> Vec<(u64, u64)> {
    let mut joined: Vec<(u64, u64)> = Vec::new();
    for &(start, end) in regions {
        match joined.last_mut() {
            Some(last) if last.1 == start => last.1 = end,
            _ => joined.push((start, end)),
        }
    }
    joined
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]

    #[test]
    fn passes_keep_their_promises(
        first in regions(), second in regions(),
        schemes in prop::collection::vec(scheme(), 1..4),
        is_idle: bool, nr_passes in 1..12usize,
    ) {
        let mut rig = Rig::new(&schemes, &[&first, &second]);
        rig.page = 4;
        rig.machine.page = 4;
        rig.machine.is_idle = is_idle;
        let before: Vec<_> = rig.targets.iter().map(|target| {
            covered(&target.regions.iter().map(|region| (region.range.start, region.range.end)).collect::<Vec<_>>())
        }).collect();
        for _ in 0..nr_passes {
            let stats_before: Vec<Stats> = rig.engine.reports(4).iter().map(|report| report.stats).collect();
            rig.run();
            // Regions cover what they covered, in order, and no smaller than allowed.
            for (target, before) in rig.targets.iter().zip(&before) {
                prop_assert!(target.is_in_order());
                let bounds: Vec<_> = target.regions.iter().map(|region| (region.range.start, region.range.end)).collect();
                prop_assert_eq!(&covered(&bounds), before);
                prop_assert!(target.regions.iter().all(|region| region.len() >= 4 && region.len() % 4 == 0));
            }
            for ((report, scheme), before) in rig.engine.reports(4).iter().zip(&schemes).zip(stats_before) {
                let stats = report.stats;
                let why = &report.last_pass;
                // No window charges more than its quota.
                if let Some(limit) = report.effective_quota_bytes {
                    prop_assert_eq!(limit, scheme.quotas.size.expect("the only limit").get());
                    prop_assert!(report.charged_bytes <= limit, "{} of {limit}", report.charged_bytes);
                    // Nothing that qualified waits for its priority while better ones are shown in vain.
                    if why.of(Reason::LowPriority).regions > 0 {
                        prop_assert!(report.min_score > 0);
                    }
                }
                // Each region ends in one reason; tries are tries.
                prop_assert_eq!(why.tried().regions, stats.nr_tried - before.nr_tried);
                prop_assert!(why.tried().bytes <= stats.sz_tried - before.sz_tried);
                if scheme.core_filters.is_empty() {
                    prop_assert_eq!(why.tried().bytes, stats.sz_tried - before.sz_tried);
                }
                prop_assert_eq!(why.of(Reason::Applied).regions, stats.nr_applied - before.nr_applied);
                prop_assert!(stats.sz_applied <= stats.sz_tried && stats.nr_applied <= stats.nr_tried);
                let rejected: u64 = why.core_filters.iter().map(|tally| tally.bytes).sum();
                prop_assert_eq!(rejected, why.of(Reason::CoreFilter).bytes);
            }
            // Each scheme is shown all there is; what a later one cuts off is shown to the earlier ones once more.
            let total: u64 = before.iter().flatten().map(|(start, end)| end - start).sum();
            for report in rig.engine.reports(4) {
                let shown = report.last_pass.shown().bytes;
                let is_last = report.index + 1 == schemes.len();
                prop_assert!(shown == total || (shown > total && !is_last), "{shown} of {total}");
            }
        }
    }

    #[test]
    fn a_quota_gets_round_to_all_that_qualifies(regions in regions(), quota in 1..40u64) {
        // Weights of 0 give equal scores.
        let mut rig = Rig::new(&[sized(Action::LruPrio, quota * 4)], &[&regions]);
        rig.page = 4;
        rig.machine.page = 4;
        let total: u64 = regions.iter().map(|(start, end, ..)| end - start).sum();
        let mut treated = std::collections::BTreeSet::new();
        // One lost pass a round, where the quota ends with the target.
        for _ in 0..=total / (quota * 4) + 2 {
            for (_, start, end) in rig.pass() {
                prop_assert!(end - start <= quota * 4);
                treated.extend((start..end).step_by(4));
            }
        }
        prop_assert_eq!(treated.len() as u64 * 4, total);
    }
}
