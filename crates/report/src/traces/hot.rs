//! The hottest memory.

use isotherm_trace::TraceMeta;
use isotherm_trace::analysis::Hot;

use super::{bytes, without_process};
use crate::{Cell, Column, Table, Unit};

/// Mappings shown to people at most.
const MAPPINGS_MAX: usize = 15;

/// Tables by mapping, then the hottest ranges.
pub fn hot_tables(hot: &Hot, meta: &TraceMeta) -> Vec<Table> {
    let mut mappings = Table::new(
        "by mapping",
        vec![
            Column::text("mapping"),
            Column::text("process"),
            Column::number("touched", Unit::Bytes),
            Column::number("accesses", Unit::Count),
            Column::number("share", Unit::Ppm),
        ],
    );
    for mapping in hot.mappings.iter().take(MAPPINGS_MAX) {
        mappings.push(vec![
            mapping.label.clone().into(),
            process_name(meta, mapping.process).into(),
            bytes(mapping.touched_pages, meta.page_bytes).into(),
            mapping.accesses.into(),
            mapping.share_ppm.into(),
        ]);
    }
    if hot.mappings.len() > MAPPINGS_MAX {
        mappings.title = format!("by mapping ({MAPPINGS_MAX} of {}; all with --format json)", hot.mappings.len());
    }
    let mut ranges = hot_csv(hot, meta);
    ranges.title = "hottest ranges".into();
    let mut ranges = ranges.only(&["mapping", "process", "start", "size", "accesses", "accesses per page", "share"]);
    if meta.processes.len() < 2 {
        mappings = without_process(&mappings);
        ranges = without_process(&ranges);
    }
    vec![mappings, ranges]
}

/// The hottest ranges, hottest first.
pub fn hot_csv(hot: &Hot, meta: &TraceMeta) -> Table {
    let mut table = Table::new(
        "hot",
        vec![
            Column::text("mapping"),
            Column::text("process"),
            Column::number("start", Unit::Address),
            Column::number("end", Unit::Address),
            Column::number("size", Unit::Bytes),
            Column::number("touched", Unit::Bytes),
            Column::number("accesses", Unit::Count),
            Column::number("accesses per page", Unit::Count),
            Column::number("share", Unit::Ppm),
        ],
    );
    for range in &hot.ranges {
        table.push(vec![
            range.label.clone().into(),
            process_name(meta, range.process).into(),
            bytes(range.start, meta.page_bytes).into(),
            bytes(range.end, meta.page_bytes).into(),
            bytes(range.end.saturating_sub(range.start), meta.page_bytes).into(),
            bytes(range.touched_pages, meta.page_bytes).into(),
            range.accesses.into(),
            Cell::Float(range.milli_accesses_per_page as f64 / 1000.0),
            range.share_ppm.into(),
        ]);
    }
    table
}

fn process_name(meta: &TraceMeta, process: usize) -> String {
    let name = meta.processes.get(process).map_or("", |process| process.name.as_str());
    match (name, meta.processes.len()) {
        ("", _) => process.to_string(),
        (name, 0 | 1) => name.to_owned(),
        (name, _) => format!("{name} #{process}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::TermStyle;
    use isotherm_trace::analysis::{HotMapping, HotRange};

    #[test]
    fn ranges_have_addresses_and_shares() {
        let hot = Hot {
            accesses: 1000,
            mappings: vec![HotMapping {
                process: 0,
                what: None,
                label: "heap".into(),
                touched_pages: 3,
                accesses: 750,
                share_ppm: 750_000,
            }],
            ranges: vec![HotRange {
                process: 0,
                label: "heap".into(),
                start: 16,
                end: 20,
                touched_pages: 3,
                accesses: 750,
                milli_accesses_per_page: 250_000,
                share_ppm: 750_000,
            }],
        };
        let meta = TraceMeta::single("sqlite3");
        let text: String = hot_tables(&hot, &meta).iter().map(|table| table.to_text(&TermStyle::plain(120))).collect();
        insta::assert_snapshot!(text, @r#"
        by mapping
        mapping  touched [KiB]  accesses  share [%]
        heap              12.0       750       75.0
        hottest ranges
        mapping    start  size [KiB]  accesses  accesses per page  share [%]
        heap     0x10000        16.0       750                250       75.0
        "#);
        assert_eq!(
            hot_csv(&hot, &meta).to_csv().lines().nth(1),
            Some("heap,sqlite3,65536,81920,16384,12288,750,250,750000")
        );
    }
}
