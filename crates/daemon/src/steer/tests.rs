//! The loop in a simulated world: groups that come and go, pressure, faults of every kind.

use super::*;
use crate::config::{GenerationsConfig, MonitorsConfig, TargetConfig};
use crate::hands::Journal;
use crate::testkit::FakeClock;
use crate::{Clock, Meter, Woken};
use isotherm_core::generations::{ReclaimerConfig, ToolConfig};
use isotherm_core::host::{
    Ageing, Answer, Eviction, Gauge, Gauging, GenerationCapabilities, Generational, HostError, Listing, Lruvec, NodeId,
};
use isotherm_core::monitor::{MonitorConfig, Operations};
use isotherm_core::presets::{Preset, Reclaim};
use isotherm_core::schemes::Scheme;
use isotherm_core::vocabulary::{Action, GenerationRow};
use isotherm_units::{Instant, PAGE_BYTES, Ratio};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// A group: pages that are always in use, and pages that never are, by generation from the oldest on.
#[derive(Clone, Debug)]
struct Group {
    path: &'static str,
    hot: u64,
    idle: [u64; 4],
    births: [Instant; 4],
    youngest: u64,
    is_there: bool,
}

/// DAMON_RECLAIM of a kernel that does not know the newest parameters, and DAMON_STAT, which has DAMON.
fn module_at_rest() -> BTreeMap<String, String> {
    let module = "reclaim".parse::<Preset>().unwrap().kernel_module().unwrap();
    let known = module
        .parameters
        .into_iter()
        .filter(|(name, _)| !["addr_unit", "autotune_monitoring_intervals"].contains(name));
    let path = |name: &str| format!("/sys/module/damon_reclaim/parameters/{name}");
    let mut knobs: BTreeMap<String, String> = known.map(|(name, value)| (path(name), value)).collect();
    knobs.insert(path("enabled"), "N".to_owned());
    knobs.insert(path("kdamond_pid"), "-1".to_owned());
    knobs.insert("/sys/module/damon_stat/parameters/enabled".to_owned(), "Y".to_owned());
    knobs.insert(NR_KDAMONDS.to_owned(), "0".to_owned());
    knobs
}

const NR_KDAMONDS: &str = "/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds";
/// What is there while a kdamond is.
const KDAMOND: &str = "/sys/kernel/mm/damon/admin/kdamonds/0/";
const STATE: &str = "/sys/kernel/mm/damon/admin/kdamonds/0/state";

const ENABLED: &str = "/sys/module/damon_reclaim/parameters/enabled";
const RUNS: &str = "/sys/module/damon_reclaim/parameters/kdamond_pid";

/// What is true of the machine, whoever asks.
#[derive(Debug)]
struct Truth {
    clock: FakeClock,
    groups: RefCell<Vec<Group>>,
    /// Pressure: a share of the time, and the total so far up to some time.
    pressure: Cell<Ratio>,
    stalled: Cell<(Instant, Duration)>,
    has_psi: Cell<bool>,
    has_kill_file: Cell<bool>,
    is_log_full: Cell<bool>,
    is_ending: Cell<bool>,
    configuration: RefCell<Result<Config, String>>,
    knobs: RefCell<BTreeMap<String, String>>,
    /// Host calls so far, and which one fails.
    calls: Cell<u64>,
    fails_at: Cell<Option<u64>>,
    /// What was evicted: when, of whom, pages, and whether it was allowed then.
    evicted: RefCell<Vec<(Instant, &'static str, u64)>>,
    forbidden: RefCell<Vec<String>>,
    lines: RefCell<Vec<Line>>,
}

impl Truth {
    fn new() -> Rc<Self> {
        let clock = FakeClock::default();
        let group = |path, hot, idle| Group {
            path,
            hot,
            idle: [0, 0, idle, 0],
            births: [Instant::START; 4],
            youngest: 3,
            is_there: true,
        };
        Rc::new(Self {
            clock,
            groups: RefCell::new(vec![
                group("/app/web-1", 1000, 9000),
                group("/app/web-2", 500, 20_000),
                group("/app/db", 4000, 8000),
                group("/app/web-3/sshd.service", 10, 700),
                group("/app/web-4", 10, 800),
                group("/app/web-5", 10, 900),
            ]),
            pressure: Cell::new(Ratio::from_ppm(0)),
            stalled: Cell::new((Instant::START, Duration::ZERO)),
            has_psi: Cell::new(true),
            has_kill_file: Cell::new(false),
            is_log_full: Cell::new(false),
            is_ending: Cell::new(false),
            configuration: RefCell::new(Err("not written yet".to_owned())),
            knobs: RefCell::new(module_at_rest()),
            calls: Cell::new(0),
            fails_at: Cell::new(None),
            evicted: RefCell::default(),
            forbidden: RefCell::default(),
            lines: RefCell::default(),
        })
    }

    fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Files of a kdamond are there, and hold 0, as soon as it is made.
    fn knob(&self, path: &str) -> Option<String> {
        let knobs = self.knobs.borrow();
        let usual = || match path {
            STATE => Some("off".to_owned()),
            _ => path.starts_with(KDAMOND).then(|| "0".to_owned()),
        };
        knobs.get(path).cloned().or_else(|| usual().filter(|_| knobs[NR_KDAMONDS] == "1"))
    }

    fn fails(&self) -> bool {
        let call = self.calls.replace(self.calls.get() + 1);
        self.fails_at.get() == Some(call)
    }

    fn stalled(&self) -> Duration {
        let (since, total) = self.stalled.get();
        let more = u128::from(self.now().since(since).ns()) * u128::from(self.pressure.get().ppm()) / 1_000_000;
        let total = total + Duration::from_ns(u64::try_from(more).unwrap());
        self.stalled.set((self.now(), total));
        total
    }

    fn evicted_of(&self, path: &str) -> u64 {
        self.evicted.borrow().iter().filter(|evicted| evicted.1 == path).map(|evicted| evicted.2).sum()
    }

    fn acts(&self) -> Vec<Act> {
        let lines = self.lines.borrow();
        lines
            .iter()
            .filter_map(|line| if let Line::Acted { act, .. } = line { Some(act.clone()) } else { None })
            .collect()
    }

    fn has_line(&self, is_it: impl Fn(&Line) -> bool) -> bool {
        self.lines.borrow().iter().any(is_it)
    }
}

struct Machine(Rc<Truth>);

impl Generational for Machine {
    fn generation_capabilities(&mut self) -> GenerationCapabilities {
        GenerationCapabilities { read: true, age: true, evict: true, missing: None }
    }

    fn read_generations(&mut self, out: &mut Vec<Listing>) -> Result<(), HostError> {
        if self.0.fails() {
            return Err(HostError::Failed("EIO".to_owned()));
        }
        let now = self.0.now();
        let groups = self.0.groups.borrow();
        out.extend((0..).zip(groups.iter()).filter(|(_, group)| group.is_there).map(|(memcg, group)| {
            Listing {
                lruvec: Lruvec { memcg, node: NodeId(0) },
                path: group.path.to_owned(),
                rows: (0..4)
                    .map(|index| GenerationRow {
                        seq: group.youngest - 3 + index as u64,
                        age_ms: now.since(group.births[index]).ns() / 1_000_000,
                        anon_pages: group.idle[index] + if index == 2 { group.hot } else { 0 },
                        file_pages: 0,
                    })
                    .collect(),
            }
        }));
        Ok(())
    }

    fn age_generations(&mut self, orders: &[Ageing], answers: &mut Vec<Answer>) {
        for order in orders {
            if self.0.fails() {
                answers.push(Answer::Failed("EINVAL".to_owned()));
                continue;
            }
            let mut groups = self.0.groups.borrow_mut();
            let group = &mut groups[usize::try_from(order.lruvec.memcg).unwrap()];
            group.youngest += 1;
            group.idle = [group.idle[0] + group.idle[1], group.idle[2], group.idle[3], 0];
            group.births = [group.births[1], group.births[2], group.births[3], self.0.now()];
            answers.push(Answer::Done { bytes: 0 });
        }
    }

    fn evict_generations(&mut self, orders: &[Eviction], answers: &mut Vec<Answer>) {
        for order in orders {
            if self.0.fails() {
                answers.push(Answer::Failed("EIO".to_owned()));
                continue;
            }
            let mut groups = self.0.groups.borrow_mut();
            let group = &mut groups[usize::try_from(order.lruvec.memcg).unwrap()];
            let limit = order.limit_pages.unwrap_or(u64::MAX);
            if limit > 4096 {
                self.0.forbidden.borrow_mut().push(format!("{limit} pages in one call"));
            }
            let old = order.min_gen_nr.saturating_sub(group.youngest - 3).min(3) as usize;
            let mut left = limit;
            for idle in &mut group.idle[..=old] {
                let gone = left.min(*idle);
                *idle -= gone;
                left -= gone;
            }
            let gone = limit - left;
            if self.0.has_kill_file.get() || self.0.is_log_full.get() || !group.is_there {
                self.0.forbidden.borrow_mut().push(format!("{} at {}", group.path, self.0.now()));
            }
            self.0.evicted.borrow_mut().push((self.0.now(), group.path, gone));
            let bytes = gone * PAGE_BYTES;
            answers.push(if left == 0 { Answer::Done { bytes } } else { Answer::Partly { bytes } });
        }
    }
}

impl Gauging for Machine {
    fn gauges(&mut self, gauges: &[Gauge], values: &mut [Option<u64>]) -> Result<(), HostError> {
        if self.0.fails() {
            return Err(HostError::Failed("EIO".to_owned()));
        }
        for (gauge, value) in gauges.iter().zip(values) {
            *value = matches!(gauge, Gauge::StallSomeUs | Gauge::RefaultBytes { .. }).then_some(0);
        }
        Ok(())
    }
}

/// The journal, and the knobs of the machine.
struct Disk(Rc<RefCell<Vec<u8>>>);

impl Store for Disk {
    fn read(&mut self) -> std::io::Result<Vec<u8>> {
        Ok(self.0.borrow().clone())
    }
    fn append(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.0.borrow_mut().extend_from_slice(bytes);
        Ok(())
    }
}

struct Files(Rc<Truth>);

impl Taken for Files {
    fn value(&mut self, path: &str) -> Result<Option<String>, String> {
        Ok(self.0.knob(path))
    }
    fn write(&mut self, path: &str, value: &str) -> Result<(), String> {
        if self.0.fails() {
            return Err("EIO".to_owned());
        }
        let mut knobs = self.0.knobs.borrow_mut();
        let has_stat = knobs["/sys/module/damon_stat/parameters/enabled"] == "Y";
        if path == ENABLED {
            if value == "Y" && (self.0.has_kill_file.get() || self.0.is_log_full.get()) {
                self.0.forbidden.borrow_mut().push(format!("switched on at {}", self.0.now()));
            }
            let pid = if value == "Y" && !has_stat { "77" } else { "-1" };
            knobs.insert(RUNS.to_owned(), pid.to_owned());
        }
        if path == NR_KDAMONDS {
            if knobs.get(STATE).is_some_and(|state| state == "on") {
                return Err("EBUSY".to_owned());
            }
            knobs.retain(|path, _| !path.starts_with(KDAMOND));
        }
        if path.starts_with(KDAMOND) && knobs[NR_KDAMONDS] != "1" {
            return Err("ENOENT".to_owned());
        }
        if path == STATE && value == "on" {
            if self.0.has_kill_file.get() || self.0.is_log_full.get() || has_stat {
                self.0.forbidden.borrow_mut().push(format!("a kdamond at {}", self.0.now()));
            }
            let pids = knobs.iter().filter(|(path, _)| path.ends_with("pid_target")).map(|(_, pid)| pid.clone());
            for pid in pids.collect::<Vec<_>>() {
                if !["1", "101"].contains(&pid.as_str()) {
                    self.0.forbidden.borrow_mut().push(format!("a kdamond watches process {pid}"));
                }
            }
        }
        knobs.insert(path.to_owned(), value.to_owned());
        Ok(())
    }
}

impl World for Rc<Truth> {
    fn value(&mut self, path: &str) -> Result<Option<String>, String> {
        if self.fails() { Err("EIO".to_owned()) } else { Ok(self.knob(path)) }
    }

    fn members(&mut self, group: &str) -> Result<Vec<Member>, String> {
        if self.fails() {
            return Err("EIO".to_owned());
        }
        let member =
            |(index, one): (u32, &Group)| Member { path: one.path.to_owned(), processes: vec![100 * index + 1] };
        let groups = self.groups.borrow();
        let is_in = |one: &Group| one.is_there && (one.path == group || one.path.starts_with(&format!("{group}/")));
        Ok((0..).zip(groups.iter()).filter(|(_, one)| is_in(one)).map(member).collect())
    }

    fn physical_memory(&mut self) -> Result<Vec<AddressRange>, String> {
        if self.fails() { Err("EIO".to_owned()) } else { Ok(vec![AddressRange::new(0x1000, 1 << 30)]) }
    }

    fn command(&mut self, path: &str, word: &str) -> Result<(), String> {
        assert_eq!((path, word), (STATE, "update_schemes_stats"));
        if self.fails() || self.knob(STATE).as_deref() != Some("on") {
            return Err("EINVAL".to_owned());
        }
        let tried = 4096 * self.now().since(Instant::START).ns() / 1_000_000_000;
        for (name, bytes) in [("sz_tried", tried), ("sz_applied", tried / 2)] {
            let path = format!("{KDAMOND}contexts/0/schemes/0/stats/{name}");
            self.knobs.borrow_mut().insert(path, bytes.to_string());
        }
        Ok(())
    }

    fn groups(&mut self, pattern: &str) -> Result<Vec<String>, String> {
        if self.fails() {
            return Err("EIO".to_owned());
        }
        let groups = self.groups.borrow();
        let prefix = pattern.trim_end_matches('*');
        let fits = |group: &&Group| group.is_there && group.path.starts_with(prefix);
        let tops = groups.iter().filter(fits).map(|group| {
            let parts: Vec<&str> = group.path.split('/').take(3).collect();
            parts.join("/")
        });
        Ok(tops.collect::<BTreeSet<_>>().into_iter().collect())
    }

    fn is_guaranteed(&mut self, path: &str) -> bool {
        path == "/app/web-4"
    }

    fn full_stall(&mut self) -> Option<Duration> {
        (self.has_psi.get() && !self.fails()).then(|| self.stalled())
    }

    fn swap_free(&mut self) -> Option<Bytes> {
        Some(Bytes::new(0))
    }

    fn is_there(&mut self, path: &str) -> bool {
        assert_eq!(path, "/run/isotherm/stop");
        self.has_kill_file.get()
    }

    fn resident(&mut self) -> Option<Bytes> {
        Some(Bytes::from_mib(8))
    }

    fn configuration(&mut self) -> Result<Config, String> {
        self.configuration.borrow().clone()
    }

    fn has_to_end(&mut self) -> bool {
        self.is_ending.get()
    }
}

impl Log for Rc<Truth> {
    fn line(&mut self, line: &Line) -> Result<(), String> {
        if self.is_log_full.get() {
            return Err("no space left on device".to_owned());
        }
        self.lines.borrow_mut().push(line.clone());
        Ok(())
    }

    fn status(&mut self, _: &Status) {}
}

/// Costs nothing.
struct Free;

impl Meter for Free {
    fn spent(&mut self) -> Duration {
        Duration::ZERO
    }
}

/// Does something to the world at some times, and may want a reload.
struct Script<'a> {
    truth: Rc<Truth>,
    events: Vec<Event<'a>>,
}

impl Clock for Script<'_> {
    fn now(&self) -> Instant {
        self.truth.now()
    }

    fn sleep_until(&mut self, until: Instant) -> Woken {
        let mut clock = self.truth.clock.clone();
        while let Some((second, _)) = self.events.first() {
            let at = Instant::START + Duration::from_secs(*second);
            if at > until {
                break;
            }
            clock.sleep_until(at);
            // Pressure counts with what it was until now.
            self.truth.stalled();
            let (_, mut event) = self.events.remove(0);
            if let Some(woken) = event(&self.truth) {
                return woken;
            }
        }
        clock.sleep_until(until)
    }
}

fn section(name: &str, target: &str, enable: bool) -> GenerationsConfig {
    let config = ReclaimerConfig {
        targets: vec![target.to_owned()],
        threshold: Duration::from_secs(20),
        ..ReclaimerConfig::default()
    };
    GenerationsConfig { name: name.to_owned(), enable, tool: ToolConfig::Reclaim(config) }
}

/// With DAMON_RECLAIM too.
fn with_module(enable: bool, take_damon_stat: bool) -> Config {
    let preset =
        Reclaim { min_age: Duration::from_secs(30), wmarks_high: Ratio::from_percent(99), ..Reclaim::default() };
    let monitor = MonitorsConfig {
        name: "proactive".to_owned(),
        enable,
        targets: Vec::new(),
        preset: Some(Preset::Reclaim(preset)),
        config: None,
        take_damon_stat,
    };
    let both = Config { monitors: vec![monitor], ..config(enable) };
    both.check().unwrap();
    both
}

/// With a kdamond that takes cold memory of processes from them.
fn with_kdamond(enable: bool, operations: Operations) -> Config {
    let scheme = Scheme { action: Action::Pageout, ..Scheme::default() };
    let monitor = MonitorsConfig {
        name: "cold".to_owned(),
        enable,
        targets: vec!["web".to_owned()],
        preset: None,
        config: Some(MonitorConfig { operations, schemes: vec![scheme], ..MonitorConfig::default() }),
        take_damon_stat: true,
    };
    let both = Config { monitors: vec![monitor], ..config(enable) };
    both.check().unwrap();
    both
}

fn config(enable: bool) -> Config {
    let mut config = Config {
        targets: vec![TargetConfig { name: "web".to_owned(), cgroup: "/app/web-*".to_owned() }],
        generations: vec![section("cold", "web", enable)],
        ..Config::default()
    };
    config.daemon.protect = vec!["/app/web-5".to_owned()];
    config.check().unwrap();
    config
}

type Event<'a> = (u64, Box<dyn FnMut(&Truth) -> Option<Woken> + 'a>);

fn at<'a>(second: u64, mut event: impl FnMut(&Truth) + 'a) -> Event<'a> {
    (
        second,
        Box::new(move |truth| {
            event(truth);
            None
        }),
    )
}

fn steered(truth: &Rc<Truth>, config: &Config, seconds: u64, events: Vec<Event<'_>>) -> Steered {
    let mut script = Script { truth: truth.clone(), events };
    let (mut world, mut log) = (truth.clone(), truth.clone());
    let length = Some(Duration::from_secs(seconds));
    let journal = Rc::new(RefCell::new(Vec::new()));
    let hands = |journal: &Rc<RefCell<Vec<u8>>>| {
        Hands::new(Journal::read(Disk(journal.clone())).unwrap(), Files(truth.clone()), "b1")
    };
    let mut knobs = hands(&journal);
    let mut machine = Machine(truth.clone());
    let outside = Outside { world: &mut world, knobs: &mut knobs, clock: &mut script, meter: &mut Free, log: &mut log };
    let steered = steer(config, length, &mut machine, outside).unwrap();
    // A knob that could not be put back stays in the journal, for `isotherm restore`.
    if !steered.left.is_empty() {
        truth.fails_at.set(None);
    }
    hands(&journal).restore().unwrap();
    steered
}

#[test]
fn what_is_cold_goes_and_nothing_else() {
    let truth = Truth::new();
    let steered = steered(&truth, &config(true), 120, Vec::new());
    assert_eq!(steered.end, Ended::TimeOver);
    assert_eq!((truth.evicted_of("/app/web-1"), truth.evicted_of("/app/web-2")), (9000, 20_000));
    for spared in ["/app/db", "/app/web-3/sshd.service", "/app/web-4", "/app/web-5"] {
        assert_eq!(truth.evicted_of(spared), 0, "{spared}");
    }
    assert!(truth.forbidden.borrow().is_empty(), "{:?}", truth.forbidden);
    let verified: u64 = truth.acts().iter().map(|act| act.verified_bytes).sum();
    assert_eq!(verified, 29_000 * PAGE_BYTES, "each page that went stands in a line");
    assert_eq!(steered.status.sections[0].verified_bytes, verified);
    for (target, why) in
        [("/app/web-3/sshd.service", "people come in"), ("/app/web-4", "guaranteed"), ("/app/web-5", "protect")]
    {
        let is_it = |line: &Line| matches!(line, Line::LeftAlone { target: found, why: said, .. } if found == target && said.contains(why));
        assert!(truth.has_line(is_it), "{target} {why}");
    }
    assert!(truth.has_line(|line| matches!(line, Line::Trouble { why, .. } if why.contains("no swap is free"))));
}

#[test]
fn without_enable_it_tells_what_it_would_do_and_does_nothing() {
    let (watched, acted) = (Truth::new(), Truth::new());
    steered(&watched, &config(false), 45, Vec::new());
    steered(&acted, &config(true), 45, Vec::new());
    assert!(watched.evicted.borrow().is_empty());
    let acts = watched.acts();
    assert!(!acts.is_empty() && acts.iter().all(|act| act.effect == Effect::Would && act.verified_bytes == 0));
    // The list of the first pass is what the real run writes.
    let list = |acts: &[Act]| acts[..2].iter().map(|act| (act.write.clone(), act.asked_bytes)).collect::<Vec<_>>();
    assert_eq!(list(&acts), list(&acted.acts()));
}

#[test]
fn pressure_and_the_kill_file_pause_it() {
    let truth = Truth::new();
    let events = vec![
        at(5, |truth: &Truth| truth.pressure.set(Ratio::from_percent(10))),
        at(50, |truth: &Truth| truth.pressure.set(Ratio::from_ppm(0))),
    ];
    steered(&truth, &config(true), 200, events);
    let first = truth.evicted.borrow().first().map(|evicted| evicted.0).unwrap();
    assert!(first >= Instant::START + Duration::from_secs(110), "a minute of calm first: {first}");
    let refused = |act: &Act| matches!(&act.effect, Effect::Refused { why } if why.contains("waited for memory"));
    assert!(truth.acts().iter().any(refused), "why nothing happened is told");
    assert!(truth.has_line(|line| *line == Line::Resumed));

    let truth = Truth::new();
    truth.has_kill_file.set(true);
    steered(&truth, &config(true), 90, vec![at(60, |truth: &Truth| truth.has_kill_file.set(false))]);
    assert!(truth.forbidden.borrow().is_empty() && truth.evicted_of("/app/web-1") == 9000);

    let truth = Truth::new();
    truth.has_psi.set(false);
    steered(&truth, &config(true), 90, Vec::new());
    assert!(truth.evicted.borrow().is_empty(), "who cannot see harm does none");
    let mut unguarded = config(true);
    unguarded.guard.pressure_full = Ratio::ONE;
    steered(&truth, &unguarded, 90, Vec::new());
    assert!(truth.evicted_of("/app/web-1") > 0);
}

#[test]
fn what_cannot_be_written_down_is_not_done() {
    let truth = Truth::new();
    let events =
        vec![at(8, |truth: &Truth| truth.is_log_full.set(true)), at(70, |truth: &Truth| truth.is_log_full.set(false))];
    steered(&truth, &config(true), 120, events);
    assert!(truth.forbidden.borrow().is_empty(), "{:?}", truth.forbidden);
    assert_eq!(truth.evicted_of("/app/web-2"), 20_000, "it goes on when there is room again");
}

#[test]
fn groups_come_and_go_and_are_told_once() {
    let truth = Truth::new();
    let events = vec![
        at(30, |truth: &Truth| truth.groups.borrow_mut()[1].is_there = false),
        at(60, |truth: &Truth| truth.groups.borrow_mut()[1].is_there = true),
    ];
    steered(&truth, &config(true), 120, events);
    let told = |is_it: &dyn Fn(&Line) -> bool| truth.lines.borrow().iter().filter(|line| is_it(line)).count();
    assert_eq!(told(&|line| matches!(line, Line::Came { target, .. } if target == "/app/web-2")), 2);
    assert_eq!(told(&|line| matches!(line, Line::Went { target, .. } if target == "/app/web-2")), 1);
    assert!(truth.forbidden.borrow().is_empty());
}

#[test]
fn a_new_configuration_is_taken_whole_or_not_at_all() {
    let truth = Truth::new();
    let reload = |second| -> Event<'_> { (second, Box::new(|_: &Truth| Some(Woken::Reload))) };
    let events = vec![
        reload(5),
        at(10, |truth: &Truth| {
            let mut both = config(true);
            both.generations.push(section("base", "/app/db", true));
            *truth.configuration.borrow_mut() = Ok(both);
        }),
        reload(11),
    ];
    steered(&truth, &config(true), 120, events);
    assert!(truth.has_line(|line| matches!(line, Line::NotReloaded { why } if why == "not written yet")));
    assert_eq!((truth.evicted_of("/app/db"), truth.evicted_of("/app/web-1")), (8000, 9000));
    let began = |name: &str| {
        let lines = truth.lines.borrow();
        lines.iter().filter(|line| matches!(line, Line::Section { section, .. } if section == name)).count()
    };
    assert_eq!((began("generations.cold"), began("generations.base")), (1, 1), "who stays goes on");
}

#[test]
fn it_ends_between_two_pieces() {
    let truth = Truth::new();
    truth.groups.borrow_mut()[1].idle[2] = 1 << 20;
    truth.is_ending.set(true);
    steered(&truth, &config(true), 60, Vec::new());
    assert!(truth.evicted.borrow().is_empty());
    let truth = Truth::new();
    let stop: Event<'_> = (7, Box::new(|_: &Truth| Some(Woken::Stopped)));
    let steered = steered(&truth, &config(true), 60, vec![stop]);
    assert_eq!((steered.end, truth.now()), (Ended::Stopped, Instant::START + Duration::from_secs(7)));
}

/// Each host call in turn fails: nothing that is spared is touched, what went stands in lines, and it goes on.
#[test]
fn a_fault_at_any_call_breaks_nothing() {
    let whole = Truth::new();
    steered(&whole, &with_module(true, true), 90, Vec::new());
    let calls = whole.calls.get();
    assert!(calls > 100, "{calls}");
    for call in 0..calls {
        let truth = Truth::new();
        truth.fails_at.set(Some(call));
        steered(&truth, &with_module(true, true), 180, Vec::new());
        holds(&truth, &format!("fault at call {call}"));
        assert_eq!(truth.evicted_of("/app/web-2"), 20_000, "fault at call {call}");
    }
}

#[test]
fn a_module_of_the_kernel_is_switched_on_and_leaves_no_knob_changed() {
    let truth = Truth::new();
    let seen = RefCell::new(Vec::new());
    let look = |second| at(second, |truth: &Truth| seen.borrow_mut().push(truth.knobs.borrow().clone()));
    let events = vec![
        look(10),
        at(20, |truth: &Truth| truth.has_kill_file.set(true)),
        look(25),
        at(30, |truth: &Truth| truth.has_kill_file.set(false)),
        look(35),
    ];
    steered(&truth, &with_module(true, true), 60, events);
    let seen = seen.into_inner();
    let is_on = |knobs: &BTreeMap<String, String>| knobs[ENABLED] == "Y" && knobs[RUNS] == "77";
    assert_eq!(seen.iter().map(is_on).collect::<Vec<_>>(), [true, false, true]);
    assert_eq!(seen[0]["/sys/module/damon_reclaim/parameters/min_age"], "30000000");
    assert_eq!(seen[1], module_at_rest(), "while it is paused nothing is changed");
    assert_eq!(*truth.knobs.borrow(), module_at_rest());

    // What a dry run lists is what is written.
    let watched = Truth::new();
    steered(&watched, &with_module(false, true), 20, Vec::new());
    assert_eq!(*watched.knobs.borrow(), module_at_rest());
    let list = writes(&watched);
    assert_eq!(list, writes(&truth)[..list.len()]);
    assert_eq!(list.last().map(|write| write.0.as_str()), Some(ENABLED));

    // DAMON is in other hands, and is left there.
    let truth = Truth::new();
    steered(&truth, &with_module(true, false), 60, Vec::new());
    assert_eq!(*truth.knobs.borrow(), module_at_rest());
    assert!(truth.has_line(|line| matches!(line, Line::Trouble { why, .. } if why.contains("take-damon-stat"))));

    // Somebody switches it off: it stays so.
    let truth = Truth::new();
    let off = |truth: &Truth| {
        let off = [(ENABLED, "N"), (RUNS, "-1")].map(|(path, value)| (path.to_owned(), value.to_owned()));
        truth.knobs.borrow_mut().extend(off);
    };
    steered(&truth, &with_module(true, true), 60, vec![at(20, off)]);
    assert!(
        truth.has_line(|line| matches!(line, Line::Trouble { why, .. } if why.contains("somebody switched it off")))
    );
    assert_eq!(*truth.knobs.borrow(), module_at_rest());
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
fn a_kdamond_watches_the_processes_of_its_groups_and_leaves_nothing() {
    let truth = Truth::new();
    let seen = RefCell::new(Vec::new());
    let look = |second| at(second, |truth: &Truth| seen.borrow_mut().push(truth.knobs.borrow().clone()));
    let events = vec![
        look(100),
        at(120, |truth: &Truth| truth.has_kill_file.set(true)),
        look(125),
        at(130, |truth: &Truth| truth.has_kill_file.set(false)),
        look(135),
    ];
    let whole = steered(&truth, &with_kdamond(true, Operations::Vaddr), 180, events);
    holds(&truth, "a kdamond");
    let seen = seen.into_inner();
    let is_on = |knobs: &BTreeMap<String, String>| knobs.get(STATE).is_some_and(|state| state == "on");
    assert_eq!(seen.iter().map(is_on).collect::<Vec<_>>(), [true, false, true]);
    let value = |file: &str| seen[0].get(&format!("{KDAMOND}contexts/0/{file}")).map(String::as_str);
    assert_eq!((value("targets/nr_targets"), value("schemes/0/action")), (Some("2"), Some("pageout")));
    assert_eq!((value("targets/0/pid_target"), value("targets/1/pid_target")), (Some("1"), Some("101")));
    assert_eq!(seen[1], module_at_rest(), "while it is paused nothing is changed");
    let counted = |line: &Line| matches!(line, Line::Counted { asked_bytes, verified_bytes, .. } if asked_bytes / 2 == *verified_bytes);
    assert!(truth.has_line(counted), "{:?}", truth.lines);
    let switch = whole.status.sections.iter().find(|section| section.engine == "kernel: DAMON").unwrap();
    assert_eq!(switch.targets, ["/app/web-1", "/app/web-2"]);

    // What a dry run lists is what is written.
    let watched = Truth::new();
    steered(&watched, &with_kdamond(false, Operations::Vaddr), 20, Vec::new());
    assert_eq!(*watched.knobs.borrow(), module_at_rest());
    let list = writes(&watched);
    assert_eq!(list, writes(&truth)[..list.len()]);
    assert_eq!(list.last().map(|write| write.0.as_str()), Some(STATE));

    // By physical memory groups are filters.
    let truth = Truth::new();
    steered(&truth, &with_kdamond(true, Operations::Paddr), 60, Vec::new());
    holds(&truth, "physical memory");
    let groups: Vec<String> =
        writes(&truth).into_iter().filter(|write| write.0.ends_with("memcg_path")).map(|write| write.1).collect();
    assert_eq!(groups, ["/app/web-1", "/app/web-2"]);
}

#[test]
fn a_kdamond_follows_who_comes_and_goes() {
    // One more group: it is taken in after five minutes.
    let truth = Truth::new();
    truth.groups.borrow_mut()[1].is_there = false;
    let nr_targets = RefCell::new(Vec::new());
    let look = |second| {
        at(second, |truth: &Truth| {
            nr_targets.borrow_mut().push(truth.knob(&format!("{KDAMOND}contexts/0/targets/nr_targets")));
        })
    };
    let come = at(50, |truth: &Truth| truth.groups.borrow_mut()[1].is_there = true);
    let gone = at(400, |truth: &Truth| {
        let mut groups = truth.groups.borrow_mut();
        (groups[0].is_there, groups[1].is_there) = (false, false);
        // Its processes ended, and so it did.
        truth.knobs.borrow_mut().insert(STATE.to_owned(), "off".to_owned());
    });
    let back = at(600, |truth: &Truth| truth.groups.borrow_mut()[0].is_there = true);
    let events = vec![look(40), come, look(200), look(390), gone, look(500), back, look(700)];
    steered(&truth, &with_kdamond(true, Operations::Vaddr), 720, events);
    holds(&truth, "who comes and goes");
    let one = |nr: &str| Some(nr.to_owned());
    assert_eq!(nr_targets.into_inner(), [one("1"), one("1"), one("2"), None, one("1")]);
    assert!(truth.has_line(|line| matches!(line, Line::Trouble { why, .. } if why.contains("there now"))));

    // Somebody switches it off: it stays so. Somebody else's is left alone.
    let truth = Truth::new();
    let off = at(20, |truth: &Truth| drop(truth.knobs.borrow_mut().insert(STATE.to_owned(), "off".to_owned())));
    steered(&truth, &with_kdamond(true, Operations::Vaddr), 200, vec![off]);
    assert!(
        truth.has_line(|line| matches!(line, Line::Trouble { why, .. } if why.contains("somebody switched it off")))
    );
    assert_eq!(writes(&truth).iter().filter(|write| write.0 == STATE).count(), 1);
    holds(&truth, "switched off");
    let truth = Truth::new();
    truth.knobs.borrow_mut().insert(NR_KDAMONDS.to_owned(), "1".to_owned());
    let before = truth.knobs.borrow().clone();
    steered(&truth, &with_kdamond(true, Operations::Vaddr), 200, Vec::new());
    assert!(truth.has_line(|line| matches!(line, Line::Trouble { why, .. } if why.contains("left alone"))));
    assert!(writes(&truth).is_empty() && *truth.knobs.borrow() == before);
}

#[test]
fn a_fault_at_any_call_leaves_no_kdamond() {
    for operations in [Operations::Vaddr, Operations::Paddr] {
        let whole = Truth::new();
        steered(&whole, &with_kdamond(true, operations), 30, Vec::new());
        for call in 0..whole.calls.get() {
            let truth = Truth::new();
            truth.fails_at.set(Some(call));
            let stopped: Event<'_> = (60 + call % 40, Box::new(|_: &Truth| Some(Woken::Stopped)));
            steered(&truth, &with_kdamond(true, operations), 120, vec![stopped]);
            holds(&truth, &format!("{operations:?}, fault at call {call}"));
        }
    }
}

fn holds(truth: &Truth, case: &str) {
    assert_eq!(*truth.knobs.borrow(), module_at_rest(), "{case}: knobs are as before");
    assert!(truth.forbidden.borrow().is_empty(), "{case}: {:?}", truth.forbidden);
    for spared in ["/app/db", "/app/web-3/sshd.service", "/app/web-4", "/app/web-5"] {
        assert_eq!(truth.evicted_of(spared), 0, "{case}: {spared}");
    }
    let verified: u64 = truth.acts().iter().map(|act| act.verified_bytes).sum();
    let evicted: u64 = truth.evicted.borrow().iter().map(|evicted| evicted.2).sum();
    assert!(verified <= evicted * PAGE_BYTES, "{case}: more is claimed than went");
}

/// Events of chance: pressure, the kill file, full disks, groups, reloads, faults. `ISOTHERM_SEEDS=100000` is the long run,
/// `ISOTHERM_SEED=N` one of them.
#[test]
fn seeds_of_chance_break_nothing() {
    let number = |name: &str| std::env::var(name).ok().and_then(|text| text.parse::<u64>().ok());
    let seeds = match number("ISOTHERM_SEED") {
        Some(seed) => seed..seed + 1,
        None => 0..number("ISOTHERM_SEEDS").unwrap_or(300),
    };
    for seed in seeds {
        let mut state = seed;
        let mut chance = move |below: u64| {
            state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
            let mixed = (state ^ (state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
            let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
            (mixed ^ (mixed >> 31)) % below
        };
        let truth = Truth::new();
        let mut events: Vec<Event<'_>> = Vec::new();
        let mut second = 0;
        while second < 280 {
            second += 1 + chance(20);
            let (kind, value) = (chance(7), chance(6));
            let index = usize::try_from(value).expect("below 6");
            events.push((
                second,
                Box::new(move |truth| {
                    match kind {
                        0 => truth.pressure.set(Ratio::from_percent(value)),
                        1 => truth.has_kill_file.set(value < 2),
                        2 => truth.is_log_full.set(value < 2),
                        3 => {
                            let mut groups = truth.groups.borrow_mut();
                            let group = &mut groups[index];
                            group.is_there = !group.is_there;
                        }
                        4 => truth.fails_at.set(Some(truth.calls.get() + value)),
                        5 => {
                            *truth.configuration.borrow_mut() = if value < 3 {
                                Ok(with_module(value > 0, value > 1))
                            } else if value < 5 {
                                let physical = if value == 3 { Operations::Vaddr } else { Operations::Paddr };
                                Ok(with_kdamond(true, physical))
                            } else {
                                Err("broken".to_owned())
                            };
                            return Some(Woken::Reload);
                        }
                        _ => truth.groups.borrow_mut()[index].idle[3] += 3000,
                    }
                    None
                }),
            ));
        }
        steered(&truth, &with_module(true, true), 300, events);
        holds(&truth, &format!("ISOTHERM_SEED={seed} cargo test -p isotherm-daemon seeds_of_chance"));
    }
}
