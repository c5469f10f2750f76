//! Touches by time and address.

use std::path::Path;

use isotherm_trace::analysis::{self, Heatmap as Matrix, HeatmapOptions};
use isotherm_trace::{TraceMeta, TraceReader};
use isotherm_units::Duration;

use super::{bytes, subject};
use crate::{Band, Cell, Column, Heatmap, Measure, Table, Unit};

/// Cells of a picture's matrix: columns as many as it has pixels; rows many more, as a heap that is scattered over a
/// thousand places would otherwise become few bands that are mostly holes.
pub const PICTURE_CELLS: HeatmapOptions =
    HeatmapOptions { columns: 800, rows: 4000, fold_pages: 2048, whole_epochs: true };

/// The picture of a trace, for pages with other contents too.
///
/// # Errors
/// When the file is no page trace, is damaged or cannot be read.
pub fn heatmap_of_file(trace: &Path) -> isotherm_trace::Result<Heatmap> {
    let mut reader = TraceReader::open(trace)?;
    let matrix = analysis::heatmap(&mut reader, &PICTURE_CELLS)?;
    Ok(heatmap(&matrix, reader.meta()))
}

/// The matrix as a picture.
pub fn heatmap(matrix: &Matrix, meta: &TraceMeta) -> Heatmap {
    let columns = matrix.columns as usize;
    let bands = matrix.bands.iter().map(|band| {
        let (first, rows) = (band.first_row as usize * columns, band.rows as usize * columns);
        Band {
            space: band.process,
            label: label(matrix, band.process, &band.label, meta),
            start: bytes(band.start, meta.page_bytes),
            end: bytes(band.end, meta.page_bytes),
            rows: band.rows as usize,
            counts: matrix.cells.get(first..first + rows).unwrap_or_default().to_vec(),
        }
    });
    let epoch =
        if meta.epoch_ns > 0 { format!(" (epochs of {})", Duration::from_ns(meta.epoch_ns)) } else { String::new() };
    Heatmap {
        title: "Memory touched over time".into(),
        subtitle: subject(meta) + &epoch,
        start_ns: 0,
        end_ns: matrix.duration_ns,
        columns,
        bands: bands.collect(),
        measure: Measure::Touches,
    }
}

/// Notes on the parts that the picture leaves out.
pub fn heatmap_caveats(matrix: &Matrix) -> Vec<String> {
    if matrix.dropped_bands == 0 {
        return Vec::new();
    }
    let (bands, accesses) = (matrix.dropped_bands, matrix.dropped_accesses);
    vec![format!("{bands} small ranges with {accesses} touches in all did not fit and are left out; take more rows")]
}

/// One row a cell that was touched.
pub fn heatmap_csv(matrix: &Matrix, meta: &TraceMeta) -> Table {
    let mut table = Table::new(
        "heatmap",
        vec![
            Column::number("time", Unit::Ns),
            Column::number("start", Unit::Address),
            Column::number("size", Unit::Bytes),
            Column::number("process", Unit::Count),
            Column::text("mapping"),
            Column::number("accesses", Unit::Count),
        ],
    );
    let columns = (matrix.columns as usize).max(1);
    for (row, cells) in matrix.rows.iter().zip(matrix.cells.chunks(columns)) {
        let Some(band) = matrix.bands.get(row.band as usize) else { continue };
        for (column, count) in cells.iter().enumerate().filter(|(_, count)| **count > 0) {
            let time_ns = u128::from(matrix.duration_ns) * column as u128 / columns as u128;
            table.push(vec![
                Cell::Int(u64::try_from(time_ns).unwrap_or(u64::MAX)),
                bytes(row.start, meta.page_bytes).into(),
                bytes(row.end.saturating_sub(row.start), meta.page_bytes).into(),
                Cell::Int(band.process as u64),
                band.label.clone().into(),
                Cell::Int(*count),
            ]);
        }
    }
    table
}

/// The mapping's name, with its process where there are several.
fn label(matrix: &Matrix, process: usize, label: &str, meta: &TraceMeta) -> String {
    if matrix.bands.iter().all(|band| band.process == process) {
        return short(label).to_owned();
    }
    let name = meta.processes.get(process).map_or("", |process| process.name.as_str());
    format!("{} ({name} #{process})", short(label))
}

/// File mappings are named without the kind: `libc.so.6`, not `file libc.so.6`.
fn short(label: &str) -> &str {
    ["file ", "image "].into_iter().find_map(|kind| label.strip_prefix(kind)).unwrap_or(label)
}

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_trace::analysis::{Band as TraceBand, HeatmapRow};

    fn small() -> Matrix {
        let band = |process, label: &str, start, first_row, rows| TraceBand {
            process,
            what: None,
            label: label.into(),
            start,
            end: start + 32,
            touched_pages: 32,
            first_row,
            rows,
        };
        Matrix {
            duration_ns: 1000,
            columns: 2,
            bands: vec![band(0, "file libc.so.6", 16, 0, 1), band(0, "stack", 160, 1, 2)],
            rows: vec![
                HeatmapRow { band: 0, start: 16, end: 48 },
                HeatmapRow { band: 1, start: 160, end: 176 },
                HeatmapRow { band: 1, start: 176, end: 192 },
            ],
            cells: vec![1, 0, 0, 2, 3, 4],
            hottest_milli: 250,
            dropped_bands: 0,
            dropped_accesses: 0,
        }
    }

    #[test]
    fn cells_go_to_their_bands() {
        let meta = TraceMeta::single("t");
        let map = heatmap(&small(), &meta);
        assert_eq!((map.bands[0].label.as_str(), map.bands[0].counts.as_slice()), ("libc.so.6", [1, 0].as_slice()));
        assert_eq!((map.bands[1].start, map.bands[1].end), (160 * 4096, 192 * 4096));
        assert_eq!(map.bands[1].counts, [0, 2, 3, 4]);
        assert_eq!(heatmap_csv(&small(), &meta).to_csv().lines().nth(2), Some("500,655360,65536,0,stack,2"));
    }

    #[test]
    fn processes_are_named_where_there_are_several() {
        let mut matrix = small();
        matrix.bands[1].process = 1;
        matrix.dropped_bands = 3;
        let meta = TraceMeta { processes: vec![Default::default(); 2], ..TraceMeta::single("t") };
        assert_eq!(heatmap(&matrix, &meta).bands[1].label, "stack ( #1)");
        assert!(heatmap_caveats(&matrix)[0].starts_with("3 small ranges"));
    }

    #[test]
    fn a_torn_matrix_is_drawn() {
        let mut matrix = small();
        matrix.cells.truncate(3);
        assert!(heatmap(&matrix, &TraceMeta::default()).bands[1].counts.is_empty());
    }
}
