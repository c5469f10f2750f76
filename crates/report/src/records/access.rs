//! A listing of regions as in the record.

use std::cmp::Reverse;

use isotherm_trace::TraceError;
use isotherm_trace::region::RegionStore;

use super::{Area, Moment, Survey, no_ages, no_intervals};
use crate::{Cell, Column, Table, Unit};

/// Sort order of regions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SortKey {
    /// Lowest address first.
    #[default]
    Address,
    /// Largest first.
    Size,
    /// Most often accessed first.
    Rate,
    /// Longest unchanged first.
    Age,
    /// Hottest first: [`Area::temperature`].
    Temperature,
}

impl SortKey {
    /// Whether the selected part of the record has the sort key.
    ///
    /// # Errors
    /// It does not.
    pub fn check(self, store: &RegionStore, survey: &Survey) -> Result<(), TraceError> {
        match self {
            Self::Age | Self::Temperature if survey.regions_without_age > 0 => Err(no_ages(store, "this order")),
            Self::Temperature if survey.snapshots_without_intervals > 0 => Err(no_intervals(store, "this order")),
            _ => Ok(()),
        }
    }

    /// Sorts; regions that are equal stay in order of addresses.
    pub fn sort(self, areas: &mut [Area]) {
        match self {
            Self::Address => areas.sort_by_key(|area| area.start),
            Self::Size => areas.sort_by_key(|area| Reverse(area.size_bytes())),
            Self::Rate => areas.sort_by_key(|area| Reverse(area.nr_accesses)),
            Self::Age => areas.sort_by_key(|area| Reverse(area.age)),
            Self::Temperature => areas.sort_by(|a, b| temperature(b).total_cmp(&temperature(a))),
        }
    }
}

pub(crate) fn temperature(area: &Area) -> f64 {
    area.temperature().unwrap_or(f64::NEG_INFINITY)
}

/// Columns for people: counts say less than rates, and what passed filters is 0 in a record without a scheme.
fn shown(moment: &Moment) -> Vec<&'static str> {
    let count = if moment.nr_accesses_max.is_some() { "access rate" } else { "accesses" };
    let has_filters = moment.areas.iter().any(|area| area.filter_passed_bytes > 0);
    let passed = has_filters.then_some("passed filters");
    ["start", "end", "size", count, "age", "temperature"].into_iter().chain(passed).collect()
}

/// The regions of a snapshot for people; at most `limit`.
pub fn access_table(moment: &Moment, limit: usize) -> Table {
    let mut table = access_csv(moment, limit).only(&shown(moment));
    let total: u64 = moment.areas.iter().map(Area::size_bytes).fold(0, u64::saturating_add);
    let nr = moment.areas.len();
    let cut = if nr > limit { format!(", {limit} shown") } else { String::new() };
    table.title = format!(
        "{} at {}: {nr} regions{cut}, {} in all",
        moment.target,
        Unit::Ns.approx(moment.time_ns as f64),
        Unit::Bytes.approx(total as f64)
    );
    table
}

/// The table with all known columns.
pub fn access_csv(moment: &Moment, limit: usize) -> Table {
    let mut table = Table::new(
        "access",
        vec![
            Column::number("time", Unit::Ns),
            Column::text("target"),
            Column::number("start", Unit::Address),
            Column::number("end", Unit::Address),
            Column::number("size", Unit::Bytes),
            Column::number("accesses", Unit::Count),
            Column::number("access rate", Unit::Ppm),
            Column::number("age aggregations", Unit::Count),
            Column::number("age", Unit::Ns),
            Column::number("temperature", Unit::Count),
            Column::number("level", Unit::Count),
            Column::number("passed filters", Unit::Bytes),
        ],
    );
    for area in moment.areas.iter().take(limit) {
        table.push(vec![
            moment.time_ns.into(),
            moment.target.clone().into(),
            area.start.into(),
            area.end.into(),
            area.size_bytes().into(),
            area.nr_accesses.into(),
            area.rate_ppm.into(),
            area.age.into(),
            area.age_ns.into(),
            area.temperature().map(|heat| Cell::Float((heat * 10.0).round() / 10.0)).unwrap_or(Cell::Missing),
            Cell::Int(u64::from(area.level)),
            area.filter_passed_bytes.into(),
        ]);
    }
    table
}
