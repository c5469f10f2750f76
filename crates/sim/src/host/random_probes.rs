//! Probes of page frames in a batch, in random states of memory: a monitor that is driven over them sees, does, costs and leaves
//! what it would if each probe were made alone and through the reverse map.

use super::random_actions::{Step, World, step};
use super::stage::{FRAMES, PHYSICAL};
use super::*;
use crate::reclaim::POLICIES;
use crate::swap::device::DeviceKind;
use isotherm_core::host::{Action, UnitRange};
use isotherm_core::monitor::{Attributes, Monitor, MonitorConfig, Operations, Sampling, Tick};
use isotherm_core::schemes::{Quotas, Scheme};
use proptest::prelude::*;

const TARGET: TargetId = TargetId(PHYSICAL);

/// A host whose probes of page frames are made one at a time, each by [`MemoryHost::probe_frame`].
struct OneByOne<'a>(MemoryHost<'a>);

impl OneByOne<'_> {
    fn probe(&mut self, wish: Wish, probes: &[Probe], results: &mut [ProbeResult]) -> Result<(), HostError> {
        for (probe, result) in probes.iter().zip(results) {
            let Found { seen, leaf, ended } = self.0.probe_frame(wish, probe.address >> PAGE_SHIFT, probe.level);
            *result = ProbeResult { seen, level: HostLevel(leaf.number()) };
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
    fn clear(&mut self, _: TargetId, probes: &[Probe], results: &mut [ProbeResult]) -> Result<(), HostError> {
        self.probe(Wish::Clear, probes, results)
    }
    fn test(&mut self, _: TargetId, probes: &[Probe], results: &mut [ProbeResult]) -> Result<(), HostError> {
        self.probe(Wish::Test, probes, results)
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

/// A world with a monitor of its page frames, and some addresses that are none.
struct Watched {
    world: World,
    monitor: Monitor,
    is_batched: bool,
}

impl Watched {
    fn new(policy: &str, swap: DeviceKind, config: &MonitorConfig, is_batched: bool) -> Self {
        let mut world = World::new(policy, swap);
        let mut config = config.clone();
        let offers = world.stage.offers(PHYSICAL);
        config.schemes.retain(|scheme| offers.actions.contains(&scheme.action));
        let mut monitor = Monitor::new(config, 7).expect("allowed");
        let frames = UnitRange::new(0, (FRAMES + 100) << PAGE_SHIFT);
        monitor.add_target(TARGET, &[frames], &world.stage.host()).expect("all of it can be done");
        monitor.start(world.stage.memory.now);
        Self { world, monitor, is_batched }
    }

    /// Ticks, each when it is due.
    fn ticks(&mut self, nr_ticks: u32) -> Vec<Tick> {
        let tick = |_| {
            let at = self.monitor.poll_timeout().expect("it runs").max(self.world.stage.memory.now);
            self.world.stage.pass_time(at);
            let mut host = self.world.stage.host();
            match self.is_batched {
                true => self.monitor.handle_timeout(at, &mut host),
                false => self.monitor.handle_timeout(at, &mut OneByOne(host)),
            }
        };
        (0..nr_ticks).map(tick).collect()
    }

    /// What probes leave: each frame's marks, and the accessed bits of all pages.
    fn marks(&self) -> Vec<[bool; 3]> {
        let memory = &self.world.stage.memory;
        let is_young = |mapper: &crate::memory::Mapper| memory.space(mapper.space).table.is_young(mapper.page);
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
    /// So many ticks, before which nothing else happens.
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
    (attributes(), strategy, sampling, schemes()).prop_map(|(attributes, strategy, sampling, schemes)| MonitorConfig {
        operations: Operations::Paddr,
        strategy: strategy.parse().expect("one of them"),
        attributes,
        sampling,
        schemes,
        ..MonitorConfig::default()
    })
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
                        watched.monitor.commit(config, None, &watched.world.stage.host()).expect("allowed");
                    }
                }
            }
            let nr_ticks = if let Happening::Ticks(nr_ticks) = happening { nr_ticks } else { 0 };
            prop_assert_eq!(batched.ticks(nr_ticks), alone.ticks(nr_ticks));
            prop_assert_eq!(batched.monitor.snapshot(), alone.monitor.snapshot());
            prop_assert_eq!(batched.monitor.regions(TARGET), alone.monitor.regions(TARGET));
            prop_assert_eq!(batched.monitor.activity(), alone.monitor.activity());
            let [ours, theirs] = [&batched, &alone].map(|watched| &watched.world.stage);
            prop_assert_eq!(ours.counts, theirs.counts);
            prop_assert_eq!(ours.memory.ledger.peek(), theirs.memory.ledger.peek());
            prop_assert_eq!(ours.memory.counters, theirs.memory.counters);
            prop_assert!(batched.marks() == alone.marks(), "marks and accessed bits");
        }
    }
}
