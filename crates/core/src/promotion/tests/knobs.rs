//! Values that may be set, and features that the daemon needs of its host.

use super::*;
use crate::host::TieringCapabilities;
use crate::promotion::KNOBS;

fn world() -> World {
    let mut world = World::new();
    world.map(0, &[(0, MIB)]);
    world
}

#[test]
fn bad_text_is_refused_and_changes_nothing() {
    let mut world = world();
    let mut promotion = of_mode(Mode::V0, &mut world);
    let before: Vec<String> = KNOBS.iter().map(|knob| promotion.knob(knob).unwrap()).collect();
    assert_eq!(before, ["1\n", "16\n", "2000\n", "4096\n", "0\n"]);
    let timeout = promotion.next_timeout();
    let table = [
        ("scan_enabled", "2", "EINVAL: `scan_enabled` refuses `2`; allowed: 0 or 1"),
        (
            "scan_enabled",
            "yes\n",
            "EINVAL: `scan_enabled` refuses `yes`; allowed: a decimal number from 0 to 4294967295",
        ),
        ("scan_sleep_ms", "-1", "EINVAL: `scan_sleep_ms` refuses `-1`; allowed: a decimal number from 0 to 4294967295"),
        ("mms_to_scan", "", "EINVAL: `mms_to_scan` refuses ``; allowed: a decimal number from 0 to 4294967295"),
        (
            "mms_to_scan",
            "4294967296",
            "EINVAL: `mms_to_scan` refuses `4294967296`; allowed: a decimal number from 0 to 4294967295",
        ),
        (
            "target_node",
            "1\n",
            "EINVAL: `target_node` refuses `1`; allowed: a node of the top tier with memory (`target-node` is 1, which is not of \
             the top tier; allowed: node 0)",
        ),
        (
            "target_node",
            "9",
            "EINVAL: `target_node` refuses `9`; allowed: a node of the top tier with memory (`target-node` is 9, which is not \
             there; allowed: node 0)",
        ),
        (
            "scan_size_mb",
            "1",
            "ENOENT: no knob `scan_size_mb`; there are: scan_enabled, scan_sleep_ms, mm_scan_period_ms, mms_to_scan, target_node",
        ),
    ];
    for (knob, text, expected) in table {
        assert_eq!(promotion.set_knob(knob, text, ms(5)).unwrap_err().to_string(), expected);
        let after: Vec<String> = KNOBS.iter().map(|knob| promotion.knob(knob).unwrap()).collect();
        assert_eq!((after, promotion.next_timeout()), (before.clone(), timeout), "{knob} <- {text}");
    }
}

/// docs/spec/promotion.md#s1-3: clamped on store, and for new spaces only.
#[test]
fn the_period_is_brought_within_its_bounds() {
    let mut world = world();
    let mut promotion = of_mode(Mode::V0, &mut world);
    for (text, period) in [("100", "400\n"), ("6000\n", "5000\n"), ("+1234\n", "1234\n")] {
        promotion.set_knob("mm_scan_period_ms", text, Instant::START).unwrap();
        assert_eq!(promotion.knob("mm_scan_period_ms").unwrap(), period);
    }
    promotion.enter(TargetId(5), None, Instant::START).unwrap();
    let period = |target| promotion.space(target).expect("there").scan_period;
    assert_eq!((period(SPACE), period(TargetId(5))), (Duration::from_ms(2000), Duration::from_ms(1234)));
}

#[test]
fn switched_off_it_sleeps_and_any_knob_wakes_it() {
    let mut world = world();
    let mut promotion = of_mode(Mode::V0, &mut world);
    promotion.set_knob("scan_enabled", "0\n", Instant::START).unwrap();
    assert_eq!(promotion.next_timeout(), None);
    promotion.set_knob("scan_enabled", "1", ms(77)).unwrap();
    assert_eq!(scans(&mut promotion, &mut world, ms(77), 1)[0].0, ms(77));
    promotion.set_knob("scan_sleep_ms", "100", ms(78)).unwrap();
    assert_eq!(
        scans(&mut promotion, &mut world, ms(78), 1)[0].0,
        ms(2378),
        "78 and 23 sleeps: the scan is due at 2377"
    );
}

#[test]
fn a_scale_of_nothing_ends_scans_and_children_inherit_it() {
    let mut world = world();
    let mut promotion = of_mode(Mode::V3, &mut world);
    promotion.set_scale(SPACE, 0).unwrap();
    assert_eq!(promotion.next_timeout(), None);
    promotion.enter(TargetId(1), Some(SPACE), Instant::START).unwrap();
    assert_eq!(promotion.space(TargetId(1)).expect("there").scale, 0);
    promotion.set_scale(SPACE, 10).unwrap();
    let scan = scans(&mut promotion, &mut world, Instant::START, 1)[0].1;
    assert_eq!(pace(&scan).0, 4600, "2300 ms twice");
    let error = |promotion: &mut Promotion, target, scale| promotion.set_scale(target, scale).unwrap_err().to_string();
    assert_eq!(error(&mut promotion, SPACE, 11), "`scale` is 11; allowed: 0 to 10");
    assert_eq!(error(&mut promotion, TargetId(9), 1), "space 9 is not being scanned");
    let mut v0 = of_mode(Mode::V0, &mut world);
    assert!(error(&mut v0, SPACE, 1).starts_with("mode `v0` is not available here: scales of processes"));
}

#[test]
fn a_host_that_lacks_something_is_told_what() {
    type Row = (Mode, fn(&mut TieringCapabilities), &'static str);
    let table: [Row; 7] = [
        (
            Mode::Rch,
            |has| has.scan_accessed = false,
            "mode `rch` is not available here: scans of ranges for accessed pages",
        ),
        (Mode::V0, |has| has.migrate = false, "mode `v0` is not available here: moves of pages between nodes"),
        (Mode::V2, |has| has.knows_active = false, "mode `v2` is not available here: moves of active pages only"),
        (
            Mode::V0,
            |has| has.nodes[0].is_top_tier = false,
            "no fast node has memory, so there is nothing to promote; this host has node 0, node 1",
        ),
        (
            Mode::V0,
            |has| has.nodes.truncate(1),
            "no slow node has memory, so there is nothing to promote; this host has node 0",
        ),
        (
            Mode::V0,
            |has| has.nodes.clear(),
            "no fast node has memory, so there is nothing to promote; this host has no nodes",
        ),
        (
            Mode::V0,
            |has| {
                has.nodes.push(crate::host::TierNode { node: crate::host::NodeId(2), ..has.nodes[0] });
                has.nodes[0].has_memory = false;
            },
            "`target-node` is 0, which has no memory; allowed: node 2",
        ),
    ];
    for (mode, lacks, expected) in table {
        let world = World { lacks, ..world() };
        let error = Promotion::new(PromotionConfig::of_mode(mode), 0, &world).unwrap_err().to_string();
        assert_eq!(error, expected);
    }
}
