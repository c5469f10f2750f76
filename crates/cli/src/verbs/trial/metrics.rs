//! Metrics of a trial: counters of groups, and files that the user writes.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use isotherm_daemon::trial::{Better, Kind, Metric, SampleError, Sampler};
use isotherm_linux::Root;
use isotherm_linux::cgroup::{Group, Hierarchy};
use isotherm_linux::counters::memory_stat;
use isotherm_linux::counters::pressure::{self, Resource};

use crate::error::CliError;
use crate::live::to_cli;

/// `NAME=FILE[:higher|lower][:rate]`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct UserMetric {
    name: String,
    file: PathBuf,
    kind: Kind,
    better: Better,
}

impl FromStr for UserMetric {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("`{text}` is no metric; write NAME=FILE, with :higher or :lower and :rate behind it");
        let (name, mut file) = text.split_once('=').ok_or_else(wrong)?;
        let (mut kind, mut better) = (Kind::Level, Better::Lower);
        while let Some((rest, word)) = file.rsplit_once(':') {
            match word {
                "higher" => better = Better::Higher,
                "lower" => better = Better::Lower,
                "rate" => kind = Kind::Rate,
                _ => break,
            }
            file = rest;
        }
        if name.is_empty() || file.is_empty() {
            return Err(wrong());
        }
        Ok(Self { name: name.to_owned(), file: file.into(), kind, better })
    }
}

/// A number in a file.
fn number(file: &Path) -> Result<f64, String> {
    let text = std::fs::read_to_string(file).map_err(|error| format!("{}: {error}", file.display()))?;
    let text = text.trim();
    match text.parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => Err(format!("{}: `{:.40}` is no number; the file must hold one number", file.display(), text)),
    }
}

/// A counter of the kernel, summed over groups.
type Counter = fn(&Root, &Group) -> Result<f64, String>;

/// Name, unit, how it becomes a value. For all these metrics less is better.
const COUNTERS: [(&str, &str, Kind, Counter); 8] = [
    ("memory", "bytes", Kind::Level, |_, group| file(group, "memory.current")),
    ("anon", "bytes", Kind::Level, |root, group| stat(root, group, &["anon"])),
    ("swap", "bytes", Kind::Level, |_, group| file(group, "memory.swap.current")),
    ("refaults", "pages/s", Kind::Rate, |root, group| {
        stat(root, group, &["workingset_refault_anon", "workingset_refault_file", "workingset_refault"])
    }),
    ("major-faults", "faults/s", Kind::Rate, |root, group| stat(root, group, &["pgmajfault"])),
    ("pressure-some", "s/s", Kind::Rate, |root, group| stalled(root, group, false)),
    ("pressure-full", "s/s", Kind::Rate, |root, group| stalled(root, group, true)),
    ("cpu", "s/s", Kind::Rate, |root, group| {
        let text = root.read(group.folder().join("cpu.stat")).map_err(|error| error.to_string())?;
        let used = text.lines().find_map(|line| line.strip_prefix("usage_usec ")?.trim().parse::<f64>().ok());
        used.map(|us| us / 1e6).ok_or_else(|| format!("cpu.stat of {} has no usage_usec", group.path()))
    }),
];

fn file(group: &Group, name: &str) -> Result<f64, String> {
    group.bytes(name).map(|bytes| bytes.get() as f64).map_err(|error| error.to_string())
}

fn stat(root: &Root, group: &Group, names: &[&str]) -> Result<f64, String> {
    let all = memory_stat::read(root, group.folder()).map_err(|error| error.to_string())?;
    let sum = all.sum(names).map(|sum| sum as f64);
    sum.ok_or_else(|| format!("memory.stat of {} has no {}", group.path(), names.join(", ")))
}

fn stalled(root: &Root, group: &Group, is_full: bool) -> Result<f64, String> {
    let all = pressure::of_group(root, group.folder(), Resource::Memory).map_err(|error| error.to_string())?;
    let stall = if is_full { all.full } else { Some(all.some) };
    let stall = stall.ok_or_else(|| format!("memory.pressure of {} has no line `full`", group.path()))?;
    Ok(stall.total_us as f64 / 1e6)
}

/// All that is measured: the user's metrics first.
#[derive(Debug)]
pub(super) struct Metrics {
    root: Root,
    user: Vec<UserMetric>,
    groups: Vec<Group>,
}

impl Metrics {
    /// Finds the groups of these patterns, and that each of the user's files holds a number.
    pub(super) fn open(root: &Root, user: Vec<UserMetric>, patterns: &[String]) -> Result<Self, CliError> {
        for metric in &user {
            let read = number(&metric.file);
            read.map_err(|why| CliError::usage(format!("--metric {}: {why}", metric.name)))?;
        }
        let mut groups: Vec<Group> = Vec::new();
        for pattern in patterns {
            let found = Hierarchy::unified(root).and_then(|all| all.matching(pattern)).map_err(to_cli)?;
            if found.is_empty() {
                return Err(CliError::usage(format!(
                    "no group {pattern} is there now; its counters cannot be compared"
                )));
            }
            for group in found {
                if !groups.contains(&group) {
                    groups.push(group);
                }
            }
        }
        let metrics = Self { root: root.clone(), user, groups };
        let all = metrics.all();
        if all.is_empty() {
            return Err(CliError::usage(
                "nothing can be compared: no configuration has [[targets]], and there is neither --cgroup nor --metric",
            ));
        }
        let mut names: Vec<&str> = all.iter().map(|metric| metric.name.as_str()).collect();
        names.sort_unstable();
        if let Some(two) = names.windows(2).find(|two| two[0] == two[1]) {
            return Err(CliError::usage(format!("two metrics are called {}; give --metric another name", two[0])));
        }
        Ok(metrics)
    }

    pub(super) fn groups(&self) -> impl Iterator<Item = &str> {
        self.groups.iter().map(Group::path)
    }

    /// All metrics, in the order in which samples hold them.
    pub(super) fn all(&self) -> Vec<Metric> {
        let user = self.user.iter().map(|metric| Metric {
            name: metric.name.clone(),
            unit: if metric.kind == Kind::Rate { "1/s".to_owned() } else { String::new() },
            kind: metric.kind,
            better: metric.better,
        });
        let counters = COUNTERS.iter().filter(|_| !self.groups.is_empty()).map(|&(name, unit, kind, _)| Metric {
            name: name.to_owned(),
            unit: unit.to_owned(),
            kind,
            better: Better::Lower,
        });
        user.chain(counters).collect()
    }
}

impl Sampler for Metrics {
    fn sample(&mut self) -> Vec<Result<f64, SampleError>> {
        let mut samples: Vec<_> = self.user.iter().map(|metric| number(&metric.file)).collect();
        if !self.groups.is_empty() {
            let sum = |counter: Counter| self.groups.iter().map(|group| counter(&self.root, group)).sum();
            samples.extend(COUNTERS.iter().map(|&(.., counter)| sum(counter)));
        }
        samples.into_iter().map(|sample| sample.map_err(SampleError::Source)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_of_users_are_read_from_the_end() {
        let read = |text: &str| text.parse::<UserMetric>();
        let of = |file: &str, kind, better| UserMetric { name: "rps".to_owned(), file: file.into(), kind, better };
        assert_eq!(read("rps=/run/rps"), Ok(of("/run/rps", Kind::Level, Better::Lower)));
        assert_eq!(read("rps=/run/a:b:higher:rate"), Ok(of("/run/a:b", Kind::Rate, Better::Higher)));
        assert!(read("rps").is_err() && read("=x").is_err() && read("rps=:rate").is_err());
    }
}
