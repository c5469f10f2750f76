//! The columns of a group record, and conversion of rows to and from them. All are 64-bit: values that stay the same from row
//! to row take no space.

use std::sync::Arc;

use arrow_array::{ArrayRef, UInt64Array};

use super::look::{Gauges, Generation, Look, LookKind};
use crate::Result;
use crate::file::ipc_stream::Message;
use crate::file::parquet_file::Values;
use crate::file::parquet_reader::ParquetTable;
use crate::file::table::{Column, Kind, Table};

const COLUMNS: [&str; 19] = [
    "look",
    "time_ns",
    "aged",
    "has_generation",
    "node",
    "seq",
    "age_ns",
    "anon_bytes",
    "file_bytes",
    "known",
    "memory_current_bytes",
    "swap_current_bytes",
    "refaults_anon",
    "refaults_file",
    "major_faults",
    "pressure_some_ns",
    "pressure_full_ns",
    "high_bytes",
    "max_bytes",
];
/// Index of the first gauge; the column before it holds a bit for each known gauge.
const GAUGES_AT: usize = COLUMNS.len() - Gauges::COUNT;

/// A group record.
pub(crate) const GROUP: Table = Table {
    what: "a group record",
    made_by: "isotherm advise --cgroup",
    root: "group",
    columns: &{
        let mut columns = [const { Column::required("", Kind::U64) }; COLUMNS.len()];
        let mut index = 0;
        while index < COLUMNS.len() {
            columns[index] = Column::required(COLUMNS[index], Kind::U64);
            index += 1;
        }
        columns
    },
};

/// Consecutive rows, column by column: one row a generation; one with `has_generation` 0 for a sample without any.
#[derive(Debug)]
pub(crate) struct Rows {
    columns: [Vec<u64>; COLUMNS.len()],
}

impl Default for Rows {
    fn default() -> Self {
        Self { columns: std::array::from_fn(|_| Vec::new()) }
    }
}

impl Rows {
    pub(crate) fn len(&self) -> usize {
        self.columns[0].len()
    }

    pub(crate) fn clear(&mut self) {
        self.columns.iter_mut().for_each(Vec::clear);
    }

    fn push_row(&mut self, values: [u64; COLUMNS.len()]) {
        self.columns.iter_mut().zip(values).for_each(|(column, value)| column.push(value));
    }

    /// Appends an empty row, for a note.
    pub(crate) fn push_blank(&mut self) {
        self.push_row([0; COLUMNS.len()]);
    }

    /// Appends the sample with number `number`.
    pub(crate) fn push(&mut self, number: u64, look: &Look) {
        let gauges = look.gauges.to_array();
        let known = (0..).zip(gauges).fold(0, |bits, (bit, gauge)| bits | u64::from(gauge.is_some()) << bit);
        let mut row = [0; COLUMNS.len()];
        row[..3].copy_from_slice(&[number, look.time_ns, u64::from(look.kind == LookKind::Aged)]);
        row[GAUGES_AT - 1] = known;
        row[GAUGES_AT..].copy_from_slice(&gauges.map(Option::unwrap_or_default));
        if look.generations.is_empty() {
            self.push_row(row);
        }
        for &Generation { node, seq, age_ns, anon_bytes, file_bytes } in &look.generations {
            row[3..9].copy_from_slice(&[1, node, seq, age_ns, anon_bytes, file_bytes]);
            self.push_row(row);
        }
    }

    /// The columns as Arrow arrays; empty afterwards.
    pub(crate) fn take_arrays(&mut self) -> Vec<ArrayRef> {
        let columns = std::mem::take(self).columns;
        columns.into_iter().map(|column| Arc::new(UInt64Array::from(column)) as ArrayRef).collect()
    }

    /// Calls `write` with the columns in Parquet's types.
    pub(crate) fn with_values(&self, write: impl FnOnce(&[Values<'_>]) -> Result<()>) -> Result<()> {
        let signed = |column: &Vec<u64>| -> Vec<i64> { column.iter().map(|value| value.cast_signed()).collect() };
        let columns: Vec<Vec<i64>> = self.columns.iter().map(signed).collect();
        write(&columns.iter().map(|column| Values::U64(column)).collect::<Vec<_>>())
    }

    /// Replaces the rows with the next ones of a Parquet file; `false` at its end.
    pub(crate) fn read_parquet(&mut self, table: &mut ParquetTable) -> Result<bool> {
        let rows = table.next_rows()?;
        self.columns.iter_mut().for_each(|column| column.resize(rows, 0));
        if rows == 0 {
            return Ok(false);
        }
        for (index, column) in self.columns.iter_mut().enumerate() {
            table.read(index, &mut column[..])?;
        }
        Ok(true)
    }

    /// Replaces the rows with the rows of a batch of a stream, without notes.
    pub(crate) fn read_message(&mut self, message: &Message) {
        self.clear();
        for row in (0..message.rows).filter(|&row| !message.notes_at(row)) {
            self.columns.iter_mut().enumerate().for_each(|(index, column)| column.push(message.value(index, row)));
        }
    }

    /// Number of the sample of row `row`.
    pub(crate) fn number_at(&self, row: usize) -> u64 {
        self.columns[0][row]
    }

    fn row(&self, row: usize) -> [u64; COLUMNS.len()] {
        std::array::from_fn(|column| self.columns[column][row])
    }

    /// Starts a sample with the data of row `row`.
    pub(crate) fn start_look(&self, row: usize, look: &mut Look) {
        let values = self.row(row);
        look.time_ns = values[1];
        look.kind = if values[2] == 0 { LookKind::Read } else { LookKind::Aged };
        let known = values[GAUGES_AT - 1];
        let gauge = |index: usize| (known >> index & 1 == 1).then_some(values[GAUGES_AT + index]);
        look.gauges = Gauges::of_array(std::array::from_fn(gauge));
        look.generations.clear();
    }

    /// Appends the generation of row `row` to `look`. Returns the fault of the generation, if there is one.
    pub(crate) fn take_generation(&self, row: usize, look: &mut Look) -> Option<&'static str> {
        let values = self.row(row);
        if values[1] != look.time_ns {
            return Some("its rows differ in time");
        }
        let [.., node, seq, age_ns, anon_bytes, file_bytes] = *values.first_chunk::<9>().expect("19 columns");
        if values[3] != 0 {
            look.generations.push(Generation { node, seq, age_ns, anon_bytes, file_bytes });
        }
        None
    }
}
