//! The guest's fragmenter and its request for huge pages in the simulated machine.

use isotherm_core::compaction::{Compactor, FreeBlocks, Leeway, Merged, MergedConfig, Proactiveness};
use isotherm_core::host::{Compacting, NodeId};
use isotherm_guest::fragmenting::Holes;
use isotherm_guest::monitoring::ARENA_PAGE;
use isotherm_kernel::cgroup::CgroupId;
use isotherm_kernel::compaction::Defrag;
use isotherm_kernel::counters::Counter;
use isotherm_kernel::reclaim::policy_by_name;
use isotherm_kernel::swap::device::DeviceKind;
use isotherm_sim::host::MemoryHost;
use isotherm_sim::machine::{
    DriverError, MachineBuilder, MachineConfig, MonitorDriver, NodeConfig, Outcome, SwapConfig,
};
use isotherm_units::access::{
    Advice, After, Batch, BlockEffort, BlockKind, BlockRequest, KernelCall, LayoutChange, Mapping, Process, Program,
    Run, Stream, StreamError, Thread, ThreadStart, Timing,
};
use isotherm_units::{Bytes, Duration, Instant, PAGE_SHIFT, PageRange};
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use super::compaction::{HUGE_PERCENT, MIN_FREE_KIB, Measured};
use crate::FidelityError;

/// Pages of a section, and of a huge page.
const SECTION: u64 = 512;
/// Where huge pages are asked for.
const HUGE_PAGE: u64 = ARENA_PAGE * 2;
/// When everything was filled and holes are made, at the latest.
const FILLED: Instant = Instant::from_ns(5_000_000_000);
/// How long asking may take.
const ASKING: Duration = Duration::from_secs(100);
/// Distance of a sample from the event just before or after it.
const MOMENT: Duration = Duration::from_ms(1);

/// A simulated case.
#[derive(Clone, Copy, Debug)]
pub(super) struct Simulation {
    pub(super) holes: Holes,
    pub(super) proactiveness: u32,
    /// Sections filled.
    pub(super) sections: u64,
    /// Memory of the one zone.
    pub(super) managed_pages: u64,
    /// Part of the memory that the kernel takes first.
    pub(super) kernel_pages: u64,
    /// How long memory is left alone.
    pub(super) wait: Duration,
}

/// Result of the case.
pub(super) fn simulated(simulation: &Simulation) -> Result<Measured, FidelityError> {
    let asking = FILLED + simulation.wait;
    // A first run finds when the last huge page was asked for; counters are from runs that end at the wanted times.
    let asked = simulation.play(None, asking + ASKING)?.asked_at;
    let Some(asked) = asked else {
        return Err(FidelityError::Unfinished {
            workload: simulation.holes.name().to_owned(),
            policy: "classic".to_owned(),
            what: "its huge pages were not asked for in time".to_owned(),
        });
    };
    let before = |at: Instant| Instant::from_ns(at.ns() - MOMENT.ns());
    let [filled, alone] = [before(FILLED), before(asking)].map(|until| simulation.play(None, until));
    let (filled, alone, end) = (filled?, alone?, simulation.play(Some(asked), asked + MOMENT)?);
    let samples: [FreeBlocks; 3] = end.samples.try_into().expect("three moments");
    Ok(Measured {
        sections: simulation.sections,
        samples,
        alone: change(&filled.outcome, &alone.outcome),
        asking: change(&alone.outcome, &end.outcome),
        asked: simulation.huge(),
        huge_ns: None,
    })
}

fn change(before: &Outcome, after: &Outcome) -> BTreeMap<String, u64> {
    let [before, after] = [before, after].map(|outcome| &outcome.system().counters);
    Counter::ALL.iter().map(|&counter| (counter.name().to_owned(), after.get(counter) - before.get(counter))).collect()
}

struct Played {
    outcome: Outcome,
    samples: Vec<FreeBlocks>,
    /// When the last huge page had been asked for.
    asked_at: Option<Instant>,
}

impl Simulation {
    /// Huge pages to ask for.
    fn huge(&self) -> u64 {
        self.sections * 3 / 4 * u64::from(HUGE_PERCENT) / 100
    }

    fn machine(&self) -> MachineConfig {
        let memory = Bytes::new(self.managed_pages << PAGE_SHIFT);
        let mut machine = MachineConfig {
            cpus: 1,
            nodes: vec![NodeConfig { memory, ..NodeConfig::default() }],
            swap: SwapConfig { device: DeviceKind::None.into(), ..SwapConfig::default() },
            min_free: Some(Bytes::from_kib(MIN_FREE_KIB)),
            transparent_hugepages: true,
            ..MachineConfig::default()
        };
        machine.compaction.defrag = Defrag::Always;
        machine
    }

    /// Plays until `until`, with a sample at `end` too.
    fn play(&self, end: Option<Instant>, until: Instant) -> Result<Played, FidelityError> {
        let policy = policy_by_name("classic").expect("the table has it").build();
        let mut builder = MachineBuilder::new(&self.machine(), policy)?;
        let asked_at = Arc::new(Mutex::new(None));
        let asking = FILLED + self.wait;
        let filler = PageRange::at(ARENA_PAGE, self.sections * SECTION);
        let holes = self.holes_of_all();
        let filling = Filling { kernel_pages: self.kernel_pages, fill: Some(filler), holes: holes.into() };
        let id =
            builder.add_program(program("filler", Mapping::anonymous(filler), Box::new(filling)), CgroupId::ROOT)?;
        builder.start_at(id, Instant::START);
        let range = PageRange::at(HUGE_PAGE, self.huge() * SECTION);
        let mapping = Mapping { huge: true, ..Mapping::anonymous(range) };
        let stream = Asking { huge: self.huge(), has_asked: false, asked_at: asked_at.clone() };
        let id = builder.add_program(program("asker", mapping, Box::new(stream)), CgroupId::ROOT)?;
        // After the sample.
        builder.start_at(id, asking + MOMENT);
        let samples = Arc::new(Mutex::new(Vec::new()));
        let proactive = Proactiveness::try_from(self.proactiveness).expect("up to 100");
        let off = Proactiveness::try_from(0).expect("allowed");
        let moments = [(FILLED, proactive), (asking, off)].into_iter().chain(end.map(|end| (end, off)));
        let config = MergedConfig { proactiveness: off, leeway: Leeway::default() };
        let daemon = Merged::new(config, NodeId(0), Instant::START).expect("checked when it was made");
        let observer = Observer { daemon, moments: moments.collect(), samples: samples.clone() };
        builder.monitor("kcompactd", Vec::new(), Box::new(observer))?;
        let outcome = builder.build().run(until)?;
        let samples = std::mem::take(&mut *samples.lock().unwrap_or_else(PoisonError::into_inner));
        let asked_at = *asked_at.lock().unwrap_or_else(PoisonError::into_inner);
        Ok(Played { outcome, samples, asked_at })
    }

    /// Ranges given back, as in the guest.
    fn holes_of_all(&self) -> Vec<PageRange> {
        let of_section = |section: u64| {
            let first = ARENA_PAGE + section * SECTION;
            let (step, pages) = match self.holes {
                Holes::Contiguous => (SECTION, SECTION / 4 * 3),
                Holes::Strided => (4, 3),
            };
            (0..SECTION / step).map(move |hole| PageRange::at(first + hole * step, pages))
        };
        (0..self.sections).flat_map(of_section).collect()
    }
}

fn program(name: &str, mapping: Mapping, stream: Box<dyn Stream>) -> Program {
    Program {
        name: name.to_owned(),
        files: Vec::new(),
        processes: vec![Process { layout: vec![mapping], ..Process::default() }],
        threads: vec![Thread { process: 0, start: ThreadStart::WithProgram, stream }],
        timing: Timing::Modelled,
        future: None,
    }
}

/// Longer than any run.
const FOR_EVER: Duration = Duration::from_secs(1_000_000);

/// Takes the kernel's memory, fills, makes holes, stays.
struct Filling {
    kernel_pages: u64,
    fill: Option<PageRange>,
    holes: VecDeque<PageRange>,
}

impl Stream for Filling {
    fn next_batch(&mut self, _now: Instant, batch: &mut Batch) -> Result<After, StreamError> {
        let count = std::mem::take(&mut self.kernel_pages);
        if count > 0 {
            return Ok(After::Kernel(KernelCall::Take(BlockRequest {
                tag: 0,
                order: 0,
                kind: BlockKind::Unmovable,
                effort: BlockEffort::Normal,
                count,
                failures: 1,
            })));
        }
        if let Some(pages) = self.fill.take() {
            batch.runs.push(Run::write(pages.start, u32::try_from(pages.len())?));
            return Ok(After::Continue);
        }
        Ok(match self.holes.pop_front() {
            Some(hole) => After::Change(LayoutChange::Advise(hole, Advice::DontNeed)),
            None => After::Sleep(FOR_EVER),
        })
    }
}

/// Touches the first page of each huge page, one after the other, and stays.
struct Asking {
    huge: u64,
    has_asked: bool,
    asked_at: Arc<Mutex<Option<Instant>>>,
}

impl Stream for Asking {
    fn next_batch(&mut self, now: Instant, batch: &mut Batch) -> Result<After, StreamError> {
        if !std::mem::replace(&mut self.has_asked, true) {
            batch.runs.extend((0..self.huge).map(|number| Run::write(HUGE_PAGE + number * SECTION, 1)));
            return Ok(After::Continue);
        }
        self.asked_at.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(now);
        Ok(After::Sleep(FOR_EVER))
    }
}

/// Samples free memory at given moments and sets the kernel's knob then, as the guest's first process does; in between it acts as
/// kcompactd.
struct Observer {
    daemon: Merged,
    /// Moments of samples, and the value to write then.
    moments: VecDeque<(Instant, Proactiveness)>,
    samples: Arc<Mutex<Vec<FreeBlocks>>>,
}

impl MonitorDriver for Observer {
    fn run(&mut self, now: Instant, host: &mut MemoryHost<'_>) -> Result<Option<Instant>, DriverError> {
        while let Some((_, proactiveness)) = self.moments.pop_front_if(|(at, _)| *at <= now) {
            let mut zones = Vec::new();
            host.zones(&mut zones)?;
            self.samples.lock().unwrap_or_else(PoisonError::into_inner).push(zones[0].blocks);
            self.daemon.set_proactiveness(proactiveness, now);
        }
        self.daemon.handle_timeout(now, host)?;
        let next = self.moments.front().map(|&(at, _)| at);
        Ok(next.into_iter().chain(self.daemon.poll_timeout()).min())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_core::compaction::HUGE_ORDER;

    /// 512 MiB with 240 sections, which are 480 MiB, and 20 MiB left.
    fn run(holes: Holes, proactiveness: u32) -> Measured {
        let simulation = Simulation {
            holes,
            proactiveness,
            sections: 240,
            managed_pages: 1 << 17,
            kernel_pages: 3072,
            wait: Duration::from_secs(2),
        };
        simulated(&simulation).unwrap()
    }

    #[test]
    fn holes_are_those_of_the_guest() {
        let simulation = |holes| Simulation {
            holes,
            proactiveness: 0,
            sections: 2,
            managed_pages: 1 << 14,
            kernel_pages: 0,
            wait: Duration::from_ms(1),
        };
        let [contiguous, strided] = [Holes::Contiguous, Holes::Strided].map(|holes| simulation(holes).holes_of_all());
        assert_eq!(contiguous, [PageRange::at(ARENA_PAGE, 384), PageRange::at(ARENA_PAGE + 512, 384)]);
        assert_eq!((strided.len(), strided[1]), (256, PageRange::at(ARENA_PAGE + 4, 3)));
    }

    #[test]
    fn memory_is_accounted_for() {
        let measured = run(Holes::Strided, 0);
        // 131072 less the kernel's and a quarter of 240 sections. Up to 6144 (twice the high mark) are on per-CPU lists, and not
        // reported.
        let free = (1 << 17) - 3072 - 240 * 128;
        let before = measured.samples[0].pages();
        assert!(before <= free && before + 6144 + 64 > free, "{before} of {free}");
        assert_eq!(measured.asked, 108);
        assert_eq!(measured.samples[0], measured.samples[1], "left alone, nothing changes");
        assert_eq!(measured.alone["pgmigrate_success"], 0);
    }

    #[test]
    fn proactive_compaction_makes_room_while_nobody_asks() {
        let (off, on) = (run(Holes::Contiguous, 0), run(Holes::Contiguous, 20));
        assert_eq!(off.samples[0], on.samples[0], "the same until the knob is written");
        assert!(on.alone["compact_migrate_scanned"] > 0 && on.alone["pgmigrate_success"] > 0, "{on:?}");
        assert!(on.samples[1].extfrag(HUGE_ORDER) < off.samples[1].extfrag(HUGE_ORDER), "{on:?}");
        assert!(on.asking["thp_fault_alloc"] >= off.asking["thp_fault_alloc"]);
    }
}
