//! Our own kdamond, which monitors a target and changes nothing.

use super::{DamonUser, STAT_ENABLED, needs_sysfs, users};
use crate::{LiveError, Root};
use isotherm_core::host::AddressRange;
use isotherm_core::monitor::Attributes;
use isotherm_texts::damon::{self, ADMIN, CONTEXT, NR_KDAMONDS, STATE};
use isotherm_units::Duration;

/// Target of monitoring.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DamonTarget {
    /// All memory of a process; the kernel follows its mappings (`vaddr`).
    Process(u32),
    /// Fixed ranges of a process (`fvaddr`): finds borders faster, because no region lies in a hole.
    Ranges(u32, Vec<AddressRange>),
    /// Ranges of physical memory (`paddr`).
    Physical(Vec<AddressRange>),
}

/// A context with one scheme, which reports every region.
fn context(attributes: &Attributes, target: &DamonTarget) -> damon::Context {
    let us = |interval: Duration| interval.ns() / 1000;
    let (operations, pid, ranges) = match target {
        DamonTarget::Process(pid) => (damon::Operations::Vaddr, Some(*pid), None),
        DamonTarget::Ranges(pid, ranges) => (damon::Operations::Fvaddr, Some(*pid), Some(ranges)),
        DamonTarget::Physical(ranges) => (damon::Operations::Paddr, None, Some(ranges)),
    };
    damon::Context {
        operations,
        addr_unit: 1,
        attributes: damon::Attributes {
            sample_us: us(attributes.sample_interval),
            aggr_us: us(attributes.aggr_interval),
            update_us: us(attributes.ops_update_interval),
            min_nr_regions: attributes.min_nr_regions.into(),
            max_nr_regions: attributes.max_nr_regions.into(),
            intervals_goal: attributes.intervals_goal.as_ref().map(|goal| damon::IntervalsGoal {
                access_bp: goal.access.ppm() / 100,
                aggrs: goal.aggrs.into(),
                min_sample_us: us(goal.min_sample_interval),
                max_sample_us: us(goal.max_sample_interval),
            }),
        },
        targets: vec![damon::Target { pid, regions: ranges.filter(|ranges| !ranges.is_empty()).cloned() }],
        schemes: vec![damon::Scheme { action: "stat".to_owned(), ..damon::Scheme::default() }],
    }
}

/// Changes that a session may make to get DAMON.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Switches DAMON_STAT off during the session, and on again afterwards.
    pub takes_damon_stat: bool,
}

/// A region as the kernel reports it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TriedRegion {
    pub range: AddressRange,
    /// Number of samples of the last aggregation that found it accessed.
    pub nr_accesses: u32,
    /// Number of aggregations for which its access frequency has hardly changed.
    pub age: u32,
}

/// The regions of one aggregation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// Regions, ascending.
    pub regions: Vec<TriedRegion>,
}

/// Intervals as the kernel has tuned them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tuned {
    pub sample_interval: Duration,
    pub aggr_interval: Duration,
}

/// Records the writes of a session, before each is made, so that they can be undone after this program was killed.
pub trait Undo: std::fmt::Debug {
    /// A knob that holds `old`, or will once it exists, is about to be written.
    ///
    /// # Errors
    /// The change could not be recorded: then it is not made.
    fn will_write(&mut self, path: &str, old: &str, new: &str) -> Result<(), LiveError>;

    /// The kdamond runs: the recorded changes refer to this kdamond, and to none that another program begins later.
    fn begun(&mut self);

    /// All is as before.
    fn undone(&mut self);
}

/// Our own running kdamond. Stopping or dropping it restores everything.
#[derive(Debug)]
pub struct Session {
    root: Root,
    pid: Option<u32>,
    /// DAMON_STAT was switched off.
    has_stat: bool,
    is_running: bool,
    undo: Box<dyn Undo>,
}

impl Session {
    /// Starts to monitor. A kdamond of another program is never touched, even if it is off.
    ///
    /// # Errors
    /// [`LiveError::Busy`] with the names of the users of DAMON; [`LiveError::NotHere`]; [`LiveError::Refused`] for attributes out of
    /// range, or refused by the kernel; [`LiveError::Io`]. No change is left behind.
    pub fn start(
        root: &Root,
        attributes: &Attributes,
        target: &DamonTarget,
        options: Options,
        undo: impl FnOnce() -> Result<Box<dyn Undo>, LiveError>,
    ) -> Result<Self, LiveError> {
        attributes.validate().map_err(|error| LiveError::Refused(error.to_string()))?;
        needs_sysfs(root)?;
        let users = users(root)?;
        let is_stat = |user: &DamonUser| *user == DamonUser::Module("DAMON_STAT");
        let takes_stat = options.takes_damon_stat && users.iter().any(is_stat);
        let others: Vec<&DamonUser> = users.iter().filter(|user| !(takes_stat && is_stat(user))).collect();
        if !others.is_empty() {
            return Err(busy(&others));
        }
        let mut session = Self { root: root.clone(), pid: None, has_stat: false, is_running: false, undo: undo()? };
        if takes_stat {
            session.undo.will_write(STAT_ENABLED, "Y", "N")?;
            session.has_stat = true;
            root.write(STAT_ENABLED, "N")?;
        }
        session.undo.will_write(NR_KDAMONDS, "0", "1")?;
        // If another program was faster, the kernel refuses this, and its kdamond is not touched.
        session.set(NR_KDAMONDS.to_owned(), "1")?;
        // From here on the kdamond is ours: dropping the session restores everything.
        session.is_running = true;
        session.configure(attributes, target)?;
        session.undo.will_write(STATE, "off", "on")?;
        session.state("on").map_err(|error| match &error {
            LiveError::Io { source, .. } if source.raw_os_error() == Some(libc::EBUSY) => busy(&[]),
            _ => error,
        })?;
        session.pid = session.running();
        session.undo.begun();
        Ok(session)
    }

    fn configure(&self, attributes: &Attributes, target: &DamonTarget) -> Result<(), LiveError> {
        let goal = format!("{CONTEXT}/monitoring_attrs/intervals/intervals_goal");
        for damon::Setting { path, value } in context(attributes, target).settings() {
            if path.starts_with(&goal) && !self.root.has(&goal) {
                return Err(LiveError::NotHere {
                    what: "an intervals goal",
                    needs: "it needs DAMON of Linux 6.15 or newer; without `intervals-goal` intervals are fixed"
                        .to_owned(),
                });
            }
            let is_operations = path.ends_with("/operations");
            self.set(path, &value).map_err(|error| match error {
                LiveError::Io { .. } if is_operations => LiveError::NotHere {
                    what: "DAMON for this target",
                    needs: format!("it needs a kernel whose DAMON has the operations `{value}`"),
                },
                error => error,
            })?;
        }
        Ok(())
    }

    /// Writes a value and reads it back.
    fn set(&self, path: String, value: &str) -> Result<(), LiveError> {
        self.root.write(&path, value)?;
        let now = self.root.read(&path)?;
        if now.trim() == value {
            return Ok(());
        }
        Err(LiveError::Refused(format!("DAMON did not take {value} in {path}: it holds {} afterwards", now.trim())))
    }

    fn state(&self, word: &str) -> Result<(), LiveError> {
        self.root.write(STATE, word)
    }

    /// Whether the kdamond still runs. It ends when its process ends.
    pub fn is_on(&self) -> bool {
        self.root.read(STATE).is_ok_and(|state| state.trim() == "on")
    }

    /// The regions of the next aggregation: this blocks until it is over.
    ///
    /// # Errors
    /// [`LiveError::Gone`] if monitoring has ended, as it does with its process; [`LiveError::Io`], [`LiveError::Strange`].
    pub fn snapshot(&self) -> Result<Snapshot, LiveError> {
        self.command("update_schemes_tried_regions")?;
        let snapshot = self.regions()?;
        // Frees hundreds of sysfs directories.
        self.command("clear_schemes_tried_regions")?;
        Ok(snapshot)
    }

    /// Regions that the scheme last reported.
    fn regions(&self) -> Result<Snapshot, LiveError> {
        let folder = format!("{CONTEXT}/schemes/0/tried_regions");
        let path = self.root.path(&folder);
        let entries = std::fs::read_dir(&path).map_err(|error| LiveError::io("read", &path, error))?;
        let mut regions = Vec::new();
        for entry in entries {
            let entry = entry.map_err(|error| LiveError::io("read", &path, error))?;
            // The folder of regions also has a file with their sum.
            let name = entry.file_name();
            let Some(number) = name.to_str().and_then(|name| name.parse::<u64>().ok()) else { continue };
            let place = format!("{folder}/{number}");
            let (start, end) = (self.root.value(format!("{place}/start"))?, self.root.value(format!("{place}/end"))?);
            regions.push(TriedRegion {
                range: AddressRange::new(start, end),
                nr_accesses: self.root.value(format!("{place}/nr_accesses"))?,
                age: self.root.value(format!("{place}/age"))?,
            });
        }
        regions.sort_unstable_by_key(|region| region.range.start);
        Ok(Snapshot { regions })
    }

    fn command(&self, word: &str) -> Result<(), LiveError> {
        if !self.is_on() {
            return Err(ended());
        }
        self.state(word).map_err(|error| match &error {
            LiveError::Io { source, .. } if source.raw_os_error() == Some(libc::ECANCELED) => ended(),
            _ if !self.is_on() => ended(),
            _ => error,
        })
    }

    /// Intervals as the kernel has tuned them by now; `None` on kernels that do not tune.
    ///
    /// # Errors
    /// As of [`snapshot`](Self::snapshot).
    pub fn tuned(&self) -> Result<Option<Tuned>, LiveError> {
        let intervals = format!("{CONTEXT}/monitoring_attrs/intervals");
        if !self.root.has(format!("{intervals}/intervals_goal")) {
            return Ok(None);
        }
        self.command("update_tuned_intervals")?;
        let us = |file: &str| self.root.value(format!("{intervals}/{file}")).map(Duration::from_us);
        Ok(Some(Tuned { sample_interval: us("sample_us")?, aggr_interval: us("aggr_us")? }))
    }

    /// PID of the kernel thread that monitors.
    pub const fn kdamond_pid(&self) -> Option<u32> {
        self.pid
    }

    /// CPU time that the kernel thread has used so far, in the kernel's ticks of 10 ms; `None` once it has ended.
    pub fn cpu_time(&self) -> Option<Duration> {
        let stat = self.root.read(format!("/proc/{}/stat", self.pid?)).ok()?;
        let per_second = rustix::param::clock_ticks_per_second();
        cpu_ticks(&stat)?.checked_mul(1_000_000)?.checked_div(per_second).map(Duration::from_us)
    }

    /// Stops, and restores everything.
    ///
    /// # Errors
    /// [`LiveError::Io`] for knobs that could not be restored.
    pub fn stop(mut self) -> Result<(), LiveError> {
        self.put_back()
    }

    fn put_back(&mut self) -> Result<(), LiveError> {
        let ended = if std::mem::take(&mut self.is_running) { self.end() } else { Ok(()) };
        let stat = self.return_stat();
        // What is left to do stays noted.
        if stat.is_ok() && !matches!(ended, Err(LiveError::Io { .. })) {
            self.undo.undone();
        }
        ended.and(stat)
    }

    /// Ends our kdamond, and no other.
    fn end(&self) -> Result<(), LiveError> {
        let is_replaced = || self.is_on() && self.pid.is_some() && self.running() != self.pid;
        let replaced =
            || LiveError::Gone("the kdamond was replaced by somebody else's, which was left alone".to_owned());
        if is_replaced() {
            return Err(replaced());
        }
        let off = if self.is_on() { self.state("off") } else { Ok(()) };
        // It may have ended between the two calls.
        if is_replaced() {
            return Err(replaced());
        }
        let off = if self.is_on() { off } else { Ok(()) };
        let removed = self.root.write(NR_KDAMONDS, "0");
        off.and(removed)
    }

    /// Switches DAMON_STAT on again, unless another program has since.
    fn return_stat(&mut self) -> Result<(), LiveError> {
        if !std::mem::take(&mut self.has_stat) || self.root.read(STAT_ENABLED)?.trim() != "N" {
            return Ok(());
        }
        self.root.write(STAT_ENABLED, "Y")
    }

    /// PID of the kernel thread that runs now.
    fn running(&self) -> Option<u32> {
        let pid = self.root.value::<i64>(format!("{ADMIN}/0/pid")).ok()?;
        u32::try_from(pid).ok()
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Callers that need the result call `stop`.
        let _ = self.put_back();
    }
}

/// `utime` plus `stime` in a line of `/proc/PID/stat`, if the thread is named kdamond; the PID may have been reused.
fn cpu_ticks(stat: &str) -> Option<u64> {
    let (before, after) = stat.rsplit_once(')')?;
    before.split_once('(')?.1.strip_prefix("kdamond")?;
    let mut ticks = after.split_whitespace().skip(11).map(|word| word.parse::<u64>().ok());
    ticks.next()??.checked_add(ticks.next()??)
}

fn ended() -> LiveError {
    LiveError::Gone("DAMON has stopped monitoring: its process has ended, or somebody switched it off".to_owned())
}

fn busy(users: &[&DamonUser]) -> LiveError {
    let names: Vec<String> = users.iter().map(ToString::to_string).collect();
    let by = if names.is_empty() { "somebody who came first".to_owned() } else { names.join(", ") };
    let is_stat_alone = matches!(users, [DamonUser::Module("DAMON_STAT")]);
    let way_out = if is_stat_alone {
        format!(
            "let the session take it (it is switched off meanwhile and on again afterwards), or write N to {STAT_ENABLED}"
        )
    } else {
        "stop them first: write N to the module's `enabled`, or end the program that made the kdamond".to_owned()
    };
    LiveError::Busy { what: "DAMON", by, way_out }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::sync::{Arc, Mutex};

    /// What is noted, and not undone.
    #[derive(Clone, Debug, Default)]
    struct Noted(Arc<Mutex<Vec<(String, String, String)>>>);

    impl Undo for Noted {
        fn will_write(&mut self, path: &str, old: &str, new: &str) -> Result<(), LiveError> {
            self.0.lock().unwrap().push((path.to_owned(), old.to_owned(), new.to_owned()));
            Ok(())
        }
        fn begun(&mut self) {}
        fn undone(&mut self) {
            self.0.lock().unwrap().clear();
        }
    }

    /// The folders that the kernel creates when the counts are written.
    fn tree(stat: &str, nr_kdamonds: &str, state: &str) -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::below(folder.path());
        let put = |path: &str, text: &str| {
            let path = root.path(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        put(STAT_ENABLED, stat);
        put(&format!("{ADMIN}/nr_kdamonds"), nr_kdamonds);
        put(&format!("{ADMIN}/0/state"), state);
        put(&format!("{ADMIN}/0/pid"), "77\n");
        put(&format!("{ADMIN}/0/contexts/nr_contexts"), "0\n");
        for file in [
            "operations",
            "monitoring_attrs/intervals/sample_us",
            "monitoring_attrs/intervals/aggr_us",
            "monitoring_attrs/intervals/update_us",
            "monitoring_attrs/nr_regions/min",
            "monitoring_attrs/nr_regions/max",
            "targets/nr_targets",
            "targets/0/pid_target",
            "targets/0/regions/nr_regions",
            "targets/0/regions/0/start",
            "targets/0/regions/0/end",
            "schemes/nr_schemes",
            "schemes/0/action",
            "schemes/0/access_pattern/sz/max",
            "schemes/0/access_pattern/nr_accesses/max",
            "schemes/0/access_pattern/age/max",
        ] {
            put(&format!("{CONTEXT}/{file}"), "0\n");
        }
        put(&format!("{CONTEXT}/schemes/0/tried_regions/total_bytes"), "12288\n");
        for (number, start, nr_accesses) in [(1, 8192, 0), (0, 4096, 20)] {
            let place = format!("{CONTEXT}/schemes/0/tried_regions/{number}");
            put(&format!("{place}/start"), &format!("{start}\n"));
            put(&format!("{place}/end"), &format!("{}\n", start + 4096));
            put(&format!("{place}/nr_accesses"), &format!("{nr_accesses}\n"));
            put(&format!("{place}/age"), "3\n");
        }
        (folder, root)
    }

    fn start(root: &Root, takes_damon_stat: bool) -> Result<Session, LiveError> {
        let target = DamonTarget::Ranges(7, vec![AddressRange::new(4096, 12_288)]);
        Session::start(root, &Attributes::default(), &target, Options { takes_damon_stat }, || {
            Ok(Box::new(Noted::default()))
        })
    }

    #[test]
    fn a_session_writes_all_reads_regions_and_puts_back() {
        let (_folder, root) = tree("N\n", "0\n", "off\n");
        let session = start(&root, false).unwrap();
        assert_eq!(session.kdamond_pid(), Some(77));
        for (file, value) in [
            ("operations", "fvaddr"),
            ("monitoring_attrs/intervals/sample_us", "5000"),
            ("targets/0/regions/0/end", "12288"),
            ("schemes/0/access_pattern/sz/max", "18446744073709551615"),
        ] {
            assert_eq!(root.read(format!("{CONTEXT}/{file}")).unwrap(), value, "{file}");
        }
        assert_eq!(session.tuned().unwrap(), None);
        let regions = session.regions().unwrap().regions;
        assert_eq!(
            regions.iter().map(|region| (region.range.start, region.nr_accesses)).collect::<Vec<_>>(),
            [(4096, 20), (8192, 0)]
        );
        // A plain file does not return to `on` after a command, so the kdamond of this tree ends with it.
        let gone = session.snapshot().unwrap_err();
        assert!(matches!(gone, LiveError::Gone(_)), "{gone}");
        session.stop().unwrap();
        assert_eq!(root.read(format!("{ADMIN}/nr_kdamonds")).unwrap(), "0");
    }

    #[test]
    fn cpu_time_is_that_of_a_kdamond() {
        let line = "77 (kdamond.0) S 2 0 0 0 -1 69238848 0 0 0 0 5 7 0 0 20 0 1 0 9 0 0\n";
        assert_eq!(cpu_ticks(line), Some(12));
        assert_eq!(cpu_ticks(&line.replace("kdamond.0", "bash")), None);
        assert_eq!(cpu_ticks(&line.replace(" 5 7 ", &format!(" {0} {0} ", u64::MAX))), None);
        for end in 0..line.len() {
            assert!(cpu_ticks(&line[..end]).is_none_or(|ticks| ticks <= 12));
        }
    }

    #[test]
    fn who_has_damon_keeps_it() {
        for (stat, nr_kdamonds, state, name) in
            [("Y\n", "0\n", "off\n", "DAMON_STAT"), ("N\n", "1\n", "on\n", "PID 77"), ("N\n", "1\n", "off\n", "is off")]
        {
            let (_folder, root) = tree(stat, nr_kdamonds, state);
            let error = start(&root, false).unwrap_err();
            assert!(matches!(&error, LiveError::Busy { .. }) && error.to_string().contains(name), "{error}");
            assert_eq!(root.read(format!("{ADMIN}/nr_kdamonds")).unwrap(), nr_kdamonds, "nothing was written");
        }
    }

    #[test]
    fn damon_stat_is_taken_only_on_request_and_given_back() {
        let (_folder, root) = tree("Y\n", "0\n", "off\n");
        let session = start(&root, true).unwrap();
        assert_eq!(root.read(STAT_ENABLED).unwrap(), "N");
        drop(session);
        assert_eq!(root.read(STAT_ENABLED).unwrap(), "Y");
    }

    #[test]
    fn a_start_that_fails_half_way_leaves_nothing() {
        let (_folder, root) = tree("Y\n", "0\n", "off\n");
        fs::remove_file(root.path(format!("{CONTEXT}/schemes/0/action"))).unwrap();
        assert!(start(&root, true).is_err());
        assert_eq!(
            (root.read(STAT_ENABLED).unwrap(), root.read(format!("{ADMIN}/nr_kdamonds")).unwrap()),
            ("Y".into(), "0".into())
        );
        let none = tempfile::tempdir().unwrap();
        let error = start(&Root::below(none.path()), false).unwrap_err().to_string();
        assert!(error.contains("CONFIG_DAMON_SYSFS"), "{error}");
    }
}
