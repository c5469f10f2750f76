//! The parts of a damo record around and in its list of snapshots, and their conversion.

use serde::Deserialize;
use serde::de::IgnoredAny;
use serde_json::Value;

use super::quantity::{COUNT, Quantity, RATIO, SIZE, Scalar, TIME, Units};
use crate::region::snapshot::{PROBES_MAX, flaw};
use crate::region::{Intervals, IntervalsGoal, Region, SchemeStats, Snapshot};

/// A record without its snapshots.
#[derive(Debug, Default)]
pub(crate) struct JsonHeader {
    pub(crate) kdamond: u32,
    pub(crate) context: u32,
    pub(crate) intervals: Intervals,
    pub(crate) goal: Option<IntervalsGoal>,
    pub(crate) scheme: Option<u32>,
    pub(crate) target_id: Option<u64>,
    pub(crate) scheme_filters: Vec<Value>,
    pub(crate) data_source: Option<String>,
    pub(crate) has_snapshots: bool,
}

#[derive(Debug, Deserialize)]
pub(crate) struct JsonIntervals {
    sample_us: Scalar,
    aggr_us: Scalar,
    #[serde(default)]
    ops_update_us: Scalar,
    intervals_goal: Option<JsonGoal>,
}

#[derive(Debug, Deserialize)]
struct JsonGoal {
    #[serde(default)]
    access_bp: Scalar,
    #[serde(default)]
    aggrs: Scalar,
    #[serde(default)]
    min_sample_us: Scalar,
    #[serde(default)]
    max_sample_us: Scalar,
}

impl JsonIntervals {
    pub(crate) fn convert(&self) -> Result<(Intervals, Option<IntervalsGoal>), String> {
        let time = |name: &str, value: &Scalar| -> Result<Option<u64>, String> {
            let value = value.value(TIME, 1000).map_err(|what| format!("{name}: {what}"))?;
            match value {
                Some(Quantity { value: 0 | u64::MAX, .. }) => {
                    Err(format!("{name} is 0 or `max`; an interval must be longer than nothing and end"))
                }
                other => Ok(other.map(|time| time.value)),
            }
        };
        let intervals = Intervals {
            sample_ns: time("sample_us", &self.sample_us)?,
            aggregation_ns: time("aggr_us", &self.aggr_us)?,
            // DAMON allows 0 here: mappings are checked in every tick.
            update_ns: self.ops_update_us.value(TIME, 1000)?.map(|time| time.value).filter(|&time| time > 0),
        };
        let Some(goal) = &self.intervals_goal else { return Ok((intervals, None)) };
        let number = |value: &Scalar, units: Units, plain| -> Result<u64, String> {
            let value = value.value(units, plain).map_err(|what| format!("intervals_goal: {what}"))?;
            Ok(value.map_or(0, |value| value.value))
        };
        let goal = IntervalsGoal {
            access_ppm: number(&goal.access_bp, RATIO, 100)?,
            nr_aggregations: number(&goal.aggrs, COUNT, 1)?,
            min_sample_ns: number(&goal.min_sample_us, TIME, 1000)?,
            max_sample_ns: number(&goal.max_sample_us, TIME, 1000)?,
        };
        Ok((intervals, (goal != IntervalsGoal::default()).then_some(goal)))
    }
}

#[derive(Debug, Deserialize)]
pub(crate) struct JsonSnapshot {
    #[serde(default)]
    start_time: Scalar,
    end_time: Scalar,
    regions: Vec<JsonRegion>,
    damos_stats: Option<JsonStats>,
    #[serde(default)]
    sample_interval_us: Scalar,
    /// Our own key, used if auto-tuning changed the interval; damo ignores it.
    #[serde(default)]
    aggr_interval_us: Scalar,
    /// Our own key too.
    #[serde(default)]
    ops_update_interval_us: Scalar,
}

#[derive(Debug, Deserialize)]
struct JsonRegion {
    start: Scalar,
    end: Scalar,
    nr_accesses: Option<JsonAccesses>,
    age: Option<JsonAge>,
    probe_hits: Option<Vec<Scalar>>,
    #[serde(default)]
    sz_filter_passed: Scalar,
    /// Present in damo's regions of a target's configuration.
    #[serde(default, rename = "scheme")]
    _scheme: Option<IgnoredAny>,
}

#[derive(Debug, Deserialize)]
struct JsonAccesses {
    #[serde(default)]
    samples: Scalar,
    #[serde(default)]
    percent: Scalar,
}

#[derive(Debug, Deserialize)]
struct JsonAge {
    #[serde(default)]
    usec: Scalar,
    #[serde(default)]
    aggr_intervals: Scalar,
}

#[derive(Debug, Deserialize)]
struct JsonStats {
    #[serde(default)]
    nr_tried: Scalar,
    #[serde(default)]
    sz_tried: Scalar,
    #[serde(default)]
    nr_applied: Scalar,
    #[serde(default)]
    sz_applied: Scalar,
    #[serde(default)]
    sz_ops_filter_passed: Scalar,
    #[serde(default)]
    qt_exceeds: Scalar,
    #[serde(default)]
    nr_snapshots: Scalar,
    #[serde(default)]
    max_nr_snapshots: Scalar,
}

/// Counts of changes during the conversion.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Tally {
    pub(crate) no_ages: u64,
    pub(crate) rounded: u64,
    pub(crate) converted: u64,
    pub(crate) sorted: u64,
    pub(crate) probes_left_out: u64,
}

impl JsonSnapshot {
    /// Fills `snapshot`; `false` for the placeholder that damo appends to records of one snapshot. `defaults`: intervals of
    /// the record.
    pub(crate) fn convert(
        self,
        defaults: Intervals,
        tally: &mut Tally,
        snapshot: &mut Snapshot,
    ) -> Result<bool, String> {
        if matches!(&self.regions[..], [only] if only.is_stand_in()) {
            return Ok(false);
        }
        let mut read = Read { tally };
        let end = read.number("end_time", &self.end_time, TIME, 1)?.ok_or("end_time is missing or null")?;
        let start = read.number("start_time", &self.start_time, TIME, 1)?;
        if start.is_some_and(|start| start > end) {
            return Err("start_time is after end_time".to_owned());
        }
        snapshot.time_ns = end;
        snapshot.duration_ns = start.map(|start| end - start).filter(|&duration| duration > 0);
        let sample_ns = read.number("sample_interval_us", &self.sample_interval_us, TIME, 1000)?;
        let aggregation_ns = read.number("aggr_interval_us", &self.aggr_interval_us, TIME, 1000)?;
        let update_ns = read.number("ops_update_interval_us", &self.ops_update_interval_us, TIME, 1000)?;
        snapshot.intervals = Intervals {
            sample_ns: own(sample_ns, defaults.sample_ns),
            aggregation_ns: own(aggregation_ns, defaults.aggregation_ns),
            update_ns: own(update_ns, defaults.update_ns),
        };
        snapshot.stats = self.damos_stats.as_ref().map(|stats| read.stats(stats)).transpose()?;
        snapshot.regions.clear();
        for (index, region) in self.regions.iter().enumerate() {
            let region = read.region(region, snapshot.intervals).map_err(|what| format!("region {index}: {what}"))?;
            snapshot.regions.push(region);
        }
        if !snapshot.regions.is_sorted_by_key(|region| region.start) {
            snapshot.regions.sort_by_key(|region| region.start);
            read.tally.sorted += 1;
        }
        flaw(&snapshot.regions).map_or(Ok(true), Err)
    }
}

/// A snapshot's own interval, or else the record's; an own interval of 0 means unknown.
fn own(own: Option<u64>, of_record: Option<u64>) -> Option<u64> {
    own.map_or(of_record, |time| Some(time).filter(|&time| time > 0))
}

impl JsonRegion {
    /// damo's mark for the end of an only snapshot: a region from 0 to 0 with -1 accesses.
    fn is_stand_in(&self) -> bool {
        let minus_one = |accesses: &JsonAccesses| accesses.samples == Scalar::Text("-1".to_owned());
        let zero = Scalar::Whole(0);
        self.start == zero && self.end == zero && self.nr_accesses.as_ref().is_some_and(minus_one)
    }
}

struct Read<'a> {
    tally: &'a mut Tally,
}

impl Read<'_> {
    fn number(&mut self, name: &str, value: &Scalar, units: Units, plain: u64) -> Result<Option<u64>, String> {
        let value = value.value(units, plain).map_err(|what| format!("{name}: {what}"))?;
        self.tally.rounded += u64::from(value.is_some_and(|value| !value.exact));
        Ok(value.map(|value| value.value))
    }

    fn stats(&mut self, stats: &JsonStats) -> Result<SchemeStats, String> {
        let mut number = |name: &str, value: &Scalar, units: Units| self.number(name, value, units, 1);
        Ok(SchemeStats {
            nr_tried: number("nr_tried", &stats.nr_tried, COUNT)?.unwrap_or(0),
            tried_bytes: number("sz_tried", &stats.sz_tried, SIZE)?.unwrap_or(0),
            nr_applied: number("nr_applied", &stats.nr_applied, COUNT)?.unwrap_or(0),
            applied_bytes: number("sz_applied", &stats.sz_applied, SIZE)?.unwrap_or(0),
            filter_passed_bytes: number("sz_ops_filter_passed", &stats.sz_ops_filter_passed, SIZE)?.unwrap_or(0),
            nr_quota_exceeded: number("qt_exceeds", &stats.qt_exceeds, COUNT)?.unwrap_or(0),
            nr_snapshots: number("nr_snapshots", &stats.nr_snapshots, COUNT)?.unwrap_or(0),
            max_nr_snapshots: number("max_nr_snapshots", &stats.max_nr_snapshots, COUNT)?.unwrap_or(0),
        })
    }

    fn region(&mut self, region: &JsonRegion, intervals: Intervals) -> Result<Region, String> {
        let start = self.number("start", &region.start, SIZE, 1)?.ok_or("start is null")?;
        let end = self.number("end", &region.end, SIZE, 1)?.ok_or("end is null")?;
        let accesses = region.nr_accesses.as_ref().ok_or("it has no nr_accesses")?;
        let mut probe_hits = [0; PROBES_MAX];
        let hits = region.probe_hits.as_deref().unwrap_or_default();
        self.tally.probes_left_out += u64::from(hits.len() > PROBES_MAX);
        for (place, hits) in probe_hits.iter_mut().zip(hits) {
            let hits = self.number("probe_hits", hits, COUNT, 1)?.unwrap_or(0);
            *place = u32::try_from(hits).map_err(|_| "probe_hits above 2^32")?;
        }
        Ok(Region {
            start,
            end,
            nr_accesses: self.nr_accesses(accesses, intervals)?,
            age: self.age(region.age.as_ref(), intervals)?,
            level: 0,
            probe_hits,
            filter_passed_bytes: self.number("sz_filter_passed", &region.sz_filter_passed, SIZE, 1)?.unwrap_or(0),
        })
    }

    fn nr_accesses(&mut self, accesses: &JsonAccesses, intervals: Intervals) -> Result<u32, String> {
        let count = match self.number("nr_accesses.samples", &accesses.samples, COUNT, 1)? {
            Some(samples) => samples,
            None => {
                let ppm = self.number("nr_accesses.percent", &accesses.percent, RATIO, 10_000)?;
                let ppm = ppm.ok_or("nr_accesses has neither samples nor percent")?;
                let most = intervals.max_nr_accesses().ok_or(
                    "nr_accesses is in percent, and the record has no intervals to turn that into samples; give the \
                     sampling and aggregation interval",
                )?;
                self.tally.converted += 1;
                u64::try_from(u128::from(ppm) * u128::from(most) / 1_000_000).unwrap_or(u64::MAX)
            }
        };
        u32::try_from(count).map_err(|_| format!("nr_accesses is {count}; at most 2^32 - 1 samples are allowed"))
    }

    fn age(&mut self, age: Option<&JsonAge>, intervals: Intervals) -> Result<Option<u32>, String> {
        let aggregations = match age {
            None => None,
            Some(age) => match self.number("age.aggr_intervals", &age.aggr_intervals, COUNT, 1)? {
                Some(aggregations) => Some(aggregations),
                None => self.age_of_time(age, intervals)?,
            },
        };
        self.tally.no_ages += u64::from(aggregations.is_none());
        // The kernel's ages have 32 bits; a larger one can only be damo's `max`.
        Ok(aggregations.map(|age| u32::try_from(age).unwrap_or(u32::MAX)))
    }

    fn age_of_time(&mut self, age: &JsonAge, intervals: Intervals) -> Result<Option<u64>, String> {
        let Some(age_ns) = self.number("age.usec", &age.usec, TIME, 1000)? else { return Ok(None) };
        let aggregation_ns = intervals.aggregation_ns.filter(|&aggregation| aggregation > 0).ok_or(
            "age is in microseconds, and the record has no aggregation interval to turn that into a count; give the \
             sampling and aggregation interval",
        )?;
        self.tally.converted += 1;
        self.tally.rounded += u64::from(age_ns % aggregation_ns != 0);
        Ok(Some(age_ns / aggregation_ns))
    }
}
