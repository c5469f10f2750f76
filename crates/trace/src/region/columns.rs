//! The columns of a region record, and conversion of rows to and from them.

use std::sync::Arc;

use arrow_array::{ArrayRef, BooleanArray, UInt32Array, UInt64Array};

use super::snapshot::PROBES_MAX;
use super::{Intervals, Region, Snapshot};
use crate::Result;
use crate::file::ipc_stream::Message;
use crate::file::parquet_file::Values;
use crate::file::parquet_reader::ParquetTable;
use crate::file::table::{Column, Kind, Table};

const fn wide(name: &'static str) -> Column {
    Column::required(name, Kind::U64)
}

const fn narrow(name: &'static str) -> Column {
    Column::required(name, Kind::U32)
}

/// A region record.
pub(crate) const RECORD: Table = Table {
    what: "a region record",
    made_by: "isotherm monitor",
    root: "regions",
    columns: &[
        wide("snapshot"),
        wide("time_ns"),
        wide("duration_ns"),
        narrow("target"),
        wide("start"),
        wide("end"),
        narrow("nr_accesses"),
        narrow("age"),
        Column::required("has_age", Kind::Bool),
        narrow("level"),
        narrow("probe_hits_0"),
        narrow("probe_hits_1"),
        narrow("probe_hits_2"),
        narrow("probe_hits_3"),
        wide("filter_passed_bytes"),
        wide("sample_ns"),
        wide("aggregation_ns"),
        wide("update_ns"),
    ],
};

/// Consecutive rows, column by column: one row a region; a row with `start` = `end` for a snapshot without regions.
#[derive(Debug, Default)]
pub(crate) struct Rows {
    /// `snapshot, time_ns, duration_ns, start, end, filter_passed_bytes, sample_ns, aggregation_ns, update_ns`. Unknown
    /// values are 0, which no interval can be.
    wide: [Vec<u64>; 9],
    /// `target, nr_accesses, age, level, probe_hits_0, …`.
    narrow: [Vec<u32>; 4 + PROBES_MAX],
    has_age: Vec<bool>,
}

/// Index of each column of [`RECORD`] in [`Rows`].
const PLACES: [(Kind, usize); 18] = [
    (Kind::U64, 0),
    (Kind::U64, 1),
    (Kind::U64, 2),
    (Kind::U32, 0),
    (Kind::U64, 3),
    (Kind::U64, 4),
    (Kind::U32, 1),
    (Kind::U32, 2),
    (Kind::Bool, 0),
    (Kind::U32, 3),
    (Kind::U32, 4),
    (Kind::U32, 5),
    (Kind::U32, 6),
    (Kind::U32, 7),
    (Kind::U64, 5),
    (Kind::U64, 6),
    (Kind::U64, 7),
    (Kind::U64, 8),
];

impl Rows {
    pub(crate) fn len(&self) -> usize {
        self.has_age.len()
    }

    pub(crate) fn clear(&mut self) {
        self.wide.iter_mut().for_each(Vec::clear);
        self.narrow.iter_mut().for_each(Vec::clear);
        self.has_age.clear();
    }

    /// Appends a snapshot under its number.
    pub(crate) fn push(&mut self, snapshot: &Snapshot) {
        let nothing = [Region::default()];
        let regions = if snapshot.regions.is_empty() { &nothing[..] } else { &snapshot.regions };
        let len = self.len() + regions.len();
        let Intervals { sample_ns, aggregation_ns, update_ns } = snapshot.intervals;
        let known = |interval: Option<u64>| interval.unwrap_or(0);
        let [number, time_ns, duration_ns, start, end, passed, sample, aggregation, update] = &mut self.wide;
        number.resize(len, snapshot.number);
        time_ns.resize(len, snapshot.time_ns);
        duration_ns.resize(len, known(snapshot.duration_ns));
        sample.resize(len, known(sample_ns));
        aggregation.resize(len, known(aggregation_ns));
        update.resize(len, known(update_ns));
        start.extend(regions.iter().map(|region| region.start));
        end.extend(regions.iter().map(|region| region.end));
        passed.extend(regions.iter().map(|region| region.filter_passed_bytes));
        let [target, nr_accesses, age, level, probes @ ..] = &mut self.narrow;
        target.resize(len, snapshot.target);
        nr_accesses.extend(regions.iter().map(|region| region.nr_accesses));
        age.extend(regions.iter().map(|region| region.age.unwrap_or(0)));
        level.extend(regions.iter().map(|region| u32::from(region.level)));
        for (index, hits) in probes.iter_mut().enumerate() {
            hits.extend(regions.iter().map(|region| region.probe_hits[index]));
        }
        self.has_age.extend(regions.iter().map(|region| region.age.is_some()));
    }

    /// Appends an empty row, for a note.
    pub(crate) fn push_blank(&mut self) {
        self.wide.iter_mut().for_each(|column| column.push(0));
        self.narrow.iter_mut().for_each(|column| column.push(0));
        self.has_age.push(false);
    }

    /// The columns as Arrow arrays, in the order of [`RECORD`]; empty afterwards.
    pub(crate) fn take_arrays(&mut self) -> Vec<ArrayRef> {
        let rows = std::mem::take(self);
        let wide = rows.wide.map(|column| Arc::new(UInt64Array::from(column)) as ArrayRef);
        let narrow = rows.narrow.map(|column| Arc::new(UInt32Array::from(column)) as ArrayRef);
        let has_age = Arc::new(BooleanArray::from(rows.has_age)) as ArrayRef;
        let place = |&(kind, index): &(Kind, usize)| match kind {
            Kind::U64 => Arc::clone(&wide[index]),
            Kind::U32 => Arc::clone(&narrow[index]),
            Kind::Bool => Arc::clone(&has_age),
        };
        PLACES.iter().map(place).collect()
    }

    /// Calls `write` with the columns in Parquet's types, in the order of [`RECORD`].
    pub(crate) fn with_values(&self, write: impl FnOnce(&[Values<'_>]) -> Result<()>) -> Result<()> {
        let signed_wide = |column: &Vec<u64>| -> Vec<i64> { column.iter().map(|value| value.cast_signed()).collect() };
        let signed_narrow =
            |column: &Vec<u32>| -> Vec<i32> { column.iter().map(|value| value.cast_signed()).collect() };
        let wide: Vec<Vec<i64>> = self.wide.iter().map(signed_wide).collect();
        let narrow: Vec<Vec<i32>> = self.narrow.iter().map(signed_narrow).collect();
        let place = |&(kind, index): &(Kind, usize)| match kind {
            Kind::U64 => Values::U64(&wide[index]),
            Kind::U32 => Values::U32(&narrow[index]),
            Kind::Bool => Values::Bool(&self.has_age),
        };
        write(&PLACES.iter().map(place).collect::<Vec<_>>())
    }

    /// Replaces the rows with the next ones of a Parquet file; `false` at its end.
    pub(crate) fn read_parquet(&mut self, table: &mut ParquetTable) -> Result<bool> {
        let rows = table.next_rows()?;
        self.wide.iter_mut().for_each(|column| column.resize(rows, 0));
        self.narrow.iter_mut().for_each(|column| column.resize(rows, 0));
        self.has_age.resize(rows, false);
        if rows == 0 {
            return Ok(false);
        }
        for (column, &(kind, index)) in PLACES.iter().enumerate() {
            match kind {
                Kind::U64 => table.read(column, &mut self.wide[index][..])?,
                Kind::U32 => table.read(column, &mut self.narrow[index][..])?,
                Kind::Bool => table.read_bools(column, &mut self.has_age)?,
            }
        }
        Ok(true)
    }

    /// Replaces the rows with the rows of a batch of a stream, without notes.
    pub(crate) fn read_message(&mut self, message: &Message) {
        self.clear();
        for row in (0..message.rows).filter(|&row| !message.notes_at(row)) {
            for (column, &(kind, index)) in PLACES.iter().enumerate() {
                match kind {
                    Kind::U64 => self.wide[index].push(message.value(column, row)),
                    // Values of a wider column that do not fit exceed every valid value.
                    Kind::U32 => {
                        self.narrow[index].push(u32::try_from(message.value(column, row)).unwrap_or(u32::MAX));
                    }
                    Kind::Bool => self.has_age.push(message.bit(column, row)),
                }
            }
        }
    }

    /// Number of the snapshot of row `row`, and the row after its last one in this batch.
    pub(crate) fn run_at(&self, row: usize) -> (u64, usize) {
        let numbers = &self.wide[0][row..];
        let number = numbers[0];
        (number, row + numbers.iter().position(|&other| other != number).unwrap_or(numbers.len()))
    }

    /// Starts `snapshot` with the data of row `row`.
    pub(crate) fn start_snapshot(&self, row: usize, snapshot: &mut Snapshot) {
        let known = |column: usize| Some(self.wide[column][row]).filter(|&value| value != 0);
        snapshot.number = self.wide[0][row];
        snapshot.target = self.narrow[0][row];
        snapshot.time_ns = self.wide[1][row];
        snapshot.duration_ns = known(2);
        snapshot.intervals = Intervals { sample_ns: known(6), aggregation_ns: known(7), update_ns: known(8) };
        snapshot.stats = None;
        snapshot.regions.clear();
    }

    /// Appends the regions of rows `from..to`, which must be of `snapshot`. Returns the fault of the regions, if there is one.
    pub(crate) fn take_regions(&self, from: usize, to: usize, snapshot: &mut Snapshot) -> Option<&'static str> {
        let [_, time_ns, _, start, end, passed, ..] = &self.wide;
        let [target, nr_accesses, age, level, probes @ ..] = &self.narrow;
        let other_target = target[from..to].iter().fold(false, |found, &target| found | (target != snapshot.target));
        let other_time = time_ns[from..to].iter().fold(false, |found, &time| found | (time != snapshot.time_ns));
        if other_target || other_time {
            return Some("rows of one snapshot differ in target or time");
        }
        let high_level = level[from..to].iter().fold(0, |most, &level| most.max(level));
        if high_level > u32::from(u8::MAX) {
            return Some("a level above 255");
        }
        if from + 1 == to && snapshot.regions.is_empty() && start[from] == end[from] {
            return None;
        }
        snapshot.regions.extend((from..to).map(|row| Region {
            start: start[row],
            end: end[row],
            nr_accesses: nr_accesses[row],
            age: self.has_age[row].then_some(age[row]),
            level: u8::try_from(level[row]).unwrap_or(u8::MAX),
            probe_hits: std::array::from_fn(|probe| probes[probe][row]),
            filter_passed_bytes: passed[row],
        }));
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_match_the_columns() {
        assert_eq!(PLACES.len(), RECORD.columns.len());
        for (column, (kind, _)) in RECORD.columns.iter().zip(PLACES) {
            assert_eq!(column.kind, kind, "{}", column.name);
        }
    }
}
