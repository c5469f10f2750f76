//! A group by the generations of the Multi-Gen LRU and its counters: what every stock kernel reports, without addresses.

use std::path::Path;

use isotherm_core::host::{Ageing, Listing, Lruvec};
use isotherm_core::vocabulary::Swappiness;
use isotherm_daemon::WatchOptions;
use isotherm_linux::cgroup::{Group, Hierarchy, Limit};
use isotherm_linux::counters::memory_stat;
use isotherm_linux::counters::pressure::{self, Resource};
use isotherm_linux::{LiveError, Root, lru_gen};
use isotherm_trace::group::{Gauges, Generation, GroupMeta, GroupWriter, Look, LookKind};
use isotherm_units::{Budget, Bytes, Clock, Duration, Instant, Meter, Woken};

use super::{LiveClock, OwnCpu, to_cli};
use crate::error::CliError;
use crate::ui::Ui;

/// Bytes of a page in `lru_gen`.
const PAGE: u64 = 4096;
/// Intervals between samples, in units of the shortest: four generations can then show both short and long ages.
const PATTERN: [u64; 4] = [1, 1, 2, 4];
/// Shortest and longest default interval.
const INTERVALS: (Duration, Duration) = (Duration::from_secs(2), Duration::from_secs(60));

/// A group that is sampled.
#[derive(Debug)]
pub(crate) struct GroupWatch {
    root: Root,
    group: Group,
}

/// Result of a recording.
#[derive(Debug)]
pub(crate) struct GroupWatched {
    pub(crate) looks: u64,
    pub(crate) elapsed: Duration,
    pub(crate) spent: Duration,
    pub(crate) ended: &'static str,
}

impl GroupWatch {
    /// Finds the group, and checks that its generations can be read.
    pub(crate) fn open(root: &Root, path: &str) -> Result<Self, CliError> {
        let group = Hierarchy::find(root).and_then(|hierarchy| hierarchy.group(path)).map_err(to_cli)?;
        let watch = Self { root: root.clone(), group };
        if watch.listings().map_err(to_cli)?.is_empty() {
            return Err(CliError::host_cannot(format!(
                "lru_gen names no group {}: the kernel keeps generations of groups with memory only; it is empty, or gone",
                watch.group.path()
            )));
        }
        Ok(watch)
    }

    fn listings(&self) -> Result<Vec<Listing>, LiveError> {
        let all = lru_gen::read(&self.root)?;
        let lruvecs = lru_gen::lruvecs(&all, self.group.path(), Some(self.group.number()));
        Ok(all.into_iter().filter(|listing| lruvecs.contains(&listing.lruvec)).collect())
    }

    /// Creates a generation on each node of the group.
    fn age(&self) -> Result<(), LiveError> {
        for listing in self.listings()? {
            let Some(youngest) = listing.rows.last() else { continue };
            let Lruvec { memcg, node } = listing.lruvec;
            let order = Ageing {
                lruvec: Lruvec { memcg, node },
                max_gen_nr: youngest.seq,
                // Anonymous pages too, with or without swap: they are to be reported.
                swappiness: Swappiness::of(200).map_err(LiveError::Refused)?,
                force_scan: true,
            };
            match lru_gen::age(&self.root, &order) {
                Ok(()) => {}
                // Reclaim created a generation in between, which is enough.
                Err(LiveError::Refused(_)) if self.group.is_there() => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Generations and counters now.
    pub(crate) fn look(&self, at: Instant, kind: LookKind) -> Result<Look, LiveError> {
        let mut look = Look { time_ns: at.ns(), kind, gauges: self.gauges(), generations: Vec::new() };
        for listing in self.listings()? {
            look.generations.extend(listing.rows.iter().map(|row| Generation {
                node: u64::from(listing.lruvec.node.0),
                seq: row.seq,
                age_ns: row.age_ms.saturating_mul(1_000_000),
                anon_bytes: row.anon_pages.saturating_mul(PAGE),
                file_bytes: row.file_pages.saturating_mul(PAGE),
            }));
        }
        Ok(look)
    }

    fn gauges(&self) -> Gauges {
        let folder = self.group.folder();
        let stat = memory_stat::read(&self.root, folder).ok();
        let count = |name: &str| stat.as_ref().and_then(|stat| stat.get(name));
        let pressure = pressure::of_group(&self.root, folder, Resource::Memory).ok();
        let limit = |file: &str| match self.group.limit(file) {
            Ok(Limit::At(bytes)) => Some(bytes.get()),
            _ => None,
        };
        Gauges {
            memory_current_bytes: self.group.current().ok().map(Bytes::get),
            swap_current_bytes: self.group.bytes("memory.swap.current").ok().map(Bytes::get),
            refaults_anon: count("workingset_refault_anon"),
            refaults_file: count("workingset_refault_file"),
            major_faults: count("pgmajfault"),
            pressure_some_ns: pressure.map(|pressure| pressure.some.total_us.saturating_mul(1000)),
            pressure_full_ns: pressure
                .and_then(|pressure| pressure.full)
                .map(|full| full.total_us.saturating_mul(1000)),
            high_bytes: limit("memory.high"),
            max_bytes: limit("memory.max"),
        }
    }

    /// Samples until the time is over, and writes a group record. Each sample except the first creates a generation before: monitoring
    /// needs it, and it does not have to be undone.
    pub(crate) fn record(
        &self,
        output: &Path,
        interval: Option<Duration>,
        options: WatchOptions,
        clock: &mut LiveClock,
        ui: &Ui,
    ) -> Result<GroupWatched, CliError> {
        let interval = interval.unwrap_or_else(|| usual_interval(options.length));
        let meta = GroupMeta {
            group: self.group.path().to_owned(),
            kernel: isotherm_linux::kernel_version().unwrap_or_default(),
            host: isotherm_recorder::describe_host(),
            interval_ns: 0,
            huge_pages: self.huge_pages(),
            notes: vec![format!("a generation is made at each look, in turns of {interval} × 1, 1, 2, 4")],
            ..GroupMeta::default()
        };
        let mut writer = GroupWriter::create(output, meta)?;
        let start = clock.now();
        let end = options.length.map(|length| start + length);
        let spinner = ui.spinner("looking at generations: looks");
        let mut meter = OwnCpu;
        let before = meter.spent();
        let mut budget = Budget::new(options.max_cpu, start, before);
        let mut watched =
            GroupWatched { looks: 0, elapsed: Duration::ZERO, spent: Duration::ZERO, ended: "the time is over" };
        loop {
            let now = clock.now();
            if watched.looks > 0
                && let Err(error) = self.age()
            {
                if self.group.is_there() {
                    return Err(to_cli(error));
                }
                watched.ended = "the group is gone";
                break;
            }
            let kind = if watched.looks > 0 { LookKind::Aged } else { LookKind::Read };
            match self.look(clock.now(), kind) {
                Ok(look) if !look.generations.is_empty() => {
                    spinner.set_message(format!(
                        "looking at generations: {}, {} on lists; looks",
                        now.since(start).approx(),
                        Bytes::new(look.total_bytes()).approx()
                    ));
                    writer.push(&look)?;
                    writer.flush()?;
                }
                _ => {
                    watched.ended = "the group is gone, or empty";
                    break;
                }
            }
            watched.looks += 1;
            spinner.inc(1);
            if let Some(stretch) = budget.look(now, meter.spent()) {
                spinner.suspend(|| {
                    ui.say(format_args!(
                        "looks come every {} and more, to stay below {} of a processor",
                        interval.saturating_mul(u64::from(stretch)),
                        options.max_cpu
                    ))
                });
            }
            if end.is_some_and(|end| clock.now() >= end) {
                break;
            }
            let turn = PATTERN[usize::try_from((watched.looks - 1) % PATTERN.len() as u64).unwrap_or(0)];
            let due = now + interval.saturating_mul(turn).saturating_mul(u64::from(budget.stretch()));
            if clock.sleep_until(end.map_or(due, |end| due.min(end))) == Woken::Stopped {
                watched.ended = "stopped";
                break;
            }
        }
        spinner.finish_and_clear();
        watched.elapsed = clock.now().since(start);
        watched.spent = meter.spent().saturating_sub(before);
        writer.set_outcome(watched.ended != "stopped")?;
        writer.finish()?;
        Ok(watched)
    }

    fn huge_pages(&self) -> Option<bool> {
        let text = self.root.read("/sys/kernel/mm/transparent_hugepage/enabled").ok()?;
        Some(!text.contains("[never]"))
    }
}

/// An interval that gives about thirty samples in the available time.
fn usual_interval(length: Option<Duration>) -> Duration {
    let ns = length.map_or(10_000_000_000, |length| length.ns() / 60);
    Duration::from_ns(ns.clamp(INTERVALS.0.ns(), INTERVALS.1.ns()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_some_thirty_looks() {
        let interval = |seconds: u64| usual_interval(Some(Duration::from_secs(seconds)));
        assert_eq!(interval(600), Duration::from_secs(10));
        assert_eq!((interval(10), interval(100_000)), (Duration::from_secs(2), Duration::from_secs(60)));
        assert_eq!(usual_interval(None), Duration::from_secs(10));
    }
}
