//! Monitors in whole machines: when they run, their costs, and the memory they leave alone.

use super::tests::{Rig, config, program, script, sweeps};
use super::*;
use crate::host::MemoryHost;
use isotherm_core::host::{AddressRange, HostError, Level, Mappings, Probe, ProbeResult, Probing, Seen, TargetId};
use isotherm_kernel::mmu::{MmuConfig, TranslationConfig};
use isotherm_kernel::swap::device::DeviceKind;
use isotherm_units::access::{After, Mapping, Run};
use isotherm_units::{Bytes, Duration, PageRange};
use std::sync::{Arc, Mutex};

/// Results of probes, and their times.
type Seens = Arc<Mutex<Vec<(Instant, Result<Vec<Seen>, HostError>)>>>;

/// Clears and tests the same probes every period.
struct Sampler {
    probes: Vec<Probe>,
    period: Duration,
    is_cleared: bool,
    seen: Seens,
}

impl MonitorDriver for Sampler {
    fn run(&mut self, now: Instant, host: &mut MemoryHost<'_>) -> Result<Option<Instant>, DriverError> {
        let mut results = vec![ProbeResult::default(); self.probes.len()];
        if std::mem::replace(&mut self.is_cleared, true) {
            let answer = host.test(TargetId(0), &self.probes, &mut results);
            let answer = answer.map(|()| results.iter().map(|result| result.seen).collect());
            self.seen.lock().unwrap().push((now, answer));
        }
        let lives = host.clear(TargetId(0), &self.probes, &mut results).is_ok();
        Ok(lives.then(|| now + self.period))
    }
}

fn sampler(pages: &[u64], period: Duration) -> (Box<Sampler>, Seens) {
    let seen = Seens::default();
    let probes = pages.iter().map(|&page| Probe { address: page << 12, level: Level::LEAF }).collect();
    (Box::new(Sampler { probes, period, is_cleared: false, seen: seen.clone() }), seen)
}

#[test]
fn a_monitor_sees_what_a_program_uses_and_pays_for_it() {
    let mut rig = Rig::new(&config(Bytes::from_mib(12), DeviceKind::Zram));
    let hot = vec![
        (vec![Run::write(0, 100)], After::Continue),
        (vec![Run::read(3, 1).after_ns(1000); 20_000], After::Continue),
    ];
    let id = rig.builder.add_program(program("p", vec![script(hot)]), rig.app).unwrap();
    rig.builder.start_at(id, Instant::START + Duration::from_ms(3));
    let (driver, seen) = sampler(&[3, 50, 5000], Duration::from_ms(1));
    rig.builder.monitor("kdamond.0", vec![MonitorTarget::Process(id, 0)], driver).unwrap();
    let outcome = rig.builder.build().run(Instant::START + Duration::from_secs(1)).unwrap();
    let seen = seen.lock().unwrap();
    assert!((19..=21).contains(&seen.len()), "{}", seen.len());
    let expected = vec![Seen::Accessed, Seen::Idle, Seen::NotMapped];
    assert!(seen[1..seen.len() - 1].iter().all(|(_, answer)| *answer == Ok(expected.clone())), "{seen:?}");
    let monitor = &outcome.monitors[0];
    assert_eq!((monitor.name.as_str(), monitor.started_ns), ("kdamond.0", Some(3_000_000)));
    assert_eq!(monitor.wakeups, 1 + seen.len() as u64);
    let nr_looks = monitor.probes.checks();
    assert_eq!(nr_looks, 3 * (2 * seen.len() as u64 + 1));
    // A wake-up, and probes of two pages and one empty entry.
    assert!(monitor.cpu_ns >= monitor.wakeups * 1000 + nr_looks * 50, "{monitor:?}");
    assert!(monitor.cpu_ns <= monitor.wakeups * 1000 + nr_looks * 383, "{monitor:?}");
    let p = &outcome.programs[0];
    assert_eq!(p.time.queue_wait_ns, 0, "an idle processor runs the monitor");
    assert_eq!(p.runtime().ns(), p.time.compute_ns + p.time.fault_cpu_ns);
}

#[test]
fn on_one_busy_processor_a_monitor_delays_the_program() {
    let run = |period_us: Option<u64>| {
        let config = MachineConfig { cpus: 1, ..config(Bytes::from_mib(12), DeviceKind::Zram) };
        let mut rig = Rig::new(&config);
        let id = rig.builder.add_program(program("p", vec![sweeps(100, 300, 1000)]), rig.app).unwrap();
        rig.builder.start_at(id, Instant::START);
        if let Some(period_us) = period_us {
            let pages: Vec<u64> = (0..50).collect();
            let (driver, _) = sampler(&pages, Duration::from_us(period_us));
            rig.builder.monitor("busy", vec![MonitorTarget::Process(id, 0)], driver).unwrap();
        }
        rig.builder.build().run(Instant::START + Duration::from_secs(1)).unwrap()
    };
    let (free, busy) = (run(None), run(Some(500)));
    let cpu_ns = busy.monitors[0].cpu_ns;
    assert!(cpu_ns > 100_000 && busy.monitors[0].late_ns > 0, "{:?}", busy.monitors);
    let delay_ns = busy.programs[0].runtime().ns() - free.programs[0].runtime().ns();
    assert!(delay_ns >= cpu_ns - 100_000 && delay_ns <= cpu_ns + 1_000_000, "{delay_ns} ns for {cpu_ns} ns");
    assert!(free.monitors.is_empty());
    assert_eq!(run(Some(500)), busy, "equal runs give equal outcomes");
}

#[test]
fn a_target_that_ends_ends_its_monitor() {
    let mut rig = Rig::new(&config(Bytes::from_mib(12), DeviceKind::Zram));
    let short = rig.builder.add_program(program("short", vec![sweeps(10, 10, 1000)]), rig.app).unwrap();
    let long = rig.builder.add_program(program("long", vec![sweeps(10, 1000, 1000)]), rig.app).unwrap();
    let never = rig.builder.add_program(program("never", vec![sweeps(10, 1, 1000)]), rig.app).unwrap();
    [short, long].into_iter().for_each(|id| rig.builder.start_at(id, Instant::START));
    let (driver, seen) = sampler(&[3], Duration::from_us(40));
    rig.builder.monitor("a", vec![MonitorTarget::Process(short, 0)], driver).unwrap();
    let (driver, unseen) = sampler(&[3], Duration::from_us(40));
    rig.builder.monitor("b", vec![MonitorTarget::Process(never, 0)], driver).unwrap();
    let (driver, physical) = sampler(&[3], Duration::from_ms(1));
    rig.builder.monitor("c", vec![MonitorTarget::Physical], driver).unwrap();
    let outcome = rig.builder.build().run(Instant::START + Duration::from_secs(1)).unwrap();
    assert!(outcome.programs[1].runtime().ns() > 9_000_000);
    let last = seen.lock().unwrap().last().unwrap().clone();
    assert_eq!(last.1, Err(HostError::Gone(TargetId(0))));
    assert!(last.0 < Instant::START + Duration::from_ms(1));
    assert!(unseen.lock().unwrap().is_empty() && outcome.monitors[1].started_ns.is_none());
    assert!(physical.lock().unwrap().len() >= 9);
}

/// A program of 5 TiB, present from the start, on a machine with 16 MiB of frames.
#[test]
fn premapped_memory_costs_no_frames_and_no_faults() {
    let tib = 1u64 << 28;
    let space = PageRange::at(77_777, 5 * tib);
    let hot = space.start + 3 * tib + 12_345;
    let touches: Vec<Run> = (0..3000).map(|step| Run::write(hot + step * 131 % 70_000, 1).after_ns(1000)).collect();
    let steps =
        vec![(vec![Run::write(5, 20), Run::write(space.start, 3000)], After::Continue), (touches, After::Continue)];
    let mut big = program("big", vec![script(steps)]);
    big.processes[0].layout = vec![Mapping::anonymous(PageRange::new(0, 100)), Mapping::anonymous(space)];
    let mut rig = Rig::new(&config(Bytes::from_mib(16), DeviceKind::None));
    let id = rig.builder.add_program(big, rig.app).unwrap();
    rig.builder.premap(id);
    rig.builder.start_at(id, Instant::START);
    let gib = 1u64 << 18;
    let looks = [hot, hot + 2 * gib, space.end + gib];
    let seen = Seens::default();
    let probes = looks.map(|page| Probe { address: page << 12, level: Level(2) }).to_vec();
    let driver = Sampler { probes, period: Duration::from_us(900), is_cleared: false, seen: seen.clone() };
    rig.builder.monitor("m", vec![MonitorTarget::Process(id, 0)], Box::new(driver)).unwrap();
    let outcome = rig.builder.build().run(Instant::START + Duration::from_secs(1)).unwrap();
    assert_eq!(outcome.programs[0].ending, Ending::Finished, "{:?}", outcome.incidents);
    assert_eq!(
        outcome.system().counters.get(isotherm_kernel::counters::Counter::PgFault),
        0,
        "not even at 20 pages of the heap"
    );
    assert_eq!((outcome.programs[0].peak_resident_pages, outcome.cgroups[1].peak_pages), (0, 0));
    let seen = seen.lock().unwrap();
    assert_eq!(seen[1].1, Ok(vec![Seen::Accessed, Seen::Idle, Seen::NotMapped]));
}

/// The 3.2 effect in a whole machine: 10 hot pages fit every cache, so that nothing is seen after the first
/// probe.
#[test]
fn with_translation_caches_hot_pages_look_idle() {
    let run = |translation| {
        let mmu = MmuConfig { translation, ..MmuConfig::default() };
        let mut rig = Rig::new(&MachineConfig { mmu, ..config(Bytes::from_mib(12), DeviceKind::Zram) });
        let id = rig.builder.add_program(program("p", vec![sweeps(10, 2000, 1000)]), rig.app).unwrap();
        rig.builder.start_at(id, Instant::START);
        let (driver, seen) = sampler(&[3], Duration::from_ms(1));
        rig.builder.monitor("m", vec![MonitorTarget::Process(id, 0)], driver).unwrap();
        let outcome = rig.builder.build().run(Instant::START + Duration::from_secs(1)).unwrap();
        assert_eq!(outcome.programs[0].ending, Ending::Finished);
        let seen = seen.lock().unwrap();
        seen.iter().filter(|(_, answer)| *answer == Ok(vec![Seen::Accessed])).count()
    };
    assert!(run(None) >= 18);
    assert!(run(Some(TranslationConfig::default())) <= 2, "served by the TLB");
    let none = TranslationConfig {
        tlb_entries: 0,
        pde_entries: 0,
        pdpte_entries: 0,
        pml4_entries: 0,
        ..TranslationConfig::default()
    };
    assert!(run(Some(none)) >= 18, "caches without entries are no caches");
}

#[test]
fn mappings_of_a_target_are_read_through_the_host() {
    struct Reader(Arc<Mutex<Vec<AddressRange>>>);
    impl MonitorDriver for Reader {
        fn run(&mut self, _now: Instant, host: &mut MemoryHost<'_>) -> Result<Option<Instant>, DriverError> {
            host.mappings(TargetId(0), &mut self.0.lock().unwrap())?;
            Ok(None)
        }
    }
    let mut rig = Rig::new(&config(Bytes::from_mib(12), DeviceKind::Zram));
    let id = rig.builder.add_program(program("p", vec![sweeps(10, 10, 1000)]), rig.app).unwrap();
    rig.builder.start_at(id, Instant::START);
    let ranges = Arc::new(Mutex::new(Vec::new()));
    rig.builder.monitor("m", vec![MonitorTarget::Process(id, 0)], Box::new(Reader(ranges.clone()))).unwrap();
    let outcome = rig.builder.build().run(Instant::START + Duration::from_secs(1)).unwrap();
    assert_eq!(*ranges.lock().unwrap(), [AddressRange::new(0, 4 << 30)]);
    assert_eq!((outcome.monitors[0].wakeups, outcome.monitors[0].cpu_ns), (1, 1000 + 50));
}

/// Caches, premapped memory, monitor and reclaim at once, under every policy: invariants hold, and the run ends.
#[test]
fn every_policy_bears_monitors_caches_and_ground() {
    for entry in isotherm_kernel::reclaim::POLICIES.iter().filter(|entry| !entry.build().needs_future()) {
        let run = |translation: Option<TranslationConfig>| {
            let mmu = MmuConfig { translation, ..MmuConfig::default() };
            let config = MachineConfig { mmu, ..config(Bytes::from_mib(12), DeviceKind::Zram) };
            let mut builder = MachineBuilder::new(&config, entry.build()).unwrap();
            builder.strict();
            let app = builder.add_cgroup(CgroupId::ROOT, "app").unwrap();
            builder.set(app, Knob::Max, isotherm_kernel::cgroup::Limit::At(isotherm_units::Pages::new(200)));
            let over = builder.add_program(program("over", vec![sweeps(260, 4, 2000)]), app).unwrap();
            let premapped: Vec<Run> = (0..500).map(|page| Run::write(page * 7, 3).after_ns(2000)).collect();
            let premapped = vec![script(vec![(premapped, After::Continue); 4])];
            let premapped = builder.add_program(program("premapped", premapped), app).unwrap();
            builder.premap(premapped);
            let pages: Vec<u64> = (0..260).step_by(3).collect();
            for (index, id) in [over, premapped].into_iter().enumerate() {
                builder.start_at(id, Instant::START);
                let (driver, _) = sampler(&pages, Duration::from_us(100));
                builder.monitor(&format!("m{index}"), vec![MonitorTarget::Process(id, 0)], driver).unwrap();
            }
            let (driver, _) = sampler(&pages, Duration::from_us(150));
            builder.monitor("physical", vec![MonitorTarget::Physical], driver).unwrap();
            let outcome = builder.build().run(Instant::START + Duration::from_secs(1000)).unwrap();
            let endings = outcome.programs.iter().map(|program| program.ending).collect::<Vec<_>>();
            assert_eq!(endings, [Ending::Finished; 2], "{}", entry.name);
            assert!(outcome.monitors.iter().all(|monitor| monitor.wakeups > 2), "{:?}", outcome.monitors);
            outcome
        };
        let (without, with) = (run(None), run(Some(TranslationConfig::default())));
        if entry.build().is_exact() {
            assert_eq!(without, with, "{}: no caches before a baseline", entry.name);
        }
    }
}
