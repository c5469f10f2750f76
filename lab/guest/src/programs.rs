//! Programs of the host in a guest: started, held before their first instruction, released together.

use isotherm_guest::living::{LiveEnded, LiveProgram};
use std::collections::BTreeMap;
use std::fs::File;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use crate::live::make_group;
use crate::machine::write;
use crate::sys::{self, Forked};

/// Time that programs may run after the watching one has ended.
const RUNS_ON: Duration = Duration::from_secs(10);

/// Futex of the waiting programs.
pub(crate) struct Gate {
    /// 1 when they may begin.
    open: AtomicU32,
}

/// Programs that wait, or run.
pub(crate) struct Held {
    gate: &'static Gate,
    programs: Vec<(i32, String)>,
}

impl Held {
    /// Starts all programs.
    pub(crate) fn all(programs: &[LiveProgram], environment: &BTreeMap<String, String>) -> Result<Self, String> {
        let gate: &'static Gate = sys::shared().map_err(|error| format!("shared memory: {error}"))?;
        if !programs.is_empty() {
            sys::loopback_up().map_err(|error| format!("loopback: {error}"))?;
        }
        let hold = |(index, program)| hold(program, &format!("/tmp/program-{index}"), environment, gate);
        Ok(Self { gate, programs: programs.iter().enumerate().map(hold).collect::<Result<_, _>>()? })
    }

    /// Releases all programs, once.
    pub(crate) fn begin(&self) {
        if self.gate.open.swap(1, Ordering::AcqRel) == 0 {
            sys::wake_all(&self.gate.open);
        }
    }

    /// Waits a while for their exits, and kills the remaining ones.
    pub(crate) fn take_ends(&mut self) -> Result<Vec<LiveEnded>, String> {
        let latest = Instant::now() + RUNS_ON;
        let mut ends = Vec::new();
        for (pid, output) in self.programs.drain(..) {
            let mut is_killed = false;
            let status = loop {
                if let Some(status) = sys::end_of(pid) {
                    break status;
                }
                if Instant::now() > latest && !is_killed {
                    sys::kill(pid).map_err(|error| format!("kill: {error}"))?;
                    is_killed = true;
                }
                std::thread::sleep(Duration::from_millis(5));
            };
            let said = std::fs::read(&output).map_err(|error| format!("{output}: {error}"))?;
            ends.push(LiveEnded { exit_code: status.code(), said: String::from_utf8_lossy(&said).into_owned() });
        }
        Ok(ends)
    }
}

fn hold(
    program: &LiveProgram,
    output: &str,
    environment: &BTreeMap<String, String>,
    gate: &'static Gate,
) -> Result<(i32, String), String> {
    std::fs::create_dir_all(&program.folder).map_err(|error| format!("{}: {error}", program.folder))?;
    let out = File::create(output).map_err(|error| format!("{output}: {error}"))?;
    let err = out.try_clone().map_err(|error| format!("{output}: {error}"))?;
    let group = program.group.as_deref().map(make_group).transpose()?;
    match sys::fork().map_err(|error| format!("fork: {error}"))? {
        Forked::Parent(pid) => {
            // It waits, so that all it touches is charged to the group.
            if let Some(group) = group {
                write(&format!("{group}/cgroup.procs"), &pid.to_string())?;
            }
            Ok((pid, output.to_owned()))
        }
        Forked::Child => {
            while gate.open.load(Ordering::Acquire) == 0 {
                sys::wait_while(&gate.open, 0, Duration::from_secs(60));
            }
            let mut command = Command::new(&program.program);
            command.args(&program.arguments).env_clear().envs(environment).current_dir(&program.folder);
            let error = command.stdin(Stdio::null()).stdout(out).stderr(err).exec();
            // Only the console is left; the exit code reports it too.
            eprintln!("cannot run {}: {error}", program.program);
            sys::exit_now(127)
        }
    }
}
