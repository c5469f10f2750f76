//! Texts of real kernels next to the kernels' own figures, written ones for what those do not have, and everything cut
//! short.

use crate::TextError;
use crate::buddyinfo::{self, ZoneBlocks};
use crate::free_text::FreeText;
use crate::pagetypeinfo;
use crate::zoneinfo::{self, Zone};
use isotherm_units::NodeId;
use isotherm_units::free_blocks::{FreeBlocks, MAX_FREE_PAGES};
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
    let mut row = format!("Node {}, zone {:>8} ", zone.node.0, zone.zone);
    for order in 0..zone.blocks.orders() {
        let value = index(&zone.blocks, order);
        let (whole, part) = (value / 1000, value % 1000);
        row += &if is_wide { format!("{whole:2}.{part:03} ") } else { format!("{whole}.{part:03} ") };
    }
    row + "\n"
}

/// Real text gives the kernel's own figures: byte by byte the kernel's own output.
#[test]
fn real_texts_give_the_kernels_own_indices() {
    let cases = [
        (BUDDYINFO[0].1, include_str!("real/linux-6.1/unusable_index"), include_str!("real/linux-6.1/extfrag_index")),
        (BUDDYINFO[1].1, include_str!("real/linux-6.12/unusable_index"), include_str!("real/linux-6.12/extfrag_index")),
    ];
    for (buddyinfo, unusable, extfrag) in cases {
        let zones = buddyinfo::parse(buddyinfo).unwrap();
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
    let zone = ZoneBlocks { node: NodeId(0), zone: "Normal".to_owned(), blocks };
    let row = debugfs_row(&zone, true, FreeBlocks::fragmentation_index);
    // Rust pads the sign as C does: `%03d` of −1 is `-01`.
    assert!(row.contains(" 0.-62 ") && row.contains(" 0.-01 "), "{row}");
}

#[test]
fn a_real_buddyinfo() {
    let zones = buddyinfo::parse(BUDDYINFO[0].1).unwrap();
    let names: Vec<(u32, &str)> = zones.iter().map(|zone| (zone.node.0, zone.zone.as_str())).collect();
    assert_eq!(names, [(0, "DMA"), (0, "DMA32"), (1, "DMA32")]);
    assert_eq!(zones[1].blocks.counts(), [709, 371, 528, 443, 441, 440, 438, 867, 4, 3, 13]);
}

/// Real texts are printed as they were, byte for byte.
#[test]
fn a_real_buddyinfo_is_printed_as_it_was() {
    for (name, text) in &BUDDYINFO[..3] {
        assert_eq!(buddyinfo::write(&buddyinfo::parse(text).unwrap()), *text, "{name}");
    }
}

/// A zone of each node, as `/proc/buddyinfo` has it.
#[test]
fn rows_of_zones() {
    let zones =
        buddyinfo::parse("Node 0, zone    DMA32      2      2      4 \nNode 1, zone   Normal      0      1      0 \n")
            .unwrap();
    assert_eq!((zones[0].zone.as_str(), zones[0].blocks.pages(), zones[1].node), ("DMA32", 2 + 4 + 16, NodeId(1)));
    for text in ["Node 0", "Node 0, zone", "Node 0, zone DMA", "Node 0, zone DMA x", "Node x, zone DMA 1"] {
        assert!(buddyinfo::parse(text).is_err() && buddyinfo::parse(&format!("{text}\n")).is_err(), "{text}");
    }
    assert!(buddyinfo::parse(&format!("Node 0, zone DMA {}\n", u64::MAX)).is_err(), "more memory than there can be");
}

const TYPES: &str = "Page block order: 9\nPages per block:  512\n\n\
    Free pages count per migrate type at order       0      1      2 \n\
    Node    0, zone   Normal, type    Unmovable      1      0      0 \n\
    Node    0, zone   Normal, type      Movable      3      0      1 \n\
    Node    1, zone   Normal, type      Movable >100000      0      1 \n\n\
    Number of blocks type     Unmovable      Movable \n\
    Node 0, zone   Normal            5         7 \n\
    Node 1, zone   Normal            0         2 \n";

#[test]
fn free_blocks_and_page_blocks_by_type() {
    let types = pagetypeinfo::parse(TYPES).unwrap();
    assert_eq!((types.block_order, types.zones[0].free.len(), types.zones[1].free.len()), (9, 2, 1));
    assert_eq!(types.movable(NodeId(0), "Normal").map(|blocks| blocks.pages()), Some(7));
    assert_eq!(types.movable(NodeId(1), "Normal"), None, "it was not counted to the end");
    let counts: Vec<(&str, u64)> =
        types.zones[0].page_blocks.iter().map(|count| (count.migrate_type.as_str(), count.count)).collect();
    assert_eq!(counts, [("Unmovable", 5), ("Movable", 7)]);
    for text in
        ["", "nothing", "Page block order: x", "Node 0, zone", "Node 0, zone Normal, type", "Node 0, zone Normal 1"]
    {
        assert!(pagetypeinfo::parse(text).is_err() && pagetypeinfo::parse(&format!("{text}\n")).is_err(), "{text}");
    }
}

/// The two files of one moment agree, zone by zone.
#[test]
fn types_sum_up_to_buddyinfo() {
    for ((name, buddyinfo), (_, pagetypeinfo)) in BUDDYINFO.into_iter().zip(PAGETYPEINFO).take(3) {
        let zones = buddyinfo::parse(buddyinfo).unwrap();
        let types = pagetypeinfo::parse(pagetypeinfo).unwrap();
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
    let types = pagetypeinfo::parse(PAGETYPEINFO[0].1).unwrap();
    let second = &types.zones[2];
    assert_eq!((second.node.0, second.zone.as_str()), (1, "DMA32"));
    let count =
        |name: &str| second.page_blocks.iter().find(|count| count.migrate_type == name).map(|count| count.count);
    assert_eq!((count("Movable"), count("Unmovable"), count("CMA")), (Some(243), Some(11), None));
    assert_eq!(second.movable().unwrap().blocks.suitable(9), 10);
}

#[test]
fn kernels_differ_in_orders_zones_and_types() {
    let zones = buddyinfo::parse(BUDDYINFO[3].1).unwrap();
    assert_eq!((zones.len(), zones[0].blocks.orders()), (5, 14));
    assert_eq!(zones[2].blocks.pages(), 0, "a full zone");
    let few = buddyinfo::parse(BUDDYINFO[4].1).unwrap();
    assert_eq!((few[0].blocks.orders(), few[1].blocks.counts()[1]), (9, 12_345_678_901), "wider than the column");
    let old = pagetypeinfo::parse(PAGETYPEINFO[3].1).unwrap();
    let [_, normal, high] = &old.zones[..] else { panic!("three zones") };
    assert_eq!(
        (normal.free[1].migrate_type.as_str(), normal.movable().unwrap().blocks.counts()[10]),
        ("Reclaimable", 40)
    );
    assert_eq!((high.zone.as_str(), high.blocks().extfrag(9)), ("HighMem", 50));
}

#[test]
fn counts_that_were_cut_off_and_mixed_blocks() {
    let types = pagetypeinfo::parse(PAGETYPEINFO[4].1).unwrap();
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
    let zones = zoneinfo::parse(ZONEINFO[1].1).unwrap().zones;
    let normal = zones.iter().find(|zone| zone.name == "Normal").unwrap();
    assert!(normal.min < normal.low && normal.low < normal.high && normal.managed <= normal.present);
    let movable = zones.iter().find(|zone| zone.name == "Movable").unwrap();
    assert_eq!((movable.present, movable.managed), (0, 0), "not there");
    let marks = |zone: &Zone| (zone.min, zone.low, zone.high, zone.present, zone.managed, zone.protection.clone());
    let this = zoneinfo::parse(ZONEINFO[2].1).unwrap().zones;
    assert_eq!(
        marks(&this[0]),
        (10, 13, 16, 3998, 3840, vec![0, 3019, 24090, 24090, 24090]),
        "the file's first lines, by eye"
    );
    // Before 5.0: no boost.
    let old = "Node 0, zone Normal\n  pages free 10\n        min      1\n        low 2\n        high 3\n present 100\n";
    assert_eq!(zoneinfo::parse(old).unwrap().zones[0].managed, 100);
    let error = zoneinfo::parse("Node 0, zone Normal\n  pages free 10\n").unwrap_err().to_string();
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
        let whole = buddyinfo::parse(text).unwrap();
        for end in 0..text.len() {
            match buddyinfo::parse(&text[..end]) {
                Ok(zones) => assert!(text[..end].ends_with('\n') && whole.starts_with(&zones), "{name} at {end}"),
                Err(TextError::Empty) => assert_eq!(end, 0, "{name}"),
                Err(TextError::CutOff { .. }) => assert!(!text[..end].ends_with('\n'), "{name} at {end}"),
                Err(error) => panic!("{name} at {end}: {error}"),
            }
        }
    }
    for (name, text) in PAGETYPEINFO {
        let whole = pagetypeinfo::parse(text).unwrap();
        for end in 0..text.len() {
            let Ok(part) = pagetypeinfo::parse(&text[..end]) else { continue };
            let is_whole_nodes = part.zones.len() < whole.zones.len() && whole.zones.starts_with(&part.zones);
            let lacks_mixed = text[end..].starts_with("Number of mixed");
            assert!(is_whole_nodes || lacks_mixed || text[end..].trim().is_empty(), "{name} at {end}");
        }
    }
    for (name, text) in ZONEINFO {
        let whole = zoneinfo::parse(text).unwrap().zones;
        for end in 0..text.len() {
            let Ok(part) = zoneinfo::parse(&text[..end]) else { continue };
            let (last, before) = part.zones.split_last().unwrap();
            // Of the last zone, what comes last may be missing.
            assert!(whole.starts_with(before) && whole[before.len()].present == last.present, "{name} at {end}");
        }
    }
}

proptest! {
    #[test]
    fn garbage_is_refused(text in "[Node0-9, zoneNormal>\n:.-]{0,200}") {
        let _ = FreeText::parse(&text);
        let _ = zoneinfo::parse(&text);
    }

    #[test]
    fn any_text_is_read_or_refused(text in any::<String>()) {
        let _ = FreeText::parse(&text);
        let _ = zoneinfo::parse(&text);
    }

    /// With one byte changed: no panic, and if the text is accepted the sums stay in range.
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
        let zones: Vec<ZoneBlocks> = (0..).zip(&rows).map(|(node, row)| ZoneBlocks {
            node: NodeId(node), zone: "Normal".to_owned(), blocks: FreeBlocks::new(row).unwrap(),
        }).collect();
        prop_assert_eq!(buddyinfo::parse(&buddyinfo::write(&zones)), Ok(zones));
    }
}
