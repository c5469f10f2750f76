//! The first process during a replay: starts processes, takes marks, sets limits, and notices when one is killed.

use isotherm_guest::job::{Play, Report, SCRIPT_PATH};
use isotherm_guest::script::{Action, CONDUCTOR, Script, ScriptFile};
use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use crate::machine::{FILES_PATH, GROUP_PATH, write};
use crate::player::{self, Stage};
use crate::shared::Control;
use crate::sys::{self, Forked};
use crate::{Reporter, observe};

/// Time to wait for a turn before checking that its owner is alive.
const LOOK: Duration = Duration::from_millis(100);
/// Time that a mark waits before it reads. A read of `memory.stat` leaves out changes since the last one while they are few (some
/// 64 a processor); a worker of the kernel adds them every 2 s (`flush_memcg_stats_dwork`).
const STATISTICS_ARE_FRESH: Duration = Duration::from_millis(2500);

/// Plays the script.
pub(crate) fn play(play: &Play, reporter: &mut Reporter) -> Result<(), String> {
    perform(play, &script_at(SCRIPT_PATH)?, &[], None, &mut |report| reporter.say(&report))
}

/// The script in a file.
pub(crate) fn script_at(path: &str) -> Result<Script, String> {
    let bytes = std::fs::read(path).map_err(|error| format!("{path}: {error}"))?;
    Script::decode(&bytes).map_err(|error| error.to_string())
}

/// Plays a script in the group, its processes in groups below it where `subgroups` names some. `topped_up`: the limit is for
/// pages of the script, and memory of the kernel and the player is added to it.
pub(crate) fn perform(
    play: &Play,
    script: &Script,
    subgroups: &[u16],
    topped_up: Option<u64>,
    say: &mut dyn FnMut(Report),
) -> Result<(), String> {
    let files = script.files.iter().enumerate().map(open).collect::<Result<Vec<_>, _>>()?;
    write("/sys/fs/cgroup/cgroup.subtree_control", "+memory")?;
    std::fs::create_dir_all(GROUP_PATH).map_err(|error| format!("{GROUP_PATH}: {error}"))?;
    if let Some(limit) = play.limit_bytes {
        write(&format!("{GROUP_PATH}/memory.max"), &limit.to_string())?;
    }
    if !subgroups.is_empty() {
        write(&format!("{GROUP_PATH}/cgroup.subtree_control"), "+memory")?;
    }
    for group in subgroups.iter().collect::<BTreeSet<_>>() {
        let path = format!("{GROUP_PATH}/{group}");
        std::fs::create_dir_all(&path).map_err(|error| format!("{path}: {error}"))?;
    }
    let control: &'static Control = sys::shared().map_err(|error| format!("shared memory: {error}"))?;
    let read_stat_every = if play.read_stat_every == 0 { u64::MAX } else { play.read_stat_every };
    let stage = Stage { script, control, files: &files, read_stat_every, topped_up };
    let end = Instant::now() + Duration::from_secs(play.seconds_max);
    Conductor { stage, subgroups, vmstat: observe::numbers("/proc/vmstat"), ended: BTreeSet::new() }.run(end, say)
}

fn open((index, file): (usize, &ScriptFile)) -> Result<OwnedFd, String> {
    if file.shared_memory {
        return sys::memory_file(file.pages.saturating_mul(sys::PAGE))
            .map_err(|error| format!("file {index}: {error}"));
    }
    let path = format!("{FILES_PATH}/{index}");
    let file = OpenOptions::new().read(true).write(true).open(&path).map_err(|error| format!("{path}: {error}"))?;
    Ok(OwnedFd::from(file))
}

struct Conductor<'a> {
    stage: Stage<'a>,
    subgroups: &'a [u16],
    vmstat: std::collections::BTreeMap<String, u64>,
    /// Processes whose exit was waited for.
    ended: BTreeSet<u16>,
}

impl Conductor<'_> {
    fn run(&mut self, end: Instant, say: &mut dyn FnMut(Report)) -> Result<(), String> {
        let Stage { script, control, .. } = self.stage;
        control.pass(CONDUCTOR, 0);
        loop {
            let at = control.operation();
            let owner = control.turn();
            if owner != CONDUCTOR {
                if !control.wait(CONDUCTOR, LOOK) {
                    sys::reap();
                    if control.turn() == owner && !self.is_alive(owner) {
                        say(Report::Killed { process: owner, operation: control.operation() as u64 });
                        return Err(format!("process {owner} was killed at operation {}", control.operation()));
                    }
                    if Instant::now() > end {
                        return Err(format!("the time is over at operation {}", control.operation()));
                    }
                }
                continue;
            }
            if control.has_failed() {
                return Err(format!("a process could not go on at operation {at}; the console says why"));
            }
            self.await_end_of_last(at);
            let Some(operation) = script.operations.get(at) else { return Ok(()) };
            if operation.process != CONDUCTOR {
                control.pass(operation.process, at);
                continue;
            }
            match operation.action {
                Action::Start { process } => self.start(process)?,
                Action::Limit { pages } => {
                    write(&format!("{GROUP_PATH}/memory.max"), &pages.saturating_mul(sys::PAGE).to_string())?;
                }
                Action::Mark { number } => {
                    let Stage { files, .. } = self.stage;
                    std::thread::sleep(STATISTICS_ARE_FRESH);
                    let observed = observe::observe(number, script, control, files, &self.vmstat)?;
                    say(Report::Observed(observed));
                }
                _ => return Err(format!("operation {at} belongs to a process")),
            }
            control.pass(CONDUCTOR, at + 1);
        }
    }

    /// A process that finished frees its memory before the script goes on.
    fn await_end_of_last(&mut self, at: usize) {
        let Some(last) = at.checked_sub(1).map(|last| self.stage.script.operations[last]) else { return };
        if last.action != Action::Finish || !self.ended.insert(last.process) {
            return;
        }
        while self.is_alive(last.process) {
            std::thread::sleep(Duration::from_millis(1));
            sys::reap();
        }
        self.stage.control.note_end();
    }

    fn start(&self, process: u16) -> Result<(), String> {
        match sys::fork().map_err(|error| format!("fork: {error}"))? {
            Forked::Parent(pid) => {
                // It waits for its turn, so that all it touches is charged to the group.
                let group =
                    self.subgroups.get(usize::from(process)).map(|group| format!("/{group}")).unwrap_or_default();
                write(&format!("{GROUP_PATH}{group}/cgroup.procs"), &pid.to_string())?;
                self.stage.control.started(process, pid);
                Ok(())
            }
            Forked::Child => player::live(&self.stage, process),
        }
    }

    fn is_alive(&self, process: u16) -> bool {
        let Some(pid) = self.stage.control.pid(process) else { return false };
        let status = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
        // The state follows the name, which is in parentheses.
        let state = status.rsplit_once(") ").and_then(|(_, rest)| rest.chars().next());
        state.is_some_and(|state| state != 'Z' && state != 'X')
    }
}
