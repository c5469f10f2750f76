//! How much memory has been idle for how long.

use isotherm_trace::TraceError;
use isotherm_trace::region::RegionStore;
use serde::Serialize;

use super::{At, Survey, moments, no_ages, no_intervals};
use crate::{Axis, Cell, Chart, Column, Series, Table, Unit};

/// Lower bounds of the bins of idle times, after the bin of memory in use.
pub const IDLE_BOUNDS_NS: &[u64] = &[
    0,
    100_000_000,
    200_000_000,
    500_000_000,
    1_000_000_000,
    2_000_000_000,
    5_000_000_000,
    10_000_000_000,
    20_000_000_000,
    60_000_000_000,
    120_000_000_000,
    300_000_000_000,
    600_000_000_000,
    1_800_000_000_000,
    3_600_000_000_000,
    14_400_000_000_000,
    86_400_000_000_000,
];

/// Bytes by idle time, of a region record or of a page trace.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct IdleTimes {
    /// End of the (last) snapshot, from the record's first moment; of a page trace: trace time of the (last) moment.
    pub time_ns: u64,
    /// Snapshots whose mean this is, of each target; of a page trace: moments.
    pub snapshots: u64,
    /// Bytes in regions that were found accessed; of a page trace: bytes of pages touched in the epoch of that time.
    pub in_use_bytes: u64,
    /// Bytes that were not accessed, by idle time: from each of [`IDLE_BOUNDS_NS`] to the next.
    pub idle_bytes: Vec<u64>,
}

impl IdleTimes {
    fn total(&self) -> u64 {
        self.idle_bytes.iter().fold(self.in_use_bytes, |sum, bytes| sum.saturating_add(*bytes))
    }

    /// Name and bytes of each bin, up to the last that holds any.
    fn bins(&self) -> Vec<(String, u64)> {
        let name = |index: usize| {
            let approx = |ns: u64| Unit::Ns.approx(ns as f64);
            match (IDLE_BOUNDS_NS[index], IDLE_BOUNDS_NS.get(index + 1)) {
                (0, Some(&next)) => format!("< {}", approx(next)),
                (bound, _) => format!("≥ {}", approx(bound)),
            }
        };
        let last = self.idle_bytes.iter().rposition(|&bytes| bytes > 0).map_or(0, |last| last + 1);
        let idle = self.idle_bytes.iter().take(last).enumerate().map(|(index, &bytes)| (name(index), bytes));
        std::iter::once(("in use".to_owned(), self.in_use_bytes)).chain(idle).collect()
    }
}

/// One pass over the record. Idle time is the age of a region without accesses. With [`At::All`] it is the mean over all
/// snapshots.
///
/// # Errors
/// When the record has no ages, or no aggregation interval to read them with, or is damaged.
pub fn idle(store: &mut RegionStore, survey: &Survey, at: At) -> Result<IdleTimes, TraceError> {
    if survey.regions_without_age > 0 {
        return Err(no_ages(store, "an idle time"));
    }
    if survey.snapshots_without_intervals > 0 {
        return Err(no_intervals(store, "an idle time"));
    }
    let mut sums = vec![0u128; IDLE_BOUNDS_NS.len() + 1];
    let (mut snapshots, mut time_ns) = (0u64, 0);
    moments(store, survey, at, |moment| {
        snapshots += 1;
        time_ns = moment.time_ns.max(time_ns);
        for area in &moment.areas {
            let idle_ns = area.age_ns.unwrap_or(0);
            let bin = if area.nr_accesses > 0 { 0 } else { IDLE_BOUNDS_NS.partition_point(|&bound| bound <= idle_ns) };
            sums[bin] += u128::from(area.size_bytes());
        }
        Ok::<(), TraceError>(())
    })?;
    let each = (snapshots / survey.targets.len().max(1) as u64).max(1);
    let mean = |sum: &u128| u64::try_from(sum / u128::from(each)).unwrap_or(u64::MAX);
    Ok(IdleTimes {
        time_ns,
        snapshots: each,
        in_use_bytes: mean(&sums[0]),
        idle_bytes: sums[1..].iter().map(mean).collect(),
    })
}

/// A bar for each bin. `subject`: one line about the program or record.
pub fn idle_chart(idle: &IdleTimes, subject: String) -> Chart {
    let (names, bytes): (Vec<String>, Vec<u64>) = idle.bins().into_iter().unzip();
    Chart {
        title: format!("Memory by idle time {}", when(idle)),
        subtitle: subject,
        x: Axis::categories("not found accessed for", names),
        y: Axis::new("memory", Unit::Bytes),
        series: vec![Series::bars("memory", &bytes.iter().map(|&bytes| bytes as f64).collect::<Vec<_>>())],
        references: Vec::new(),
        callouts: Vec::new(),
    }
}

fn when(idle: &IdleTimes) -> String {
    match idle.snapshots {
        0 | 1 => format!("at {}", Unit::Ns.approx(idle.time_ns as f64)),
        many => format!("(mean of {many} snapshots)"),
    }
}

/// Bytes and shares of each bin; the last column is the savings if all memory that has been idle for this long were evicted.
pub fn idle_table(idle: &IdleTimes) -> Table {
    let columns = vec![
        Column::text("idle for"),
        Column::number("memory", Unit::Bytes),
        Column::number("share", Unit::Ppm),
        Column::number("so long or longer", Unit::Bytes),
    ];
    let mut table = Table::new(format!("memory by idle time {}", when(idle)), columns);
    let share =
        |bytes: u64| u64::try_from(u128::from(bytes) * 1_000_000 / u128::from(idle.total().max(1))).unwrap_or(u64::MAX);
    let mut rest = idle.total();
    for (name, bytes) in idle.bins() {
        let longer = if name == "in use" { Cell::Missing } else { Cell::Int(rest) };
        table.push(vec![name.into(), bytes.into(), share(bytes).into(), longer]);
        rest = rest.saturating_sub(bytes);
    }
    table
}

/// One row a bin.
pub fn idle_csv(idle: &IdleTimes) -> Table {
    let columns = vec![
        Column::text("state"),
        Column::number("idle from", Unit::Ns),
        Column::number("idle to", Unit::Ns),
        Column::number("memory", Unit::Bytes),
    ];
    let mut table = Table::new("idle", columns);
    table.push(vec!["in use".into(), Cell::Missing, Cell::Missing, idle.in_use_bytes.into()]);
    for (index, bytes) in idle.idle_bytes.iter().enumerate() {
        let to: Option<u64> = IDLE_BOUNDS_NS.get(index + 1).copied();
        table.push(vec!["idle".into(), IDLE_BOUNDS_NS[index].into(), to.into(), (*bytes).into()]);
    }
    table
}
