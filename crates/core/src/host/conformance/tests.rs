//! The fakes of the features' tests keep the contract; hosts that break it in one place are detected.

use super::*;
use crate::compaction::fake::{Machine as ZoneMachine, Zone};
use crate::generations::fake::FakeHost;
use crate::host::{
    Action, Ageing, Answer, Applied, Applying, Area, Capabilities, CompactStep, Compacted, Compacting,
    CompactionSignals, Eviction, Gauging, GenerationCapabilities, Generational, Granularity, Level, Listing, Mappings,
    MoveOrder, NodeId, NodeMemory, Order, PageMove, Probe, ProbeResult, Probing, ScanFilter, Scanned, Seen, Tiering,
    TieringCapabilities, ZoneState,
};
use crate::monitor::fake::World;
use crate::promotion::fake::World as TierWorld;
use isotherm_units::Duration;

const FIXTURE: Fixture = Fixture {
    process: TargetId(0),
    mapped: AddressRange::new(0x20_0000, 0x40_0000),
    hole: 0x7f00_0000_0000,
    gone: Some(TargetId(9)),
};

fn world() -> World {
    let mut world = World::new(&[(0x10_0000, 0x60_0000), (0x70_0000, 0x80_0000)]);
    (world.machine.total, world.machine.free) = (1 << 30, 1 << 20);
    world
}

#[test]
fn the_fakes_keep_the_contract() {
    let mut host = world();
    probing(&mut host, &FIXTURE).assert_none();
    mappings(&mut host, &FIXTURE).assert_none();
    applying(&mut host, &FIXTURE).assert_none();
    gauging(&mut host, &FIXTURE).assert_none();
    tiering(&mut tiers(), &FIXTURE).assert_none();
    generations(&mut groups()).assert_none();
    generations(&mut FakeHost { is_classic: true, ..groups() }).assert_none();
    compacting(&mut zones()).assert_none();
}

fn tiers() -> TierWorld {
    let mut host = TierWorld::new();
    host.map(0, &[(0x10_0000, 0x60_0000)]);
    host.fill(0, 0x20_0000, 512, 1);
    host
}

fn groups() -> FakeHost {
    let mut host = FakeHost::default();
    host.add("/", 100, 50);
    host
}

/// Two zones of half empty blocks.
fn zones() -> ZoneMachine {
    ZoneMachine { zones: vec![Zone::of(8, 200, 0), Zone::of(4, 100, 7)], ..ZoneMachine::default() }
}

/// A host that has nothing, and says so.
struct Nothing;

impl Probing for Nothing {}
impl Mappings for Nothing {}
impl Applying for Nothing {}
impl Gauging for Nothing {}
impl Compacting for Nothing {}
impl Generational for Nothing {}
impl Tiering for Nothing {}

#[test]
fn a_host_without_a_role_that_says_so_keeps_the_contract() {
    probing(&mut Nothing, &FIXTURE).assert_none();
    mappings(&mut Nothing, &FIXTURE).assert_none();
    applying(&mut Nothing, &FIXTURE).assert_none();
    gauging(&mut Nothing, &FIXTURE).assert_none();
    compacting(&mut Nothing).assert_none();
    generations(&mut Nothing).assert_none();
    tiering(&mut Nothing, &FIXTURE).assert_none();
}

/// A world that is right except for one thing.
struct Broken {
    world: World,
    how: &'static str,
}

impl Probing for Broken {
    fn capabilities(&self, target: TargetId) -> Capabilities {
        let can = self.world.capabilities(target);
        match self.how {
            "claims no flush" => Capabilities { flush: false, ..can },
            "has levels that do not exist" => Capabilities { highest_level: Level(9), ..can },
            _ => can,
        }
    }

    fn clear(&mut self, target: TargetId, probes: &[Probe], results: &mut [ProbeResult]) -> Result<(), HostError> {
        self.world.clear(target, probes, results)
    }

    fn test(&mut self, target: TargetId, probes: &[Probe], results: &mut [ProbeResult]) -> Result<(), HostError> {
        let answer = self.world.test(target, probes, results);
        let seen = match self.how {
            "sees use that was not" => Seen::Accessed,
            "takes holes for idle" if probes[0].address == FIXTURE.hole => Seen::Idle,
            _ => return answer,
        };
        results.iter_mut().for_each(|result| result.seen = seen);
        answer
    }

    fn scan_children(&mut self, target: TargetId, parent: Probe, out: &mut Vec<u64>) -> Result<(), HostError> {
        if self.how == "empties what it is given" {
            out.clear();
        }
        let target = if self.how == "takes the dead for alive" { TargetId(0) } else { target };
        self.world.scan_children(target, parent, out)
    }

    fn flush(&mut self, target: TargetId) -> Result<(), HostError> {
        self.world.flush(target)
    }
}

/// Backwards.
impl Mappings for Broken {
    fn mappings(&mut self, target: TargetId, out: &mut Vec<AddressRange>) -> Result<(), HostError> {
        let answer = self.world.mappings(target, out);
        out.reverse();
        answer
    }
}

impl Applying for Broken {
    fn scheme_capabilities(&self, target: TargetId) -> crate::host::SchemeCapabilities {
        self.world.scheme_capabilities(target)
    }

    fn apply(&mut self, _: TargetId, order: &mut Order<'_>) -> Result<Applied, HostError> {
        let bytes = if order.action == Action::Stat { 0 } else { order.range.len() };
        Ok(Applied { bytes, ..Applied::default() })
    }
}

impl Gauging for Broken {
    fn memcg(&self, _: &str) -> Option<u64> {
        Some(1)
    }

    fn node_bytes(&mut self, _: TargetId, _: &[AddressRange], out: &mut Vec<(NodeId, u64)>) -> Result<(), HostError> {
        out.push((NodeId(0), 1));
        Err(HostError::Failed("half way".to_owned()))
    }
}

/// Zones that are right except for one thing.
struct BrokenZones {
    zones: ZoneMachine,
    how: &'static str,
}

impl Compacting for BrokenZones {
    fn compaction_granularity(&self) -> Option<Granularity> {
        (self.how != "compacts, and says it cannot").then_some(Granularity::Zone)
    }

    fn zones(&mut self, out: &mut Vec<ZoneState>) -> Result<(), HostError> {
        let start = out.len();
        self.zones.zones(out)?;
        match self.how {
            "tells a zone twice" => out.extend_from_within(start..),
            "has more free than there is" => out[start].present = 1,
            _ => {}
        }
        Ok(())
    }

    fn compaction_signals(&mut self, node: NodeId) -> Result<CompactionSignals, HostError> {
        self.zones.compaction_signals(node)
    }

    fn compact(&mut self, step: &CompactStep) -> Result<Compacted, HostError> {
        let done = self.zones.compact(step)?;
        let goes_on = self.how == "goes on beyond the mark";
        Ok(Compacted { pages_moved: done.pages_moved + u64::from(goes_on), ..done })
    }
}

/// Generations that are right except for one thing.
struct BrokenGroups {
    groups: FakeHost,
    how: &'static str,
}

impl Generational for BrokenGroups {
    fn generation_capabilities(&mut self) -> GenerationCapabilities {
        let can = self.groups.generation_capabilities();
        GenerationCapabilities { evict: self.how != "does not say what is missing", ..can }
    }

    fn read_generations(&mut self, out: &mut Vec<Listing>) -> Result<(), HostError> {
        self.groups.read_generations(out)?;
        if self.how == "leaves a generation out" {
            out[0].rows.remove(1);
        }
        Ok(())
    }

    fn age_generations(&mut self, orders: &[Ageing], answers: &mut Vec<Answer>) {
        match self.how {
            "answers once for all" => answers.push(Answer::Failed("EINVAL".to_owned())),
            "makes the future" => answers.extend(orders.iter().map(|_| Answer::Done { bytes: 0 })),
            "refuses, and does it" => {
                self.groups.groups[0].max_seq += 1;
                self.groups.age_generations(orders, answers);
            }
            _ => self.groups.age_generations(orders, answers),
        }
    }

    fn evict_generations(&mut self, orders: &[Eviction], answers: &mut Vec<Answer>) {
        if self.how == "evicts the youngest" {
            return answers.extend(orders.iter().map(|_| Answer::Done { bytes: 4096 }));
        }
        self.groups.evict_generations(orders, answers);
    }
}

/// Tiers that are right except for one thing.
struct BrokenTiers {
    tiers: TierWorld,
    how: &'static str,
}

impl Tiering for BrokenTiers {
    fn tiering_capabilities(&self) -> TieringCapabilities {
        let can = self.tiers.tiering_capabilities();
        TieringCapabilities { migrate: self.how != "moves, and says it cannot", ..can }
    }

    fn spaces(&mut self, out: &mut Vec<TargetId>) -> Result<(), HostError> {
        self.tiers.spaces(out)?;
        if self.how == "lists the dead" {
            out.extend(FIXTURE.gone);
        }
        Ok(())
    }

    fn areas(&mut self, target: TargetId, out: &mut Vec<Area>) -> Result<(), HostError> {
        self.tiers.areas(target, out)?;
        if self.how == "tells areas twice" {
            out.extend_from_within(..);
        }
        Ok(())
    }

    fn scan_accessed(
        &mut self,
        target: TargetId,
        range: AddressRange,
        filter: &mut ScanFilter,
    ) -> Result<Scanned, HostError> {
        self.tiers.scan_accessed(target, range, filter)
    }

    fn page_nodes(&mut self, target: TargetId, addresses: &[u64], out: &mut [Option<NodeId>]) -> Result<(), HostError> {
        self.tiers.page_nodes(target, addresses, out)?;
        if self.how == "has pages in holes" {
            out.iter_mut().for_each(|node| *node = Some(NodeId(0)));
        }
        Ok(())
    }

    fn migrate(
        &mut self,
        target: TargetId,
        order: &MoveOrder<'_>,
        results: &mut [PageMove],
    ) -> Result<Duration, HostError> {
        if self.how == "says moved and does nothing" {
            let not_there = |page: &u64| *page == FIXTURE.hole;
            for (page, result) in order.pages.iter().zip(results) {
                *result = if not_there(page) { PageMove::NotPresent } else { PageMove::Moved(1) };
            }
            return Ok(Duration::ZERO);
        }
        self.tiers.migrate(target, order, results)
    }

    fn node_memory(&mut self, node: NodeId) -> Result<Option<NodeMemory>, HostError> {
        let memory = self.tiers.node_memory(node)?;
        let has_none = self.how == "has nodes without memory";
        Ok(memory.filter(|_| !has_none))
    }
}

/// One of the findings contains these words.
#[track_caller]
fn is_found(how: &str, findings: &Findings, words: &str) {
    let found = findings.sentences().iter().any(|sentence| sentence.contains(words));
    assert!(found, "{how}: `{words}` is not among {findings:?}");
}

#[test]
fn broken_zones_are_found() {
    compacting(&mut BrokenZones { zones: zones(), how: "not at all" }).assert_none();
    for (how, words) in [
        ("compacts, and says it cannot", "`compact` is not among the capabilities"),
        ("tells a zone twice", "zones are not in order"),
        ("has more free than there is", "more free pages than pages"),
        ("goes on beyond the mark", "goes on although its mark is reached"),
    ] {
        is_found(how, &compacting(&mut BrokenZones { zones: zones(), how }), words);
    }
}

#[test]
fn broken_generations_are_found() {
    generations(&mut BrokenGroups { groups: groups(), how: "not at all" }).assert_none();
    for (how, words) in [
        ("does not say what is missing", "does not say what would be needed"),
        ("leaves a generation out", "do not ascend by one"),
        ("answers once for all", "not one answer an order"),
        ("makes the future", "a generation from the future was made"),
        ("refuses, and does it", "what was refused has changed something"),
        ("evicts the youngest", "the youngest generation was evicted"),
    ] {
        is_found(how, &generations(&mut BrokenGroups { groups: groups(), how }), words);
    }
}

#[test]
fn broken_tiers_are_found() {
    tiering(&mut BrokenTiers { tiers: tiers(), how: "not at all" }, &FIXTURE).assert_none();
    for (how, words) in [
        ("moves, and says it cannot", "`migrate` is not among the capabilities"),
        ("lists the dead", "a process that has ended is among the spaces"),
        ("tells areas twice", "areas are empty, overlap"),
        ("has pages in holes", "what is not mapped is on a node"),
        ("says moved and does nothing", "a page is not where its move says"),
        ("has nodes without memory", "a node has memory, or has not"),
    ] {
        is_found(how, &tiering(&mut BrokenTiers { tiers: tiers(), how }, &FIXTURE), words);
    }
}

/// The planted error, and a part of the finding.
#[test]
fn what_breaks_the_contract_is_found() {
    let broken = |how| Broken { world: world(), how };
    let table = [
        ("claims no flush", "`flush` is not among the capabilities"),
        ("has levels that do not exist", "the highest level that is probed does not exist"),
        ("sees use that was not", "a bit that was cleared and not set since is not idle"),
        ("takes holes for idle", "what is not mapped is told as something else"),
        ("empties what it is given", "a scan of children does not append"),
        ("takes the dead for alive", "`scan_children` of a target that has ended"),
    ];
    for (how, words) in table {
        is_found(how, &probing(&mut broken(how), &FIXTURE), words);
    }
    is_found("backwards", &mappings(&mut broken(""), &FIXTURE), "do not ascend");
    is_found("no gate", &applying(&mut broken(""), &FIXTURE), "no filter lets through");
    let findings = gauging(&mut broken(""), &FIXTURE);
    is_found("half way", &findings, "have left something behind");
    is_found("any group", &findings, "a group that is not there has a number");
}
