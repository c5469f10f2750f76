//! The pass of docs/spec/schemes.md#s4, #s5 and #s7 written down step by step on one list of regions, to compare with the
//! real one.

use super::invariants::{regions, scheme};
use super::*;
use proptest::prelude::*;

const PAGE: u64 = 4;

#[derive(Clone, Debug, PartialEq)]
struct Naive {
    schemes: Vec<Scheme>,
    /// (target, region).
    list: Vec<(u32, Region)>,
    states: Vec<State>,
    size_max: u64,
    applied: Vec<(u32, u64, u64)>,
}

#[derive(Clone, Debug, Default, PartialEq)]
struct State {
    charged: u64,
    esz: u64,
    window: Option<u64>,
    pointer: Option<(u32, u64)>,
    min_score: u32,
    stats: Stats,
}

impl Naive {
    fn is_set(&self, s: usize) -> bool {
        self.schemes[s].quotas.size.is_some()
    }

    fn is_full(&self, s: usize) -> bool {
        let state = &self.states[s];
        self.is_set(s) && (state.charged >= state.esz || state.esz - state.charged < PAGE)
    }

    fn is_last(&self, i: usize) -> bool {
        self.list.get(i + 1).is_none_or(|next| next.0 != self.list[i].0)
    }

    fn split(&mut self, i: usize, offset: u64) {
        let right = self.list[i].1.split_off(offset);
        self.list.insert(i + 1, (self.list[i].0, right));
    }

    fn matches(&self, s: usize, i: usize) -> bool {
        let region = &self.list[i].1;
        self.schemes[s].access_pattern.resolve(&Attributes::default()).misses(region, region.len()).is_none()
    }

    fn score(&self, s: usize, i: usize) -> u32 {
        let scheme = &self.schemes[s];
        let scorer = scheme.action.scorer(true).expect("of physical memory");
        scorer.score(&self.list[i].1, &Attributes::default(), &scheme.quotas.weights)
    }

    /// Whether the filter rejects the region, which it may cut.
    fn rejects(&mut self, s: usize, i: usize) -> bool {
        let Some(filter) = self.schemes[s].core_filters.first().cloned() else { return false };
        let range = filter.address_range.expect("the only type here");
        let (low, high) = (range.start / PAGE * PAGE, range.end / PAGE * PAGE);
        let (start, end) = (self.list[i].1.range.start, self.list[i].1.range.end);
        let is_inside = if low <= start && end <= high {
            true
        } else if end <= low || high <= start {
            false
        } else if start < low {
            self.split(i, low - start);
            false
        } else {
            self.split(i, high - start);
            true
        };
        if is_inside == filter.matching { !filter.allow } else { filter.allow }
    }

    fn adjust_quota(&mut self, s: usize, now: u64) {
        if !self.is_set(s) {
            return;
        }
        let size = self.schemes[s].quotas.size.expect("set").get();
        if self.states[s].window.is_none() {
            self.states[s].window = Some(now);
            self.states[s].esz = size;
        }
        if now - self.states[s].window.expect("set") >= self.schemes[s].quotas.reset_interval.ns() {
            if self.is_full(s) {
                self.states[s].stats.qt_exceeds += 1;
            }
            self.states[s].window = Some(now);
            self.states[s].charged = 0;
            self.states[s].esz = size;
        }
        let mut buckets = [0u64; 100];
        let mut i = 0;
        while i < self.list.len() {
            if self.matches(s, i) && !self.rejects(s, i) {
                buckets[self.score(s, i) as usize] += self.list[i].1.len();
            }
            i += 1;
        }
        let mut score = (0..100).rev().find(|score| buckets[*score] > 0).unwrap_or(0);
        let mut sum = buckets[score];
        while sum < self.states[s].esz && score > 0 {
            score -= 1;
            sum += buckets[score];
        }
        self.states[s].min_score = u32::try_from(score).expect("small");
    }

    fn skips(&mut self, s: usize, i: usize) -> bool {
        let mut skip = false;
        if let Some((target, address)) = self.states[s].pointer {
            if self.list[i].0 != target {
                return true;
            }
            let region = self.list[i].1;
            if region.range.end <= address {
                skip = true;
            } else if region.range.start < address {
                skip = true;
                let k = (address - region.range.start) / PAGE * PAGE;
                if k > 0 {
                    self.split(i, k);
                } else if region.len() > PAGE {
                    self.split(i, PAGE);
                }
            }
        }
        if self.is_last(i) {
            self.states[s].pointer = None;
        }
        skip
    }

    fn try_apply(&mut self, s: usize, i: usize, is_idle: bool) {
        let mut sz = self.list[i].1.len();
        if self.is_set(s) && self.states[s].charged + sz > self.states[s].esz {
            sz = (self.states[s].esz - self.states[s].charged) / PAGE * PAGE;
            self.split(i, sz);
        }
        if self.rejects(s, i) {
            return;
        }
        let (target, region) = self.list[i];
        let scheme = &self.schemes[s];
        let done = if is_idle || scheme.action == Action::Stat { 0 } else { region.len() };
        if scheme.action != Action::Stat {
            self.applied.push((target, region.range.start, region.range.end));
        }
        let failed = scheme
            .quotas
            .fail_charge
            .map_or(sz - done, |charge| (sz - done) * u64::from(charge.num) / u64::from(charge.denom));
        self.states[s].charged += done + failed;
        if self.is_full(s) {
            self.states[s].pointer = Some((target, region.range.end));
        }
        if self.schemes[s].action != Action::Stat {
            self.list[i].1.age = 0;
        }
        let stats = &mut self.states[s].stats;
        stats.nr_tried += 1;
        stats.sz_tried += sz;
        stats.nr_applied += u64::from(done > 0);
        stats.sz_applied += done;
        stats.sz_ops_filter_passed += if self.schemes[s].action == Action::Stat { 0 } else { region.len() };
    }

    fn pass(&mut self, now: u64, is_idle: bool) {
        for s in 0..self.schemes.len() {
            self.adjust_quota(s, now);
        }
        let mut i = 0;
        while i < self.list.len() {
            for s in 0..self.schemes.len() {
                if self.is_full(s) || self.skips(s, i) {
                    continue;
                }
                if self.matches(s, i) && (!self.is_set(s) || self.score(s, i) >= self.states[s].min_score) {
                    self.try_apply(s, i, is_idle);
                }
                if self.is_last(i) {
                    self.states[s].stats.nr_snapshots += 1;
                }
            }
            let (target, region) = self.list[i];
            let left = i.checked_sub(1).map(|left| self.list[left]);
            let joins = left.is_some_and(|(left_target, left)| {
                left_target == target
                    && left.range.end == region.range.start
                    && left.age == region.age
                    && left.last_nr_accesses == region.last_nr_accesses
                    && left.nr_accesses == region.nr_accesses
                    && left.len() + region.len() <= self.size_max
            });
            if joins {
                self.list[i - 1].1.range.end = region.range.end;
                self.list.remove(i);
            } else {
                i += 1;
            }
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn a_pass_does_what_is_written_down(
        first in regions(), second in regions(),
        schemes in prop::collection::vec(scheme(), 1..4),
        is_idle: bool, nr_passes in 1..12u64, size_max in 1..400u64,
    ) {
        let mut rig = Rig::new(&schemes, &[&first, &second]);
        rig.page = PAGE;
        rig.size_max = size_max;
        (rig.machine.page, rig.machine.is_idle) = (PAGE, is_idle);
        let of_target = |target: &Target| target.regions.iter().map(|region| (target.id.0, *region)).collect::<Vec<_>>();
        let mut naive = Naive {
            states: vec![State::default(); schemes.len()],
            schemes,
            list: rig.targets.iter().flat_map(of_target).collect(),
            size_max,
            applied: Vec::new(),
        };
        for pass in 0..nr_passes {
            let applied = rig.pass();
            naive.pass(pass * SECOND, is_idle);
            prop_assert_eq!(applied, std::mem::take(&mut naive.applied));
            let list: Vec<(u32, Region)> = rig.targets.iter().flat_map(of_target).collect();
            prop_assert_eq!(list, naive.list.clone());
            for (report, state) in rig.engine.reports(PAGE).iter().zip(&naive.states) {
                prop_assert_eq!(report.stats, state.stats);
                prop_assert_eq!((report.charged_bytes, report.min_score), (state.charged, state.min_score));
            }
        }
    }
}
