//! Accesses over time and address: a matrix, with the empty parts of the address space folded away.

use serde::Serialize;

use super::layout::Layout;
use super::{Entry, Limit, TraceStep, WordTable, walk};
use crate::{MapKind, Result, TraceError, TraceRows};

/// Size of the matrix, and folding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct HeatmapOptions {
    /// Number of columns over time, at least 1. Columns times rows: at most 2^26.
    pub columns: u32,
    /// Rows of addresses, at least 1. Fewer come out when fewer pages were touched.
    pub rows: u32,
    /// Shortest run of untouched pages between touched ones that is folded away.
    pub fold_pages: u64,
    /// Whether to take fewer columns, the most that are whole numbers of epochs long. Narrower columns would be empty in turn, and a
    /// picture would show false stripes.
    pub whole_epochs: bool,
}

impl Default for HeatmapOptions {
    fn default() -> Self {
        Self { columns: 120, rows: 60, fold_pages: 2048, whole_epochs: false }
    }
}

/// Accesses by time and address, as a matrix of cells.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Heatmap {
    /// Trace time of the right edge, nanoseconds; the left edge is 0.
    pub duration_ns: u64,
    /// Number of columns; column c covers `[c, c + 1) * duration_ns / columns`.
    pub columns: u32,
    /// The bands by process and address, lowest first.
    pub bands: Vec<Band>,
    /// The rows of all bands, lowest address first.
    pub rows: Vec<HeatmapRow>,
    /// Pages touched in each cell, counted once for each row of the trace; row by row, `columns` cells each.
    pub cells: Vec<u64>,
    /// The largest cell value for one page: `cells[i] * 1000 / pages of its row`, in thousandths of an access a page.
    pub hottest_milli: u64,
    /// Number of bands left out because there were too many for the requested rows: the least touched ones.
    pub dropped_bands: u64,
    /// Accesses in the bands left out.
    pub dropped_accesses: u64,
}

/// Touched memory of one process without a long gap.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Band {
    /// Index of the process in the trace's list.
    pub process: usize,
    /// Kind of the mapping that has most touched pages; `None`: outside all known mappings.
    pub what: Option<MapKind>,
    /// Kind and last name of the file; ends in ` +n` when n more mappings share the band.
    pub label: String,
    /// Number of the first virtual page.
    pub start: u64,
    /// Number of the page after the last; not part of the range.
    pub end: u64,
    /// Touched blocks of 16 pages, in pages: an upper bound of its touched pages.
    pub touched_pages: u64,
    /// Index of its first row in [`Heatmap::rows`]; `rows` of them follow.
    pub first_row: u32,
    pub rows: u32,
}

/// One row of the matrix: a range of pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct HeatmapRow {
    /// Index of its band in [`Heatmap::bands`].
    pub band: u32,
    /// Number of the first virtual page.
    pub start: u64,
    /// Number of the page after the last; not part of the range.
    pub end: u64,
}

const BLOCK_SHIFT: u32 = 4;
const BLOCK_PAGES: u64 = 1 << BLOCK_SHIFT;
/// Blocks of the pages of a word.
const WORD_BLOCKS: usize = 4;

/// Two passes over the trace: which pages are touched, then when. Memory: some 25 bytes for each touched group of 64 pages, 48 for each
/// run of touched blocks of 16 pages, and the matrix.
///
/// # Errors
/// When the options ask for nothing, or for more than 2^26 cells, or the trace is damaged or touches too many pages.
pub fn heatmap(reader: &mut dyn TraceRows, options: &HeatmapOptions) -> Result<Heatmap> {
    let cells = u64::from(options.columns) * u64::from(options.rows);
    if cells == 0 || cells > 1 << 26 {
        let what = format!("of {} columns and {} rows; allowed: 1 to 2^26 cells", options.columns, options.rows);
        return Err(TraceError::option("size", what));
    }
    let (blocks, duration_ns) = find_blocks(reader)?;
    let (mut bands, dropped_bands) = find_bands(&blocks, options);
    give_rows(&mut bands, options.rows);
    let epoch_ns = reader.meta().epoch_ns;
    let columns =
        if options.whole_epochs { whole_epochs(duration_ns, epoch_ns, options.columns) } else { options.columns };
    let mut map = Heatmap {
        duration_ns,
        columns,
        rows: rows_of(&bands),
        bands,
        cells: Vec::new(),
        hottest_milli: 0,
        dropped_bands,
        dropped_accesses: 0,
    };
    fill(reader, &mut map)?;
    Ok(map)
}

/// The largest number of columns, up to `columns`, that are whole numbers of epochs long.
fn whole_epochs(duration_ns: u64, epoch_ns: u64, columns: u32) -> u32 {
    let Some(epochs) = duration_ns.checked_div(epoch_ns) else { return columns };
    let epochs_per_column = epochs.div_ceil(u64::from(columns)).max(1);
    u32::try_from(epochs / epochs_per_column).unwrap_or(columns).clamp(1, columns)
}

/// Touched blocks of pages without a gap, of one mapping.
#[derive(Clone, Debug)]
struct Blocks {
    process: usize,
    /// Number of the first block.
    start: u64,
    /// Number of the block after the last.
    end: u64,
    what: Option<MapKind>,
    label: std::rc::Rc<str>,
}

fn find_blocks(reader: &mut dyn TraceRows) -> Result<(Vec<Blocks>, u64)> {
    let meta = reader.meta().clone();
    let limit = Limit::new(reader, Entry::GROUP);
    let mut layout = Layout::default();
    let mut words = WordTable::apart();
    // For each 64 pages the touched blocks, and for each of these the first mapping that had it.
    let mut touched: Vec<u8> = Vec::new();
    let mut group_of: Vec<[u32; WORD_BLOCKS]> = Vec::new();
    let duration_ns = walk(reader, |step| {
        match step {
            TraceStep::Event { event, process } => layout.see(&meta, event, process),
            TraceStep::Exit { .. } => {}
            TraceStep::Rows(rows) => {
                let process = rows.process;
                for (start, end) in rows.ranges() {
                    limit.admit(&words, &rows, start, end)?;
                    layout.split(process, start, end, |group, start, end| {
                        words.for_each_word(process, start, end, |number, bits| {
                            let number = number as usize;
                            if number == touched.len() {
                                touched.push(0);
                                group_of.push([0; WORD_BLOCKS]);
                            }
                            let blocks = blocks_of(bits) & !touched[number];
                            if blocks != 0 {
                                touched[number] |= blocks;
                                set_groups(&mut group_of[number], blocks, group);
                            }
                        });
                    });
                }
            }
        }
        Ok(())
    })?;
    let labels: Vec<std::rc::Rc<str>> = layout.groups().iter().map(|group| group.label().into()).collect();
    let mut runs: Vec<Blocks> = Vec::new();
    let mut last_group = 0;
    for (process, page, word) in words.sorted() {
        let (touched, groups) = (touched[word as usize], group_of[word as usize]);
        for (block, group) in (0u64..).zip(groups).filter(|(block, _)| touched >> block & 1 != 0) {
            let number = (page >> BLOCK_SHIFT) + block;
            let goes_on = |run: &&mut Blocks| run.process == process && run.end == number && last_group == group;
            if let Some(run) = runs.last_mut().filter(goes_on) {
                run.end += 1;
                continue;
            }
            last_group = group;
            let (what, label) = (layout.groups()[group as usize].what, std::rc::Rc::clone(&labels[group as usize]));
            runs.push(Blocks { process, start: number, end: number + 1, what, label });
        }
    }
    Ok((runs, duration_ns))
}

/// Blocks of 64 pages that have one of `bits`, one bit for each block.
#[inline]
fn blocks_of(bits: u64) -> u8 {
    let has = |block: u32| u8::from(bits >> (block * 16) & 0xffff != 0) << block;
    has(0) | has(1) | has(2) | has(3)
}

#[cold]
fn set_groups(groups: &mut [u32; WORD_BLOCKS], blocks: u8, group: u32) {
    for (block, slot) in groups.iter_mut().enumerate() {
        if blocks >> block & 1 != 0 {
            *slot = group;
        }
    }
}

/// Cuts the touched blocks at long gaps and where the mapping changes. If that makes too many bands, first mappings share bands, then
/// longer gaps are kept, and at last the least touched bands are dropped. Returns the number of dropped bands.
fn find_bands(blocks: &[Blocks], options: &HeatmapOptions) -> (Vec<Band>, u64) {
    let rows = options.rows as usize;
    let fold_blocks = (options.fold_pages / BLOCK_PAGES).max(1);
    let mut bands = cut(blocks, fold_blocks, true);
    if bands.len() * 3 > rows {
        bands = cut(blocks, fold_blocks, false);
    }
    let mut gap = fold_blocks;
    while bands.len() * 2 > rows && gap < 1 << 24 {
        gap *= 4;
        bands = cut(blocks, gap, false);
    }
    // A band must have a row; additional rows show more in long bands than in further short ones.
    let kept = (rows / 3).max(4).min(rows);
    let dropped = if bands.len() * 2 > rows { bands.len().saturating_sub(kept) } else { 0 };
    if dropped > 0 {
        bands.sort_by_key(|band| (std::cmp::Reverse(band.touched_pages), band.process, band.start));
        bands.truncate(kept);
        bands.sort_by_key(|band| (band.process, band.start));
    }
    (bands, dropped as u64)
}

fn cut(blocks: &[Blocks], fold_blocks: u64, at_mappings: bool) -> Vec<Band> {
    let joins = |a: &Blocks, b: &Blocks| {
        a.process == b.process && b.start - a.end < fold_blocks && (!at_mappings || a.label == b.label)
    };
    blocks.chunk_by(joins).map(band_of).collect()
}

fn band_of(blocks: &[Blocks]) -> Band {
    let mut counts = std::collections::BTreeMap::new();
    for run in blocks {
        *counts.entry((std::rc::Rc::clone(&run.label), run.what)).or_insert(0u64) += run.end - run.start;
    }
    // On equal counts the last name wins; any fixed rule works.
    let (label, what) = counts.iter().max_by_key(|(_, count)| **count).map(|(key, _)| key.clone()).unwrap_or_default();
    let others = counts.len() - 1;
    let label = if others == 0 { label.to_string() } else { format!("{label} +{others}") };
    Band {
        process: blocks[0].process,
        what,
        label,
        start: blocks[0].start << BLOCK_SHIFT,
        end: blocks[blocks.len() - 1].end << BLOCK_SHIFT,
        touched_pages: counts.values().sum::<u64>() * BLOCK_PAGES,
        first_row: 0,
        rows: 0,
    }
}

/// Distributes rows: one to each band, the rest by length, at most one for each block of a band.
fn give_rows(bands: &mut [Band], rows: u32) {
    let length = |band: &Band| (band.end - band.start) >> BLOCK_SHIFT;
    let total: u128 = bands.iter().map(|band| u128::from(length(band))).sum();
    let spare = u64::from(rows) - bands.len() as u64;
    let mut first_row = 0;
    for band in bands {
        let share = u128::from(spare) * u128::from(length(band)) / total.max(1);
        let share = u64::try_from(share).unwrap_or(u64::MAX);
        band.rows = u32::try_from((1 + share).min(length(band))).expect("no more than all rows");
        band.first_row = first_row;
        first_row += band.rows;
    }
}

/// First page of row `row` of a band (its rows may differ by one page).
fn row_start(band: &Band, row: u32) -> u64 {
    let pages = u128::from(band.end - band.start) * u128::from(row);
    band.start + u64::try_from(pages.div_ceil(u128::from(band.rows))).expect("within the band")
}

fn rows_of(bands: &[Band]) -> Vec<HeatmapRow> {
    let mut rows = Vec::new();
    for (index, band) in (0u32..).zip(bands) {
        rows.extend((0..band.rows).map(|row| HeatmapRow {
            band: index,
            start: row_start(band, row),
            end: row_start(band, row + 1),
        }));
    }
    rows
}

fn fill(reader: &mut dyn TraceRows, map: &mut Heatmap) -> Result<()> {
    let columns = map.columns as usize;
    map.cells = vec![0; map.rows.len() * columns];
    let Heatmap { duration_ns, bands, rows, cells, dropped_accesses, .. } = map;
    let mut bands = Bands::new(bands, rows);
    let mut column = Column::new(rows.len(), map.columns, *duration_ns);
    walk(reader, |step| {
        let TraceStep::Rows(touched) = step else { return Ok(()) };
        if touched.time_ns >= column.until_ns {
            column.go_to(touched.time_ns, cells);
        }
        for (mut at, end) in touched.ranges() {
            while at < end {
                let until = if bands.select(touched.process, at) {
                    let (row, row_end) = bands.row(at);
                    let until = row_end.min(end);
                    column.touched[row] += until - at;
                    until
                } else {
                    // In a dropped band: skip to the next existing band.
                    let next = bands.next_start(touched.process, at).min(end);
                    *dropped_accesses += next - at;
                    next
                };
                at = until;
            }
        }
        Ok(())
    })?;
    column.put(cells);
    for (row, cells) in map.rows.iter().zip(map.cells.chunks(columns)) {
        let hottest = cells.iter().copied().max().unwrap_or(0);
        let milli = u128::from(hottest) * 1000 / u128::from(row.end - row.start);
        map.hottest_milli = map.hottest_milli.max(u64::try_from(milli).unwrap_or(u64::MAX));
    }
    Ok(())
}

/// The current column of the matrix. Time never goes back, so only one column is open.
struct Column {
    number: u32,
    columns: u32,
    duration_ns: u64,
    /// Trace time at which the next column begins; `u64::MAX` in the last.
    until_ns: u64,
    /// Pages touched in each row of the matrix.
    touched: Vec<u64>,
}

impl Column {
    fn new(rows: usize, columns: u32, duration_ns: u64) -> Self {
        let mut column = Self { number: 0, columns, duration_ns, until_ns: 0, touched: vec![0; rows] };
        column.until_ns = column.end_ns();
        column
    }

    /// First time that belongs to a later column.
    fn end_ns(&self) -> u64 {
        if self.number + 1 >= self.columns {
            return u64::MAX;
        }
        let part = u128::from(self.duration_ns.max(1)) * u128::from(self.number + 1);
        u64::try_from(part.div_ceil(u128::from(self.columns))).unwrap_or(u64::MAX)
    }

    #[cold]
    fn go_to(&mut self, time_ns: u64, cells: &mut [u64]) {
        self.put(cells);
        let number = u128::from(time_ns) * u128::from(self.columns) / u128::from(self.duration_ns.max(1));
        self.number = u32::try_from(number).unwrap_or(u32::MAX).min(self.columns - 1);
        self.until_ns = self.end_ns();
    }

    /// Adds the counts to the matrix.
    fn put(&mut self, cells: &mut [u64]) {
        for (touched, cells) in self.touched.iter_mut().zip(cells.chunks_mut(self.columns as usize)) {
            cells[self.number as usize] += std::mem::take(touched);
        }
    }
}

/// Finds the row of a page. Remembers the band of the last one.
struct Bands<'a> {
    bands: &'a [Band],
    rows: &'a [HeatmapRow],
    /// By band: number of rows per page, in 2^-64, rounded down.
    rows_per_page: Vec<u64>,
    selected: usize,
}

impl<'a> Bands<'a> {
    fn new(bands: &'a [Band], rows: &'a [HeatmapRow]) -> Self {
        let rows_per_page = |band: &Band| {
            let share = (u128::from(band.rows) << 64) / u128::from(band.end - band.start);
            u64::try_from(share).unwrap_or(u64::MAX)
        };
        Self { bands, rows, rows_per_page: bands.iter().map(rows_per_page).collect(), selected: 0 }
    }

    /// Goes to the band of `page`; `false`: there is none.
    #[inline]
    fn select(&mut self, process: usize, page: u64) -> bool {
        let holds = |band: &Band| band.process == process && (band.start..band.end).contains(&page);
        if self.bands.get(self.selected).is_some_and(holds) {
            return true;
        }
        let after = self.after(process, page);
        self.selected = after.saturating_sub(1);
        after > 0 && holds(&self.bands[self.selected])
    }

    /// Row of `page`, which is in the selected band, and the page after the last of that row.
    #[inline]
    fn row(&self, page: u64) -> (usize, u64) {
        let band = &self.bands[self.selected];
        let scaled = u128::from(page - band.start) * u128::from(self.rows_per_page[self.selected]);
        // Rounding down sometimes gives the previous row, never an earlier one: pages of a band are fewer than 2^64.
        let row = band.first_row as usize + usize::try_from(scaled >> 64).expect("less than the rows of the band");
        let end = self.rows[row].end;
        if page < end { (row, end) } else { (row + 1, self.rows[row + 1].end) }
    }

    /// Start of the first band of the process after `page`; `u64::MAX` if there is none.
    #[cold]
    fn next_start(&self, process: usize, page: u64) -> u64 {
        let next = self.bands.get(self.after(process, page));
        next.filter(|next| next.process == process).map_or(u64::MAX, |next| next.start)
    }

    fn after(&self, process: usize, page: u64) -> usize {
        self.bands.partition_point(|band| (band.process, band.start) <= (process, page))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn block(process: usize, number: u64, label: &str) -> Blocks {
        Blocks { process, start: number, end: number + 1, what: None, label: label.into() }
    }

    #[test]
    fn columns_hold_whole_epochs() {
        // (duration, epoch, columns): no epochs; fewer epochs than columns; 2590 / 4 epochs a column; none at all.
        for (duration_ns, epoch_ns, columns) in
            [(5, 0, 800), (2_590, 10, 259), (2_590, 1, 647), (0, 10, 1), (1_600_000, 1, 800)]
        {
            assert_eq!(whole_epochs(duration_ns, epoch_ns, 800), columns, "{duration_ns} / {epoch_ns}");
        }
    }

    #[test]
    fn bands_end_at_gaps_mappings_and_processes() {
        let blocks = [block(0, 1, "a"), block(0, 2, "a"), block(0, 3, "b"), block(0, 900, "b"), block(1, 901, "b")];
        let options = HeatmapOptions { rows: 60, ..HeatmapOptions::default() };
        let (bands, dropped) = find_bands(&blocks, &options);
        let found: Vec<_> =
            bands.iter().map(|band| (band.process, band.start / 16, band.end / 16, &band.label[..])).collect();
        assert_eq!(found, [(0, 1, 3, "a"), (0, 3, 4, "b"), (0, 900, 901, "b"), (1, 901, 902, "b")]);
        assert_eq!(dropped, 0);
    }

    #[test]
    fn too_many_bands_share_and_then_go() {
        let blocks = [
            block(0, 1, "a"),
            block(0, 2, "b"),
            block(0, 3, "b"),
            block(1, 900, "c"),
            block(2, 901, "c"),
            block(2, 902, "c"),
        ];
        let options = HeatmapOptions { rows: 2, ..HeatmapOptions::default() };
        let (bands, dropped) = find_bands(&blocks, &options);
        let found: Vec<_> = bands.iter().map(|band| (band.process, &band.label[..])).collect();
        assert_eq!((found, dropped), (vec![(0, "b +1"), (2, "c")], 1));
    }

    #[test]
    fn rows_cover_bands_without_gap() {
        let (mut bands, _) =
            find_bands(&[block(0, 1, "a"), block(0, 20, "a"), block(0, 900, "b")], &HeatmapOptions::default());
        give_rows(&mut bands, 7);
        let rows = rows_of(&bands);
        assert_eq!(bands.iter().map(|band| band.rows).collect::<Vec<_>>(), [5, 1]);
        assert_eq!((rows[0].start, rows[4].end, rows[5].start, rows[5].end), (16, 21 * 16, 900 * 16, 901 * 16));
        assert!(rows[..5].windows(2).all(|pair| pair[0].end == pair[1].start));
    }
}
