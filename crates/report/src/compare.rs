//! Two files of one kind side by side: working set over time, its distribution, memory by idle time.

use serde::Serialize;

use crate::records::{IDLE_BOUNDS_NS, IdleTimes, RecordPair};
use crate::{Axis, Cell, Chart, Column, Series, Table, Unit};

/// The compared data of one file.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Side {
    /// Name in tables and pictures.
    pub name: String,
    /// Begin of each window or aggregation from the beginning of the file, and the bytes in use in it.
    pub working_set: Vec<(u64, u64)>,
    /// End of the last window or aggregation.
    pub end_ns: u64,
    /// Mean over its moments; `None` where the file has no ages.
    pub idle: Option<IdleTimes>,
}

/// Points of the distribution that are compared, percent.
const PERCENTS: [usize; 7] = [0, 10, 25, 50, 75, 90, 100];

/// Two sides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Comparison {
    pub sides: [Side; 2],
    /// Access rates of both on the same axes; `None` for page traces, and for records that cannot be drawn so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub heatmaps: Option<RecordPair>,
}

impl Side {
    fn sorted(&self) -> Vec<u64> {
        let mut sizes: Vec<u64> = self.working_set.iter().map(|(_, bytes)| *bytes).collect();
        sizes.sort_unstable();
        sizes
    }

    fn mean(&self) -> u64 {
        let sum: u128 = self.working_set.iter().map(|(_, bytes)| u128::from(*bytes)).sum();
        u64::try_from(sum / self.working_set.len().max(1) as u128).unwrap_or(u64::MAX)
    }
}

impl Comparison {
    /// Both working sets over time, on one scale. Times are from the beginning of each file.
    pub fn chart(&self) -> Chart {
        let series = |side: &Side| {
            let mut points: Vec<(f64, f64)> =
                side.working_set.iter().map(|(at, bytes)| (*at as f64, *bytes as f64)).collect();
            if let Some((_, bytes)) = points.last().copied() {
                points.push((side.end_ns as f64, bytes));
            }
            Series::step(&side.name, points)
        };
        Chart {
            title: "Working sets".to_owned(),
            subtitle: "time from the beginning of each".to_owned(),
            x: Axis::new("time", Unit::Ns),
            y: Axis::new("memory in use", Unit::Bytes),
            series: self.sides.iter().map(series).collect(),
            references: Vec::new(),
            callouts: Vec::new(),
        }
    }

    /// Distribution of working sets, and memory by idle time if both records have it.
    pub fn tables(&self) -> Vec<Table> {
        let mut tables = vec![self.working_sets()];
        tables.extend(self.idle_times());
        tables
    }

    fn columns(&self, first: &str) -> Vec<Column> {
        let [one, other] = &self.sides;
        vec![
            Column::text(first),
            Column::number(&one.name, Unit::Bytes),
            Column::number(&other.name, Unit::Bytes),
            Column::text("change"),
        ]
    }

    fn working_sets(&self) -> Table {
        let mut table = Table::new("working set", self.columns("share of windows"));
        let sizes = self.sides.each_ref().map(Side::sorted);
        for percent in PERCENTS {
            let name = match percent {
                0 => "smallest".to_owned(),
                50 => "50 % (median)".to_owned(),
                100 => "largest".to_owned(),
                percent => format!("{percent} %"),
            };
            let at =
                |sizes: &Vec<u64>| sizes.get((sizes.len() * percent / 100).min(sizes.len().saturating_sub(1))).copied();
            table.push(row(&name, at(&sizes[0]), at(&sizes[1])));
        }
        table.push(row("mean", Some(self.sides[0].mean()), Some(self.sides[1].mean())));
        table
    }

    fn idle_times(&self) -> Option<Table> {
        let [one, other] = &self.sides;
        let (one, other) = (one.idle.as_ref()?, other.idle.as_ref()?);
        let mut table = Table::new("memory by idle time (means)", self.columns("idle for"));
        table.push(row("in use", Some(one.in_use_bytes), Some(other.in_use_bytes)));
        let any = |index: &usize| one.idle_bytes.get(*index).or(other.idle_bytes.get(*index)).is_some();
        let last = (0..IDLE_BOUNDS_NS.len())
            .filter(any)
            .filter(|&index| [one, other].iter().any(|side| side.idle_bytes.get(index).is_some_and(|&bytes| bytes > 0)))
            .max();
        for (index, bound) in IDLE_BOUNDS_NS.iter().enumerate().take(last.map_or(0, |last| last + 1)) {
            let approx = |ns: u64| Unit::Ns.approx(ns as f64);
            let name = match (*bound, IDLE_BOUNDS_NS.get(index + 1)) {
                (0, Some(&next)) => format!("< {}", approx(next)),
                (bound, _) => format!("≥ {}", approx(bound)),
            };
            table.push(row(&name, one.idle_bytes.get(index).copied(), other.idle_bytes.get(index).copied()));
        }
        Some(table)
    }
}

fn row(name: &str, one: Option<u64>, other: Option<u64>) -> Vec<Cell> {
    let cell = |bytes: Option<u64>| bytes.map_or(Cell::Missing, Cell::Int);
    vec![name.into(), cell(one), cell(other), change(one, other).into()]
}

/// `+12 MiB (+8 %)`, `0`, or an empty text if one is missing.
fn change(one: Option<u64>, other: Option<u64>) -> String {
    let (Some(one), Some(other)) = (one, other) else { return String::new() };
    let (sign, size) = if other >= one { ("+", other - one) } else { ("−", one - other) };
    if size == 0 {
        return "0".to_owned();
    }
    let size_words = Unit::Bytes.approx(size as f64);
    match u128::from(size) * 100 / u128::from(one.max(1)) {
        _ if one == 0 => format!("{sign}{size_words}"),
        percent => format!("{sign}{size_words} ({sign}{percent} %)"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn side(name: &str, bytes: &[u64], idle: Option<IdleTimes>) -> Side {
        let working_set = (0u64..).zip(bytes).map(|(index, &bytes)| (index * 100, bytes)).collect();
        Side { name: name.to_owned(), working_set, end_ns: bytes.len() as u64 * 100, idle }
    }

    #[test]
    fn changes_are_told_with_their_sign() {
        assert_eq!(change(Some(100 << 20), Some(150 << 20)), "+50 MiB (+50 %)");
        assert_eq!(change(Some(100 << 20), Some(75 << 20)), "−25 MiB (−25 %)");
        assert_eq!(change(Some(0), Some(1 << 20)), "+1 MiB");
        assert_eq!((change(Some(5), Some(5)).as_str(), change(None, Some(5)).as_str()), ("0", ""));
    }

    #[test]
    fn two_sides_become_tables_and_a_chart() {
        let idle =
            |in_use| Some(IdleTimes { time_ns: 0, snapshots: 1, in_use_bytes: in_use, idle_bytes: vec![1, 2, 0, 0] });
        let both = Comparison { sides: [side("a", &[10, 20, 30], idle(4)), side("b", &[5], idle(9))], heatmaps: None };
        let tables = both.tables();
        assert_eq!(tables.len(), 2);
        assert_eq!(tables[0].rows.last().unwrap()[1..3], [Cell::Int(20), Cell::Int(5)]);
        assert_eq!(tables[1].rows.len(), 3, "bins that are empty on both sides are left out");
        assert_eq!(both.chart().series.len(), 2);
        let empty = Comparison { sides: [side("a", &[], None), side("b", &[], None)], heatmaps: None };
        assert_eq!(empty.tables().len(), 1);
    }
}
