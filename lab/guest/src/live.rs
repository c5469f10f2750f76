//! Runs a program next to workloads.

use isotherm_guest::job::Report;
use isotherm_guest::living::{Live, LivePlayer, LiveWorkload, Lived};
use std::fs::File;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use crate::damon::{PassLog, play, since};
use crate::machine::write;
use crate::programs::Held;
use crate::sys::{self, Forked};
use crate::{Reporter, knobs};

pub(crate) const GROUPS: &str = "/sys/fs/cgroup";
const STDOUT: &str = "/tmp/stdout";
const STDERR: &str = "/tmp/stderr";

/// Does the job.
pub(crate) fn live(live: &Live, reporter: &mut Reporter) -> Result<(), String> {
    let base = Instant::now();
    std::fs::create_dir_all("/tmp").map_err(|error| format!("/tmp: {error}"))?;
    let players: Vec<(i32, &PassLog)> =
        live.workloads.iter().map(|workload| start(workload, base)).collect::<Result<_, _>>()?;
    let mut held = Held::all(&live.programs, &live.environment)?;
    let knobs = knobs::read_all();
    let mut lived = run(live, base, &held)?;
    lived.programs = held.take_ends()?;
    lived.knobs_changed = knobs::differences(&knobs, &knobs::read_all());
    lived.knobs_read = knobs.len() as u64;
    for &(pid, log) in &players {
        if sys::has_ended(pid) {
            return Err(format!("player {pid} ended before the program did"));
        }
        lived.players.push(LivePlayer { pid, passes_ns: log.starts() });
        sys::kill(pid).map_err(|error| format!("kill: {error}"))?;
        while !sys::has_ended(pid) {
            std::thread::sleep(Duration::from_millis(1));
        }
    }
    reporter.say(&Report::Lived(lived));
    Ok(())
}

/// Makes the group, with the memory controller enabled in its parents; returns its folder.
pub(crate) fn make_group(path: &str) -> Result<String, String> {
    let mut group = GROUPS.to_owned();
    for part in path.split('/').filter(|part| !part.is_empty()) {
        write(&format!("{group}/cgroup.subtree_control"), "+memory")?;
        group = format!("{group}/{part}");
        if !Path::new(&group).is_dir() {
            std::fs::create_dir(&group).map_err(|error| format!("{group}: {error}"))?;
        }
    }
    Ok(group)
}

/// Makes the group, and starts the player there.
pub(crate) fn start(workload: &LiveWorkload, base: Instant) -> Result<(i32, &'static PassLog), String> {
    if let Some(flaw) = workload.pattern.flaw() {
        return Err(format!("the pattern cannot be played: {flaw}"));
    }
    let group = make_group(&workload.group)?;
    let log: &'static PassLog = sys::shared().map_err(|error| format!("shared memory: {error}"))?;
    let pid = match sys::fork().map_err(|error| format!("fork: {error}"))? {
        Forked::Child => {
            if write(&format!("{group}/cgroup.procs"), "0").is_err() {
                sys::exit_now(1);
            }
            play(&workload.pattern, Duration::from_micros(workload.pass_us), base, log)
        }
        Forked::Parent(pid) => pid,
    };
    while log.ready.load(Ordering::Acquire) == 0 {
        sys::wait_while(&log.ready, 0, Duration::from_millis(100));
        if sys::has_ended(pid) {
            return Err(format!("the player of group {} ended before its first pass", workload.group));
        }
    }
    if let Some(high) = workload.high_bytes {
        write(&format!("{group}/memory.high"), &high.to_string())?;
    }
    Ok((pid, log))
}

fn run(live: &Live, base: Instant, held: &Held) -> Result<Lived, String> {
    let create = |path: &str| File::create(path).map_err(|error| format!("{path}: {error}"));
    let mut lived = Lived { ran_ns: (since(base), 0), ..Lived::default() };
    let mut child = Command::new(&live.program)
        .args(&live.arguments)
        .env_clear()
        .envs(&live.environment)
        .stdin(Stdio::null())
        .stdout(create(STDOUT)?)
        .stderr(create(STDERR)?)
        .spawn()
        .map_err(|error| format!("cannot run {}: {error}", live.program))?;
    let end = Instant::now() + Duration::from_secs(live.seconds_max);
    let status = loop {
        if let Some(status) = child.try_wait().map_err(|error| format!("wait: {error}"))? {
            break status;
        }
        if Instant::now() >= end && !lived.timed_out {
            lived.timed_out = true;
            child.kill().map_err(|error| format!("kill: {error}"))?;
        }
        if Path::new(&live.programs_begin_with).exists() {
            held.begin();
        }
        std::thread::sleep(Duration::from_millis(5));
    };
    lived.ran_ns.1 = since(base);
    lived.exit_code = status.code();
    let text = |path: &str| std::fs::read(path).map(|bytes| String::from_utf8_lossy(&bytes).into_owned());
    lived.stdout = text(STDOUT).map_err(|error| format!("{STDOUT}: {error}"))?;
    lived.stderr = text(STDERR).map_err(|error| format!("{STDERR}: {error}"))?;
    let hex = |path: &String| {
        let bytes = std::fs::read(path).ok()?;
        Some((path.clone(), bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>()))
    };
    lived.outputs = live.outputs.iter().filter_map(hex).collect();
    Ok(lived)
}
