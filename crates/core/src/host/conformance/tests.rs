//! The fakes of the features' tests keep the contract; hosts that break it in one place are found out.

use super::*;
use crate::defrag::fake::Machine as ZoneMachine;
use crate::generations::fake::FakeHost;
use crate::host::{
    Action, Applied, Applying, Capabilities, Gauging, Level, Mappings, NodeId, Order, Probe, Probing, Seen, Sight,
};
use crate::monitor::fake::World;
use crate::promotion::fake::World as TierWorld;

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
    let mut host = TierWorld::new();
    host.map(0, &[(0x10_0000, 0x60_0000)]);
    host.fill(0, 0x20_0000, 512, 1);
    tiering(&mut host, &FIXTURE).assert_none();
    let mut host = FakeHost::default();
    host.add("/", 100, 50);
    generations(&mut host).assert_none();
    host.is_classic = true;
    generations(&mut host).assert_none();
    compacting(&mut ZoneMachine::default()).assert_none();
}

/// A host that has nothing, and says so.
struct Nothing;

impl Probing for Nothing {}
impl Mappings for Nothing {}
impl Applying for Nothing {}
impl Gauging for Nothing {}
impl crate::host::Compacting for Nothing {}
impl crate::host::Generational for Nothing {}
impl crate::host::Tiering for Nothing {}

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

/// A world that is right but for one thing.
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

    fn clear(&mut self, target: TargetId, probes: &[Probe], sights: &mut [Sight]) -> Result<(), HostError> {
        self.world.clear(target, probes, sights)
    }

    fn test(&mut self, target: TargetId, probes: &[Probe], sights: &mut [Sight]) -> Result<(), HostError> {
        let answer = self.world.test(target, probes, sights);
        let seen = match self.how {
            "sees use that was not" => Seen::Accessed,
            "takes holes for idle" if probes[0].address == FIXTURE.hole => Seen::Idle,
            _ => return answer,
        };
        sights.iter_mut().for_each(|sight| sight.seen = seen);
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

/// What is planted, and a part of what is found.
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
    for (how, found) in table {
        let findings = probing(&mut broken(how), &FIXTURE);
        assert!(findings.sentences().iter().any(|sentence| sentence.contains(found)), "{how}: {findings:?}");
    }
    let findings = mappings(&mut broken("tells mappings backwards"), &FIXTURE);
    assert!(findings.sentences().iter().any(|found| found.contains("do not ascend")), "{findings:?}");
    let findings = applying(&mut broken("treats what no filter lets through"), &FIXTURE);
    assert!(findings.sentences().iter().any(|found| found.contains("no filter lets through")), "{findings:?}");
    let findings = gauging(&mut broken("leaves things behind"), &FIXTURE);
    let parts = ["have left something behind", "a group that is not there has a number"];
    for part in parts {
        assert!(findings.sentences().iter().any(|found| found.contains(part)), "{part}: {findings:?}");
    }
}
