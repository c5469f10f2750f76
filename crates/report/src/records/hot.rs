//! The hottest and the coldest ranges at one moment.

use isotherm_trace::TraceError;
use isotherm_trace::region::RegionStore;
use serde::Serialize;

use super::access::temperature;
use super::{Area, At, Moment, Survey, access_csv, moments, no_ages, no_intervals};
use crate::{Table, Unit};

/// Ranges of similar neighbouring regions, hottest first.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HotRanges {
    /// A moment for each target (and each snapshot, if all were asked for); areas are sorted by temperature.
    pub moments: Vec<Moment>,
    /// Regions before neighbours were joined.
    pub regions: u64,
}

/// One pass over the record; memory: one snapshot of each target.
///
/// # Errors
/// When the record has no ages or no intervals, when nothing had been recorded at that time, or when it is damaged.
pub fn hot(store: &mut RegionStore, survey: &Survey, at: At) -> Result<HotRanges, TraceError> {
    if survey.snapshots_without_intervals > 0 {
        return Err(no_intervals(store, "an access temperature"));
    }
    if survey.regions_without_age > 0 {
        return Err(no_ages(store, "an access temperature"));
    }
    let mut found = HotRanges { moments: Vec::new(), regions: 0 };
    moments(store, survey, at, |mut moment| {
        found.regions += moment.areas.len() as u64;
        moment.areas = coalesce(&moment.areas, moment.nr_accesses_max.unwrap_or(1));
        moment.areas.sort_by(|a, b| temperature(b).total_cmp(&temperature(a)));
        found.moments.push(moment);
        Ok::<(), TraceError>(())
    })?;
    Ok(found)
}

/// Joins neighbours whose rates differ by a tenth of the highest at most, as the monitor itself merges, and whose ages are
/// alike: two aggregations or a factor of two apart. Accessed and not accessed are never joined.
fn coalesce(areas: &[Area], nr_accesses_max: u64) -> Vec<Area> {
    let near = (nr_accesses_max / 10).max(1);
    let alike = |a: &Area, b: &Area| {
        let (old, young) = (a.age.max(b.age).unwrap_or(0), a.age.min(b.age).unwrap_or(0));
        a.end == b.start
            && (a.nr_accesses == 0) == (b.nr_accesses == 0)
            && a.nr_accesses.abs_diff(b.nr_accesses) <= near
            && (old - young <= 2 || old <= young.saturating_mul(2))
    };
    areas.chunk_by(alike).map(mean).collect()
}

/// One area in place of several neighbours: means by size, cut to whole numbers.
fn mean(areas: &[Area]) -> Area {
    let size: u128 = areas.iter().map(|area| u128::from(area.size_bytes())).sum();
    let weighted = |value: fn(&Area) -> Option<u64>| -> Option<u64> {
        let sum: Option<u128> =
            areas.iter().map(|area| Some(u128::from(value(area)?) * u128::from(area.size_bytes()))).sum();
        u64::try_from(sum? / size.max(1)).ok()
    };
    Area {
        start: areas[0].start,
        end: areas[areas.len() - 1].end,
        // The mean of accessed areas stays above zero, which would mean no access.
        nr_accesses: weighted(|area| Some(area.nr_accesses)).unwrap_or(0).max(u64::from(areas[0].nr_accesses > 0)),
        rate_ppm: weighted(|area| area.rate_ppm),
        age: weighted(|area| area.age),
        age_ns: weighted(|area| area.age_ns),
        level: areas.iter().map(|area| area.level).max().unwrap_or(0),
        filter_passed_bytes: areas.iter().map(|area| area.filter_passed_bytes).fold(0, u64::saturating_add),
    }
}

/// For each target the hottest ranges, then the coldest; at most `limit` of each.
pub fn hot_tables(hot: &HotRanges, limit: usize) -> Vec<Table> {
    let mut tables = Vec::new();
    for moment in &hot.moments {
        let when = format!("of {} at {}", moment.target, Unit::Ns.approx(moment.time_ns as f64));
        let (warm, cold): (Vec<Area>, Vec<Area>) = moment.areas.iter().partition(|area| area.nr_accesses > 0);
        for (name, mut areas, empty) in
            [("hottest", warm, "nothing was found accessed"), ("coldest", cold, "everything was found accessed")]
        {
            if name == "coldest" {
                areas.reverse();
            }
            let nr = areas.len();
            let of = Moment { areas, ..moment.clone() };
            let mut table = access_csv(&of, limit).only(&["start", "size", "access rate", "age", "temperature"]);
            let cut = if nr > limit { format!(" ({limit} of {nr})") } else { String::new() };
            table.title = match nr {
                _ if moment.areas.is_empty() => format!("{name} ranges {when}: nothing was monitored"),
                0 => format!("{name} ranges {when}: {empty}"),
                _ => format!("{name} ranges {when}{cut}"),
            };
            tables.push(table);
        }
    }
    tables
}

/// All ranges, hottest first.
pub fn hot_csv(hot: &HotRanges) -> Table {
    let mut table = access_csv(
        &Moment { areas: Vec::new(), time_ns: 0, target: String::new(), aggregation_ns: None, nr_accesses_max: None },
        0,
    );
    table.title = "hot".into();
    for moment in &hot.moments {
        table.rows.extend(access_csv(moment, usize::MAX).rows);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;

    fn area(start: u64, end: u64, nr_accesses: u64, age: u64) -> Area {
        Area {
            start,
            end,
            nr_accesses,
            rate_ppm: Some(nr_accesses * 50_000),
            age: Some(age),
            age_ns: Some(age * 100_000_000),
            level: 0,
            filter_passed_bytes: 0,
        }
    }

    #[test]
    fn neighbours_alike_become_one() {
        // 18 and 20 of 20 are similar, 0 and 1 are not although close; ages 10 and 30 are not; a gap separates.
        let areas = [
            area(0, 10, 18, 5),
            area(10, 40, 20, 6),
            area(40, 50, 1, 5),
            area(50, 60, 0, 10),
            area(60, 70, 0, 30),
            area(80, 90, 0, 30),
        ];
        let found = coalesce(&areas, 20);
        let ranges: Vec<_> = found.iter().map(|area| (area.start, area.end, area.nr_accesses)).collect();
        assert_eq!(ranges, [(0, 40, 19), (40, 50, 1), (50, 60, 0), (60, 70, 0), (80, 90, 0)]);
        assert_eq!(found[0].rate_ppm, Some(975_000), "(18 × 10 + 20 × 30) / 40 = 19.5 of 20");
    }

    #[test]
    fn temperature_is_rate_and_age_and_below_zero_where_cold() {
        assert_eq!(area(0, 1, 20, 50).temperature(), Some(105.0));
        assert_eq!(area(0, 1, 0, 50).temperature(), Some(-5.0));
        assert_eq!(Area { age_ns: None, ..area(0, 1, 1, 1) }.temperature(), None);
    }
}
