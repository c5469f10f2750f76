//! The simulated world: groups that come and go, pressure, knobs, DAMON, faults.

use super::super::*;
use super::memory::{BALANCING, DEMOTION, PROACTIVENESS, Scattered};
use super::probes::Spaces;
pub(super) use super::script::*;
use crate::testkit::FakeClock;
use isotherm_core::host::{
    Ageing, Answer, Compacting, Eviction, Gauge, Gauging, GenerationCapabilities, Generational, HostError, Listing,
    Lruvec, NodeId,
};
use isotherm_core::presets::Preset;
use isotherm_core::vocabulary::GenerationRow;
use isotherm_units::wildcard::is_within;
use isotherm_units::{Clock as _, Instant, PAGE_BYTES, Ratio};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// A group: pages that are always in use, and pages that never are, by generation from the oldest on.
#[derive(Clone, Debug)]
pub(super) struct Group {
    pub(super) path: &'static str,
    pub(super) hot: u64,
    pub(super) idle: [u64; 4],
    pub(super) births: [Instant; 4],
    pub(super) youngest: u64,
    pub(super) is_there: bool,
    /// How often it was removed and made again.
    pub(super) remade: u64,
    /// `memory.high`, in bytes.
    pub(super) high: Option<u64>,
    pub(super) refaulted_bytes: u64,
    pub(super) stalled_us: u64,
}

impl Group {
    pub(super) fn usage(&self) -> u64 {
        (self.hot + self.idle.iter().sum::<u64>()) * PAGE_BYTES
    }

    /// Idle pages go first. Pages in use come back at once, and cost time.
    fn squeeze(&mut self, high: u64) {
        let mut excess = self.usage().saturating_sub(high).div_ceil(PAGE_BYTES);
        for idle in &mut self.idle {
            let gone = excess.min(*idle);
            *idle -= gone;
            excess -= gone;
        }
        self.refaulted_bytes += excess * PAGE_BYTES;
        self.stalled_us += excess * 1000;
    }
}

/// DAMON_RECLAIM of a kernel that does not know the newest parameters, and DAMON_STAT, which has DAMON.
pub(super) fn module_at_rest() -> BTreeMap<String, String> {
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
    for (path, value) in [(NR_KDAMONDS, "0"), (PROACTIVENESS, "20"), (BALANCING, "1"), (DEMOTION, "false")] {
        knobs.insert(path.to_owned(), value.to_owned());
    }
    knobs
}

pub(super) const NR_KDAMONDS: &str = "/sys/kernel/mm/damon/admin/kdamonds/nr_kdamonds";
/// Files that exist while a kdamond does.
pub(super) const KDAMOND: &str = "/sys/kernel/mm/damon/admin/kdamonds/0/";
pub(super) const STATE: &str = "/sys/kernel/mm/damon/admin/kdamonds/0/state";

pub(super) const ENABLED: &str = "/sys/module/damon_reclaim/parameters/enabled";
pub(super) const RUNS: &str = "/sys/module/damon_reclaim/parameters/kdamond_pid";

/// How a group waits for memory: a share of the time, the total so far up to some time, and how often in a second it is at its limit.
#[derive(Clone, Copy, Debug)]
struct Waits {
    share: Ratio,
    total: (Instant, Duration),
    hits: u64,
}

impl Waits {
    fn total(&self, now: Instant) -> Duration {
        self.total.1 + Duration::from_ns(self.share.of(now.since(self.total.0).ns()))
    }
}

/// True state of the simulated machine.
#[derive(Debug)]
pub(super) struct Truth {
    pub(super) clock: FakeClock,
    pub(super) groups: RefCell<Vec<Group>>,
    /// Pressure: a share of the time, and the total so far up to some time.
    pub(super) pressure: Cell<Ratio>,
    pub(super) stalled: Cell<(Instant, Duration)>,
    pub(super) has_psi: Cell<bool>,
    /// Files that processes run, and what they call themselves, where that is not the name of the group.
    pub(super) programs: RefCell<BTreeMap<u32, (Option<&'static str>, &'static str)>>,
    /// The first group is removed while the next kdamond is switched on.
    pub(super) goes_at_switch: Cell<bool>,
    /// Resident memory of processes, by number; 0 of others.
    pub(super) sizes: RefCell<BTreeMap<u32, u64>>,
    /// More processes of groups, and the number of the group.
    pub(super) more: RefCell<BTreeMap<u32, u32>>,
    /// Groups whose pressure is not the machine's.
    waits: RefCell<BTreeMap<String, Waits>>,
    /// Readings of the pressure of a group.
    pub(super) stalls_read: Cell<u64>,
    /// Direct reclaim for the machine in a second.
    pub(super) shortages: Cell<u64>,
    pub(super) has_kill_file: Cell<bool>,
    pub(super) is_log_full: Cell<bool>,
    pub(super) is_ending: Cell<bool>,
    /// Searches for groups so far, and the CPU time of each.
    pub(super) searches: Cell<u64>,
    pub(super) search_cost: Cell<Duration>,
    /// A group whose files take CPU time to find, and how much. Nothing else costs any.
    pub(super) costly: Cell<Option<(&'static str, Duration)>>,
    /// CPU time so far.
    pub(super) spent: Cell<Duration>,
    /// Questions about single groups so far, and the one at which the daemon is asked to end.
    pub(super) looks: Cell<u64>,
    pub(super) ends_at: Cell<Option<u64>>,
    pub(super) configuration: RefCell<Result<Config, SystemError>>,
    pub(super) knobs: RefCell<BTreeMap<String, String>>,
    /// Host calls so far, and which one fails.
    pub(super) calls: Cell<u64>,
    pub(super) fails_at: Cell<Option<u64>>,
    /// Evictions: time, group, pages. Evictions that were not allowed are in `forbidden`.
    pub(super) evicted: RefCell<Vec<(Instant, &'static str, u64)>>,
    pub(super) forbidden: RefCell<Vec<String>>,
    pub(super) lines: RefCell<Vec<Line>>,
    /// Times of the reports of the state.
    pub(super) reported: RefCell<Vec<Instant>>,
    pub(super) memory: Scattered,
    /// Processes that our own engines sample.
    pub(super) spaces: RefCell<Spaces>,
    /// Free memory, of 2 GiB.
    pub(super) free_bytes: Cell<Option<u64>>,
    /// Share of a processor that a kdamond uses.
    pub(super) kdamond_share: Cell<Ratio>,
}

impl Truth {
    pub(super) fn new() -> Rc<Self> {
        let clock = FakeClock::default();
        let group = |path, hot, idle| Group {
            path,
            hot,
            idle: [0, 0, idle, 0],
            births: [Instant::START; 4],
            youngest: 3,
            is_there: true,
            remade: 0,
            high: None,
            refaulted_bytes: 0,
            stalled_us: 0,
        };
        Rc::new(Self {
            clock,
            groups: RefCell::new(vec![
                group("/app/web-1", 1000, 9000),
                group("/app/web-2", 500, 20_000),
                group("/app/db", 4000, 8000),
                group("/system.slice/sshd.service", 10, 700),
                group("/app/web-4", 10, 800),
                group("/app/web-5", 10, 900),
            ]),
            pressure: Cell::new(Ratio::from_ppm(0)),
            stalled: Cell::new((Instant::START, Duration::ZERO)),
            has_psi: Cell::new(true),
            programs: RefCell::default(),
            goes_at_switch: Cell::new(false),
            sizes: RefCell::default(),
            more: RefCell::default(),
            waits: RefCell::default(),
            stalls_read: Cell::new(0),
            shortages: Cell::new(0),
            has_kill_file: Cell::new(false),
            is_log_full: Cell::new(false),
            is_ending: Cell::new(false),
            searches: Cell::new(0),
            search_cost: Cell::new(Duration::ZERO),
            costly: Cell::new(None),
            spent: Cell::new(Duration::ZERO),
            looks: Cell::new(0),
            ends_at: Cell::new(None),
            configuration: RefCell::new(Err(SystemError::new("not written yet"))),
            knobs: RefCell::new(module_at_rest()),
            calls: Cell::new(0),
            fails_at: Cell::new(None),
            evicted: RefCell::default(),
            forbidden: RefCell::default(),
            lines: RefCell::default(),
            reported: RefCell::default(),
            memory: Scattered::default(),
            spaces: RefCell::default(),
            free_bytes: Cell::new(None),
            kdamond_share: Cell::new(Ratio::from_ppm(0)),
        })
    }

    pub(super) fn now(&self) -> Instant {
        self.clock.now()
    }

    /// Files of a kdamond exist, and hold 0, as soon as it is created.
    pub(super) fn knob(&self, path: &str) -> Option<String> {
        if let Some((path, file)) = path.strip_prefix("/cg").and_then(|path| path.rsplit_once('/')) {
            let groups = self.groups.borrow();
            let group = groups.iter().find(|group| group.is_there && group.path == path)?;
            return Some(match file {
                "memory.high" => group.high.map_or("max".to_owned(), |high| high.to_string()),
                "memory.current" => group.usage().to_string(),
                _ => format!("anon {}\nshmem 0\n", group.hot * PAGE_BYTES),
            });
        }
        let knobs = self.knobs.borrow();
        let usual = || match path {
            STATE => Some("off".to_owned()),
            _ => path.starts_with(KDAMOND).then(|| "0".to_owned()),
        };
        knobs.get(path).cloned().or_else(|| usual().filter(|_| knobs[NR_KDAMONDS] == "1"))
    }

    fn spends(&self, cost: Duration) {
        self.spent.set(self.spent.get() + cost);
    }

    /// Counts a question about a group, which takes time.
    fn looks(&self) {
        self.looks.set(self.looks.get() + 1);
    }

    pub(super) fn is_asked_to_end(&self) -> bool {
        self.is_ending.get() || self.ends_at.get().is_some_and(|at| self.looks.get() >= at)
    }

    pub(super) fn fails(&self) -> bool {
        let call = self.calls.replace(self.calls.get() + 1);
        self.fails_at.get() == Some(call)
    }

    pub(super) fn stalled(&self) -> Duration {
        let (since, total) = self.stalled.get();
        let more = u128::from(self.now().since(since).ns()) * u128::from(self.pressure.get().ppm()) / 1_000_000;
        let total = total + Duration::from_ns(u64::try_from(more).unwrap());
        self.stalled.set((self.now(), total));
        total
    }

    /// From now on all tasks of a group wait for `percent` of the time, and it is at its own limit `hits` times a second.
    pub(super) fn waits(&self, path: &str, percent: u64, hits: u64) {
        let now = self.now();
        let total = self.waits.borrow().get(path).map_or(Duration::ZERO, |waits| waits.total(now));
        let waits = Waits { share: Ratio::from_percent(percent), total: (now, total), hits };
        self.waits.borrow_mut().insert(path.to_owned(), waits);
    }

    pub(super) fn evicted_of(&self, path: &str) -> u64 {
        self.evicted.borrow().iter().filter(|evicted| evicted.1 == path).map(|evicted| evicted.2).sum()
    }

    pub(super) fn acts(&self) -> Vec<Act> {
        let lines = self.lines.borrow();
        lines
            .iter()
            .filter_map(|line| if let Line::Acted { act, .. } = line { Some(act.clone()) } else { None })
            .collect()
    }

    pub(super) fn has_line(&self, is_it: impl Fn(&Line) -> bool) -> bool {
        self.lines.borrow().iter().any(is_it)
    }
}

pub(super) struct Machine(pub(super) Rc<Truth>);

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

const GUARANTEED: &str = "/app/web-4";

/// A group that was made again has another inode, larger by this.
const REMADE: u64 = 100;

impl Gauging for Machine {
    fn memcg(&self, path: &str) -> Option<u64> {
        self.0.looks();
        let groups = self.0.groups.borrow();
        let mut named = (0..).zip(groups.iter()).filter(|(_, group)| group.is_there && group.path == path);
        named.next().map(|(at, group)| at + REMADE * group.remade)
    }

    fn gauges(&mut self, gauges: &[Gauge], values: &mut [Option<u64>]) -> Result<(), HostError> {
        if self.0.fails() {
            return Err(HostError::Failed("EIO".to_owned()));
        }
        let groups = self.0.groups.borrow();
        let group = |memcg: u64| {
            let group = groups.get(usize::try_from(memcg % REMADE).unwrap());
            group.filter(|group| group.is_there && group.remade == memcg / REMADE)
        };
        for (gauge, value) in gauges.iter().zip(values) {
            *value = match *gauge {
                Gauge::StallSomeUs => Some(0),
                Gauge::FreeBytes(None) => self.0.free_bytes.get(),
                Gauge::TotalBytes(None) => Some(2 << 30),
                Gauge::RefaultBytes { memcg } => group(memcg).map(|group| group.refaulted_bytes),
                Gauge::GroupBytes { memcg } => group(memcg).map(Group::usage),
                Gauge::GroupStallSomeUs { memcg } => group(memcg).map(|group| group.stalled_us),
                Gauge::GroupHighEvents { memcg } => group(memcg).map(|group| group.stalled_us / 1000),
                _ => None,
            };
        }
        Ok(())
    }
}

/// The journal, and the knobs of the machine.
pub(super) struct Disk(pub(super) Rc<RefCell<Vec<u8>>>);

impl Store for Disk {
    fn reader(&mut self) -> std::io::Result<Box<dyn std::io::Read + '_>> {
        Ok(Box::new(std::io::Cursor::new(self.0.borrow().clone())))
    }
    fn cut(&mut self, bytes: u64) -> std::io::Result<()> {
        self.0.borrow_mut().cut(bytes)
    }
    fn append(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        Store::append(&mut *self.0.borrow_mut(), bytes)
    }
    fn replace(&mut self, bytes: &[u8]) -> std::io::Result<()> {
        self.0.borrow_mut().replace(bytes)
    }
}

pub(super) struct Files(pub(super) Rc<Truth>);

impl KnobStore for Files {
    fn value(&mut self, path: &str) -> Result<Option<String>, KnobError> {
        Ok(self.0.knob(path))
    }
    fn group(&mut self, path: &str) -> Option<u64> {
        let path = path.strip_prefix("/cg")?.strip_suffix("/memory.high")?;
        self.0.groups.borrow().iter().find(|group| group.is_there && group.path == path).map(|group| group.remade)
    }
    fn is_being_written(&mut self, _path: &str) -> bool {
        false
    }
    fn write(&mut self, path: &str, value: &str) -> Result<(), KnobError> {
        if self.0.fails() {
            return Err(KnobError::machine("EIO"));
        }
        if let Some(path) = path.strip_prefix("/cg").and_then(|path| path.strip_suffix("/memory.high")) {
            let mut groups = self.0.groups.borrow_mut();
            let group = groups.iter_mut().find(|one| one.is_there && one.path == path).ok_or(KnobError::NoKnob)?;
            group.high = value.parse().ok();
            if let Some(high) = group.high {
                if self.0.has_kill_file.get() || self.0.is_log_full.get() || high < group.hot * PAGE_BYTES {
                    self.0.forbidden.borrow_mut().push(format!("{path}: memory.high = {high} at {}", self.0.now()));
                }
                if group.usage().saturating_sub(high) > 17 << 20 {
                    self.0.forbidden.borrow_mut().push(format!("{path}: {high} asks for too much at once"));
                }
                let before = group.usage();
                group.squeeze(high);
                self.0.evicted.borrow_mut().push((self.0.now(), group.path, (before - group.usage()) / PAGE_BYTES));
            }
            return Ok(());
        }
        let mut knobs = self.0.knobs.borrow_mut();
        let has_stat = knobs["/sys/module/damon_stat/parameters/enabled"] == "Y";
        if path == ENABLED {
            if value == "Y" && (self.0.has_kill_file.get() || self.0.is_log_full.get()) {
                self.0.forbidden.borrow_mut().push(format!("switched on at {}", self.0.now()));
            }
            // The module finds its memory itself, and keeps the bounds.
            let end = knobs.get_mut("/sys/module/damon_reclaim/parameters/monitor_region_end");
            if let Some(end) = end.filter(|end| value == "Y" && *end == "0") {
                "1073741824".clone_into(end);
            }
            knobs.insert(RUNS.to_owned(), if value == "Y" && !has_stat { "77" } else { "-1" }.to_owned());
        }
        if path == NR_KDAMONDS {
            if knobs.get(STATE).is_some_and(|state| state == "on") {
                return Err(KnobError::machine("EBUSY"));
            }
            knobs.retain(|path, _| !path.starts_with(KDAMOND));
        }
        if path.starts_with(KDAMOND) && knobs[NR_KDAMONDS] != "1" {
            return Err(KnobError::machine("ENOENT"));
        }
        if path == STATE && value == "on" {
            if self.0.goes_at_switch.replace(false) {
                self.0.groups.borrow_mut()[0].is_there = false;
            }
            if self.0.has_kill_file.get() || self.0.is_log_full.get() || has_stat {
                self.0.forbidden.borrow_mut().push(format!("a kdamond at {}", self.0.now()));
            }
            let pids = knobs.iter().filter(|(path, _)| path.ends_with("pid_target")).map(|(_, pid)| pid.clone());
            for pid in pids.collect::<Vec<_>>() {
                let is_more = self.0.more.borrow().get(&pid.parse().unwrap()).is_some_and(|group| *group < 2);
                if !is_more && !["1", "101"].contains(&pid.as_str()) {
                    self.0.forbidden.borrow_mut().push(format!("a kdamond watches process {pid}"));
                }
            }
        }
        knobs.insert(path.to_owned(), value.to_owned());
        Ok(())
    }
}

impl System for Rc<Truth> {
    fn value(&mut self, path: &str) -> Result<Option<String>, SystemError> {
        if self.fails() { Err(SystemError::new("EIO")) } else { Ok(self.knob(path)) }
    }

    fn members(&mut self, group: &str) -> Result<Vec<Member>, SystemError> {
        self.looks();
        if self.fails() {
            return Err(SystemError::new("EIO"));
        }
        let more = self.more.borrow();
        let member = |(index, one): (u32, &Group)| {
            let more = more.iter().filter(|(_, group)| **group == index).map(|(process, _)| *process);
            Member { path: one.path.to_owned(), processes: std::iter::once(100 * index + 1).chain(more).collect() }
        };
        let groups = self.groups.borrow();
        let is_in = |one: &Group| one.is_there && (one.path == group || one.path.starts_with(&format!("{group}/")));
        Ok((0..).zip(groups.iter()).filter(|(_, one)| is_in(one)).map(member).collect())
    }

    fn processes(&mut self, target: &Target) -> Result<Vec<Running>, SystemError> {
        if self.fails() {
            return Err(SystemError::new("EIO"));
        }
        let groups = self.groups.borrow();
        let running = |(index, one): (u32, &Group)| {
            let command = one.path[5..].split(['-', '/']).next().unwrap_or_default().to_owned();
            let process = 100 * index + 1;
            let (file, command) = match self.programs.borrow().get(&process) {
                Some((file, command)) => (file.map(str::to_owned), (*command).to_owned()),
                None => (None, command),
            };
            Running { process, command, file, group: one.path.to_owned() }
        };
        let is_meant = |one: &Running| match target {
            Target::Command(program) => program.command == *one.file.as_ref().unwrap_or(&one.command),
            Target::Process(process) => *process == one.process,
            Target::Groups(_) | Target::Physical => false,
        };
        Ok((0..).zip(groups.iter()).filter(|(_, one)| one.is_there).map(running).filter(is_meant).collect())
    }

    fn largest(&mut self, processes: &[u32], most: usize) -> Vec<u32> {
        let size =
            |process: &u32| (std::cmp::Reverse(self.sizes.borrow().get(process).copied().unwrap_or(0)), *process);
        let mut all = processes.to_vec();
        all.sort_by_key(size);
        all.truncate(most);
        all
    }

    fn group_file(&mut self, group: &str, file: &str) -> Result<String, SystemError> {
        self.looks();
        if let Some((_, cost)) = self.costly.get().filter(|(costly, _)| *costly == group) {
            self.spends(cost);
        }
        if self.fails() { Err(SystemError::new("EIO")) } else { Ok(format!("/cg{group}/{file}")) }
    }

    fn physical_memory(&mut self) -> Result<Vec<AddressRange>, SystemError> {
        if self.fails() { Err(SystemError::new("EIO")) } else { Ok(vec![AddressRange::new(0x1000, 1 << 30)]) }
    }

    fn command(&mut self, path: &str, word: &str) -> Result<(), SystemError> {
        assert_eq!((path, word), (STATE, "update_schemes_stats"));
        if self.fails() || self.knob(STATE).as_deref() != Some("on") {
            return Err(SystemError::new("EINVAL"));
        }
        let tried = 4096 * self.now().since(Instant::START).ns() / 1_000_000_000;
        for (name, bytes) in [("sz_tried", tried), ("sz_applied", tried / 2)] {
            let path = format!("{KDAMOND}contexts/0/schemes/0/stats/{name}");
            self.knobs.borrow_mut().insert(path, bytes.to_string());
        }
        Ok(())
    }

    fn groups(&mut self, pattern: &str) -> Result<Vec<String>, SystemError> {
        self.searches.set(self.searches.get() + 1);
        self.spends(self.search_cost.get());
        if self.fails() {
            return Err(SystemError::new("EIO"));
        }
        let groups = self.groups.borrow();
        let fits = |group: &&Group| group.is_there && is_within(pattern, group.path);
        let tops = groups.iter().filter(fits).map(|group| {
            let parts: Vec<&str> = group.path.split('/').take(pattern.split('/').count()).collect();
            parts.join("/")
        });
        Ok(tops.collect::<BTreeSet<_>>().into_iter().collect())
    }

    fn guaranteed(&mut self, path: &str, with_below: bool) -> Option<String> {
        self.looks();
        let is_meant = path == GUARANTEED || (with_below && path == "/app");
        is_meant.then(|| GUARANTEED.to_owned())
    }

    fn full_stall(&mut self) -> Option<Duration> {
        (self.has_psi.get() && !self.fails()).then(|| self.stalled())
    }

    fn full_stall_of(&mut self, group: &str) -> Option<Duration> {
        self.stalls_read.set(self.stalls_read.get() + 1);
        // One of the groups stands for all, as each call more is a run more of the tests that let each call fail.
        if !self.has_psi.get() || (group == "/app/web-1" && self.fails()) {
            return None;
        }
        let waits = self.waits.borrow().get(group).map(|waits| waits.total(self.now()));
        Some(waits.unwrap_or_else(|| self.stalled()))
    }

    fn group_stalls(&mut self) -> Vec<GroupStall> {
        if self.fails() {
            return Vec::new();
        }
        let now = self.now();
        let row = |(path, waits): (&String, &Waits)| GroupStall {
            path: path.clone(),
            full_ns: Some(waits.total(now).ns()),
            limit_hits: waits.hits * (now.since(Instant::START).ns() / 1_000_000_000),
            is_whole: true,
        };
        self.waits.borrow().iter().map(row).collect()
    }

    fn kill_facts(&mut self) -> Result<KillFacts, SystemError> {
        if self.fails() {
            return Err(SystemError::new("EIO"));
        }
        let victim = Victim { process: 700, command: "redis".to_owned(), score: 812, group: None };
        let swappiness = isotherm_core::vocabulary::Swappiness::Of(60);
        Ok(KillFacts {
            listings: Vec::new(),
            below_min: BTreeSet::new(),
            swappiness,
            victim: Some(victim),
            panics: false,
        })
    }

    fn swap_free(&mut self) -> Option<Bytes> {
        Some(Bytes::new(0))
    }

    fn counters(&mut self, names: &[&str]) -> Result<Vec<Option<u64>>, SystemError> {
        if self.fails() {
            return Err(SystemError::new("EIO"));
        }
        let seconds = self.now().since(Instant::START).ns() / 1_000_000_000;
        if names[0].starts_with("allocstall") {
            return Ok(vec![Some(seconds * self.shortages.get())]);
        }
        Ok(names.iter().map(|name| (*name != "pgdemote_proactive").then_some(seconds)).collect())
    }

    fn memory_tiers(&mut self) -> Result<Vec<Vec<u32>>, SystemError> {
        if self.fails() {
            Err(SystemError::new("EIO"))
        } else {
            Ok((0..self.memory.nr_tiers.get()).map(|tier| vec![tier]).collect())
        }
    }

    fn fragmentation(&mut self) -> Result<Vec<NodeFree>, SystemError> {
        let mut zones = Vec::new();
        let read = Machine(self.clone()).zones(&mut zones);
        read.map(|()| NodeFree::of_zones(&zones)).map_err(SystemError::new)
    }

    fn is_there(&mut self, path: &str) -> bool {
        assert_eq!(path, "/run/isotherm/stop");
        self.has_kill_file.get()
    }

    fn cpu_of(&mut self, process: u32) -> Option<Duration> {
        if process != 77 || self.fails() {
            return None;
        }
        let ns =
            u128::from(self.now().since(Instant::START).ns()) * u128::from(self.kdamond_share.get().ppm()) / 1_000_000;
        Some(Duration::from_ns(u64::try_from(ns).unwrap()))
    }

    fn resident(&mut self) -> Option<Bytes> {
        Some(Bytes::from_mib(8))
    }

    fn configuration(&mut self) -> Result<Config, SystemError> {
        self.configuration.borrow().clone()
    }

    fn has_to_end(&mut self) -> bool {
        self.is_asked_to_end()
    }
}

impl Log for Rc<Truth> {
    fn line(&mut self, line: &Line) -> Result<(), AuditError> {
        if self.is_log_full.get() {
            return Err(AuditError::new("no space left on device"));
        }
        self.lines.borrow_mut().push(line.clone());
        Ok(())
    }

    fn status(&mut self, status: &Status) {
        assert_eq!(status.since_start_ns, self.now().since(Instant::START).ns());
        self.reported.borrow_mut().push(self.now());
    }
}
