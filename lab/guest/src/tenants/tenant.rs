//! The tenant: makes and removes groups in a folder of his own, as fast as he may.

use isotherm_guest::tenancy::{Churn, Tenant};
use std::collections::VecDeque;
use std::fs;
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use super::connections::Connections;
use super::names;
use crate::draws::Draws;

/// Name of the tool on the command line of this program.
pub(crate) const NAME: &str = "tenant";
/// Group of his own process.
pub(super) const HOME: &str = "home";
/// Time between two reports.
const REPORT: Duration = Duration::from_secs(1);
/// Rest where he is ahead of his time.
const REST: Duration = Duration::from_millis(10);
/// Every 16th group has one below it; every 50th takes his process for a moment.
const NEST_EACH: u64 = 16;
const MOVE_EACH: u64 = 50;

/// Arguments: `FOLDER SECONDS ORDERS`; the orders are a [`Tenant`] as JSON. Runs until it is killed, and reports a [`Churn`] a line.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let [folder, seconds, orders] = arguments else { return Err(format!("{NAME} FOLDER SECONDS ORDERS")) };
    let orders: Tenant = serde_json::from_str(orders).map_err(|error| format!("orders: {error}"))?;
    let seconds: u64 = seconds.parse().map_err(|error| format!("{seconds}: {error}"))?;
    let address = orders.listen.parse().map_err(|error| format!("{}: {error}", orders.listen))?;
    let wanted = usize::try_from(orders.connections).map_err(|error| error.to_string())?;
    let connections = Arc::new(Connections::default());
    let held = Arc::clone(&connections);
    std::thread::spawn(move || held.hold(address, wanted));
    let mut churning = Churning {
        folder: PathBuf::from(folder),
        draws: Draws::new(orders.seed),
        groups: VecDeque::new(),
        churn: Churn::default(),
    };
    let begin = Instant::now();
    let mut reported = begin;
    loop {
        let elapsed_ms = u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX);
        let due = orders.groups.saturating_mul(elapsed_ms) / (seconds * 1000).max(1);
        if churning.tried() < due.min(orders.groups) {
            churning.step(orders.groups_at_a_time);
        } else {
            std::thread::sleep(REST);
        }
        if reported.elapsed() >= REPORT {
            reported = Instant::now();
            churning.report(&connections)?;
        }
    }
}

struct Churning {
    folder: PathBuf,
    draws: Draws,
    /// The oldest first.
    groups: VecDeque<PathBuf>,
    churn: Churn,
}

impl Churning {
    const fn tried(&self) -> u64 {
        self.churn.made + self.churn.names_refused
    }

    /// Makes one group with limits of its own, and removes the oldest where there are too many.
    fn step(&mut self, at_a_time: u64) {
        let number = self.tried();
        let group = self.folder.join(names::of(number));
        if fs::create_dir(&group).is_ok() {
            self.churn.made += 1;
            self.use_group(number, &group);
            self.groups.push_back(group);
        } else {
            self.churn.names_refused += 1;
        }
        if self.groups.len() as u64 > at_a_time
            && let Some(oldest) = self.groups.pop_front()
        {
            remove_below(&oldest);
            self.churn.removed += u64::from(fs::remove_dir(&oldest).is_ok());
        }
    }

    fn use_group(&mut self, number: u64, group: &Path) {
        for file in ["memory.high", "memory.low"] {
            let value = (1 << 20) + self.draws.below(1 << 30);
            self.limit(group, file, &value.to_string());
        }
        if number.is_multiple_of(3) {
            self.limit(group, "memory.high", "max");
        }
        let other = self.folder.join(format!("renamed {number}"));
        match fs::rename(group, &other) {
            Ok(()) => {
                self.churn.renamed += 1;
                let _ = fs::rename(&other, group);
            }
            Err(_) => self.churn.renames_refused += 1,
        }
        if number.is_multiple_of(NEST_EACH) {
            let _ = fs::write(group.join("cgroup.subtree_control"), "+memory");
            let _ = fs::create_dir(group.join(names::of(number)));
        } else if number.is_multiple_of(MOVE_EACH) {
            let _ = fs::write(group.join("cgroup.procs"), "0");
            let _ = fs::write(self.folder.join(HOME).join("cgroup.procs"), "0");
        }
    }

    fn limit(&mut self, group: &Path, file: &str, value: &str) {
        let count = match fs::write(group.join(file), value) {
            Ok(()) => &mut self.churn.limits,
            Err(_) => &mut self.churn.limits_refused,
        };
        *count += 1;
    }

    fn report(&mut self, connections: &Connections) -> Result<(), String> {
        self.churn.connected = connections.opened.load(Ordering::Relaxed);
        self.churn.open = connections.open.load(Ordering::Relaxed);
        let line = serde_json::to_string(&self.churn).map_err(|error| error.to_string())?;
        writeln!(std::io::stdout(), "{line}").map_err(|error| format!("stdout: {error}"))
    }
}

/// Removes all groups below a group. One with processes stays.
pub(super) fn remove_below(group: &Path) {
    for entry in fs::read_dir(group).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) && entry.file_name() != HOME {
            remove_below(&entry.path());
            let _ = fs::remove_dir(entry.path());
        }
    }
}
