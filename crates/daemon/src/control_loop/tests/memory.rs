//! Compaction and tiers: what is done, only reported, and restored.

use super::super::*;
use super::configs::*;
use super::system::*;
use crate::config::{CompactionConfig, Engine, TieringConfig};
use isotherm_core::compaction::{Design, ExplicitConfig, FreeBlocks, MergedConfig, Why};
use isotherm_core::host::{
    CompactEnd, CompactStep, Compacted, Compacting, CompactionSignals, Granularity, HostError, NodeId, ZoneId,
};
use isotherm_core::vocabulary::Marks;
use isotherm_units::{Instant, PAGE_BYTES, Ratio};
use std::cell::Cell;
use std::rc::Rc;

pub(super) const PROACTIVENESS: &str = "/proc/sys/vm/compaction_proactiveness";
pub(super) const BALANCING: &str = "/proc/sys/kernel/numa_balancing";
pub(super) const DEMOTION: &str = "/sys/kernel/mm/numa/demotion_enabled";

/// Free memory of one zone, and its compaction.
#[derive(Debug, Default)]
pub(super) struct Scattered {
    /// Free pages outside huge pages, and free huge pages.
    pub(super) loose: Cell<u64>,
    pub(super) huge: Cell<u64>,
    pub(super) is_compacting: Cell<bool>,
    /// Huge pages that compaction has made.
    pub(super) made: Cell<u64>,
    pub(super) nr_tiers: Cell<u32>,
}

impl Machine {
    fn zone(&self) -> ZoneState {
        let free = &self.0.memory;
        let mut counts = [0; 11];
        (counts[0], counts[9]) = (free.loose.get(), free.huge.get());
        ZoneState {
            id: ZoneId { node: NodeId(0), zone: 0 },
            blocks: FreeBlocks::new(&counts).unwrap(),
            present: 1 << 20,
            marks: Marks { min: 10, low: 12, high: 14 },
            movable: None,
            exact_yield: None,
        }
    }
}

impl Compacting for Machine {
    fn compaction_granularity(&self) -> Option<Granularity> {
        Some(Granularity::Node)
    }

    fn zones(&mut self, out: &mut Vec<ZoneState>) -> Result<(), HostError> {
        if self.0.fails() {
            return Err(HostError::Failed("EIO".to_owned()));
        }
        out.push(self.zone());
        Ok(())
    }

    fn compaction_signals(&mut self, _: NodeId) -> Result<CompactionSignals, HostError> {
        if self.0.fails() { Err(HostError::Failed("EIO".to_owned())) } else { Ok(CompactionSignals::default()) }
    }

    fn compact(&mut self, step: &CompactStep) -> Result<Compacted, HostError> {
        let truth = &self.0;
        // What is under way was written down when it began.
        if truth.has_kill_file.get() || (step.is_first && truth.is_log_full.get()) {
            truth.forbidden.borrow_mut().push(format!("compaction at {}", truth.now()));
        }
        if truth.fails() {
            return Err(HostError::Failed("EIO".to_owned()));
        }
        let free = &truth.memory;
        if step.is_first {
            free.is_compacting.set(true);
        }
        let end = |end| {
            truth.memory.is_compacting.set(false);
            Ok(Compacted { end: Some(end), ..Compacted::default() })
        };
        if !free.is_compacting.get() {
            return end(CompactEnd::Contended);
        }
        if step.stop.is_reached(&self.zone().blocks, 0) {
            return end(CompactEnd::Reached);
        }
        if free.loose.get() < 4096 {
            return end(CompactEnd::ScannersMet);
        }
        free.loose.set(free.loose.get() - 4096);
        free.huge.set(free.huge.get() + 8);
        free.made.set(free.made.get() + 8);
        Ok(Compacted { pages_moved: 1000, scanned_migrate: 4096, blocks_freed: 8, ..Compacted::default() })
    }

    fn cease(&mut self, _: NodeId) {
        self.0.memory.is_compacting.set(false);
    }
}

fn compaction(enable: bool, design: Design) -> Config {
    let section = CompactionConfig { name: "huge".to_owned(), enable, engine: Engine::Auto, node: 0, design };
    let config = Config { compaction: vec![section], ..Config::default() };
    config.check().unwrap();
    config
}

fn explicit(enable: bool) -> Config {
    compaction(enable, Design::Explicit(ExplicitConfig::default()))
}

fn kcompactd(enable: bool, proactiveness: u32) -> Config {
    let proactiveness = proactiveness.try_into().unwrap();
    compaction(enable, Design::Merged(MergedConfig { proactiveness, ..MergedConfig::default() }))
}

fn tiers(enable: bool) -> TieringConfig {
    TieringConfig { enable, policy: Some("numa-mode-2".to_owned()), demotion: Some(true), ..TieringConfig::default() }
}

/// With compaction by kcompactd or by a design of ours, tiers, and what evicts.
pub(super) fn with_memory(enable: bool, is_kernels: bool) -> Config {
    let compaction = if is_kernels { kcompactd(enable, 60) } else { explicit(enable) }.compaction;
    let config = Config { tiering: Some(tiers(enable)), compaction, ..config(enable) };
    config.check().unwrap();
    config
}

fn with_tiers(enable: bool) -> Config {
    let config = Config { tiering: Some(tiers(enable)), ..Config::default() };
    config.check().unwrap();
    config
}

fn compacted(truth: &Truth) -> Vec<(Why, u32, u32, u64)> {
    let lines = truth.lines.borrow();
    let told = |line: &Line| match line {
        Line::Compacted { why, extfrag_before, extfrag_after, blocks_freed, .. } => {
            Some((*why, *extfrag_before, *extfrag_after, *blocks_freed))
        }
        _ => None,
    };
    lines.iter().filter_map(told).collect()
}

/// A zone of 200 huge pages; half of the zone is scattered.
fn scattered() -> Rc<Truth> {
    let truth = Truth::new();
    truth.memory.loose.set(100 * 512);
    truth.memory.huge.set(100);
    truth
}

fn writes(truth: &Truth) -> Vec<(String, String)> {
    let lines = truth.lines.borrow();
    let write = |line: &Line| match line {
        Line::Writes { path, value, .. } | Line::WouldWrite { path, value, .. } => Some((path.clone(), value.clone())),
        _ => None,
    };
    lines.iter().filter_map(write).collect()
}

#[test]
fn a_zone_is_compacted_to_its_low_mark_and_no_further() {
    let truth = scattered();
    let steered = steered(&truth, &explicit(true), 60, Vec::new());
    holds(&truth, "compaction");
    // 50 percent; 25 is passed with 156 huge pages, since eight come at a time.
    assert_eq!(compacted(&truth), [(Why::ReachedLow, 50, 22, 56)]);
    assert_eq!((truth.memory.huge.get(), truth.memory.is_compacting.get()), (156, false));
    let status = &steered.status.sections[0];
    assert_eq!((status.section.as_str(), status.engine.as_ref()), ("compaction.huge", "isotherm: compaction"));
    assert_eq!(status.verified_bytes, 56 * 512 * PAGE_BYTES);
    let ends = |line: &Line| if let Line::Compacted { at_ns, .. } = line { Some(*at_ns) } else { None };
    let end_ns = truth.lines.borrow().iter().find_map(ends).unwrap();
    assert_eq!(status.since_acted_ns, Some(truth.now().since(Instant::START).ns() - end_ns));
    let asks =
        |line: &Line| matches!(line, Line::Asks { write, .. } if write == "/sys/devices/system/node/node0/compact = 1");
    assert!(truth.has_line(asks));
}

#[test]
fn without_enable_nothing_is_compacted_and_the_same_write_is_told() {
    let truth = scattered();
    let told = steered(&truth, &explicit(false), 100, Vec::new());
    assert_eq!(told.status.sections[0].since_acted_ns, None);
    assert_eq!(truth.memory.made.get(), 0);
    let acts = truth.acts();
    assert_eq!(acts.len(), 2, "once a minute: {acts:?}");
    assert!(acts.iter().all(|act| act.effect == Effect::Would));
    assert_eq!(acts[0].write, "/sys/devices/system/node/node0/compact = 1");
}

#[test]
fn pauses_and_the_end_stop_what_is_under_way() {
    let truth = scattered();
    let stopped = |truth: &Truth| {
        assert!(truth.memory.is_compacting.get(), "it is under way");
        truth.has_kill_file.set(true);
    };
    let slow = ExplicitConfig { high: 1, low: 0, ..ExplicitConfig::default() };
    let config = compaction(true, Design::Explicit(slow));
    truth.memory.loose.set(1 << 24);
    let look = |truth: &Truth| assert!(!truth.memory.is_compacting.get(), "while it is paused nothing goes on");
    steered(&truth, &config, 20, vec![at(7, stopped), at(10, look), at(11, |truth| truth.has_kill_file.set(false))]);
    assert!(truth.forbidden.borrow().is_empty() && !truth.memory.is_compacting.get(), "{:?}", truth.forbidden);
    assert!(truth.has_line(|line| matches!(line, Line::Paused { why } if why.contains("/run/isotherm/stop"))));
}

#[test]
fn kcompactd_is_set_watched_and_put_back() {
    let truth = scattered();
    let seen = Cell::new(None);
    let look = at(10, |truth: &Truth| seen.set(truth.knob(PROACTIVENESS)));
    let whole = steered(&truth, &kcompactd(true, 60), 30, vec![look]);
    assert_eq!(seen.take().as_deref(), Some("60"));
    holds(&truth, "kcompactd");
    assert_eq!(whole.status.sections[0].engine, "kernel: kcompactd");
    assert!(whole.status.sections[0].words.iter().any(|word| word.starts_with("node 0: score 4")), "{whole:?}");

    let told = scattered();
    steered(&told, &kcompactd(false, 60), 30, Vec::new());
    assert_eq!(writes(&told), [(PROACTIVENESS.to_owned(), "60".to_owned())]);
    assert_eq!(writes(&told), writes(&truth), "what a dry run lists is what is written");
    holds(&told, "a dry run");

    // Another program changes the setting: its value stays, and this is reported.
    let truth = scattered();
    let other = |truth: &Truth| {
        truth.knobs.borrow_mut().insert(PROACTIVENESS.to_owned(), "0".to_owned());
    };
    steered(&truth, &kcompactd(true, 60), 30, vec![at(10, other)]);
    assert_eq!(truth.knob(PROACTIVENESS).as_deref(), Some("0"));
    let has_both = |why: &str| why.contains("set it otherwise") && why.contains("somebody else's");
    let said = |line: &Line| matches!(line, Line::Trouble { why, .. } if has_both(why));
    assert!(truth.has_line(said), "{:?}", truth.lines);
}

#[test]
fn tiers_are_switched_on_where_there_are_tiers() {
    let truth = scattered();
    truth.memory.nr_tiers.set(2);
    let seen = Cell::new(None);
    let look = at(100, |truth: &Truth| seen.set(Some((truth.knob(BALANCING), truth.knob(DEMOTION)))));
    let whole = steered(&truth, &with_tiers(true), 200, vec![look]);
    assert_eq!(seen.take(), Some((Some("2".to_owned()), Some("true".to_owned()))));
    holds(&truth, "tiers");
    let counted = |line: &Line| match line {
        Line::Counted { asked_bytes, verified_bytes, .. } => (1..=*asked_bytes).contains(verified_bytes),
        _ => false,
    };
    assert!(truth.has_line(counted), "{:?}", truth.lines);
    assert_eq!(whole.status.sections[0].section, "tiering.kernel");

    let told = scattered();
    told.memory.nr_tiers.set(2);
    steered(&told, &with_tiers(false), 30, Vec::new());
    assert_eq!(writes(&told), writes(&truth));
    assert_eq!(writes(&told).last().map(|write| write.0.as_str()), Some(BALANCING), "the switch comes last");

    for (nr, words) in [(0, "tells no tiers"), (1, "one node")] {
        let truth = scattered();
        truth.memory.nr_tiers.set(nr);
        steered(&truth, &with_tiers(true), 30, Vec::new());
        assert!(writes(&truth).is_empty());
        assert!(truth.has_line(|line| matches!(line, Line::Trouble { why, .. } if why.contains(words))), "{words}");
    }
}

/// Each call in turn fails: at the end knobs are restored, no work is left, and the goal is still reached.
#[test]
fn a_fault_at_any_call_breaks_nothing() {
    let both = || Config { tiering: Some(tiers(true)), ..explicit(true) };
    for (config, name) in [(both(), "both"), (kcompactd(true, 60), "kcompactd")] {
        let new = || {
            let truth = scattered();
            truth.memory.nr_tiers.set(2);
            truth
        };
        let whole = new();
        steered(&whole, &config, 40, Vec::new());
        let calls = whole.calls.get();
        assert!(calls > 50, "{calls}");
        for call in 0..calls {
            let truth = new();
            truth.fails_at.set(Some(call));
            swept(call, &truth, &config, 130, Vec::new());
            holds(&truth, &format!("{name}: fault at call {call}"));
            assert!(!truth.memory.is_compacting.get(), "{name}: fault at call {call}");
            let made: u64 = compacted(&truth).iter().map(|line| line.3).sum();
            assert!(made <= truth.memory.made.get(), "{name}: fault at call {call}: more is claimed than was made");
            if name == "both" {
                // An aborted compaction starts again while fragmentation is still above the high mark, 30 percent.
                assert!(truth.memory.huge.get() >= 140, "{name}: fault at call {call}: {}", truth.memory.huge.get());
            }
        }
    }
}

#[test]
fn pressure_holds_compaction_back() {
    let truth = scattered();
    truth.pressure.set(Ratio::from_percent(50));
    steered(&truth, &explicit(true), 60, Vec::new());
    assert_eq!(truth.memory.made.get(), 0);
}
