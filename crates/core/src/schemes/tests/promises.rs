//! Guarantees to users, with random schemes on machines whose speed changes: quotas hold, and priorities and watermarks work as documented.

use super::invariants::regions;
use super::*;
use proptest::prelude::*;

const PAGE: u64 = 4;

/// A quota in bytes, time or both, over windows of this number of passes, with weights.
fn limited() -> impl Strategy<Value = (Scheme, usize)> {
    let action = prop::sample::select(vec![Action::Pageout, Action::LruPrio, Action::LruDeprio]);
    let limits = (prop::option::of(1..600u64), prop::option::of(1..4u64))
        .prop_filter("one", |(size, time)| size.is_some() || time.is_some());
    (action, limits, 1..4usize, 0..3u32, 0..3u32, 0..10u32).prop_map(
        |(action, (size, time_ms), passes, weight_nr, weight_age, min_age)| {
            let mut scheme = Scheme { action, ..Scheme::default() };
            scheme.access_pattern.age = Bounds::from(Age::Aggregations(min_age));
            scheme.quotas = Quotas {
                size: size.map(Bytes::new),
                time: time_ms.map(Duration::from_ms),
                reset_interval: Duration::from_secs(passes as u64),
                weights: Weights { sz: 0, nr_accesses: weight_nr, age: weight_age },
                ..Quotas::default()
            };
            (scheme, passes)
        },
    )
}

fn rig(scheme: &Scheme, targets: &[&[(u64, u64, u32, u32)]]) -> Rig {
    let mut rig = Rig::new(std::slice::from_ref(scheme), targets);
    (rig.page, rig.machine.page) = (PAGE, PAGE);
    rig
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, ..ProptestConfig::default() })]

    /// No window exceeds its limit in bytes, nor its limit in time by more than the last call to the host, however the speed
    /// of the machine changes.
    #[test]
    fn windows_keep_to_their_quota(
        (scheme, passes_a_window) in limited(),
        first in regions(), second in regions(),
        page_costs_us in prop::collection::vec(0..300u64, 1..24),
    ) {
        let mut rig = rig(&scheme, &[&first, &second]);
        let (mut bytes, mut calls_ns) = (0, Vec::new());
        for (pass, page_cost_us) in page_costs_us.into_iter().enumerate() {
            if pass % passes_a_window == 0 {
                (bytes, calls_ns) = (0, Vec::new());
            }
            rig.machine.page_cost = Duration::from_us(page_cost_us);
            for (_, start, end) in rig.pass() {
                bytes += end - start;
                calls_ns.push((end - start) / PAGE * page_cost_us * 1000);
            }
            let limit = rig.report(0).effective_quota_bytes.expect("it is set");
            prop_assert!(bytes <= limit, "{bytes} bytes of {limit}");
            if let (Some(time), Some((_, before))) = (scheme.quotas.time, calls_ns.split_last()) {
                let before: u64 = before.iter().sum();
                prop_assert!(before < time.ns(), "{before} ns of {time} before the last call");
            }
        }
    }

    /// A bucket of scores is opened only where all better ones together leave room in the quota. (Inside what is open, regions
    /// are treated in the order of their addresses, as in the kernel.)
    #[test]
    fn lower_priorities_wait_for_higher_ones(
        (scheme, _) in limited(), first in regions(), second in regions(), nr_passes in 1..8usize,
    ) {
        let mut rig = rig(&scheme, &[&first, &second]);
        for _ in 0..nr_passes {
            let pattern = scheme.access_pattern.resolve(&rig.attributes);
            let scorer = scheme.action.scorer(true).expect("of physical memory");
            let score = |region: &Region| scorer.score(region, &rig.attributes, &scheme.quotas.weights);
            let qualifying: Vec<(u32, u32, UnitRange)> = rig.targets.iter()
                .flat_map(|target| target.regions.iter().map(|region| (target.id.0, region)))
                .filter(|(_, region)| pattern.misses(region, region.len()).is_none())
                .map(|(target, region)| (target, score(region), region.range))
                .collect();
            let treated = rig.pass();
            let limit = rig.report(0).effective_quota_bytes.expect("it is set");
            for (target, start, _) in treated {
                let found = qualifying.iter().find(|(id, _, range)| *id == target && range.start <= start && start < range.end);
                let &(_, score, _) = found.expect("what is treated has qualified");
                let better: u64 = qualifying.iter().filter(|(_, other, _)| *other > score).map(|(.., range)| range.len()).sum();
                prop_assert!(better < limit, "score {score} was treated, with {better} bytes of better ones and {limit} in all");
            }
        }
    }

    /// Off strictly above high and strictly below low, on strictly below mid, and in between as before; nothing is done while off.
    #[test]
    fn watermarks_stop_and_start(
        marks in [0..=1000u64, 0..=1000u64, 0..=1000u64],
        free in prop::collection::vec(0..=1000u64, 1..40),
        other_is_at_work: bool,
    ) {
        let [low, mid, high] = { let mut marks = marks; marks.sort_unstable(); marks };
        let watermarks = Watermarks::free_mem_rate(Duration::from_secs(5), high, mid, low);
        let scheme = Scheme { action: Action::LruPrio, watermarks, ..Scheme::default() };
        let others = if other_is_at_work { vec![Scheme::default()] } else { Vec::new() };
        let mut rig = rig(&scheme, &[&[(0, 40, 0, 5)]]);
        rig.engine = Engine::new(&[vec![scheme], others].concat());
        let mut is_on = true;
        for free in free {
            (rig.machine.free, rig.machine.total) = (free, 1000);
            let now = Instant::from_ns(rig.passes * SECOND);
            let sleeps = rig.engine.wait(now, &mut rig.machine).expect("gauges are there");
            is_on = match () {
                () if free > high || free < low => false,
                () if free < mid => true,
                () => is_on,
            };
            prop_assert_eq!(rig.report(0).is_active, is_on, "{} free of {}, {}, {}", free, high, mid, low);
            prop_assert_eq!(sleeps, (!is_on && !other_is_at_work).then_some(Duration::from_secs(5)));
            let treated = rig.pass();
            prop_assert_eq!(!treated.is_empty(), is_on);
        }
    }
}
