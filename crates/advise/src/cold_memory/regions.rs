//! Evidence from the regions of a monitor.
//!
//! Regions cover mapped addresses, not resident memory, and one page in each is sampled. So bytes are upper bounds, except that each
//! region found accessed has one page that was certainly used.

use isotherm_trace::TraceError;
use isotherm_trace::region::{ContextMeta, RegionStore, Snapshot};
use isotherm_units::PAGE_BYTES;

use super::step::{Bounds, Cut, Observed, Step, ratio};
use super::{ColdnessError, Source};

/// Steps that are kept; where there are more, neighbours become one.
const STEPS_MAX: usize = 4096;
const SNAPSHOTS_MIN: u64 = 3;

pub(super) fn observe(store: &mut RegionStore) -> Result<Observed, ColdnessError> {
    let refuse = |what: String| Err(ColdnessError::Unsupported(what));
    let targets = store.meta().targets.len();
    if targets > 1 {
        return refuse(format!("it has {targets} targets; take one: `isotherm convert filter --target N`"));
    }
    // A record may have more contexts than the one of its target.
    let context = if targets == 0 { ContextMeta::default() } else { store.meta().context_of(0).clone() };
    if context.operations == "paddr" {
        return refuse(
            "it is of physical memory, free memory included: it does not say what a program or group needs. Monitor that by itself \
             (`isotherm monitor --cgroup GROUP`)"
                .into(),
        );
    }
    let unit = context.address_unit_bytes.max(1);
    let mut walk = Walk { unit, ..Walk::default() };
    store.for_each(|snapshot| {
        walk.push(snapshot);
        Ok::<(), TraceError>(())
    })?;
    if walk.ages_missing {
        return refuse(
            "regions have no ages (kernels before 5.16), so that it is not known since when memory is idle".into(),
        );
    }
    if walk.intervals_missing {
        return refuse(
            "it does not say its aggregation interval, so that ages are not times; convert it with `isotherm convert import --aggr … --sample …`".into(),
        );
    }
    if walk.snapshots < SNAPSHOTS_MIN {
        return refuse(format!("it has {} snapshots; at least {SNAPSHOTS_MIN} are needed", walk.snapshots));
    }
    walk.steps.extend(walk.pending.take().map(|(step, _)| step));
    if walk.steps.is_empty() {
        return refuse("no two consecutive snapshots are apart in time".into());
    }
    let mut notes: Vec<String> = store.warnings().iter().map(ToString::to_string).collect();
    notes.push(
        "Regions cover mapped addresses whether or not there is memory behind them, so memory sizes are upper bounds."
            .into(),
    );
    notes.push(
        "A monitor samples one page of each region: rare use in a region found idle stays unseen, and no figure here counts it.".into(),
    );
    notes.push(
        "Anonymous memory and memory of files are not told apart. Refaults and pressure are not in the record.".into(),
    );
    if context.counts_are_shares {
        notes.push("Regions are whole mappings: one of which a single page is in use counts as in use, so little is found cold.".into());
    }
    Ok(Observed {
        source: Source::Regions,
        looks: walk.snapshots,
        span_ns: walk.last_ns.saturating_sub(walk.first_ns),
        outside_bytes: 0,
        steps: walk.steps,
        notes,
        ..Observed::default()
    })
}

#[derive(Debug, Default)]
struct Walk {
    unit: u64,
    before: Option<Snapshot>,
    steps: Vec<Step>,
    /// Length of the first aggregation: the ages of cuts are its multiples by powers of two, so that steps can be put together.
    aggregation_ns: u64,
    snapshots: u64,
    first_ns: u64,
    last_ns: u64,
    ages_missing: bool,
    intervals_missing: bool,
    merges: u32,
    pending: Option<(Step, u32)>,
}

impl Walk {
    fn push(&mut self, snapshot: &Snapshot) {
        self.ages_missing |= snapshot.regions.iter().any(|region| region.age.is_none());
        let Some(aggregation_ns) = snapshot.intervals.aggregation_ns.or(snapshot.duration_ns) else {
            self.intervals_missing = true;
            return;
        };
        if self.snapshots == 0 {
            (self.first_ns, self.aggregation_ns) = (snapshot.start_ns(), aggregation_ns.max(1));
        }
        self.snapshots += 1;
        self.last_ns = snapshot.time_ns;
        if let Some(before) = &self.before
            && snapshot.time_ns > before.time_ns
        {
            let step = self.step(before, snapshot);
            self.keep(step);
        }
        self.before.get_or_insert_default().clone_from(snapshot);
    }

    /// Merges `2^merges` steps into one, so that few are kept of a long record.
    fn keep(&mut self, step: Step) {
        let (sum, count) = match self.pending.take() {
            None => (step, 1),
            Some((sum, count)) => (together(sum, &step), count + 1),
        };
        if count >> self.merges == 0 {
            self.pending = Some((sum, count));
            return;
        }
        self.steps.push(sum);
        if self.steps.len() >= STEPS_MAX {
            let mut steps = std::mem::take(&mut self.steps).into_iter();
            while let (Some(one), next) = (steps.next(), steps.next()) {
                self.steps.push(next.map_or_else(|| one.clone(), |next| together(one.clone(), &next)));
            }
            self.merges += 1;
        }
    }

    fn step(&self, before: &Snapshot, after: &Snapshot) -> Step {
        let bytes = |len: u64| len.saturating_mul(self.unit);
        let (total, total_now) = (bytes(before.total_len()), bytes(after.total_len()));
        let aggregation_ns = before.intervals.aggregation_ns.or(before.duration_ns).unwrap_or(0);
        let samples = after.intervals.max_nr_accesses().unwrap_or(0);
        // No figure for ages longer than the time watched.
        let watched_ns = before.time_ns.saturating_sub(self.first_ns);
        let ages: Vec<u64> = std::iter::successors(Some(self.aggregation_ns), |age| age.checked_mul(2))
            .take_while(|&age| age <= watched_ns.max(self.aggregation_ns))
            .collect();
        let mut cuts: Vec<Cut> = ages.iter().map(|&age_ns| Cut { age_ns, ..Cut::default() }).collect();
        let mut next = 0;
        for region in before.regions.iter().filter(|region| region.nr_accesses == 0) {
            let idle_ns = u64::from(region.age.unwrap_or(0)).saturating_mul(aggregation_ns);
            let reached = ages.partition_point(|&age| age <= idle_ns);
            if reached == 0 {
                continue;
            }
            while after.regions.get(next).is_some_and(|other| other.end <= region.start) {
                next += 1;
            }
            let mut again = Bounds::default();
            for other in after.regions[next..].iter().take_while(|other| other.start < region.end) {
                if other.nr_accesses > 0 {
                    let common = bytes(other.end.min(region.end) - other.start.max(region.start));
                    let page = common.min(PAGE_BYTES);
                    // Pages are used independently of each other: the share of samples that found one is that of pages used.
                    let share = if samples == 0 { 1.0 } else { ratio(u64::from(other.nr_accesses), samples).min(1.0) };
                    let (most, least) = (ratio(common, 1), ratio(page, 1));
                    again = again.plus(Bounds { low: least, middle: (most * share).max(least), high: most });
                }
            }
            for cut in &mut cuts[..reached] {
                cut.cold_bytes = cut.cold_bytes.saturating_add(bytes(region.len()));
                cut.again_bytes = cut.again_bytes.plus(again);
            }
        }
        for cut in &mut cuts {
            cut.hot_low_bytes = total.saturating_sub(cut.cold_bytes);
            cut.hot_high_bytes = cut.hot_low_bytes.max(total_now.saturating_sub(unused(cut)));
        }
        Step { duration_ns: after.time_ns - before.time_ns, cuts, total_bytes: total.max(total_now) }
    }
}

/// Least memory that stayed idle.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a part of a size is one")]
fn unused(cut: &Cut) -> u64 {
    cut.cold_bytes.saturating_sub(cut.again_bytes.high as u64)
}

/// Two steps in a row as one. Ages that only the later step reaches are taken from it.
fn together(mut one: Step, next: &Step) -> Step {
    one.duration_ns = one.duration_ns.saturating_add(next.duration_ns);
    one.total_bytes = one.total_bytes.max(next.total_bytes);
    one.cuts.truncate(next.cuts.len());
    for (cut, other) in one.cuts.iter_mut().zip(&next.cuts) {
        cut.cold_bytes = cut.cold_bytes.min(other.cold_bytes);
        cut.hot_low_bytes = cut.hot_low_bytes.min(other.hot_low_bytes);
        cut.hot_high_bytes = cut.hot_high_bytes.max(other.hot_high_bytes);
        cut.again_bytes = cut.again_bytes.plus(other.again_bytes);
    }
    one
}

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_trace::region::{Intervals, Region};

    fn snapshot(time_ns: u64, regions: &[(u64, u64, u32, u32)]) -> Snapshot {
        let region =
            |&(start, end, nr_accesses, age)| Region { start, end, nr_accesses, age: Some(age), ..Region::default() };
        let regions = regions.iter().map(region).collect();
        Snapshot {
            time_ns,
            duration_ns: Some(100),
            intervals: Intervals::new(10, 100, 100),
            regions,
            ..Snapshot::default()
        }
    }

    /// Of a region idle for two aggregations a half is then found used in 5 of 10 samples: between a page and all of it.
    #[test]
    fn use_of_idle_regions_has_bounds() {
        let mib = 1 << 20;
        let mut walk = Walk { unit: 1, ..Walk::default() };
        walk.push(&snapshot(100, &[(0, mib, 10, 0)]));
        walk.push(&snapshot(300, &[(0, mib, 10, 3), (mib, 3 * mib, 0, 2)]));
        walk.push(&snapshot(400, &[(0, mib, 10, 4), (mib, 2 * mib, 5, 0), (2 * mib, 3 * mib, 0, 3)]));
        let step = walk.steps.last().unwrap();
        assert_eq!((step.duration_ns, step.total_bytes, step.cuts.len()), (100, 3 * mib, 2));
        for cut in &step.cuts {
            assert_eq!((cut.cold_bytes, cut.hot_low_bytes, cut.hot_high_bytes), (2 * mib, mib, 2 * mib));
            assert_eq!(cut.again_bytes, Bounds { low: 4096.0, middle: 524_288.0, high: 1_048_576.0 });
        }
    }

    /// Physical memory is no program's.
    #[test]
    fn records_of_physical_memory_are_refused() {
        use isotherm_trace::region::{RecordMeta, RegionWriter};
        let folder = tempfile::tempdir().unwrap();
        for (operations, is_refused) in [("paddr", true), ("vaddr", false)] {
            let path = folder.path().join(operations);
            let mut writer = RegionWriter::create(&path, RecordMeta::single(operations, "all")).unwrap();
            for time in 1..=4 {
                writer.push(&snapshot(time * 100, &[(0, 1 << 20, 0, 2), (1 << 20, 2 << 20, 5, 0)])).unwrap();
            }
            writer.finish().unwrap();
            let observed = observe(&mut RegionStore::open(&path).unwrap());
            assert_eq!(observed.err().is_some_and(|error| error.to_string().contains("physical memory")), is_refused);
        }
    }

    #[test]
    fn long_records_keep_few_steps() {
        let mut walk = Walk { unit: 1, ..Walk::default() };
        for number in 0..3 * STEPS_MAX as u64 {
            walk.push(&snapshot(100 * (number + 1), &[(0, 8192, 1, 0)]));
        }
        assert!(walk.steps.len() <= STEPS_MAX, "{}", walk.steps.len());
        let pending_ns = walk.pending.as_ref().map_or(0, |(step, _)| step.duration_ns);
        let kept_ns: u64 = walk.steps.iter().map(|step| step.duration_ns).sum();
        assert_eq!(kept_ns + pending_ns, 100 * (3 * STEPS_MAX as u64 - 1));
    }
}
