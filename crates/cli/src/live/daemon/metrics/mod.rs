//! Metrics of the daemon: values read in addition to its state, and their output
//! (docs/use/operate.md#metrics).

mod allowance;
mod server;

use std::cell::Cell;
use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::io::Write as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use isotherm_core::host::{Generational as _, Listing};
use isotherm_daemon::changes::Journal;
use isotherm_daemon::config::{Config, MetricsConfig};
use isotherm_daemon::control_loop::{NodeFree, Status};
use isotherm_daemon::metrics::{COLD_SECONDS, Group, Snapshot, WARM_SECONDS, rendered};
use isotherm_linux::cgroup::{Hierarchy, Limit};
use isotherm_linux::counters::{memory_stat, pressure, swaps};
use isotherm_linux::{LiveHost, Root, free_zones, page_bytes};
use isotherm_units::wildcard::is_within;
use isotherm_units::{PAGE_BYTES, Ratio};

use crate::error::CliError;
use allowance::Allowance;
pub(crate) use allowance::Served;
use server::{Server, Text};

/// Time between two reads of generations and the journal.
const SLOW: Duration = Duration::from_secs(15);
/// Most groups with metrics.
const GROUPS_MAX: usize = 64;

/// Checksum of the current configuration.
pub(crate) type InForce = Rc<Cell<u64>>;

/// FNV-1a of the whole configuration.
pub(crate) fn checksum(config: &Config) -> u64 {
    let text = serde_json::to_vec(config).unwrap_or_default();
    isotherm_units::hash::fnv1a(text)
}

impl Drop for Exporter {
    /// A remaining file would mean that the daemon is running.
    fn drop(&mut self) {
        if let Some(path) = &self.textfile {
            let _ = std::fs::remove_file(path);
        }
    }
}

/// Reads and exports metrics.
#[derive(Debug)]
pub(crate) struct Exporter {
    root: Root,
    journal: PathBuf,
    in_force: InForce,
    text: Text,
    textfile: Option<PathBuf>,
    /// Listens until it is dropped.
    _server: Option<Server>,
    served: Served,
    looked: Option<Instant>,
    listings: Vec<Listing>,
    journal_open: Option<u64>,
}

impl Exporter {
    /// Starts with the given configuration. Readers may cost `max_cpu` of one processor.
    pub(crate) fn start(
        config: &MetricsConfig,
        root: &Root,
        journal: &Path,
        in_force: InForce,
        max_cpu: Ratio,
    ) -> Result<Self, CliError> {
        let text: Text = Arc::new(Mutex::new("# EOF\n".into()));
        let served = Served::default();
        let start = |listen| Server::start(&listen, text.clone(), Allowance::new(max_cpu, served.clone()));
        let server = config.listen().map(start).transpose()?;
        let textfile = config.textfile.as_ref().map(PathBuf::from);
        if let Some(path) = &textfile {
            replace(path, "# EOF\n").map_err(|error| {
                CliError::failed(error).while_doing(format!("cannot write metrics to {}", path.display()))
            })?;
        }
        let journal = journal.to_owned();
        let (root, listings) = (root.clone(), Vec::new());
        Ok(Self {
            root,
            journal,
            in_force,
            text,
            textfile,
            _server: server,
            served,
            looked: None,
            listings,
            journal_open: None,
        })
    }

    /// CPU time of the thread that serves readers.
    pub(crate) fn served(&self) -> Served {
        self.served.clone()
    }

    /// Exports the state. A failed write of the textfile is an error; HTTP readers still get the new text.
    pub(crate) fn update(&mut self, status: &Status) -> std::io::Result<()> {
        if self.looked.is_none_or(|looked| looked.elapsed() >= SLOW) {
            self.looked = Some(Instant::now());
            self.journal_open = open_changes(&self.journal);
            self.listings.clear();
            // Without the Multi-Gen LRU, ages are unknown.
            let _ = LiveHost::new(self.root.clone()).read_generations(&mut self.listings);
        }
        let paths: BTreeSet<&String> =
            status.sections.iter().flat_map(|section| &section.targets).filter(|path| path.starts_with('/')).collect();
        let snapshot = Snapshot {
            version: env!("CARGO_PKG_VERSION").to_owned(),
            configuration: self.in_force.get(),
            status: status.clone(),
            journal_open: self.journal_open,
            swap_free_bytes: swaps::read(&self.root)
                .ok()
                .map(|swaps| swaps.iter().map(swaps::Swap::free_bytes).fold(0, u64::saturating_add)),
            nodes: free_zones(&self.root).map(|zones| NodeFree::of_zones(&zones)).unwrap_or_default(),
            groups: paths.into_iter().take(GROUPS_MAX).map(|path| self.group(path)).collect(),
        };
        let text = rendered(snapshot);
        let written = self.textfile.as_ref().map_or(Ok(()), |path| replace(path, &text));
        if let Ok(mut served) = self.text.lock() {
            *served = text.into();
        }
        written
    }

    fn group(&self, path: &str) -> Group {
        let none = || Group { path: path.to_owned(), ..Group::default() };
        let Ok(group) = Hierarchy::unified(&self.root).and_then(|all| all.group(path)) else { return none() };
        let limit = |file: &str| match group.limit(file) {
            Ok(Limit::At(bytes)) => Some(bytes.get()),
            _ => None,
        };
        let stalled = pressure::of_group(&self.root, group.folder(), pressure::Resource::Memory).ok();
        let stat = memory_stat::read(&self.root, group.folder()).ok();
        let refaults = stat.and_then(|stat| stat.sum(&["workingset_refault_anon", "workingset_refault_file"]));
        Group {
            memory_bytes: group.current().ok().map(isotherm_units::Bytes::get),
            swapped_bytes: limit("memory.swap.current"),
            high_bytes: limit("memory.high"),
            stalled_us: stalled.map(|stalled| (stalled.some.total_us, stalled.full.map_or(0, |full| full.total_us))),
            refaulted_bytes: refaults.map(|pages| pages.saturating_mul(page_bytes())),
            by_temperature: self.by_temperature(path),
            // No `..` here, so that each value is read.
            path: path.to_owned(),
        }
    }

    /// Bytes by temperature of a group and all groups below it.
    fn by_temperature(&self, path: &str) -> Option<[u64; 3]> {
        let mut bytes = None;
        for row in self.listings.iter().filter(|listing| is_within(path, &listing.path)).flat_map(|it| &it.rows) {
            let sums: &mut [u64; 3] = bytes.get_or_insert([0; 3]);
            let place = match row.age_ms / 1000 {
                ..WARM_SECONDS => 0,
                WARM_SECONDS..COLD_SECONDS => 1,
                _ => 2,
            };
            let pages = row.anon_pages.saturating_add(row.file_pages);
            sums[place] = sums[place].saturating_add(pages.saturating_mul(PAGE_BYTES));
        }
        bytes
    }
}

/// Replaces a file atomically: readers see the whole old or new one.
fn replace(path: &Path, text: &str) -> std::io::Result<()> {
    let mut beside = path.as_os_str().to_owned();
    beside.push(".new");
    // An existing file may be a link that another user placed there.
    match std::fs::remove_file(&beside) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o644).open(&beside)?;
    file.write_all(text.as_bytes())?;
    std::fs::rename(&beside, path)
}

fn open_changes(path: &Path) -> Option<u64> {
    let bytes = match std::fs::read(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Some(0),
        read => read.ok()?,
    };
    // Its writer may be at work, so the last line may be cut short.
    let journal = Journal::read(bytes).ok()?;
    Some(journal.open().count() as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn exporter(folder: &Path, listen: Option<String>) -> Result<Exporter, CliError> {
        let config = MetricsConfig { listen, textfile: Some(folder.join("x.prom").display().to_string()) };
        Exporter::start(&config, &Root::below(folder), &folder.join("journal"), InForce::default(), Ratio::ONE)
    }

    fn status(target: &str) -> Status {
        let section = isotherm_daemon::control_loop::SectionStatus {
            section: "generations.cold".to_owned(),
            engine: "".into(),
            enabled: false,
            state: String::new(),
            targets: vec![target.to_owned(), "node 0".to_owned()],
            runs: 0,
            stretch: 1,
            asked_bytes: 0,
            verified_bytes: 0,
            refused: 0,
            since_acted_ns: None,
            words: Vec::new(),
        };
        Status {
            since_start_ns: 0,
            paused: None,
            stalled: Vec::new(),
            stretch: 1,
            cpu_ns: 0,
            resident_bytes: None,
            longest_turn_ns: 0,
            sections: vec![section],
        }
    }

    #[test]
    fn memory_of_a_group_is_told_by_its_age() {
        let folder = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        };
        write("proc/self/mountinfo", "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n");
        write("proc/mounts", "cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n");
        write("sys/fs/cgroup/cgroup.controllers", "memory\n");
        write("sys/kernel/mm/lru_gen/enabled", "0x0007\n");
        write("sys/fs/cgroup/app/memory.current", "1000\n");
        write("sys/fs/cgroup/app/memory.high", "max\n");
        write(
            "sys/fs/cgroup/app/memory.pressure",
            "some avg10=0.00 avg60=0.00 avg300=0.00 total=5000000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=2000000\n",
        );
        let listing = "memcg 42 /app\n node 0\n 0 700000 5 1\n 1 90000 7 0\n 2 3000 11 0\n 3 0 13 0\n\
                       memcg 43 /app/a\n node 0\n 0 700000 100 0\n 1 90000 0 0\nmemcg 44 /b\n node 0\n 0 700000 1000 0\n 1 0 0 0\n";
        write("sys/kernel/debug/lru_gen", listing);
        let mut exporter = exporter(folder.path(), None).unwrap();
        exporter.update(&status("/app")).unwrap();
        let text = std::fs::read_to_string(folder.path().join("x.prom")).unwrap();
        for line in [
            format!("isotherm_target_memory_bytes{{target=\"/app\",temperature=\"hot\"}} {}.0", 24 * 4096),
            format!("isotherm_target_memory_bytes{{target=\"/app\",temperature=\"warm\"}} {}.0", 7 * 4096),
            format!("isotherm_target_memory_bytes{{target=\"/app\",temperature=\"cold\"}} {}.0", 106 * 4096),
            "isotherm_target_used_bytes{target=\"/app\"} 1000.0".to_owned(),
            "isotherm_target_stalled_seconds_total{target=\"/app\",kind=\"full\"} 2.0".to_owned(),
            "isotherm_journal_open_changes 0.0".to_owned(),
        ] {
            assert!(text.lines().any(|found| found == line), "{line}\n{text}");
        }
        assert!(!text.contains("target_high_bytes{") && !text.contains("node 0\""), "{text}");
        write("journal", "garbage\nand more\n");
        exporter.looked = None;
        exporter.update(&status("/app")).unwrap();
        let text = std::fs::read_to_string(folder.path().join("x.prom")).unwrap();
        assert!(!text.contains("isotherm_journal_open_changes "), "what cannot be read is left out");
        std::fs::remove_dir_all(folder.path()).unwrap();
        assert!(exporter.update(&status("/app")).is_err(), "the file cannot be written");
    }

    #[test]
    fn a_place_that_cannot_be_had_is_an_error_at_the_start() {
        let folder = tempfile::tempdir().unwrap();
        let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let refused = exporter(folder.path(), Some(taken.local_addr().unwrap().to_string())).unwrap_err();
        assert!(refused.to_string().contains("somebody else listens"), "{refused}");
        std::fs::remove_dir_all(folder.path()).unwrap();
        assert!(exporter(folder.path(), None).is_err());
    }
}
