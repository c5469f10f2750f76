//! docs/spec/page-table-profiling.md#s6-4 in small: does each strategy find the hot part of large spaces, and at which cost?
//!
//! Accesses are random and even over one hot interval; bits are drawn from the closed form, without translation caches. The
//! full experiment is a scenario on the simulated machine; here the shape must hold (T10), with two seeds and half a minute.

use super::*;
use crate::host::{Applying, Capabilities, Gauging, HostError, Mappings, Probe, ProbeResult, Probing, Seen};

const PAGE: u64 = 4096;
const SHIFTS: [u8; 4] = [12, 21, 30, 39];
const SAMPLE: Duration = Duration::from_ms(5);

/// One hot interval with the given number of accesses per page and sampling interval.
struct EvenlyHot {
    hot: AddressRange,
    accesses_per_page: f64,
    random: Random,
    words: u64,
}

impl EvenlyHot {
    /// Whether the bit of an entry is set that was cleared `samples` ago.
    fn is_set(&mut self, start: u64, span: u64, samples: f64) -> bool {
        let inside = (start + span).min(self.hot.end).saturating_sub(start.max(self.hot.start));
        let chance = 1.0 - (-self.accesses_per_page * samples * (inside / PAGE) as f64).exp();
        (self.random.between(0, 1 << 32) as f64) < chance * 2f64.powi(32)
    }
}

impl Probing for EvenlyHot {
    fn capabilities(&self, _: TargetId) -> Capabilities {
        Capabilities { scan_children: true, ..Capabilities::four_levels() }
    }

    fn clear(&mut self, _: TargetId, probes: &[Probe], _: &mut [ProbeResult]) -> Result<(), HostError> {
        self.words += probes.len() as u64;
        Ok(())
    }

    fn test(&mut self, _: TargetId, probes: &[Probe], results: &mut [ProbeResult]) -> Result<(), HostError> {
        self.words += probes.len() as u64;
        for (probe, result) in probes.iter().zip(results) {
            let span = 1 << SHIFTS[usize::from(probe.level.0)];
            let is_set = self.is_set(probe.address & !(span - 1), span, 1.0);
            *result = ProbeResult { seen: if is_set { Seen::Accessed } else { Seen::Idle }, level: probe.level };
        }
        Ok(())
    }

    fn scan_children(&mut self, _: TargetId, parent: Probe, out: &mut Vec<u64>) -> Result<(), HostError> {
        let span = 1u64 << SHIFTS[usize::from(parent.level.0 - 1)];
        self.words += 512;
        for word in 0..8 {
            let start = parent.address + word * 64 * span;
            out.push((0..64).filter(|bit| self.is_set(start + bit * span, span, 3.0)).map(|bit| 1 << bit).sum());
        }
        Ok(())
    }
}

impl Mappings for EvenlyHot {
    fn mappings(&mut self, _: TargetId, _: &mut Vec<AddressRange>) -> Result<(), HostError> {
        Ok(())
    }
}

impl Applying for EvenlyHot {}

impl Gauging for EvenlyHot {}

/// Means over the second half of the runs.
#[derive(Debug)]
struct Found {
    precision: f64,
    recall: f64,
    /// When both were first above 0.9.
    converged_s: Option<f64>,
    words_per_second: f64,
}

fn find(strategy: &str, footprint: u64, hot_len: u64, rate: f64) -> Found {
    let (seconds, seeds) = (20, [1, 2]);
    let (mut precision, mut recall, mut words, mut converged) = (0.0, 0.0, 0.0, None);
    for seed in seeds {
        let base = 0x5500_0000_3000 + seed * 0x1_2345_6000;
        let mut random = Random::new(seed + 100);
        let start = base + random.between(0, (footprint - hot_len) / PAGE) * PAGE;
        let hot = AddressRange::new(start, start + hot_len);
        let accesses_per_page = rate * 0.005 / (hot_len / PAGE) as f64;
        let mut host = EvenlyHot { hot, accesses_per_page, random, words: 0 };
        let config = MonitorConfig {
            operations: Operations::Fvaddr,
            strategy: strategy.parse().expect("from the table"),
            baseline: Baseline::V6_6,
            attributes: Attributes {
                sample_interval: SAMPLE,
                aggr_interval: Duration::from_ms(200),
                ..Attributes::default()
            },
            ..MonitorConfig::default()
        };
        let mut monitor = Monitor::new(config, seed).expect("good");
        monitor.add_target(TargetId(0), &[UnitRange::new(base, base + footprint)], &host).expect("good");
        monitor.start(Instant::START);
        let mut windows: Vec<Vec<RegionRecord>> = Vec::new();
        while let Some(at) = monitor.poll_timeout().filter(|at| at.ns() <= seconds * 1_000_000_000) {
            if !monitor.handle_timeout(at, &mut host).has_snapshot {
                continue;
            }
            windows.push(monitor.snapshot().regions.clone());
            if windows.len() < 5 {
                continue;
            }
            let flagged = flagged(&windows[windows.len() - 5..]);
            let bytes: u64 = flagged.iter().map(|range| range.len()).sum();
            let right: u64 =
                flagged.iter().map(|range| range.end.min(hot.end).saturating_sub(range.start.max(hot.start))).sum();
            let (p, r) = (if bytes == 0 { 0.0 } else { right as f64 / bytes as f64 }, right as f64 / hot_len as f64);
            if p >= 0.9 && r >= 0.9 && converged.is_none() {
                converged = Some(at.ns() as f64 / 1e9);
            }
            if at.ns() > seconds * 500_000_000 {
                let share = 1.0 / (seconds as f64 / 2.0 * 5.0 * seeds.len() as f64);
                precision += p * share;
                recall += r * share;
            }
        }
        words += host.words as f64 / seconds as f64 / seeds.len() as f64;
    }
    Found { precision, recall, converged_s: converged, words_per_second: words }
}

/// Where the counts of these windows add up to more than 5: the original definition of hot.
fn flagged(windows: &[Vec<RegionRecord>]) -> Vec<AddressRange> {
    let mut steps: Vec<(u64, i64)> = windows
        .iter()
        .flatten()
        .flat_map(|region| {
            let count = i64::from(region.nr_accesses);
            [(region.range.start, count), (region.range.end, -count)]
        })
        .collect();
    steps.sort_unstable();
    let (mut sum, mut from, mut flagged) = (0, 0, Vec::new());
    for (at, step) in steps {
        if sum > 5 && at > from {
            flagged.push(AddressRange::new(from, at));
        }
        (sum, from) = (sum + step, at);
    }
    flagged
}

#[test]
fn the_seeds_tables_in_small() {
    let spaces = [
        (GIB, GIB / 10 / PAGE * PAGE, 1e7),
        (10 * GIB, GIB, 2e6),
        (100 * GIB, 10 * GIB, 2e6),
        (5120 * GIB, 10 * GIB, 2e6),
    ];
    let row = |strategy| spaces.map(|(footprint, hot_len, rate)| find(strategy, footprint, hot_len, rate));
    let is_good = |found: &Found| found.precision >= 0.9 && found.recall >= 0.9;

    let leaf = row("leaf");
    assert!(is_good(&leaf[0]), "T10 (1): {leaf:?}");
    // The spec's model gives 0.44 here. With 200 samples at 0.0374 each, P(sum > 5) is 0.77: see docs/mechanism/monitoring.md.
    assert!(leaf[1].recall < 0.8, "T10 (1): {leaf:?}");
    assert!(leaf[2].recall < 0.1 && leaf[3].recall < 0.01, "T10 (1): {leaf:?}");
    assert!(leaf[1].words_per_second >= 10.0 * leaf[0].words_per_second, "T10 (3): {leaf:?}");

    for strategy in ["ptp", "ptp-aligned", "ptp-descend"] {
        let found = row(strategy);
        assert!(found.iter().all(is_good), "T10 (2): {strategy}: {found:?}");
        assert!(found[1].words_per_second <= leaf[1].words_per_second / 5.0, "T10 (4): {strategy}: {found:?}");
        if strategy != "ptp-aligned" {
            assert!(found[3].converged_s.is_some_and(|seconds| seconds <= 3.0), "{strategy}: {found:?}");
        }
    }
    // Entries that reach out of regions cost precision at the edges.
    let flex = find("flex", 100 * GIB, 10 * GIB, 2e6);
    assert!(flex.precision >= 0.8 && flex.recall >= 0.9, "{flex:?}");
}
