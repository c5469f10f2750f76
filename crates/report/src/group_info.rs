//! Contents of a group record.

use isotherm_trace::Result;
use isotherm_trace::group::{Gauges, GroupReader, LookKind};
use serde::Serialize;

use crate::{Cell, Column, Table, Unit};

/// A group record in short.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GroupInfo {
    pub group: String,
    pub kernel: String,
    pub host: String,
    /// Whether the recording ran to its end.
    pub complete: bool,
    pub looks: u64,
    /// Samples before which a generation was made.
    pub aged_looks: u64,
    /// Time from the first sample to the last.
    pub span_ns: u64,
    /// Memory on lists, of all nodes.
    pub least_bytes: u64,
    pub most_bytes: u64,
    /// Counters that were read at each sample.
    pub gauges: Vec<&'static str>,
    pub notes: Vec<String>,
}

type Gauge = fn(&Gauges) -> Option<u64>;

/// Names as the record's columns have them.
const GAUGES: [(&str, Gauge); 9] = [
    ("memory_current_bytes", |gauges| gauges.memory_current_bytes),
    ("swap_current_bytes", |gauges| gauges.swap_current_bytes),
    ("refaults_anon", |gauges| gauges.refaults_anon),
    ("refaults_file", |gauges| gauges.refaults_file),
    ("major_faults", |gauges| gauges.major_faults),
    ("pressure_some_ns", |gauges| gauges.pressure_some_ns),
    ("pressure_full_ns", |gauges| gauges.pressure_full_ns),
    ("high_bytes", |gauges| gauges.high_bytes),
    ("max_bytes", |gauges| gauges.max_bytes),
];

/// Reads all of a record.
///
/// # Errors
/// It is damaged.
pub fn group_info(reader: &mut GroupReader) -> Result<GroupInfo> {
    let meta = reader.meta().clone();
    let looks = reader.read_all()?;
    let sizes = || looks.iter().map(isotherm_trace::group::Look::total_bytes);
    let (first, last) = (looks.first().map_or(0, |look| look.time_ns), looks.last().map_or(0, |look| look.time_ns));
    let always = |(name, gauge): &(&'static str, Gauge)| {
        (!looks.is_empty() && looks.iter().all(|look| gauge(&look.gauges).is_some())).then_some(*name)
    };
    Ok(GroupInfo {
        group: meta.group,
        kernel: meta.kernel,
        host: meta.host,
        complete: meta.complete,
        looks: looks.len() as u64,
        aged_looks: looks.iter().filter(|look| look.kind == LookKind::Aged).count() as u64,
        span_ns: last.saturating_sub(first),
        least_bytes: sizes().min().unwrap_or(0),
        most_bytes: sizes().max().unwrap_or(0),
        gauges: GAUGES.iter().filter_map(always).collect(),
        notes: meta.notes,
    })
}

/// One row.
pub fn group_info_table(info: &GroupInfo) -> Table {
    let columns = vec![
        Column::text("group"),
        Column::text("kernel"),
        Column::number("looks", Unit::Count),
        Column::number("with ageing", Unit::Count),
        Column::number("span", Unit::Ns),
        Column::number("least memory", Unit::Bytes),
        Column::number("most memory", Unit::Bytes),
        Column::text("counters"),
    ];
    let mut table = Table::new("group record", columns);
    table.push(vec![
        Cell::from(info.group.as_str()),
        Cell::from(info.kernel.as_str()),
        info.looks.into(),
        info.aged_looks.into(),
        info.span_ns.into(),
        info.least_bytes.into(),
        info.most_bytes.into(),
        Cell::from(info.gauges.join(", ")),
    ]);
    table
}
