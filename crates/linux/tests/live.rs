//! The live Host on this machine, with children of the test as targets: the contract of hosts, and exits, execs and PIDs of processes.

use isotherm_core::host::conformance::{Fixture, applying, mappings, probing, tiering};
use isotherm_core::host::{
    Action, AddressRange, Applying as _, HostError, Mappings as _, NodeId, Order, PageFilters, TargetId, Tiering as _,
};
use isotherm_linux::{
    Categories, Family, Life, LiveError, LiveHost, LiveTarget, Process, Root, maps, own_cpu_time, pagemap,
    pagemap_scan, smaps,
};
use std::io::Write as _;
use std::process::{Child, Command, Stdio};

const PROCESS: TargetId = TargetId(2);
const GONE: TargetId = TargetId(5);
const HOLE: u64 = 1 << 40;

/// A child that waits for a line and then runs the script; it ends with the test.
struct Waiting(Child);

impl Waiting {
    fn new(script: &str) -> Self {
        let command = format!("read line; {script}");
        let child = Command::new("/bin/sh").args(["-c", &command]).stdin(Stdio::piped()).stdout(Stdio::null()).spawn();
        Self(child.unwrap())
    }

    fn process(&self) -> Process {
        Process::open(&Root::default(), self.0.id()).unwrap()
    }

    fn go_on(&mut self) {
        self.0.stdin.as_mut().unwrap().write_all(b"\n").unwrap();
    }

    fn kill(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        let _ = (self.0.kill(), self.0.wait());
    }
}

/// Next state of a process that differs from `Same`.
fn next_life(process: &Process) -> Life {
    loop {
        match process.life() {
            Life::Same => std::thread::yield_now(),
            other => return other,
        }
    }
}

/// Adjacent present anonymous pages.
fn present(process: &Process) -> AddressRange {
    let page_bytes = 4096.max(rustix::param::page_size() as u64);
    let areas = smaps(process).unwrap();
    let area = areas.iter().find(|area| area.mapping.name == "[stack]").unwrap().mapping.range;
    let entries = pagemap(process, area).unwrap();
    let last = entries.iter().rposition(|entry| entry.is_present()).unwrap();
    let start = entries[..last].iter().rposition(|entry| !entry.is_present()).map_or(0, |page| page as u64 + 1);
    AddressRange::new(area.start + start * page_bytes, area.start + (last as u64 + 1) * page_bytes)
}

/// A host with a child that lives and one that has ended.
fn host(child: &Waiting) -> (LiveHost, Fixture) {
    let mut host = LiveHost::new(Root::default());
    let process = child.process();
    let mapped = present(&process);
    host.add(PROCESS, LiveTarget::Process(process));
    let mut ended = Waiting::new("true");
    host.add(GONE, LiveTarget::Process(ended.process()));
    ended.kill();
    (host, Fixture { process: PROCESS, mapped, hole: HOLE, gone: Some(GONE) })
}

fn apply(host: &mut LiveHost, target: TargetId, action: Action, range: AddressRange) -> Result<u64, HostError> {
    let mut filter = PageFilters::default();
    let mut order = Order {
        action,
        range,
        filter: &mut filter,
        target_nid: None,
        destinations: &[],
        marks_accessed: false,
        last_folio: &mut None,
    };
    host.apply(target, &mut order).map(|applied| applied.bytes)
}

#[test]
fn the_live_host_keeps_the_contract_of_hosts() {
    let child = Waiting::new("true");
    let (mut host, fixture) = host(&child);
    mappings(&mut host, &fixture).assert_none();
    probing(&mut host, &fixture).assert_none();
    applying(&mut host, &fixture).assert_none();
    tiering(&mut host, &fixture).assert_none();
}

#[test]
fn a_tree_of_files_keeps_the_contract_too() {
    let tree = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/trees/7.2");
    let root = Root::below(tree);
    let process = Process::open(&root, 812).unwrap();
    let mapped = maps(&process).unwrap()[0].range;
    let mut host = LiveHost::new(root);
    host.add(PROCESS, LiveTarget::Process(process));
    let fixture = Fixture { process: PROCESS, mapped, hole: HOLE, gone: Some(GONE) };
    mappings(&mut host, &fixture).assert_none();
    probing(&mut host, &fixture).assert_none();
    applying(&mut host, &fixture).assert_none();
    tiering(&mut host, &fixture).assert_none();
    assert_eq!(host.scheme_capabilities(PROCESS).actions, [Action::Stat], "no call goes out from a tree of files");
}

#[test]
fn cold_is_done_where_it_may_be_and_refused_in_words_where_not() {
    let child = Waiting::new("true");
    let (mut host, fixture) = host(&child);
    let range = fixture.mapped;
    match host.scheme_capabilities(PROCESS).actions.contains(&Action::Cold) {
        true => assert_eq!(apply(&mut host, PROCESS, Action::Cold, range), Ok(range.len())),
        false => assert!(matches!(apply(&mut host, PROCESS, Action::Cold, range), Err(HostError::NotHere(_)))),
    }
    let hole = AddressRange::new(HOLE, HOLE + range.len());
    assert!(matches!(apply(&mut host, PROCESS, Action::Cold, hole), Ok(0) | Err(HostError::NotHere(_))));
    let all = AddressRange::new(0, u64::MAX);
    assert!(matches!(apply(&mut host, PROCESS, Action::Cold, all), Ok(0) | Err(HostError::NotHere(_))), "with holes");
    let answer = apply(&mut host, PROCESS, Action::Hugepage, range);
    assert!(matches!(answer, Err(HostError::NotHere(words)) if words.contains("DAMON")));
    // The stack is anonymous: without swap it must never be reported as done.
    let meminfo = std::fs::read_to_string("/proc/meminfo").unwrap();
    let has_swap = !meminfo.lines().any(|line| line.starts_with("SwapFree:") && line.ends_with(" 0 kB"));
    match apply(&mut host, PROCESS, Action::Pageout, range) {
        Ok(bytes) => assert!(has_swap && bytes <= range.len(), "{bytes} bytes"),
        Err(HostError::Failed(words)) => assert!(words.contains("swap"), "{words}"),
        Err(other) => assert!(matches!(other, HostError::NotHere(_)), "{other}"),
    }
    assert_eq!(apply(&mut host, GONE, Action::Stat, range), Err(HostError::Gone(GONE)));
}

#[test]
fn another_program_of_the_same_process_is_gone() {
    let mut child = Waiting::new("exec sleep 600");
    let (mut host, fixture) = host(&child);
    let before = child.process();
    child.go_on();
    assert_eq!(next_life(&before), Life::OtherProgram);
    assert!(matches!(maps(&before), Err(LiveError::Gone(words)) if words.contains("another program")));
    assert_eq!(host.mappings(PROCESS, &mut Vec::new()), Err(HostError::Gone(PROCESS)));
    assert_eq!(apply(&mut host, PROCESS, Action::Cold, fixture.mapped), Err(HostError::Gone(PROCESS)));
    let mut spaces = Vec::new();
    host.spaces(&mut spaces).unwrap();
    assert_eq!(spaces, [], "neither the other program nor the one that ended");
    host.add(PROCESS, LiveTarget::Process(child.process()));
    assert_eq!(host.mappings(PROCESS, &mut Vec::new()), Ok(()), "opened anew it is watched");
    assert!(host.remove(PROCESS).is_some());
    assert_eq!(host.mappings(PROCESS, &mut Vec::new()), Err(HostError::Gone(PROCESS)));
}

#[test]
fn what_has_ended_is_gone_reaped_or_not() {
    let mut child = Waiting::new("true");
    let process = child.process();
    child.0.kill().unwrap();
    assert_eq!(next_life(&process), Life::Ended);
    assert!(matches!(Process::open(&Root::default(), process.pid()), Err(LiveError::Gone(_))), "not yet waited for");
    child.kill();
    assert!(matches!(process.check(), Err(LiveError::Gone(words)) if words.contains("has ended")));
    assert!(matches!(Process::open(&Root::default(), u32::MAX), Err(LiveError::Gone(_))));
    assert!(matches!(Process::open(&Root::default(), 0), Err(LiveError::Gone(_))));
}

#[test]
fn a_thread_is_not_a_process() {
    let thread = std::fs::read_link("/proc/thread-self").unwrap();
    let number: u32 = thread.file_name().unwrap().to_str().unwrap().parse().unwrap();
    assert_ne!(number, std::process::id(), "tests run in threads of their own");
    assert!(
        matches!(Process::open(&Root::default(), number), Err(LiveError::Refused(words)) if words.contains("Tgid"))
    );
}

#[test]
fn children_are_found_as_they_come_and_go() {
    let mut child = Waiting::new("sleep 600 & wait");
    let mut family = Family::of_process(&Root::default(), child.0.id()).unwrap();
    let came = family.update().unwrap().came;
    assert_eq!(came.iter().map(|member| member.pid).collect::<Vec<_>>(), [child.0.id()]);
    child.go_on();
    let came = loop {
        let changes = family.update().unwrap();
        if !changes.came.is_empty() {
            break changes.came;
        }
    };
    let sleeper = came[0].pid;
    child.kill();
    assert_eq!(family.members().map(|member| member.pid).filter(|&pid| pid == sleeper).count(), 1);
    let went = family.update().unwrap().went;
    assert_eq!(went.iter().map(|member| member.pid).collect::<Vec<_>>(), [child.0.id()], "the orphan stays a member");
    let status = Command::new("/bin/sh").args(["-c", "kill \"$0\"", &sleeper.to_string()]).status().unwrap();
    assert!(status.success());
}

/// Pagemap and its scan agree on which pages are present, if this kernel has the scan (6.7).
#[test]
fn present_pages_are_told_alike_by_both_ways() {
    let child = Waiting::new("true");
    let process = child.process();
    let range = present(&process);
    let page_bytes = rustix::param::page_size() as u64;
    let entries = pagemap(&process, range).unwrap();
    assert!(entries.len() as u64 == range.len() / page_bytes && entries.iter().all(|entry| entry.is_present()));
    assert_eq!(pagemap(&process, AddressRange::new(HOLE, HOLE + page_bytes)).unwrap(), [Default::default()]);
    let behind = AddressRange::new(u64::MAX - 8 * page_bytes, u64::MAX - 2 * page_bytes);
    assert_eq!(pagemap(&process, behind).unwrap(), [], "no entries behind the address space");
    if let Some(regions) = pagemap_scan(&process, range, Categories::PRESENT, Categories::FILE).unwrap() {
        assert_eq!(regions.iter().map(|region| region.end - region.start).sum::<u64>(), range.len());
        assert!(regions.iter().all(|region| region.categories().has(Categories::PRESENT)));
    }
    let mut host = LiveHost::new(Root::default());
    host.add(PROCESS, LiveTarget::Process(process));
    let mut nodes = [None, Some(NodeId(9))];
    if host.page_nodes(PROCESS, &[range.start, HOLE], &mut nodes).is_ok() {
        assert!(nodes[0].is_some() && nodes[1].is_none(), "{nodes:?}");
    }
    assert!(own_cpu_time().ns() > 0);
}
