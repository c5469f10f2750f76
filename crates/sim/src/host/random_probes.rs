//! Probes in a batch, of page frames or of a process, in random states of memory. A monitor driven over them has the same
//! results, actions, costs and effects as with each probe made alone, through the reverse map or by a whole walk.

use super::random_actions::{Step, World, step};
use super::stage::{FRAMES, PHYSICAL};
use super::*;
use isotherm_core::host::{Action, UnitRange};
use isotherm_core::monitor::{Attributes, Monitor, MonitorConfig, Operations, Sampling, Tick};
use isotherm_core::schemes::{Quotas, Scheme};
use isotherm_kernel::reclaim::POLICIES;
use isotherm_kernel::swap::device::DeviceKind;
use proptest::prelude::*;

/// The process that is there from the start.
const PROCESS: u32 = PHYSICAL + 1;

/// A host whose probes are made one at a time, each by [`MemoryHost::probe_frame`] or [`MemoryHost::probe_space`].
struct OneByOne<'a>(MemoryHost<'a>);

impl OneByOne<'_> {
    fn probe(
        &mut self,
        wish: Wish,
        target: TargetId,
        probes: &[Probe],
        results: &mut [ProbeResult],
    ) -> Result<(), HostError> {
        let target = self.0.target(target)?;
        for (probe, result) in probes.iter().zip(results) {
            let number = probe.address >> PAGE_SHIFT;
            let (seen, level, ended) = match target {
                HostTarget::Physical => {
                    let Found { seen, leaf, ended } = self.0.probe_frame(wish, number, probe.level);
                    (seen, leaf, ended)
                }
                HostTarget::Space(space) => {
                    let (seen, level) = self.0.probe_space(wish, space, number, probe.level);
                    (seen, level, level)
                }
            };
            *result = ProbeResult { seen, level: HostLevel(level.number()) };
            let counts = &mut self.0.counts;
            let counts = if wish == Wish::Clear { &mut counts.clears } else { &mut counts.tests };
            counts[usize::from(ended.number())] += 1;
        }
        Ok(())
    }
}

impl Probing for OneByOne<'_> {
    fn capabilities(&self, target: TargetId) -> Capabilities {
        self.0.capabilities(target)
    }
    fn clear(&mut self, target: TargetId, probes: &[Probe], results: &mut [ProbeResult]) -> Result<(), HostError> {
        self.probe(Wish::Clear, target, probes, results)
    }
    fn test(&mut self, target: TargetId, probes: &[Probe], results: &mut [ProbeResult]) -> Result<(), HostError> {
        self.probe(Wish::Test, target, probes, results)
    }
}

impl Mappings for OneByOne<'_> {}

impl Applying for OneByOne<'_> {
    fn scheme_capabilities(&self, target: TargetId) -> SchemeCapabilities {
        self.0.scheme_capabilities(target)
    }
    fn apply(&mut self, target: TargetId, order: &mut Order<'_>) -> Result<Applied, HostError> {
        self.0.apply(target, order)
    }
}

impl Gauging for OneByOne<'_> {
    fn gauge_capabilities(&self, target: TargetId) -> GaugeCapabilities {
        self.0.gauge_capabilities(target)
    }
    fn gauges(&mut self, gauges: &[Gauge], values: &mut [Option<u64>]) -> Result<(), HostError> {
        self.0.gauges(gauges, values)
    }
    fn memcg(&self, path: &str) -> Option<u64> {
        self.0.memcg(path)
    }
}

/// A world with a monitor of its page frames or of a process, and some addresses where nothing is.
struct Watched {
    world: World,
    target: TargetId,
    monitor: Monitor,
    is_batched: bool,
}

impl Watched {
    fn new(policy: &str, swap: DeviceKind, config: &MonitorConfig, is_batched: bool) -> Self {
        let mut world = World::new(policy, swap);
        let mut config = config.clone();
        let target = if config.operations == Operations::Paddr { PHYSICAL } else { PROCESS };
        let offers = world.stage.offers(target);
        config.schemes.retain(|scheme| offers.actions.contains(&scheme.action));
        let mut monitor = Monitor::new(config, 7).expect("allowed");
        let target = TargetId(target);
        let range = UnitRange::new(0, (FRAMES + 100) << PAGE_SHIFT);
        monitor.add_target(target, &[range], &world.stage.host()).expect("all of it can be done");
        monitor.start(world.stage.memory.now);
        Self { world, target, monitor, is_batched }
    }

    /// Ticks, each when it is due, as long as there is a target.
    fn ticks(&mut self, nr_ticks: u32) -> Vec<Tick> {
        let tick = |_| {
            let at = self.monitor.poll_timeout()?.max(self.world.stage.memory.now);
            self.world.stage.pass_time(at);
            let mut host = self.world.stage.host();
            Some(match self.is_batched {
                true => self.monitor.handle_timeout(at, &mut host),
                false => self.monitor.handle_timeout(at, &mut OneByOne(host)),
            })
        };
        (0..nr_ticks).map_while(tick).collect()
    }

    /// The state after probes: each frame's marks, and the accessed bits of all pages.
    fn marks(&self) -> Vec<[bool; 3]> {
        let memory = &self.world.stage.memory;
        let is_young =
            |mapper: &isotherm_kernel::memory::Mapper| memory.space(mapper.space).table.is_young(mapper.page);
        let of_frame = |number| {
            let frame = FrameId::new(number);
            let is_used = memory.frames.has(frame, Flag::OnList) && memory.mappers(frame).iter().any(is_young);
            [is_used, memory.frames.is_idle(frame), memory.frames.is_left_young(frame)]
        };
        (0..u32::try_from(memory.frames.len()).expect("few")).map(of_frame).collect()
    }
}

#[derive(Clone, Debug)]
enum Happening {
    Step(Step),
    /// A number of ticks, before which nothing else happens.
    Ticks(u32),
    /// Other intervals, and other numbers of regions.
    Commit(Attributes),
}

fn attributes() -> impl Strategy<Value = Attributes> {
    (1u64..10, 1u64..8, 3u32..20, 0u32..60).prop_map(|(sample_ms, samples, min_nr_regions, more)| Attributes {
        sample_interval: Duration::from_ms(sample_ms),
        aggr_interval: Duration::from_ms(sample_ms * samples),
        min_nr_regions,
        max_nr_regions: min_nr_regions + more,
        ..Attributes::default()
    })
}

fn happening() -> impl Strategy<Value = Happening> {
    prop_oneof![
        6 => step().prop_map(Happening::Step),
        6 => (1u32..4).prop_map(Happening::Ticks),
        1 => (4u32..40).prop_map(Happening::Ticks),
        1 => attributes().prop_map(Happening::Commit),
    ]
}

fn schemes() -> impl Strategy<Value = Vec<Scheme>> {
    let actions = [Action::LruPrio, Action::LruDeprio, Action::Pageout, Action::Stat];
    let scheme = (prop::sample::select(actions.to_vec()), 0u64..3).prop_map(|(action, mib)| Scheme {
        action,
        quotas: Quotas {
            size: (mib > 0).then(|| Bytes::from_mib(mib)),
            reset_interval: Duration::from_ms(20),
            ..Quotas::default()
        },
        ..Scheme::default()
    });
    prop::collection::vec(scheme, 0..3)
}

fn config() -> impl Strategy<Value = MonitorConfig> {
    let strategy = prop::sample::select(vec!["leaf", "leaf", "ptp"]);
    let sampling = prop::sample::select(vec![Sampling::Spread, Sampling::Spread, Sampling::Batch]);
    let operations = prop::sample::select(vec![Operations::Paddr, Operations::Vaddr]);
    (operations, attributes(), strategy, sampling, schemes()).prop_map(
        |(operations, attributes, strategy, sampling, schemes)| MonitorConfig {
            operations,
            strategy: strategy.parse().expect("one of them"),
            attributes,
            sampling,
            schemes,
            ..MonitorConfig::default()
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn a_batch_is_so_many_probes(
        policy in prop::sample::select(POLICIES.iter().map(|entry| entry.name).collect::<Vec<_>>()),
        swap in prop::sample::select(DeviceKind::ALL.to_vec()),
        config in config(),
        happenings in prop::collection::vec(happening(), 1..60),
    ) {
        let [mut batched, mut alone] = [true, false].map(|is_batched| Watched::new(policy, swap, &config, is_batched));
        for happening in happenings {
            for watched in [&mut batched, &mut alone] {
                match &happening {
                    Happening::Step(step) => watched.world.play(step.clone()),
                    Happening::Ticks(_) => {}
                    Happening::Commit(attributes) => {
                        let config = MonitorConfig { attributes: attributes.clone(), ..watched.monitor.config().clone() };
                        // Refused once the process has ended: by both.
                        watched.monitor.commit(config, None, &watched.world.stage.host()).ok();
                    }
                }
            }
            let nr_ticks = if let Happening::Ticks(nr_ticks) = happening { nr_ticks } else { 0 };
            prop_assert_eq!(batched.ticks(nr_ticks), alone.ticks(nr_ticks));
            prop_assert_eq!(batched.monitor.snapshot(), alone.monitor.snapshot());
            prop_assert_eq!(batched.monitor.regions(batched.target), alone.monitor.regions(alone.target));
            prop_assert_eq!(batched.monitor.activity(), alone.monitor.activity());
            let [ours, theirs] = [&batched, &alone].map(|watched| &watched.world.stage);
            prop_assert_eq!(ours.counts, theirs.counts);
            prop_assert_eq!(ours.memory.ledger.peek(), theirs.memory.ledger.peek());
            prop_assert_eq!(ours.memory.counters, theirs.memory.counters);
            prop_assert!(batched.marks() == alone.marks(), "marks and accessed bits");
        }
    }
}
