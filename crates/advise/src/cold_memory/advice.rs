//! Makes advice from steps.

use isotherm_kernel::swap::device::DeviceKind;
use isotherm_units::{Duration, PAGE_BYTES, Ratio};
use serde::Serialize;

use super::StallRange;
use super::step::{Bounds, Observed, Step, ratio};

/// Points of the curve that are reported.
const CURVE_POINTS: u64 = 16;

/// Kind of evidence.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Sizes of generations of the Multi-Gen LRU.
    #[default]
    Generations,
    /// Regions of DAMON, or of our own monitor.
    Regions,
}

/// Goals: limits of refaults and pressure.
#[derive(Clone, Copy, Debug)]
pub struct Goals {
    /// Refaults a second, of pages of 4 KiB.
    pub refaults_per_s: f64,
    /// Share of time in which some task waits for memory (`some` of `memory.pressure`).
    pub pressure_some: Ratio,
    /// Where anonymous pages go.
    pub swap: DeviceKind,
    /// Where files lie.
    pub storage: DeviceKind,
}

impl Default for Goals {
    /// 50 refaults a second and 0.1 % pressure: the goals in the example of a limit in the documentation of the daemon.
    fn default() -> Self {
        let pressure_some = Ratio::from_ppm(1000);
        Self { refaults_per_s: 50.0, pressure_some, swap: DeviceKind::Zram, storage: DeviceKind::Nvme }
    }
}

/// Memory that was idle for an age and longer, over all samples that show this age.
#[derive(Clone, Debug, Serialize)]
pub struct AgeRow {
    /// `all`, `anonymous` or `file`.
    pub kind: &'static str,
    /// Least idle time; the mean over samples.
    pub age_ns: u64,
    /// Cold bytes at the last sample that shows this age.
    pub cold_last_bytes: u64,
    /// Mean over samples.
    pub cold_mean_bytes: u64,
    /// The least of all samples.
    pub cold_min_bytes: u64,
    /// Refaults a second if all of this memory were taken.
    pub refaults_per_s: Bounds,
    /// Pairs of samples behind this row.
    pub steps: u64,
}

/// Predicted refaults at one size of memory.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct CurvePoint {
    /// A constant limit on memory.
    pub memory_bytes: u64,
    /// Refaults a second.
    pub refaults_per_s: Bounds,
}

/// The least limit that the evidence supports.
#[derive(Clone, Copy, Debug, Serialize)]
pub struct Recommendation {
    /// `memory.high`: with high figures, both goals are kept from here on.
    pub high_bytes: u64,
    /// With middle figures, goals are already kept from this size on. It is not recommended: the source cannot support it.
    pub middle_bytes: u64,
    /// Predicted at `high_bytes`, together with refaults seen without it.
    pub refaults_per_s: Bounds,
    /// Share of time, in parts per million, that some task waits for these refaults.
    pub pressure_some_ppm: Bounds,
}

/// Advice on one program's memory.
#[derive(Clone, Debug, Serialize)]
pub struct ColdAdvice {
    /// Source of the evidence.
    pub source: Source,
    /// Samples or snapshots.
    pub looks: u64,
    /// Time from the first to the last sample.
    pub observed_ns: u64,
    /// The most memory in any sample.
    pub memory_peak_bytes: u64,
    /// Least limit with a prediction.
    pub floor_bytes: u64,
    /// Assumed cost of one refault.
    pub stall: StallRange,
    /// Refaults a second that happened while watching; `None`: not counted.
    pub refaults_seen_per_s: Option<f64>,
    /// Share of the time watched, in parts per million, that some task was stalled; `None`: not read.
    pub pressure_seen_ppm: Option<f64>,
    /// Rows by kind, then by age.
    pub ages: Vec<AgeRow>,
    /// Curve from `floor_bytes` to `memory_peak_bytes`.
    pub curve: Vec<CurvePoint>,
    /// Memory that a limit counts although it is on no list (page tables, kernel stacks); part of the recommendation, and of no other
    /// figure. 0 where it was not read.
    pub outside_lists_bytes: u64,
    /// `None`: no limit below the largest memory seen is known to keep the goals.
    pub recommendation: Option<Recommendation>,
    /// Notes for the reader.
    pub notes: Vec<String>,
}

/// The recommendation is an eighth above the memory that must stay: a group that is limited to exactly its used memory has no page to spare
/// while another is brought back, and thrashes (docs/evidence/live.md#advice-without-addresses). A rule of caution, which was not fitted to
/// data.
const ROOM: u64 = 8;

pub(super) fn of(observed: &Observed, goals: Goals) -> ColdAdvice {
    let steps = &observed.steps;
    let peak = steps.iter().map(|step| step.total_bytes).max().unwrap_or(0);
    let floor = steps.iter().map(Step::floor_bytes).max().unwrap_or(0);
    let seconds = ratio(observed.span_ns, 1_000_000_000);
    let seen_per_s = observed.refaults_seen.map(|count| ratio(count, 1) / seconds);
    let seen = seen_per_s.unwrap_or(0.0);
    let rate = |memory: u64| {
        let found = rate(steps, memory)?;
        Some(found.plus(Bounds { low: seen, middle: seen, high: seen }))
    };
    let stall = StallRange::of(goals.swap, goals.storage);
    let points = CURVE_POINTS.min(peak.saturating_sub(floor)).max(1);
    let memory_at = |index: u64| floor + (peak - floor) / points * index;
    let curve = (0..points).map(memory_at).chain([peak]);
    let curve: Vec<CurvePoint> = curve
        .filter_map(|memory_bytes| Some(CurvePoint { memory_bytes, refaults_per_s: rate(memory_bytes)? }))
        .collect();
    let mut notes = observed.notes.clone();
    notes.insert(
        0,
        format!(
            "Watched for {}. Nothing can be said of memory that is used less often than that.",
            Duration::from_ns(observed.span_ns)
        ),
    );
    ColdAdvice {
        source: observed.source,
        looks: observed.looks,
        observed_ns: observed.span_ns,
        memory_peak_bytes: peak,
        floor_bytes: floor,
        stall,
        refaults_seen_per_s: seen_per_s,
        pressure_seen_ppm: observed.pressure_some_ns.map(|ns| ratio(ns, observed.span_ns.max(1)) * 1e6),
        ages: ages(observed),
        curve,
        outside_lists_bytes: observed.outside_bytes,
        recommendation: recommend(steps, peak, observed.outside_bytes, rate, stall, goals),
        notes,
    }
}

/// Refaults a second with `memory` kept over all steps; `None` if a step supports no figure.
fn rate(steps: &[Step], memory: u64) -> Option<Bounds> {
    let mut sum = Bounds::default();
    let mut duration_ns = 0u64;
    for step in steps {
        sum = sum.plus(step.again_bytes(memory)?);
        duration_ns = duration_ns.saturating_add(step.duration_ns);
    }
    let seconds = ratio(duration_ns, 1_000_000_000);
    Some(sum.per(ratio(PAGE_BYTES, 1) * seconds))
}

fn recommend(
    steps: &[Step],
    peak: u64,
    outside: u64,
    rate: impl Fn(u64) -> Option<Bounds>,
    stall: StallRange,
    goals: Goals,
) -> Option<Recommendation> {
    let ppm = |per_s: f64, stall_ns: u64| per_s * ratio(stall_ns, 1000);
    let goal_ppm = ratio(goals.pressure_some.ppm(), 1);
    let keeps_high =
        |bounds: Bounds| bounds.high <= goals.refaults_per_s && ppm(bounds.high, stall.high_ns) <= goal_ppm;
    let keeps_middle =
        |bounds: Bounds| bounds.middle <= goals.refaults_per_s && ppm(bounds.middle, stall.low_ns) <= goal_ppm;
    // High figures change at these sizes only.
    let cuts = steps.iter().flat_map(|step| step.cuts.iter().map(|cut| cut.hot_high_bytes).chain([step.total_bytes]));
    let mut sizes: Vec<u64> = cuts.filter(|&bytes| bytes <= peak).collect();
    sizes.sort_unstable();
    sizes.dedup();
    let least = |keeps: &dyn Fn(Bounds) -> bool| {
        let at = sizes.partition_point(|&bytes| !rate(bytes).is_some_and(keeps));
        sizes.get(at).copied()
    };
    // The evidence does not support a limit at the largest memory seen: between samples there may have been more.
    let room = |bytes: u64| bytes.saturating_add(bytes / ROOM);
    let high_bytes = least(&keeps_high).filter(|&bytes| room(bytes) < peak)?;
    let middle_bytes = least(&keeps_middle)?.min(high_bytes);
    let (high_bytes, middle_bytes) = (room(high_bytes), room(middle_bytes));
    let refaults_per_s = rate(high_bytes)?;
    // A limit also counts memory that is on no list.
    let (high_bytes, middle_bytes) = (high_bytes.saturating_add(outside), middle_bytes.saturating_add(outside));
    let pressure_some_ppm = Bounds {
        low: ppm(refaults_per_s.low, stall.low_ns),
        middle: ppm(refaults_per_s.middle, stall.low_ns),
        high: ppm(refaults_per_s.high, stall.high_ns),
    };
    Some(Recommendation { high_bytes, middle_bytes, refaults_per_s, pressure_some_ppm })
}

/// Rows by index from the youngest cut: samples at regular intervals show the same ages.
fn ages(observed: &Observed) -> Vec<AgeRow> {
    let mut rows = Vec::new();
    let kinds = observed.by_kind.iter().map(|(kind, steps)| (*kind, steps));
    for (kind, steps) in [("all", &observed.steps)].into_iter().chain(kinds) {
        let most = steps.iter().map(|step| step.cuts.len()).max().unwrap_or(0);
        for place in 0..most {
            let shown = || steps.iter().filter_map(|step| Some((step.duration_ns, step.cuts.get(place)?)));
            let count = shown().count() as u64;
            let mean = |of: fn(&super::step::Cut) -> u64| {
                let sum: u128 = shown().map(|(_, cut)| u128::from(of(cut))).sum();
                u64::try_from(sum / u128::from(count.max(1))).unwrap_or(u64::MAX)
            };
            let again = shown().fold(Bounds::default(), |sum, (_, cut)| sum.plus(cut.again_bytes));
            let seconds = ratio(shown().map(|(duration_ns, _)| duration_ns).sum(), 1_000_000_000);
            let age_ns = mean(|cut| cut.age_ns);
            // Memory used in the current interval has no age.
            if age_ns == 0 {
                continue;
            }
            rows.push(AgeRow {
                kind,
                age_ns,
                cold_last_bytes: shown().next_back().map_or(0, |(_, cut)| cut.cold_bytes),
                cold_mean_bytes: mean(|cut| cut.cold_bytes),
                cold_min_bytes: shown().map(|(_, cut)| cut.cold_bytes).min().unwrap_or(0),
                refaults_per_s: again.per(ratio(PAGE_BYTES, 1) * seconds),
                steps: count,
            });
        }
    }
    rows
}
