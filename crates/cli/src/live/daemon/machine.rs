//! What the control loop needs of this machine in addition to memory, and the machine's clock.

use std::collections::BTreeMap;
use std::path::PathBuf;

use isotherm_core::host::AddressRange;
use isotherm_daemon::config::{Config, ProcessConfig, Target};
use isotherm_daemon::control_loop::{GroupStall, KillFacts, Member, NodeFree, Running, System, SystemError};
use isotherm_linux::cgroup::Hierarchy;
use isotherm_linux::counters::{nodes, pressure, swaps, vmstat};
use isotherm_linux::knobs::value_of;
use isotherm_linux::{self as linux, Family, Root, Stopwatch, Wake, free_zones, page_bytes};
use isotherm_units::{Bytes, Clock, Duration, Instant, Woken};

use super::configuration;
use super::kill_facts::kill_facts;
use super::manager::Manager;
use super::{Desk, InForce, checksum};

/// This machine.
#[derive(Debug)]
pub(crate) struct Machine<'a> {
    pub(crate) root: Root,
    pub(crate) clock: &'a Stopwatch,
    /// The configuration's file.
    pub(crate) file: PathBuf,
    pub(crate) dry_run: bool,
    /// Checksum of the current configuration.
    pub(crate) in_force: InForce,
    /// Processes that are targets by PID, with their descendants. An ended process stays in the map, so that a process with a reused PID is
    /// not mistaken for it.
    pub(crate) families: BTreeMap<u32, Option<Family>>,
}

impl Machine<'_> {
    /// PIDs of a process and its descendants.
    fn family(&mut self, pid: u32) -> Result<Vec<u32>, SystemError> {
        let first = || Family::of_process(&self.root, pid).ok();
        let Some(family) = self.families.entry(pid).or_insert_with(first) else { return Ok(Vec::new()) };
        family.update().map_err(SystemError::new)?;
        Ok(family.members().map(|member| member.pid).collect())
    }
}

impl System for Machine<'_> {
    fn groups(&mut self, pattern: &str) -> Result<Vec<String>, SystemError> {
        let groups = Hierarchy::unified(&self.root).and_then(|all| all.matching(pattern));
        let groups = groups.map_err(SystemError::new)?;
        Ok(groups.iter().map(|group| group.path().to_owned()).collect())
    }

    fn members(&mut self, group: &str) -> Result<Vec<Member>, SystemError> {
        let all = Hierarchy::unified(&self.root).map_err(SystemError::new)?;
        let mut found = Vec::new();
        let mut left = vec![group.to_owned()];
        while let Some(path) = left.pop() {
            // A group may be removed during the search.
            let Ok(group) = all.group(&path) else { continue };
            let Ok(mut processes) = group.processes() else { continue };
            processes.retain(|&pid| pid != std::process::id());
            left.extend(group.below());
            found.push(Member { path, processes });
        }
        found.sort_unstable();
        Ok(found)
    }

    fn processes(&mut self, target: &Target) -> Result<Vec<Running>, SystemError> {
        let found = match target {
            Target::Command(ProcessConfig { command, user }) => {
                let user = user.as_deref().map(|user| linux::user_number(&self.root, user)).transpose();
                let found = user.and_then(|user| linux::running(&self.root, command, user));
                found.map_err(SystemError::new)?
            }
            Target::Process(pid) => {
                let all = self.family(*pid)?;
                all.into_iter().filter_map(|pid| linux::Running::of(&self.root, pid)).collect()
            }
            Target::Groups(_) | Target::Physical => Vec::new(),
        };
        let running =
            |one: linux::Running| Running { process: one.pid, command: one.name, file: one.file, group: one.group };
        Ok(found.into_iter().filter(|one| one.pid != std::process::id()).map(running).collect())
    }

    fn largest(&mut self, processes: &[u32], most: usize) -> Vec<u32> {
        linux::largest(&self.root, processes, most)
    }

    fn group_file(&mut self, group: &str, file: &str) -> Result<String, SystemError> {
        let group = Hierarchy::unified(&self.root).and_then(|all| all.group(group)).map_err(SystemError::new)?;
        Ok(group.folder().join(file).display().to_string())
    }

    fn physical_memory(&mut self) -> Result<Vec<AddressRange>, SystemError> {
        crate::live::damon::system_ram(&self.root).map_err(SystemError::new)
    }

    fn command(&mut self, path: &str, word: &str) -> Result<(), SystemError> {
        self.root.write(path, word).map_err(SystemError::new)
    }

    fn guaranteed(&mut self, path: &str, with_below: bool) -> Option<String> {
        Hierarchy::unified(&self.root).and_then(|all| all.guaranteed(path, with_below)).ok().flatten()
    }

    fn full_stall(&mut self) -> Option<Duration> {
        let pressure = pressure::of_system(&self.root, pressure::Resource::Memory).ok()?;
        Some(Duration::from_us(pressure.full?.total_us))
    }

    fn full_stall_of(&mut self, group: &str) -> Option<Duration> {
        let group = Hierarchy::unified(&self.root).and_then(|all| all.group(group)).ok()?;
        let pressure = pressure::of_group(&self.root, group.folder(), pressure::Resource::Memory).ok()?;
        Some(Duration::from_us(pressure.full?.total_us))
    }

    fn group_stalls(&mut self) -> Vec<GroupStall> {
        let stall = |one: linux::GroupStall| GroupStall {
            path: one.path,
            full_ns: one.full_us.map(|us| us.saturating_mul(1000)),
            limit_hits: one.limit_hits,
            is_whole: one.is_whole,
        };
        linux::group_stalls(&self.root).unwrap_or_default().into_iter().map(stall).collect()
    }

    fn kill_facts(&mut self) -> Result<KillFacts, SystemError> {
        kill_facts(&self.root).map_err(SystemError::new)
    }

    fn swap_free(&mut self) -> Option<Bytes> {
        let swaps = swaps::read(&self.root).ok()?;
        Some(Bytes::new(swaps.iter().map(swaps::Swap::free_bytes).fold(0, u64::saturating_add)))
    }

    fn value(&mut self, path: &str) -> Result<Option<String>, SystemError> {
        match value_of(&self.root, path) {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.is_missing() => Ok(None),
            Err(error) => Err(SystemError::new(error)),
        }
    }

    fn counters(&mut self, names: &[&str]) -> Result<Vec<Option<u64>>, SystemError> {
        let counters = vmstat::read(&self.root).map_err(SystemError::new)?;
        Ok(names.iter().map(|name| counters.get(name)).collect())
    }

    fn memory_tiers(&mut self) -> Result<Vec<Vec<u32>>, SystemError> {
        let tiers = nodes::tiers(&self.root).map_err(SystemError::new)?;
        Ok(tiers.into_iter().map(|tier| tier.nodes.into_iter().map(|node| node.0).collect()).collect())
    }

    fn fragmentation(&mut self) -> Result<Vec<NodeFree>, SystemError> {
        free_zones(&self.root).map(|zones| NodeFree::of_zones(&zones)).map_err(SystemError::new)
    }

    fn is_there(&mut self, path: &str) -> bool {
        self.root.has(path)
    }

    fn cpu_of(&mut self, process: u32) -> Option<Duration> {
        let stat = self.root.read(format!("/proc/{process}/stat")).ok()?;
        cpu_time(&stat, rustix::param::clock_ticks_per_second())
    }

    fn resident(&mut self) -> Option<Bytes> {
        let text = Root::default().read("/proc/self/statm").ok()?;
        let pages: u64 = text.split_whitespace().nth(1)?.parse().ok()?;
        Some(Bytes::new(pages.saturating_mul(page_bytes())))
    }

    fn configuration(&mut self) -> Result<Config, SystemError> {
        let config = configuration(&self.file).map_err(SystemError::new)?;
        let config = if self.dry_run { config.observing() } else { config };
        self.in_force.set(checksum(&config));
        Ok(config)
    }

    fn has_to_end(&mut self) -> bool {
        self.clock.is_ending()
    }
}

/// CPU time of a line of `/proc/PID/stat` (proc_pid_stat(5): `utime` and `stime`).
fn cpu_time(stat: &str, ticks_per_second: u64) -> Option<Duration> {
    // A name may contain spaces and parentheses.
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace().skip(11).map(str::parse::<u64>);
    let ticks = fields.next()?.ok()?.checked_add(fields.next()?.ok()?)?;
    let ns = u128::from(ticks) * 1_000_000_000 / u128::from(ticks_per_second.max(1));
    Some(Duration::from_ns(u64::try_from(ns).ok()?))
}

/// The machine's clock; SIGHUP and the control socket ask to read the configuration again.
#[derive(Debug)]
pub(crate) struct DaemonClock<'a> {
    pub(crate) clock: &'a Stopwatch,
    pub(crate) manager: Manager,
    pub(crate) is_reloading: bool,
    /// `None` if nothing listens.
    pub(crate) desk: Option<Desk>,
}

impl Clock for DaemonClock<'_> {
    fn now(&self) -> Instant {
        self.clock.now()
    }

    /// A turn ends when the next sleep begins.
    fn sleep_until(&mut self, until: Instant) -> Woken {
        self.manager.turned();
        if std::mem::take(&mut self.is_reloading) {
            self.manager.ready();
        }
        match self.clock.wait_until(until) {
            Wake::Due => Woken::Due,
            Wake::End => Woken::Stopped,
            Wake::Asked => Woken::Asked,
            Wake::Reload => {
                self.desk.iter().for_each(Desk::reloads);
                self.manager.reloading();
                self.is_reloading = true;
                Woken::Reload
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_time_of_threads_of_the_kernel() {
        let stat =
            "77 (kdamond) (0) I 2 0 0 0 -1 2129984 0 0 0 0 3 400 0 0 20 0 1 0 1234 0 0 18446744073709551615 0 0\n";
        assert_eq!(cpu_time(stat, 100), Some(Duration::from_ms(4030)));
        let huge = format!("1 (x) R 1 1 1 1 1 1 1 1 1 1 {0} {0}", u64::MAX);
        for strange in ["", "77", "77 (kdamond.0) I 2", "77 (x) I a b c d e f g h i j k l", &huge] {
            assert_eq!(cpu_time(strange, 100), None, "{strange}");
        }
        assert!(cpu_time(stat, 0).is_some());
    }
}
