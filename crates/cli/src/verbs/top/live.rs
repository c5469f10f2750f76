//! The live feed of `isotherm top`: groups by their generations, processes by their swap use, the chosen process by a monitor.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::{Duration as WallDuration, Instant as WallInstant};

use isotherm_core::host::Listing;
use isotherm_core::monitor::MonitorConfig;
use isotherm_daemon::{Finding, RegionLook, Source};
use isotherm_linux::cgroup::{Group, Hierarchy};
use isotherm_linux::counters::pressure::{self, Resource};
use isotherm_linux::counters::{buddyinfo, memory_stat, nodes};
use isotherm_linux::{Family, LiveHost, Module, Process, Root, Stopwatch, lru_gen, page_bytes};
use isotherm_top::{Detail, Feed, FeedError, Frame, Generation, GroupRow, HeatRegion, NodeRow, RowKey, RowKind};
use isotherm_units::Duration;

use crate::error::CliError;
use crate::live::{Following, Sweeping};

/// Time between two samples of the machine.
const LOOK: WallDuration = WallDuration::from_secs(2);
/// Generations of groups younger than these times are hot and warm.
const HOT_NS: u64 = 10_000_000_000;
const WARM_NS: u64 = 120_000_000_000;
/// Processes with less resident memory are not shown.
const LEAST_BYTES: u64 = 4 << 20;
/// Groups deeper than this are summed in those above.
const DEPTH: [&str; 4] = ["/", "/*", "/*/*", "/*/*/*"];
const PAGE: u64 = 4096;

/// The machine, sampled again and again.
pub(crate) struct LiveFeed {
    root: Root,
    clock: Stopwatch,
    next: WallInstant,
    keys: BTreeMap<Identity, RowKey>,
    last_key: u64,
    chosen: Option<RowKey>,
    watched: Option<Watched>,
    /// Refaults of groups at the sample before.
    refaults: BTreeMap<String, (u64, u64)>,
    notes: Vec<String>,
    /// Why the chosen process is not watched.
    refusal: Option<String>,
    /// The feed ends after this number of frames.
    frames_left: Option<u64>,
}

/// Identity of a row: a new process with a reused number is another one.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Identity {
    Group(String),
    Process(u32, u64),
}

/// The watched process, and the last finding about it.
struct Watched {
    key: RowKey,
    source: Box<dyn Source>,
    looks: BTreeMap<u32, RegionLook>,
    how: &'static str,
}

impl LiveFeed {
    pub(crate) fn start(root: Root) -> Result<Self, CliError> {
        let clock = Stopwatch::start().map_err(|error| CliError::failed(error).while_doing("cannot catch signals"))?;
        Ok(Self {
            root,
            clock,
            next: WallInstant::now(),
            keys: BTreeMap::new(),
            last_key: 0,
            chosen: None,
            watched: None,
            refaults: BTreeMap::new(),
            notes: Vec::new(),
            refusal: None,
            frames_left: None,
        })
    }

    /// A single frame of the present state, for a picture.
    pub(crate) fn once(root: Root) -> Result<Self, CliError> {
        Ok(Self { frames_left: Some(1), ..Self::start(root)? })
    }

    fn key(&mut self, identity: Identity) -> RowKey {
        *self.keys.entry(identity).or_insert_with(|| {
            self.last_key += 1;
            RowKey(self.last_key)
        })
    }

    fn frame(&mut self) -> Frame {
        self.notes.clear();
        self.notes.extend(self.refusal.clone());
        let at_ns = self.clock.now().ns();
        let mut frame = Frame { at_ns, nodes: self.nodes(), ..Frame::default() };
        self.groups(&mut frame);
        self.processes(&mut frame);
        if let Some(watched) = &self.watched
            && let Some(row) = frame.groups.iter_mut().find(|row| row.key == watched.key)
        {
            temperatures(row, watched.looks.values());
            frame.details.push(detail_of(watched));
            self.notes.push(format!("{} is watched by {}", row.name, watched.how));
        }
        frame.notes.clone_from(&self.notes);
        // Removed groups are forgotten; a key is never reused.
        self.keys.retain(|_, key| frame.groups.iter().any(|row| row.key == *key));
        self.refaults.retain(|path, _| self.keys.contains_key(&Identity::Group(path.clone())));
        frame
    }

    fn nodes(&self) -> Vec<NodeRow> {
        let tiers = nodes::tiers(&self.root).unwrap_or_default();
        let blocks = buddyinfo::read(&self.root).unwrap_or_default();
        let row = |node: &nodes::Node| {
            let mut free_blocks: Vec<u64> = Vec::new();
            for zone in blocks.iter().filter(|zone| zone.node == node.id) {
                let counts = zone.blocks.counts();
                free_blocks.resize(free_blocks.len().max(counts.len()), 0);
                free_blocks.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
            }
            let tier = tiers.iter().position(|tier| tier.nodes.contains(&node.id));
            NodeRow {
                node: node.id.0,
                tier: tier.and_then(|tier| u32::try_from(tier).ok()),
                total_bytes: node.memory.get("MemTotal"),
                free_bytes: node.memory.get("MemFree"),
                free_blocks,
            }
        };
        nodes::read(&self.root).unwrap_or_default().iter().map(row).collect()
    }

    fn groups(&mut self, frame: &mut Frame) {
        let hierarchy = match Hierarchy::find(&self.root) {
            Ok(hierarchy) => hierarchy,
            Err(error) => {
                self.notes.push(format!("no groups: {error}"));
                return;
            }
        };
        let listings = lru_gen::read(&self.root).unwrap_or_else(|error| {
            self.notes.push(format!("no temperatures of groups: {error}"));
            Vec::new()
        });
        let groups: Vec<Group> =
            DEPTH[1..].iter().flat_map(|pattern| hierarchy.matching(pattern).unwrap_or_default()).collect();
        for group in groups {
            let Ok(current) = group.current() else { continue };
            if current.get() < LEAST_BYTES {
                continue;
            }
            let key = self.key(Identity::Group(group.path().to_owned()));
            let generations = generations_of(&listings, &group);
            let older = |from: u64, to: u64| {
                let within = |generation: &&Generation| (from..to).contains(&generation.age_ns);
                let bytes = |generation: &Generation| generation.anon_bytes.saturating_add(generation.file_bytes);
                (!generations.is_empty()).then(|| generations.iter().filter(within).map(bytes).sum())
            };
            frame.groups.push(GroupRow {
                key,
                name: group.path().to_owned(),
                kind: RowKind::Group,
                hot_bytes: older(0, HOT_NS),
                warm_bytes: older(HOT_NS, WARM_NS),
                cold_bytes: older(WARM_NS, u64::MAX),
                resident_bytes: Some(current.get()),
                swapped_bytes: group.bytes("memory.swap.current").ok().map(isotherm_units::Bytes::get),
                pressure_ppm: pressure::of_group(&self.root, group.folder(), Resource::Memory)
                    .ok()
                    .map(|pressure| u64::from(pressure.some.avg10_bp) * 100),
                ..GroupRow::default()
            });
            if self.chosen == Some(key) {
                let detail = self.detail_of_group(key, &group, generations, frame.at_ns);
                frame.details.push(detail);
            }
        }
        if !listings.is_empty() {
            self.notes.push("groups by the age of their generations: hot within 10 s, warm within 2 min".to_owned());
        }
    }

    fn detail_of_group(&mut self, key: RowKey, group: &Group, generations: Vec<Generation>, at_ns: u64) -> Detail {
        let stat = memory_stat::read(&self.root, group.folder()).ok();
        let count = |name: &str| stat.as_ref().and_then(|stat| stat.get(name));
        let refaults = count("workingset_refault_anon").zip(count("workingset_refault_file"));
        let refaults_milli_per_s = refaults.and_then(|(anon, file)| {
            let sum = anon.saturating_add(file);
            let (before, then_ns) = self.refaults.insert(group.path().to_owned(), (sum, at_ns))?;
            let milli = u128::from(sum.saturating_sub(before)) * 1_000_000_000_000;
            u64::try_from(milli / u128::from(at_ns.saturating_sub(then_ns).max(1))).ok()
        });
        let pressure = pressure::of_group(&self.root, group.folder(), Resource::Memory).ok();
        let ppm = |basis_points: u32| u64::from(basis_points) * 100;
        let huge_ppm = count("anon_thp")
            .zip(count("anon").filter(|anon| *anon > 0))
            .and_then(|(huge, anon)| u64::try_from(u128::from(huge) * 1_000_000 / u128::from(anon)).ok());
        let by_node = memory_stat::read_by_node(&self.root, group.folder()).unwrap_or_default();
        let mut node_bytes: BTreeMap<u32, u64> = BTreeMap::new();
        for (_, nodes) in by_node.iter().filter(|(name, _)| name == "anon" || name == "file") {
            nodes.iter().for_each(|(node, bytes)| *node_bytes.entry(*node).or_default() += bytes);
        }
        Detail {
            key,
            generations,
            refaults_milli_per_s,
            pressure_some_ppm: pressure.map(|pressure| ppm(pressure.some.avg10_bp)),
            pressure_full_ppm: pressure.and_then(|pressure| pressure.full).map(|full| ppm(full.avg10_bp)),
            huge_ppm,
            node_bytes: node_bytes.into_iter().collect(),
            ..Detail::default()
        }
    }

    fn processes(&mut self, frame: &mut Frame) {
        let entries = std::fs::read_dir(self.root.path("/proc")).into_iter().flatten().flatten();
        let pids: Vec<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
        for pid in pids {
            let folder = PathBuf::from(format!("/proc/{pid}"));
            // Ended meanwhile, or a kernel thread.
            let Some((resident, start)) = resident_and_start(&self.root, &folder) else { continue };
            if resident < LEAST_BYTES {
                continue;
            }
            let status = self.root.read(folder.join("status")).unwrap_or_default();
            let field = |name: &str| {
                let line = status.lines().find_map(|line| line.strip_prefix(name))?;
                line.trim().trim_end_matches(" kB").parse::<u64>().ok().map(|kib| kib << 10)
            };
            let name = status.lines().find_map(|line| line.strip_prefix("Name:")).unwrap_or_default().trim().to_owned();
            let key = self.key(Identity::Process(pid, start));
            frame.groups.push(GroupRow {
                key,
                name,
                kind: RowKind::Process,
                pid: Some(pid),
                resident_bytes: Some(resident),
                swapped_bytes: field("VmSwap:"),
                ..GroupRow::default()
            });
        }
    }

    /// Lets the watcher of the chosen process take a sample, if it is due.
    fn poll_watched(&mut self) {
        let Some(watched) = &mut self.watched else { return };
        let now = self.clock.now();
        if watched.source.poll_timeout().is_none_or(|due| due > now) {
            return;
        }
        let mut found = Vec::new();
        let looked = watched.source.look(now, &mut found);
        for finding in found {
            match finding {
                Finding::Regions(look) => {
                    watched.looks.insert(look.target, look);
                }
                Finding::Went { target } => {
                    watched.looks.remove(&target);
                }
                Finding::Came { .. } | Finding::Said(_) => {}
            }
        }
        if let Err(error) = looked {
            (self.watched, self.refusal) = (None, Some(error.to_string()));
        }
    }

    /// Watches a process: by the module, else by `clear_refs`.
    fn watch(&mut self, key: RowKey, pid: u32) -> Result<Watched, String> {
        let words = |error: &dyn std::fmt::Display| error.to_string();
        Process::open(&self.root, pid).map_err(|error| words(&error))?;
        let family = Family::of_process(&self.root, pid).map_err(|error| words(&error))?;
        let now = self.clock.now();
        let (source, how): (Box<dyn Source>, _) = match Module::open(&self.root) {
            Ok(module) => {
                let mut host = LiveHost::new(self.root.clone());
                host.use_module(Some(module));
                let mut config = MonitorConfig::default();
                // Twenty samples a second: enough for a screen, at a tenth of the usual cost.
                config.attributes.sample_interval = Duration::from_ms(50);
                config.attributes.aggr_interval = Duration::from_secs(1);
                let following =
                    Following::start(config, &[], 1, host, &self.root, family, now).map_err(|error| words(&error))?;
                (Box::new(following), "the module")
            }
            Err(_) => {
                let sweeping =
                    Sweeping::start(Duration::from_secs(2), &self.root, family, now).map_err(|error| words(&error))?;
                (Box::new(sweeping), "clear_refs: one number for each mapping")
            }
        };
        Ok(Watched { key, source, looks: BTreeMap::new(), how })
    }
}

impl Feed for LiveFeed {
    fn next(&mut self, wait: WallDuration) -> Result<Option<Frame>, FeedError> {
        let until = WallInstant::now() + wait;
        self.poll_watched();
        if WallInstant::now() < self.next {
            let left = self.next.min(until).saturating_duration_since(WallInstant::now());
            let left = Duration::from_ns(u64::try_from(left.as_nanos()).unwrap_or(u64::MAX));
            let due = self.watched.as_ref().and_then(|watched| watched.source.poll_timeout());
            let now = self.clock.now();
            let wake = due.map_or(now + left, |due| due.min(now + left));
            // A signal is for the loop that reads keys; it ends the wait.
            let _ = self.clock.sleep_until(wake.max(now));
            self.poll_watched();
            if WallInstant::now() < self.next {
                return Ok(None);
            }
        }
        self.next = WallInstant::now() + LOOK;
        if let Some(left) = &mut self.frames_left {
            if *left == 0 {
                return Ok(None);
            }
            *left -= 1;
        }
        Ok(Some(self.frame()))
    }

    fn choose(&mut self, key: RowKey) {
        if self.chosen == Some(key) {
            return;
        }
        self.chosen = Some(key);
        (self.watched, self.refusal) = (None, None);
        let identity = self.keys.iter().find(|(_, known)| **known == key).map(|(identity, _)| identity.clone());
        if let Some(Identity::Process(pid, _)) = identity {
            match self.watch(key, pid) {
                Ok(watched) => self.watched = Some(watched),
                Err(words) => self.refusal = Some(words),
            }
        }
        self.next = WallInstant::now();
    }

    fn name(&self) -> String {
        "this machine".to_owned()
    }
}

/// Resident bytes and start time of a process; `None` for a process without memory.
fn resident_and_start(root: &Root, folder: &Path) -> Option<(u64, u64)> {
    let statm = root.read(folder.join("statm")).ok()?;
    let resident: u64 = statm.split_whitespace().nth(1)?.parse().ok()?;
    let stat = root.read(folder.join("stat")).ok()?;
    let (_, after_name) = stat.rsplit_once(')')?;
    let start = after_name.split_whitespace().nth(19)?.parse().ok()?;
    (resident > 0).then(|| (resident.saturating_mul(page_bytes()), start))
}

fn generations_of(listings: &[Listing], group: &Group) -> Vec<Generation> {
    let lruvecs = lru_gen::lruvecs(listings, group.path(), Some(group.number()));
    let rows = listings.iter().filter(|listing| lruvecs.contains(&listing.lruvec)).flat_map(|listing| &listing.rows);
    rows.map(|row| Generation {
        seq: row.seq,
        age_ns: row.age_ms.saturating_mul(1_000_000),
        anon_bytes: row.anon_pages.saturating_mul(PAGE),
        file_bytes: row.file_pages.saturating_mul(PAGE),
    })
    .collect()
}

/// Share of the checks of a sample that found a region used, in millionths.
fn access_ppm(look: &RegionLook, nr_accesses: u32) -> u64 {
    let most = (look.aggr_interval.ns() / look.sample_interval.ns().max(1)).max(1);
    (u64::from(nr_accesses) * 1_000_000 / most).min(1_000_000)
}

fn temperatures<'a>(row: &mut GroupRow, looks: impl Iterator<Item = &'a RegionLook>) {
    let (mut hot, mut warm, mut cold) = (0u64, 0u64, 0u64);
    for look in looks {
        for region in &look.regions {
            let sum = match access_ppm(look, region.nr_accesses) {
                0 => &mut cold,
                250_000.. => &mut hot,
                _ => &mut warm,
            };
            *sum = sum.saturating_add(region.range.len());
        }
    }
    if hot + warm + cold > 0 {
        (row.hot_bytes, row.warm_bytes, row.cold_bytes) = (Some(hot), Some(warm), Some(cold));
    }
}

fn detail_of(watched: &Watched) -> Detail {
    // Children have other address spaces, so the picture only shows the process itself.
    let Some(look) = watched.looks.values().next() else { return Detail { key: watched.key, ..Detail::default() } };
    let age_ns = |age: u32| u64::from(age).saturating_mul(look.aggr_interval.ns());
    let region = |record: &isotherm_core::monitor::RegionRecord| HeatRegion {
        start: record.range.start,
        end: record.range.end,
        access_ppm: Some(access_ppm(look, record.nr_accesses)),
        age_ns: Some(age_ns(record.age)),
    };
    Detail { key: watched.key, regions: look.regions.iter().map(region).collect(), ..Detail::default() }
}
