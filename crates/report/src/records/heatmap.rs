//! How often memory was found accessed, by time and address.

use isotherm_trace::TraceError;
use isotherm_trace::region::{RegionStore, Snapshot};
use serde::Serialize;

use super::bands::{ShownBand, add_border, all, busy, sums};
use super::{Survey, no_intervals, rate_ppm, subject, target_name, unit_bytes};
use crate::{Band, Cell, Column, Heatmap, Measure, Table, Unit};

/// Size of the matrix, and the part of the space to show.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grid {
    /// Columns of time at most; fewer where aggregations are longer.
    pub columns: u32,
    /// Rows of addresses at most.
    pub rows: u32,
    /// Gaps in the busy part of the space that are folded away from this length on.
    pub fold_bytes: u64,
    /// The part of the space that is shown.
    pub shown: Shown,
}

/// The part of the space that a heatmap shows.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Shown {
    /// The hottest memory that together has 99 % of all accesses found.
    #[default]
    Busy,
    /// All that was monitored.
    All,
    /// These ranges, by target and address.
    Bands(Vec<ShownBand>),
}

/// Access rates by time and address.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct RecordHeatmap {
    /// Left edge, from the record's first moment.
    pub start_ns: u64,
    /// Right edge.
    pub end_ns: u64,
    /// Equal columns between the two.
    pub columns: u32,
    /// Bands by target and address; rows lie one after the other, lowest address first.
    pub bands: Vec<ShownBand>,
    /// Share of checks that found an access, the mean over a cell's memory and time, in parts per million; row by row.
    pub rate_ppm: Vec<u64>,
    /// Share of all accesses found that lies outside of the bands, in parts per million.
    pub left_out_ppm: u64,
}

/// Two or three passes over the record; memory: the matrix.
///
/// # Errors
/// When the record has no sampling interval, when the matrix is empty or larger than 2^26 cells, or when the record is damaged.
pub fn heatmap(store: &mut RegionStore, survey: &Survey, grid: &Grid) -> Result<RecordHeatmap, TraceError> {
    if survey.snapshots_without_intervals > 0 {
        return Err(no_intervals(store, "a heatmap by access frequency"));
    }
    let cells = u64::from(grid.columns) * u64::from(grid.rows);
    if cells == 0 || cells > 1 << 26 {
        let what = format!("of {} columns and {} rows; allowed: 1 to 2^26 cells", grid.columns, grid.rows);
        return Err(TraceError::Option { option: "size".to_owned(), what });
    }
    let bands = match &grid.shown {
        Shown::Busy => busy(store, survey, grid.rows, grid.fold_bytes)?,
        Shown::All => all(store, survey, grid.rows, grid.fold_bytes)?,
        Shown::Bands(bands) => bands.clone(),
    };
    let columns = whole_aggregations(survey, grid.columns);
    let mut matrix = Matrix::new(survey, columns, &bands);
    let units: Vec<u64> = survey.targets.iter().map(|&target| unit_bytes(store, target)).collect();
    let mut ends_ns = vec![survey.start_ns; survey.targets.len()];
    let (mut heat, mut shown) = (0u128, 0u128);
    survey.for_each(store, |snapshot| {
        let index = survey.targets.binary_search(&snapshot.target).unwrap_or(0);
        let time_ns = survey.time(snapshot.time_ns);
        // Without a length of its own a snapshot lasts from the one before.
        let start_ns = snapshot.duration_ns.map_or(ends_ns[index], |_| survey.time(snapshot.start_ns()));
        ends_ns[index] = time_ns;
        let (all, inside) = matrix.add(snapshot, (start_ns, time_ns), units[index]);
        heat += all;
        shown += inside;
        Ok(())
    })?;
    let left_out_ppm = u64::try_from(heat.saturating_sub(shown) * 1_000_000 / heat.max(1)).unwrap_or(u64::MAX);
    Ok(RecordHeatmap {
        start_ns: survey.start_ns,
        end_ns: survey.end_ns,
        columns,
        rate_ppm: matrix.rates(),
        bands,
        left_out_ppm,
    })
}

/// The most columns, up to `most`, that are no shorter than an aggregation: others would show stripes that the data do not
/// have.
fn whole_aggregations(survey: &Survey, most: u32) -> u32 {
    let length_ns = survey.end_ns.saturating_sub(survey.start_ns);
    let Some(nr) = length_ns.checked_div(survey.aggregation_ns_max) else { return most };
    let each = nr.div_ceil(u64::from(most)).max(1);
    u32::try_from(nr / each).unwrap_or(most).clamp(1, most)
}

/// The matrix as differences between neighbouring rows: a region costs the same, however many rows it covers.
struct Matrix<'a> {
    start_ns: u64,
    length_ns: u64,
    columns: usize,
    bands: &'a [ShownBand],
    /// First difference of each band in a column; the number of all at the end.
    firsts: Vec<usize>,
    /// Column by column: parts per million × microseconds.
    diffs: Vec<i64>,
}

impl<'a> Matrix<'a> {
    fn new(survey: &Survey, columns: u32, bands: &'a [ShownBand]) -> Self {
        let mut firsts = vec![0];
        for band in bands {
            firsts.push(firsts[firsts.len() - 1] + band.rows as usize + 1);
        }
        let (columns, all) = (columns as usize, firsts[bands.len()]);
        let length_ns = survey.end_ns.saturating_sub(survey.start_ns).max(1);
        Self { start_ns: survey.start_ns, length_ns, columns, bands, firsts, diffs: vec![0; columns * all] }
    }

    fn column_of(&self, time_ns: u64) -> usize {
        let at = u128::from(time_ns.saturating_sub(self.start_ns)) * self.columns as u128 / u128::from(self.length_ns);
        usize::try_from(at).unwrap_or(usize::MAX)
    }

    fn column_start_ns(&self, column: usize) -> u64 {
        let offset = u128::from(self.length_ns) * column as u128 / self.columns as u128;
        self.start_ns + u64::try_from(offset).unwrap_or(u64::MAX)
    }

    /// Adds a snapshot; its heat in bytes × parts per million × microseconds, and how much of that is inside the bands.
    fn add(&mut self, snapshot: &Snapshot, (start_ns, end_ns): (u64, u64), unit_bytes: u64) -> (u128, u128) {
        let (mut heat, mut shown) = (0u128, 0u128);
        let lasted_us = end_ns.saturating_sub(start_ns) / 1000;
        let first = self.column_of(start_ns);
        let last = self.column_of(end_ns.saturating_sub(1)).min(self.columns - 1);
        let shares_us: Vec<(usize, u64)> = (first..=last)
            .map(|column| {
                let from_ns = start_ns.max(self.column_start_ns(column));
                (column, end_ns.min(self.column_start_ns(column + 1)).saturating_sub(from_ns) / 1000)
            })
            .collect();
        let all = self.firsts[self.bands.len()];
        for region in snapshot.regions.iter().filter(|region| region.nr_accesses > 0) {
            let rate = rate_ppm(snapshot, region.nr_accesses).unwrap_or(0);
            let (start, end) = (region.start.saturating_mul(unit_bytes), region.end.saturating_mul(unit_bytes));
            let weight = u128::from(rate) * u128::from(lasted_us);
            heat += weight * u128::from(end - start);
            let from = self.bands.partition_point(|band| (band.target, band.end) <= (snapshot.target, start));
            for index in from..self.bands.len() {
                let band = &self.bands[index];
                if band.target != snapshot.target || band.start >= end {
                    break;
                }
                let (low, high) = (start.max(band.start) - band.start, end.min(band.end) - band.start);
                shown += weight * u128::from(high - low);
                for &(column, us) in &shares_us {
                    let weight = i64::try_from(rate.saturating_mul(us)).unwrap_or(i64::MAX);
                    let diffs = &mut self.diffs[column * all..][self.firsts[index]..self.firsts[index + 1]];
                    let length = band.end - band.start;
                    add_border(diffs, low, length, weight);
                    add_border(diffs, high, length, -weight);
                }
            }
        }
        (heat, shown)
    }

    /// The means of all cells, row by row.
    fn rates(&self) -> Vec<u64> {
        let all = self.firsts[self.bands.len()];
        let nr_rows: usize = self.bands.iter().map(|band| band.rows as usize).sum();
        let mut cells = vec![0; nr_rows * self.columns];
        for column in 0..self.columns {
            let column_us = ((self.column_start_ns(column + 1) - self.column_start_ns(column)) / 1000).max(1);
            let diffs = &self.diffs[column * all..(column + 1) * all];
            let rows = self.firsts.windows(2).flat_map(|pair| sums(&diffs[pair[0]..pair[1]]));
            for (row, sum) in rows.enumerate() {
                cells[row * self.columns + column] = sum.unsigned_abs() / column_us;
            }
        }
        cells
    }
}

/// The matrix as a picture.
pub fn heatmap_picture(map: &RecordHeatmap, store: &RegionStore) -> Heatmap {
    let columns = map.columns as usize;
    let column_ms = map.end_ns.saturating_sub(map.start_ns) as f64 / columns.max(1) as f64 / 1e6;
    let mut first = 0;
    let mut bands = Vec::new();
    for band in &map.bands {
        let cells = first..first + band.rows as usize * columns;
        first = cells.end;
        let pages = band.end.saturating_sub(band.start) as f64 / isotherm_units::PAGE_BYTES as f64;
        let row_pages = pages / f64::from(band.rows.max(1));
        let rates = map.rate_ppm.get(cells).unwrap_or_default();
        bands.push(Band {
            space: band.target as usize,
            label: band.label.clone(),
            start: band.start,
            end: band.end,
            rows: band.rows as usize,
            counts: rates
                .iter()
                .map(|rate| crate::unit::saturating_u64(*rate as f64 * row_pages * column_ms))
                .collect(),
        });
    }
    Heatmap {
        title: "Memory found accessed over time".into(),
        subtitle: format!("{} {}", subject(store), how(store)).trim().to_owned(),
        start_ns: map.start_ns,
        end_ns: map.end_ns,
        columns,
        bands,
        measure: Measure::AccessRate,
    }
}

/// Intervals of the monitor, where all contexts agree.
pub(crate) fn how(store: &RegionStore) -> String {
    let contexts = &store.meta().contexts;
    let Some(first) = contexts.first().filter(|first| contexts.iter().all(|one| one.intervals == first.intervals))
    else {
        return String::new();
    };
    let approx = |ns: u64| Unit::Ns.approx(ns as f64);
    match (first.intervals.sample_ns, first.intervals.aggregation_ns) {
        (Some(sample), Some(aggregation)) => {
            format!("(monitored, checks every {}, counted over {})", approx(sample), approx(aggregation))
        }
        _ => String::new(),
    }
}

/// Notes on the parts that the picture leaves out.
pub fn heatmap_caveats(map: &RecordHeatmap) -> Vec<String> {
    left_out(map.left_out_ppm).map(|words| format!("{words} (--all shows it)")).into_iter().collect()
}

/// Share outside of the bands that are shown, as text; `None` if there is none.
pub fn left_out(left_out_ppm: u64) -> Option<String> {
    let share = Unit::Ppm.approx(left_out_ppm as f64);
    (left_out_ppm > 0).then(|| format!("{share} of the accesses found are spread thinly over memory that is not shown"))
}

/// One row a cell that was found accessed.
pub fn heatmap_csv(map: &RecordHeatmap, store: &RegionStore) -> Table {
    let mut table = Table::new(
        "heatmap",
        vec![
            Column::number("time", Unit::Ns),
            Column::number("start", Unit::Address),
            Column::number("size", Unit::Bytes),
            Column::text("target"),
            Column::number("access rate", Unit::Ppm),
        ],
    );
    let columns = (map.columns as usize).max(1);
    let length_ns = u128::from(map.end_ns.saturating_sub(map.start_ns));
    let mut rows = map.rate_ppm.chunks(columns);
    for band in &map.bands {
        let border = |row: u32| {
            let offset = u128::from(band.end - band.start) * u128::from(row) / u128::from(band.rows.max(1));
            band.start + u64::try_from(offset).unwrap_or(u64::MAX)
        };
        for (row, cells) in (0..band.rows).zip(rows.by_ref()) {
            for (column, rate) in cells.iter().enumerate().filter(|(_, rate)| **rate > 0) {
                let offset_ns = u64::try_from(length_ns * column as u128 / columns as u128).unwrap_or(u64::MAX);
                table.push(vec![
                    Cell::Int(map.start_ns + offset_ns),
                    border(row).into(),
                    (border(row + 1) - border(row)).into(),
                    target_name(store, band.target).into(),
                    Cell::Int(*rate),
                ]);
            }
        }
    }
    table
}
