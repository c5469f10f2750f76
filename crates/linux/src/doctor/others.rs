//! Finds other programs that change the knobs that isotherm changes, or clear the bits that it reads, by files and by names in `/proc`, and
//! reports the consequences for isotherm. No program is stopped.

use std::collections::BTreeSet;

use super::{AS_ROOT, Context, Finding, Part, State, said};
use crate::damon::{self, DamonUser};
use crate::{LiveError, Root};
use isotherm_texts::damon::ADMIN;

const NAME: &str = "others at work";

/// A known program.
struct Program {
    /// Names of the program in the kernel (at most 15 letters), or names of its script.
    names: &'static [&'static str],
    /// Effect of the program on our work.
    means: &'static str,
    /// How to avoid that.
    way: &'static str,
}

const PROGRAMS: &[Program] = &[
    Program {
        names: &["isotherm"],
        means: "may clear the accessed bits that this one reads, and set the same limits",
        way: "let one isotherm at a time watch or run a target",
    },
    Program {
        names: &["damo"],
        means: "uses DAMON, which has one owner at a time",
        way: "wait until it is done, or watch by --source module or clear-refs",
    },
    Program {
        names: &["senpai", "senpai.py"],
        means: "sets memory.high of groups, or reclaims from them, by their pressure",
        way: "give each group to one of the two: on the same group they work against each other",
    },
    Program {
        names: &["memtierd"],
        means: "moves pages between nodes and to swap by policies of its own",
        way: "give each process to one of the two",
    },
    Program {
        names: &["numad"],
        means: "binds processes to nodes and moves their pages",
        way: "stop it while pages are placed, and while nodes are measured",
    },
    Program {
        names: &["systemd-oomd"],
        means: "kills groups whose pressure or swap use stays high, and a lower limit raises both",
        way: "ManagedOOMPreference=omit in units that isotherm limits",
    },
    Program {
        names: &["oomd"],
        means: "kills groups whose pressure or swap use stays high, and a lower limit raises both",
        way: "exempt groups that isotherm limits in its configuration",
    },
    Program {
        names: &["earlyoom", "nohang"],
        means: "kills processes when memory and swap are nearly used up, and what is paged out fills swap",
        way: "leave swap free, or name programs that it shall spare",
    },
    Program {
        names: &["uresourced"],
        means: "sets memory.low and memory.min of sessions, which reclaim then spares",
        way: "look at memory.low of a group before its limit is set",
    },
    Program {
        names: &["tuned"],
        means: "sets swappiness, huge pages and NUMA balancing when it starts or changes its profile",
        way: "put settings that shall stay into its profile",
    },
];

pub(super) fn others(context: &Context<'_>) -> Vec<Finding> {
    let processes = processes(context.root);
    let mut findings = of_damon(context.root, &processes);
    let ours = ours(context);
    for process in processes.iter().filter(|process| !ours.contains(&process.pid)) {
        let known = PROGRAMS.iter().find_map(|program| Some((program, process.is_one_of(program.names)?)));
        if let Some((program, name)) = known {
            findings.push(busy(&format!("{name} (PID {})", process.pid), program.means).fix(program.way));
        }
    }
    if findings.is_empty() {
        let words = "nobody else is known to turn the same knobs";
        findings.push(Finding::new(Part::Machine, NAME, State::Works, words));
    }
    findings
}

fn busy(who: &str, means: &str) -> Finding {
    Finding::new(Part::Machine, NAME, State::Busy, format!("{who}: {means}"))
}

/// PIDs of this command and of its child for probes; none in a tree of files.
fn ours(context: &Context<'_>) -> Vec<u32> {
    let own = context.root.is_real().then(std::process::id);
    own.into_iter().chain(context.child.map(|child| child.process().pid())).collect()
}

/// A process and its names.
struct Running {
    pid: u32,
    /// Name of the process in the kernel.
    name: String,
    /// Name of the script, if it is an interpreter.
    script: Option<String>,
}

impl Running {
    /// The first of these names that it has.
    fn is_one_of(&self, names: &[&'static str]) -> Option<&'static str> {
        names.iter().copied().find(|name| self.name == *name || self.script.as_deref() == Some(name))
    }
}

/// All processes and kernel threads, by PID. Processes that end during the search are skipped.
fn processes(root: &Root) -> Vec<Running> {
    let entries = std::fs::read_dir(root.path("/proc")).into_iter().flatten().flatten();
    let pids: BTreeSet<u32> = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok()).collect();
    let running = |pid| {
        let name = root.read(format!("/proc/{pid}/comm")).ok()?.trim().to_owned();
        Some(Running { pid, script: script(root, pid, &name), name })
    };
    pids.into_iter().filter_map(running).collect()
}

/// `damo` of `python3 -E /usr/bin/damo record`: the first argument that is not an option is the script.
fn script(root: &Root, pid: u32, name: &str) -> Option<String> {
    const INTERPRETERS: [&str; 4] = ["python", "sh", "bash", "perl"];
    if !INTERPRETERS.iter().any(|interpreter| name.starts_with(interpreter)) {
        return None;
    }
    let command = root.read(format!("/proc/{pid}/cmdline")).ok()?;
    let path = command.split('\0').skip(1).find(|word| !word.starts_with('-'))?;
    path.rsplit('/').next().map(str::to_owned)
}

/// DAMON modules that are on, existing kdamonds, and DAMON threads that belong to neither.
fn of_damon(root: &Root, processes: &[Running]) -> Vec<Finding> {
    let mut findings = Vec::new();
    let threads: Vec<u32> =
        processes.iter().filter(|process| process.name.starts_with("kdamond.")).map(|process| process.pid).collect();
    let users = match damon::users(root) {
        Ok(users) => users,
        Err(error) => {
            findings.push(unreadable(&error));
            Vec::new()
        }
    };
    let mut explained = BTreeSet::new();
    // Number of modules that run a thread and do not report its PID.
    let mut nr_untold = 0;
    for user in &users {
        match user {
            DamonUser::Module(name) => {
                let file = damon::enabled_file(name).unwrap_or_default();
                let pid = damon::module_thread(root, name);
                let who = match pid {
                    Some(pid) => format!("{name} ({file}, PID {pid})"),
                    None => format!("{name} ({file})"),
                };
                nr_untold += usize::from(pid.is_none());
                explained.extend(pid);
                findings.push(of_module(name, &who, &file));
            }
            DamonUser::Kdamond { number, is_on, pid } => {
                explained.extend(*pid);
                let folder = format!("{ADMIN}/{number}");
                let who = match pid {
                    Some(pid) => format!("kdamond {number} ({folder}, PID {pid})"),
                    None => format!("kdamond {number} ({folder})"),
                };
                let means =
                    if *is_on { "somebody runs it, and it holds DAMON" } else { "somebody made it, and it is off" };
                findings.push(
                    busy(&who, means).fix("wait until its owner removes it, or watch by --source module or clear-refs"),
                );
            }
        }
    }
    let unexplained = threads.iter().filter(|pid| !explained.contains(pid));
    for pid in unexplained.skip(nr_untold) {
        let means = "a thread of DAMON that somebody runs; its files do not say who";
        findings.push(busy(&format!("kdamond (PID {pid})"), means).fix(AS_ROOT));
    }
    findings
}

fn of_module(name: &str, who: &str, file: &str) -> Finding {
    let off = format!("as root: echo N > {file}");
    match name {
        "DAMON_STAT" => busy(who, "holds DAMON, and only watches")
            .fix("isotherm monitor --take-damon-stat switches it off meanwhile, and on again afterwards"),
        "DAMON_RECLAIM" => busy(who, "holds DAMON, and takes memory that it finds cold").fix(off),
        _ => busy(who, "holds DAMON, and sorts the LRU lists").fix(off),
    }
}

fn unreadable(error: &LiveError) -> Finding {
    let (words, fix) = if error.is_denied() {
        ("who uses DAMON is told to root alone".to_owned(), Some(AS_ROOT))
    } else {
        (format!("who uses DAMON is not known: {}", said(error)), None)
    };
    Finding { fix: fix.map(str::to_owned), ..Finding::new(Part::Machine, NAME, State::Partly, words) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_lacks_rights_is_told_so() {
        let failed = |kind: std::io::ErrorKind| {
            unreadable(&LiveError::io("read", std::path::Path::new("/sys/kernel/mm/damon"), kind.into()))
        };
        let denied = failed(std::io::ErrorKind::PermissionDenied);
        assert_eq!((denied.state, denied.fix.as_deref()), (State::Partly, Some(AS_ROOT)));
        let other = failed(std::io::ErrorKind::InvalidData);
        assert!(other.fix.is_none() && other.words.contains("/sys/kernel/mm/damon"), "{other:?}");
    }
}
