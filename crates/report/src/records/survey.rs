//! Selects a part of a record, and summarises it: one pass before any other.

use isotherm_trace::TraceError;
use isotherm_trace::region::{RegionStore, Snapshot};

use super::lacks;

/// The selected part of a record.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Selection {
    /// Snapshots that end later than this, counted from the record's first moment.
    pub from_ns: Option<u64>,
    /// Snapshots that end no later than this.
    pub to_ns: Option<u64>,
    /// Targets by number or name; empty: all except targets of schemes, or all if there are no others.
    pub targets: Vec<String>,
}

/// A selection found in a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Survey {
    /// First moment of the whole record on its own clock: 0 in all results.
    pub origin_ns: u64,
    /// Begin of the first snapshot selected, from the origin.
    pub start_ns: u64,
    /// End of the last one.
    pub end_ns: u64,
    /// Numbers of the targets selected, ascending.
    pub targets: Vec<u32>,
    /// Snapshots selected.
    pub snapshots: u64,
    pub regions: u64,
    /// Regions among them without an age.
    pub regions_without_age: u64,
    /// Snapshots without a sampling interval.
    pub snapshots_without_intervals: u64,
    /// Regions that were found accessed more often than the intervals allow.
    pub regions_above_max: u64,
    /// Most regions of a snapshot.
    pub regions_max: u64,
    /// The longest aggregation.
    pub aggregation_ns_max: u64,
    from_ns: u64,
    to_ns: u64,
}

impl Survey {
    /// Reads the record once.
    ///
    /// # Errors
    /// When a target does not exist, when nothing is selected, or when the record is damaged.
    pub fn of(store: &mut RegionStore, selection: &Selection) -> Result<Self, TraceError> {
        if let (Some(from_ns), Some(to_ns)) = (selection.from_ns, selection.to_ns)
            && from_ns >= to_ns
        {
            let what = format!("is {from_ns} ns, which is not before --to ({to_ns} ns)");
            return Err(TraceError::Option { option: "from".to_owned(), what });
        }
        let targets = targets_of(store, &selection.targets)?;
        let (mut origin_ns, mut whole_end_ns) = (u64::MAX, 0);
        store.for_each(|snapshot| {
            origin_ns = origin_ns.min(snapshot.start_ns());
            whole_end_ns = whole_end_ns.max(snapshot.time_ns);
            Ok::<(), TraceError>(())
        })?;
        let mut survey = Self {
            origin_ns: if origin_ns == u64::MAX { 0 } else { origin_ns },
            start_ns: u64::MAX,
            end_ns: 0,
            targets,
            snapshots: 0,
            regions: 0,
            regions_without_age: 0,
            snapshots_without_intervals: 0,
            regions_above_max: 0,
            regions_max: 0,
            aggregation_ns_max: 0,
            from_ns: selection.from_ns.unwrap_or(0),
            to_ns: selection.to_ns.unwrap_or(u64::MAX),
        };
        let chosen = survey.clone();
        chosen.for_each(store, |snapshot| {
            survey.add(snapshot);
            Ok(())
        })?;
        if survey.snapshots == 0 {
            let until_ns = whole_end_ns.saturating_sub(survey.origin_ns);
            let whole = crate::Unit::Ns.approx(until_ns as f64);
            let what = if selection == &Selection::default() {
                "it holds no snapshots".to_owned()
            } else {
                format!(
                    "no snapshot of what was asked for; the record has {} from 0 to {whole}",
                    store.meta().snapshots
                )
            };
            return Err(lacks(store, what));
        }
        Ok(survey)
    }

    fn add(&mut self, snapshot: &Snapshot) {
        self.start_ns = self.start_ns.min(self.time(snapshot.start_ns()));
        self.end_ns = self.end_ns.max(self.time(snapshot.time_ns));
        self.snapshots += 1;
        self.regions += snapshot.regions.len() as u64;
        self.regions_max = self.regions_max.max(snapshot.regions.len() as u64);
        self.regions_without_age += snapshot.regions.iter().filter(|region| region.age.is_none()).count() as u64;
        let aggregation_ns = snapshot.duration_ns.or(snapshot.intervals.aggregation_ns);
        self.aggregation_ns_max = self.aggregation_ns_max.max(aggregation_ns.unwrap_or(0));
        match snapshot.intervals.max_nr_accesses() {
            Some(max) => {
                let above = snapshot.regions.iter().filter(|region| u64::from(region.nr_accesses) > max);
                self.regions_above_max += above.count() as u64;
            }
            None => self.snapshots_without_intervals += 1,
        }
    }

    /// A time of the record's clock, from its first moment.
    pub fn time(&self, record_ns: u64) -> u64 {
        record_ns.saturating_sub(self.origin_ns)
    }

    /// Whether the snapshot is selected.
    fn holds(&self, snapshot: &Snapshot) -> bool {
        let time_ns = self.time(snapshot.time_ns);
        // An end exactly at the left edge belongs to the part before.
        let after = time_ns > self.from_ns || self.from_ns == 0;
        after && time_ns <= self.to_ns && self.targets.binary_search(&snapshot.target).is_ok()
    }

    /// Calls `each` with every selected snapshot, in the order of the file.
    ///
    /// # Errors
    /// The record is damaged, or `each` returns an error.
    pub fn for_each(
        &self,
        store: &mut RegionStore,
        mut each: impl FnMut(&Snapshot) -> Result<(), TraceError>,
    ) -> Result<(), TraceError> {
        store.for_each(|snapshot| if self.holds(snapshot) { each(snapshot) } else { Ok(()) })
    }

    /// Notes on unusual numbers of the part selected.
    pub fn caveats(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if self.regions_above_max > 0 {
            notes.push(format!(
                "{} regions were found accessed more often than the intervals allow; drawn as 100 %",
                self.regions_above_max
            ));
        }
        notes
    }
}

/// The numbers of the targets asked for.
fn targets_of(store: &RegionStore, asked: &[String]) -> Result<Vec<u32>, TraceError> {
    let targets = &store.meta().targets;
    let numbers = || (0u32..).zip(targets);
    if asked.is_empty() {
        let plain: Vec<u32> =
            numbers().filter(|(_, target)| target.scheme.is_none()).map(|(number, _)| number).collect();
        return Ok(if plain.is_empty() { numbers().map(|(number, _)| number).collect() } else { plain });
    }
    let mut found = Vec::new();
    for word in asked {
        let number = word.parse::<u32>().ok().filter(|&number| (number as usize) < targets.len());
        let named = numbers().filter(|(_, target)| target.name == *word).map(|(number, _)| number);
        let before = found.len();
        match number {
            Some(number) => found.push(number),
            None => found.extend(named),
        }
        if found.len() == before {
            let known: Vec<String> = numbers()
                .take(20)
                .map(|(number, _)| format!("{number} ({})", super::target_name(store, number)))
                .collect();
            let what = format!("there is no target `{word}`; the record has {}", known.join(", "));
            return Err(TraceError::Option { option: "target".to_owned(), what });
        }
    }
    found.sort_unstable();
    found.dedup();
    Ok(found)
}
