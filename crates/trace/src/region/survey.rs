//! What an exporter must know of a record before it writes the first byte.

use std::collections::BTreeSet;

use super::{Intervals, Region, RegionStore, Snapshot};
use crate::{Result, TraceError};

/// A record read once.
#[derive(Debug, Default)]
pub(crate) struct Survey {
    pub(crate) targets: Vec<TargetSurvey>,
    /// Some region has a page-table level, hits of probes, bytes that passed filters.
    pub(crate) levels: bool,
    pub(crate) probe_hits: bool,
    pub(crate) filter_passed: bool,
    pub(crate) stats: bool,
    pub(crate) intervals: bool,
    pub(crate) empty_snapshots: bool,
    /// Some snapshot does not begin where the one before ended.
    pub(crate) gaps: bool,
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct TargetSurvey {
    /// Its id, unique where the record's own ids are not.
    pub(crate) id: Option<u64>,
    pub(crate) snapshots: u64,
    /// Of the first snapshot.
    pub(crate) intervals: Intervals,
    pub(crate) first_ns: u64,
    pub(crate) first_duration_ns: Option<u64>,
    pub(crate) last_ns: u64,
}

impl Survey {
    pub(crate) fn of(store: &mut RegionStore) -> Result<Self> {
        let mut survey = Self { targets: vec![TargetSurvey::default(); store.meta().targets.len()], ..Self::default() };
        store.for_each(|snapshot| {
            survey.add(snapshot);
            Ok::<(), TraceError>(())
        })?;
        for target in survey.targets.iter().filter(|target| target.snapshots > 0) {
            let mean = (target.last_ns - target.first_ns).checked_div(target.snapshots - 1);
            survey.gaps |= mean.is_some_and(|mean| target.first_duration_ns != Some(mean).filter(|&mean| mean > 0));
        }
        Ok(survey)
    }

    fn add(&mut self, snapshot: &Snapshot) {
        let target = &mut self.targets[snapshot.target as usize];
        if target.snapshots == 0 {
            target.intervals = snapshot.intervals;
            target.first_ns = snapshot.time_ns;
            target.first_duration_ns = snapshot.duration_ns;
        } else {
            let since = Some(snapshot.time_ns - target.last_ns).filter(|&since| since > 0);
            self.gaps |= snapshot.duration_ns != since;
        }
        target.snapshots += 1;
        target.last_ns = snapshot.time_ns;
        self.stats |= snapshot.stats.is_some();
        self.intervals |= snapshot.intervals != Intervals::default();
        self.empty_snapshots |= snapshot.regions.is_empty();
        let any = |has: fn(&Region) -> bool| snapshot.regions.iter().any(has);
        self.levels |= any(|region| region.level != 0);
        self.probe_hits |= any(|region| region.probe_hits.iter().any(|&hits| hits != 0));
        self.filter_passed |= any(|region| region.filter_passed_bytes != 0);
    }

    /// Gives each target the id it is written under; whether ids had to be changed. `with_scheme`: the format tells targets of
    /// different contexts and schemes apart.
    pub(crate) fn number_targets(&mut self, store: &RegionStore, with_scheme: bool) -> bool {
        let meta = store.meta();
        let mut seen = BTreeSet::new();
        let unique = meta.targets.iter().enumerate().all(|(index, target)| {
            let context = &meta.contexts[target.context];
            let filters = serde_json::to_string(&target.scheme_filters).expect("plain data");
            let key = if with_scheme {
                (context.kdamond, context.context, target.scheme, filters, target.id)
            } else {
                (context.kdamond, 0, None, String::new(), Some(target.id.unwrap_or(index as u64)))
            };
            seen.insert(key)
        });
        for (index, (survey, target)) in self.targets.iter_mut().zip(&meta.targets).enumerate() {
            survey.id = if unique { target.id } else { Some(index as u64) };
        }
        !unique
    }
}

/// The same region with addresses that count bytes, as formats have them that do not say what addresses count.
pub(crate) fn in_bytes(store_path: &std::path::Path, region: &Region, unit_bytes: u64) -> Result<(u64, u64)> {
    let ends = region.start.checked_mul(unit_bytes).zip(region.end.checked_mul(unit_bytes));
    ends.ok_or_else(|| TraceError::Unsupported {
        path: store_path.to_owned(),
        what: format!(
            "region {}-{} × {unit_bytes} bytes is beyond 2^64 and cannot be written",
            region.start, region.end
        ),
    })
}
