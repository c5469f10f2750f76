//! The state of memory at one moment: the snapshot of each target that was current then.

use isotherm_trace::TraceError;
use isotherm_trace::region::{RegionStore, Snapshot};
use serde::Serialize;

use super::{Survey, lacks, rate_ppm, target_name, unit_bytes};

/// The selected moment.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum At {
    /// The last snapshot of each target.
    #[default]
    Last,
    /// The last snapshot of each target that ended at this time or before, from the record's first moment.
    Time(u64),
    /// Every snapshot.
    All,
}

/// One snapshot in base units.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Moment {
    /// End of the snapshot, from the record's first moment.
    pub time_ns: u64,
    /// Name of the target.
    pub target: String,
    /// Length of an aggregation, the unit of ages, if known.
    pub aggregation_ns: Option<u64>,
    /// Samples of an aggregation, the maximum of accesses, if known.
    pub nr_accesses_max: Option<u64>,
    /// Areas by address.
    pub areas: Vec<Area>,
}

/// A region, or several similar neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Area {
    /// First byte.
    pub start: u64,
    /// Byte after the last.
    pub end: u64,
    /// Number of samples that found it accessed.
    pub nr_accesses: u64,
    /// The same out of a million; `None` without intervals.
    pub rate_ppm: Option<u64>,
    /// Aggregations without a change; `None` where the record has no ages.
    pub age: Option<u64>,
    /// The same as time; `None` without ages or intervals.
    pub age_ns: Option<u64>,
    /// Page-table level at which it was checked last.
    pub level: u8,
    /// Bytes that passed the filters of the scheme that it was tried by; 0 without a scheme.
    pub filter_passed_bytes: u64,
}

impl Area {
    /// Length of the area.
    pub fn size_bytes(&self) -> u64 {
        self.end.saturating_sub(self.start)
    }

    /// Access temperature: percent of checks that found an access plus seconds of age, negative where none did. So
    /// memory that has long been hot comes first and memory that has long been cold last.
    pub fn temperature(&self) -> Option<f64> {
        let heat = self.rate_ppm? as f64 / 1e4 + self.age_ns? as f64 / 1e9;
        Some(if self.nr_accesses == 0 { -heat } else { heat })
    }
}

impl Moment {
    fn of(survey: &Survey, snapshot: &Snapshot, (name, unit): &(String, u64)) -> Self {
        let aggregation_ns = snapshot.intervals.aggregation_ns;
        let areas = snapshot.regions.iter().map(|region| Area {
            start: region.start.saturating_mul(*unit),
            end: region.end.saturating_mul(*unit),
            nr_accesses: u64::from(region.nr_accesses),
            rate_ppm: rate_ppm(snapshot, region.nr_accesses),
            age: region.age.map(u64::from),
            age_ns: region.age.zip(aggregation_ns).map(|(age, each_ns)| u64::from(age).saturating_mul(each_ns)),
            level: region.level,
            filter_passed_bytes: region.filter_passed_bytes,
        });
        Self {
            time_ns: survey.time(snapshot.time_ns),
            target: name.clone(),
            aggregation_ns,
            nr_accesses_max: snapshot.intervals.max_nr_accesses(),
            areas: areas.collect(),
        }
    }
}

/// Calls `each` with the selected snapshots: of [`At::All`] one after the other as they are read, of others one for each target.
///
/// # Errors
/// There was no record at that time, the record is damaged, or `each` returns an error.
pub fn moments<E: From<TraceError>>(
    store: &mut RegionStore,
    survey: &Survey,
    at: At,
    mut each: impl FnMut(Moment) -> Result<(), E>,
) -> Result<(), E> {
    // The store is borrowed by the loop, so names and units are read before.
    let names: Vec<(String, u64)> =
        survey.targets.iter().map(|&target| (target_name(store, target), unit_bytes(store, target))).collect();
    let index_of = |snapshot: &Snapshot| survey.targets.binary_search(&snapshot.target).unwrap_or(0);
    let until_ns = match at {
        At::All => {
            let mut failure = None;
            survey.for_each(store, |snapshot| {
                if failure.is_none() {
                    failure = each(Moment::of(survey, snapshot, &names[index_of(snapshot)])).err();
                }
                Ok(())
            })?;
            return failure.map_or(Ok(()), Err);
        }
        At::Last => u64::MAX,
        At::Time(time_ns) => time_ns,
    };
    let mut latest: Vec<Option<Snapshot>> = vec![None; survey.targets.len()];
    survey.for_each(store, |snapshot| {
        if survey.time(snapshot.time_ns) <= until_ns {
            latest[index_of(snapshot)].get_or_insert_default().clone_from(snapshot);
        }
        Ok(())
    })?;
    if latest.iter().all(Option::is_none) {
        let approx = |ns: u64| crate::Unit::Ns.approx(ns as f64);
        let (asked, first, last) = (approx(until_ns), approx(survey.start_ns), approx(survey.end_ns));
        return Err(
            lacks(store, format!("nothing had been recorded at {asked}; it goes from {first} to {last}")).into()
        );
    }
    let latest = latest.iter().zip(&names).filter_map(|(snapshot, name)| Some((snapshot.as_ref()?, name)));
    latest.map(|(snapshot, name)| Moment::of(survey, snapshot, name)).try_for_each(each)
}
