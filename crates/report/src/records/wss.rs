//! The working set over time and its distribution.

use isotherm_trace::TraceError;
use isotherm_trace::region::{ContextMeta, RegionStore};
use serde::Serialize;

use super::{Survey, subject, unit_bytes};
use crate::{Axis, Cell, Chart, Column, Reference, Series, Table, Unit};

/// Working-set sizes of a record.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecordWss {
    /// Least number of accesses of a region that counts.
    pub accesses_min: u32,
    /// First snapshots left out.
    pub skipped_snapshots: u64,
    /// Points by time.
    pub points: Vec<WssPoint>,
    /// The mean over all points.
    pub mean_bytes: u64,
    /// `(percent, bytes)`: of the sorted sizes the one at index `percent × number / 100`, as damo counts.
    pub percentiles: Vec<WssPercentile>,
}

/// The working set at the end of an aggregation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct WssPoint {
    /// Start of the window, from the record's first moment.
    pub start_ns: u64,
    /// End of the window.
    pub time_ns: u64,
    /// Bytes in regions found accessed, of all targets together.
    pub bytes: u64,
    pub monitored_bytes: u64,
}

/// One point of the distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct WssPercentile {
    /// 0 to 100.
    pub percent: u8,
    /// This share of the snapshots is at most about this large.
    pub bytes: u64,
}

const PERCENTS: [u8; 9] = [0, 1, 10, 25, 50, 75, 90, 99, 100];

/// One pass over the record; memory: some bytes a snapshot. A snapshot's working set is the sum of its regions with
/// `accesses_min` accesses or more, as `damo report wss` prints it (which leaves out the first 20 snapshots by default).
/// Several targets: the sum of the last value of each.
///
/// # Errors
/// No part of the record is left, or it is damaged.
pub fn wss(store: &mut RegionStore, survey: &Survey, accesses_min: u32, skip: u64) -> Result<RecordWss, TraceError> {
    let units: Vec<u64> = survey.targets.iter().map(|&target| unit_bytes(store, target)).collect();
    let contexts: Vec<ContextMeta> =
        survey.targets.iter().map(|&target| store.meta().context_of(target).clone()).collect();
    let mut seen = vec![0u64; survey.targets.len()];
    // (end, target, begin, working set, monitored)
    let mut sizes: Vec<(u64, usize, u64, u64, u64)> = Vec::new();
    survey.for_each(store, |snapshot| {
        let index = survey.targets.binary_search(&snapshot.target).unwrap_or(0);
        seen[index] += 1;
        if seen[index] > skip {
            let mut bytes = 0u64;
            for region in snapshot.regions.iter().filter(|region| region.nr_accesses >= accesses_min) {
                bytes = bytes.saturating_add(contexts[index].used_len(region).saturating_mul(units[index]));
            }
            let monitored = snapshot.total_len().saturating_mul(units[index]);
            sizes.push((survey.time(snapshot.time_ns), index, survey.time(snapshot.start_ns()), bytes, monitored));
        }
        Ok(())
    })?;
    if sizes.is_empty() {
        let what = format!("leaves out all of the {} snapshots", survey.snapshots);
        return Err(TraceError::Option { option: "skip".to_owned(), what });
    }
    sizes.sort_by_key(|&(time_ns, index, ..)| (time_ns, index));
    let mut latest = vec![(0u64, 0u64); survey.targets.len()];
    let mut points = Vec::new();
    for at_once in sizes.chunk_by(|a, b| a.0 == b.0) {
        for &(_, index, _, bytes, monitored) in at_once {
            latest[index] = (bytes, monitored);
        }
        let sum = |part: fn(&(u64, u64)) -> u64| latest.iter().map(part).fold(0, u64::saturating_add);
        points.push(WssPoint {
            start_ns: at_once.iter().map(|size| size.2).min().unwrap_or(0),
            time_ns: at_once[0].0,
            bytes: sum(|sizes| sizes.0),
            monitored_bytes: sum(|sizes| sizes.1),
        });
    }
    let total: u128 = points.iter().map(|point| u128::from(point.bytes)).sum();
    let mean_bytes = u64::try_from(total / points.len() as u128).unwrap_or(u64::MAX);
    Ok(RecordWss { accesses_min, skipped_snapshots: skip, mean_bytes, percentiles: percentiles(&points), points })
}

fn percentiles(points: &[WssPoint]) -> Vec<WssPercentile> {
    let mut sizes: Vec<u64> = points.iter().map(|point| point.bytes).collect();
    sizes.sort_unstable();
    let at = |percent: u8| {
        let index = (sizes.len() * usize::from(percent) / 100).min(sizes.len() - 1);
        WssPercentile { percent, bytes: sizes[index] }
    };
    PERCENTS.into_iter().map(at).collect()
}

/// The working set at the end of each aggregation.
pub fn wss_chart(wss: &RecordWss, store: &RegionStore) -> Chart {
    let mut points: Vec<(f64, f64)> =
        wss.points.iter().map(|point| (point.start_ns as f64, point.bytes as f64)).collect();
    if let Some(last) = wss.points.last() {
        points.push((last.time_ns as f64, last.bytes as f64));
    }
    let largest = wss.percentiles.iter().find(|p| p.percent == 99).filter(|_| wss.points.len() >= 20);
    let references = largest
        .map(|p| Reference::AtY { value: p.bytes as f64, label: "99 % of the snapshots: at most this".to_owned() });
    Chart {
        title: format!("Working set: memory found accessed {}", at_least(wss.accesses_min)),
        subtitle: format!("{} {}", subject(store), super::heatmap::how(store)).trim().to_owned(),
        x: Axis::new("time", Unit::Ns),
        y: Axis::new("memory found accessed", Unit::Bytes),
        series: vec![Series::step("found accessed", points)],
        references: references.into_iter().collect(),
        callouts: Vec::new(),
    }
}

fn at_least(accesses: u32) -> String {
    match accesses {
        0 | 1 => "at least once".to_owned(),
        more => format!("at least {more} times"),
    }
}

/// The working set that this share of the snapshots does not exceed.
pub fn wss_table(wss: &RecordWss) -> Table {
    let columns = vec![Column::text("share of snapshots"), Column::number("working set at most", Unit::Bytes)];
    let mut table = Table::new(format!("working set of {} snapshots", wss.points.len()), columns);
    for percentile in &wss.percentiles {
        let name = match percentile.percent {
            0 => "smallest".to_owned(),
            50 => "50 % (median)".to_owned(),
            100 => "100 % (largest)".to_owned(),
            percent => format!("{percent} %"),
        };
        table.push(vec![name.into(), percentile.bytes.into()]);
    }
    table.push(vec!["mean".into(), wss.mean_bytes.into()]);
    table
}

/// One row a snapshot.
pub fn wss_csv(wss: &RecordWss) -> Table {
    let columns = vec![
        Column::number("start", Unit::Ns),
        Column::number("end", Unit::Ns),
        Column::number("working set", Unit::Bytes),
        Column::number("monitored", Unit::Bytes),
    ];
    let mut table = Table::new("wss", columns);
    for point in &wss.points {
        table.push(vec![
            Cell::Int(point.start_ns),
            Cell::Int(point.time_ns),
            point.bytes.into(),
            point.monitored_bytes.into(),
        ]);
    }
    table
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::records::{At, access_csv, access_table, moments};
    use isotherm_trace::region::{Intervals, RecordMeta, Region, RegionWriter, Snapshot};

    /// Two mappings of 1000 pages: of one 5 % are in use.
    fn store(counts_are_shares: bool, filter_passed_bytes: u64) -> (tempfile::TempDir, RegionStore) {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("r.parquet");
        let mut meta = RecordMeta::single("vaddr", "x");
        meta.contexts[0].counts_are_shares = counts_are_shares;
        let mut writer = RegionWriter::create(&path, meta).unwrap();
        let region = |start, nr_accesses| Region {
            start,
            end: start + 4_096_000,
            nr_accesses,
            age: Some(1),
            filter_passed_bytes,
            ..Region::default()
        };
        for number in 1..=2 {
            let snapshot = Snapshot {
                time_ns: number * 1_000_000_000,
                duration_ns: Some(1_000_000_000),
                intervals: Intervals::new(10_000_000, 1_000_000_000, 1_000_000_000),
                regions: vec![region(1 << 30, 5), region(2 << 30, 0)],
                ..Snapshot::default()
            };
            writer.push(&snapshot).unwrap();
        }
        writer.finish().unwrap();
        (folder, RegionStore::open(&path).unwrap())
    }

    #[test]
    fn of_a_mapping_the_share_in_use_counts() {
        for (counts_are_shares, bytes) in [(true, 204_800), (false, 4_096_000)] {
            let (_folder, mut store) = store(counts_are_shares, 0);
            let survey = Survey::of(&mut store, &crate::records::Selection::default()).unwrap();
            assert_eq!(wss(&mut store, &survey, 1, 0).unwrap().mean_bytes, bytes);
        }
    }

    #[test]
    fn what_passed_filters_is_shown_where_there_are_any() {
        for (passed, is_shown) in [(0, false), (8192, true)] {
            let (_folder, mut store) = store(false, passed);
            let survey = Survey::of(&mut store, &crate::records::Selection::default()).unwrap();
            let mut seen = 0;
            moments(&mut store, &survey, At::All, |moment| {
                seen += 1;
                let columns = access_table(&moment, 9).columns;
                assert_eq!(columns.iter().any(|column| column.name == "passed filters"), is_shown);
                assert!(access_csv(&moment, 9).to_csv().lines().nth(1).unwrap().ends_with(&format!(",{passed}")));
                Ok::<(), TraceError>(())
            })
            .unwrap();
            assert_eq!(seen, 2);
        }
    }
}
