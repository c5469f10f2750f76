//! Texts of real kernels beside the kernels' own figures, written ones for what those do not have, and everything cut short.

use super::*;
use crate::compaction::{FreeBlocks, MAX_FREE_PAGES};
use proptest::prelude::*;

macro_rules! texts {
    ($($name:literal,)*) => {
        [$(($name, include_str!($name)),)*]
    };
}

const BUDDYINFO: [(&str, &str); 5] = texts![
    "real/linux-6.1/buddyinfo",
    "real/linux-6.12/buddyinfo",
    "real/linux-6.18/buddyinfo",
    "written/large-pages",
    "written/few-orders",
];

const PAGETYPEINFO: [(&str, &str); 5] = texts![
    "real/linux-6.1/pagetypeinfo",
    "real/linux-6.12/pagetypeinfo",
    "real/linux-6.18/pagetypeinfo",
    "written/highmem-2.6",
    "written/mixed-cma",
];

const ZONEINFO: [(&str, &str); 3] =
    texts!["real/linux-6.1/zoneinfo", "real/linux-6.12/zoneinfo", "real/linux-6.18/zoneinfo",];

/// A line of a debugfs file, as the kernel prints per mille: the sign of a small negative number goes behind the point.
fn debugfs_row(zone: &ZoneBlocks, is_wide: bool, index: impl Fn(&FreeBlocks, u32) -> i32) -> String {
    let mut row = format!("Node {}, zone {:>8} ", zone.node, zone.zone);
    for order in 0..zone.blocks.orders() {
        let value = index(&zone.blocks, order);
        let (whole, part) = (value / 1000, value % 1000);
        row += &if is_wide { format!("{whole:2}.{part:03} ") } else { format!("{whole}.{part:03} ") };
    }
    row + "\n"
}

/// The "real text gives the kernel's own figures": byte by byte what the kernel printed itself.
#[test]
fn real_texts_give_the_kernels_own_indices() {
    let cases = [
        (BUDDYINFO[0].1, include_str!("real/linux-6.1/unusable_index"), include_str!("real/linux-6.1/extfrag_index")),
        (BUDDYINFO[1].1, include_str!("real/linux-6.12/unusable_index"), include_str!("real/linux-6.12/extfrag_index")),
    ];
    for (buddyinfo, unusable, extfrag) in cases {
        let zones = parse_buddyinfo(buddyinfo).unwrap();
        let print = |is_wide, index: fn(&FreeBlocks, u32) -> i32| -> String {
            zones.iter().map(|zone| debugfs_row(zone, is_wide, index)).collect()
        };
        assert_eq!(print(false, |blocks, order| blocks.unusable(order).cast_signed()), unusable);
        assert_eq!(print(true, FreeBlocks::fragmentation_index), extfrag);
    }
}

/// docs/spec/compaction.md#s11, E7, as debugfs prints it.
#[test]
fn e7_small_negatives_are_printed_oddly() {
    let blocks = FreeBlocks::new(&[1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0]).unwrap();
    let zone = ZoneBlocks { node: 0, zone: "Normal".to_owned(), blocks };
    let row = debugfs_row(&zone, true, FreeBlocks::fragmentation_index);
    // Rust pads the sign as C does: `%03d` of −1 is `-01`.
    assert!(row.contains(" 0.-62 ") && row.contains(" 0.-01 "), "{row}");
}

#[test]
fn a_real_buddyinfo() {
    let zones = parse_buddyinfo(BUDDYINFO[0].1).unwrap();
    let names: Vec<(u32, &str)> = zones.iter().map(|zone| (zone.node, zone.zone.as_str())).collect();
    assert_eq!(names, [(0, "DMA"), (0, "DMA32"), (1, "DMA32")]);
    assert_eq!(zones[1].blocks.counts(), [709, 371, 528, 443, 441, 440, 438, 867, 4, 3, 13]);
}

/// The two files of one moment agree, zone by zone.
#[test]
fn types_sum_up_to_buddyinfo() {
    for ((name, buddyinfo), (_, pagetypeinfo)) in BUDDYINFO.into_iter().zip(PAGETYPEINFO).take(3) {
        let zones = parse_buddyinfo(buddyinfo).unwrap();
        let types = parse_pagetypeinfo(pagetypeinfo).unwrap();
        let sums: Vec<ZoneBlocks> = types
            .zones
            .iter()
            .map(|zone| ZoneBlocks { node: zone.node, zone: zone.zone.clone(), blocks: zone.blocks() })
            .collect();
        assert_eq!(sums, zones, "{name}");
        assert_eq!(types.block_order, 9);
    }
}

#[test]
fn each_node_has_tables_of_its_own() {
    let types = parse_pagetypeinfo(PAGETYPEINFO[0].1).unwrap();
    let second = &types.zones[2];
    assert_eq!((second.node, second.zone.as_str()), (1, "DMA32"));
    let count =
        |name: &str| second.page_blocks.iter().find(|count| count.migrate_type == name).map(|count| count.count);
    assert_eq!((count("Movable"), count("Unmovable"), count("CMA")), (Some(243), Some(11), None));
    assert_eq!(second.movable().unwrap().blocks.suitable(9), 10);
}

#[test]
fn kernels_differ_in_orders_zones_and_types() {
    let zones = parse_buddyinfo(BUDDYINFO[3].1).unwrap();
    assert_eq!((zones.len(), zones[0].blocks.orders()), (5, 14));
    assert_eq!(zones[2].blocks.pages(), 0, "a full zone");
    let few = parse_buddyinfo(BUDDYINFO[4].1).unwrap();
    assert_eq!((few[0].blocks.orders(), few[1].blocks.counts()[1]), (9, 12_345_678_901), "wider than the column");
    let old = parse_pagetypeinfo(PAGETYPEINFO[3].1).unwrap();
    let [_, normal, high] = &old.zones[..] else { panic!("three zones") };
    assert_eq!(
        (normal.free[1].migrate_type.as_str(), normal.movable().unwrap().blocks.counts()[10]),
        ("Reclaimable", 40)
    );
    assert_eq!((high.zone.as_str(), high.blocks().extfrag(9)), ("HighMem", 50));
}

#[test]
fn counts_that_were_cut_off_and_mixed_blocks() {
    let types = parse_pagetypeinfo(PAGETYPEINFO[4].1).unwrap();
    let zone = &types.zones[0];
    let flags: Vec<bool> = zone.free.iter().map(|free| free.is_at_least).collect();
    assert_eq!(flags, [true, true, false, false, false, false]);
    assert!(zone.is_at_least());
    assert_eq!(zone.blocks().counts()[0], 200_013, "what was counted");
    let mixed = zone.mixed_blocks.as_ref().unwrap();
    assert_eq!((mixed[1].migrate_type.as_str(), mixed[1].count), ("Movable", 113));
}

#[test]
fn zones_of_zoneinfo() {
    let zones = parse_zoneinfo(ZONEINFO[1].1).unwrap();
    let normal = zones.iter().find(|zone| zone.zone == "Normal").unwrap();
    assert!(normal.min < normal.low && normal.low < normal.high && normal.managed <= normal.present);
    let movable = zones.iter().find(|zone| zone.zone == "Movable").unwrap();
    assert_eq!((movable.present, movable.managed), (0, 0), "not there");
    let marks = |zone: &ZoneInfo| (zone.min, zone.low, zone.high, zone.present, zone.managed, zone.protection.clone());
    let this = parse_zoneinfo(ZONEINFO[2].1).unwrap();
    assert_eq!(
        marks(&this[0]),
        (10, 13, 16, 3998, 3840, vec![0, 3019, 24090, 24090, 24090]),
        "the file's first lines, by eye"
    );
    // Before 5.0: no boost.
    let old = "Node 0, zone Normal\n  pages free 10\n        min      1\n        low 2\n        high 3\n present 100\n";
    assert_eq!(parse_zoneinfo(old).unwrap()[0].managed, 100);
    let error = parse_zoneinfo("Node 0, zone Normal\n  pages free 10\n").unwrap_err().to_string();
    assert_eq!(error, "the text ends before `present` of node 0, zone Normal");
}

#[test]
fn either_text_is_told_by_its_first_line() {
    assert!(matches!(FreeText::parse(BUDDYINFO[0].1), Ok(FreeText::Buddyinfo(_))));
    assert!(matches!(FreeText::parse(PAGETYPEINFO[0].1), Ok(FreeText::PageTypes(_))));
    assert_eq!(FreeText::parse(""), Err(TextError::Empty));
    assert_eq!(FreeText::parse("\n \n"), Err(TextError::Empty));
}

#[test]
fn errors_say_where_and_what() {
    let said = |text: &str| FreeText::parse(text).unwrap_err().to_string();
    let row = "Node 0, zone Normal 1 2 3\n";
    for (text, expected) in [
        ("Node 0, zone Normal 1 2", "line 1 is cut off: the text must end with a whole line"),
        ("hello\n", "line 1: expected `Node N, zone NAME`, found \"hello\""),
        ("Node 0, zone Nor/mal 1\n", "line 1: expected the name of a zone, found \"Nor/mal\""),
        ("Node 0, zone\n", "line 1: expected the name of a zone, found the end of the line"),
        ("Node 0, zone Normal\n", "line 1: expected counts of free blocks, by order, found the end of the line"),
        ("Node 0, zone Normal 1 -2\n", "line 1: expected a whole number below 2^64, found \"-2\""),
        ("Node 0, zone Normal 1 +2\n", "line 1: expected a whole number below 2^64, found \"+2\""),
        ("Node 0, zone Normal >1 2\n", "line 1: expected plain numbers, found \"Node 0, zone Normal >1 2\""),
        (
            &format!("{row}Node 0, zone DMA 1 2\n"),
            "line 2: expected counts for 3 orders, as in the rows before, found \"2 of them\"",
        ),
        (
            &format!("{row}\n{row}"),
            "line 3: node 0, zone Normal for the second time; give one reading, not several behind each other",
        ),
        (
            "Page block order: 9\nPages per block: 511\n",
            "line 2: expected 2^9 pages, as the line before says, found \"Pages per block: 511\"",
        ),
        ("Page block order: 64\n", "line 1: expected `Page block order:` and a number, found \"Page block order: 64\""),
        ("Page block order: 9\n", "the text ends before `Pages per block:`"),
    ] {
        assert_eq!(said(text), expected, "{text:?}");
    }
    let huge = format!("Node 0, zone Normal {}\n", u64::MAX);
    assert!(said(&huge).starts_with("line 1: more than 4503599627370496 free pages"), "{}", said(&huge));
    // Each type alone is possible, both together are not.
    let half = PAGETYPEINFO[1].1.replacen("Movable      0", &format!("Movable {MAX_FREE_PAGES}"), 1);
    let both = half.replacen("Reclaimable      0", &format!("Reclaimable {MAX_FREE_PAGES}"), 1);
    assert!(said(&both).contains("more than"), "{}", said(&both));
}

/// Cut at every byte: an error, or, of buddyinfo and of tables of several nodes, the zones before.
#[test]
fn texts_cut_at_every_byte() {
    for (name, text) in BUDDYINFO {
        let whole = parse_buddyinfo(text).unwrap();
        for end in 0..text.len() {
            match parse_buddyinfo(&text[..end]) {
                Ok(zones) => assert!(text[..end].ends_with('\n') && whole.starts_with(&zones), "{name} at {end}"),
                Err(TextError::Empty) => assert_eq!(end, 0, "{name}"),
                Err(TextError::CutOff { .. }) => assert!(!text[..end].ends_with('\n'), "{name} at {end}"),
                Err(error) => panic!("{name} at {end}: {error}"),
            }
        }
    }
    for (name, text) in PAGETYPEINFO {
        let whole = parse_pagetypeinfo(text).unwrap();
        for end in 0..text.len() {
            let Ok(part) = parse_pagetypeinfo(&text[..end]) else { continue };
            let is_whole_nodes = part.zones.len() < whole.zones.len() && whole.zones.starts_with(&part.zones);
            let lacks_mixed = text[end..].starts_with("Number of mixed");
            assert!(is_whole_nodes || lacks_mixed || text[end..].trim().is_empty(), "{name} at {end}");
        }
    }
    for (name, text) in ZONEINFO {
        let whole = parse_zoneinfo(text).unwrap();
        for end in 0..text.len() {
            let Ok(part) = parse_zoneinfo(&text[..end]) else { continue };
            let (last, before) = part.split_last().unwrap();
            // Of the last zone, what comes last may be missing.
            assert!(whole.starts_with(before) && whole[before.len()].present == last.present, "{name} at {end}");
        }
    }
}

proptest! {
    #[test]
    fn garbage_is_refused(text in "[Node0-9, zoneNormal>\n:.-]{0,200}") {
        let _ = FreeText::parse(&text);
        let _ = parse_zoneinfo(&text);
    }

    #[test]
    fn any_text_is_read_or_refused(text in any::<String>()) {
        let _ = FreeText::parse(&text);
        let _ = parse_zoneinfo(&text);
    }

    /// One byte changed: no panic, and where it is taken the sums stay in range.
    #[test]
    fn spoilt_texts(which in 0usize..5, at in 0usize..2000, byte in 32u8..127) {
        let mut text = PAGETYPEINFO[which].1.to_owned().into_bytes();
        let at = at % text.len();
        text[at] = byte;
        if let Ok(FreeText::PageTypes(types)) = FreeText::parse(&String::from_utf8(text).unwrap()) {
            prop_assert!(types.zones.iter().all(|zone| zone.blocks().pages() <= MAX_FREE_PAGES));
        }
    }

    /// Rows printed as the kernel prints them are read back.
    #[test]
    fn what_is_printed_is_read(rows in prop::collection::vec(prop::collection::vec(0u64..1 << 30, 11), 1..6)) {
        let text: String = rows.iter().enumerate().map(|(node, row)| {
            let counts: String = row.iter().map(|count| format!("{count:6} ")).collect();
            format!("Node {node}, zone {:>8} {counts}\n", "Normal")
        }).collect();
        let read = parse_buddyinfo(&text).unwrap();
        let counts: Vec<&[u64]> = read.iter().map(|zone| zone.blocks.counts()).collect();
        prop_assert_eq!(counts, rows.iter().map(Vec::as_slice).collect::<Vec<_>>());
    }
}
