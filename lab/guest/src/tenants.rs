//! Runs a daemon next to a hostile tenant.

use isotherm_guest::job::Report;
use isotherm_guest::tenancy::{Churn, Tenancy, TenancyState, Tenant, Tenanted};
use std::fs::{self, File};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::sys::{self, Signal};
use crate::tool::Tool;
use crate::{Reporter, knobs, live};

mod connections;
mod names;
mod state;
mod tenant;

pub(crate) use tenant::{NAME, run};

/// The user without rights of most systems, and his group.
const UID: u32 = 65_534;
/// Files of a group that its owner may write (cgroup-v2.rst, "Model of Delegation").
const DELEGATED: [&str; 3] = ["cgroup.procs", "cgroup.threads", "cgroup.subtree_control"];
/// What the tenant reports.
const CHURN: &str = "/tmp/churn.jsonl";
/// Time between two states of the daemon.
const LOOK: Duration = Duration::from_secs(10);
/// Time for the daemon to exit after SIGTERM; then it is killed.
const TERM_MAX: Duration = Duration::from_secs(60);
/// Bytes of the daemon's messages that are reported.
const SAID_MAX: usize = 4000;

/// Does the job.
pub(crate) fn host(job: &Tenancy, reporter: &mut Reporter) -> Result<(), String> {
    fs::create_dir_all("/tmp").map_err(|error| format!("/tmp: {error}"))?;
    sys::loopback_up().map_err(|error| format!("loopback: {error}"))?;
    let base = Instant::now();
    let started = job.workloads.iter().map(|workload| Ok(live::start(workload, base)?.0));
    let players: Vec<i32> = started.collect::<Result<_, String>>()?;
    let folder = delegated(&job.tenant.group)?;
    let before = knobs::read_all();
    // The tool's own output files are for status; the daemon has others.
    let mut daemon = daemon(job)?;
    let mut tenanted = Tenanted { knobs_read: before.len() as u64, ..Tenanted::default() };
    tenanted.alone = looks(job, job.seconds_alone, &mut daemon)?;
    let mut tenant = attack(&job.tenant, job.seconds, &folder)?;
    tenanted.with_tenant = looks(job, job.seconds, &mut daemon)?;
    tenanted.resident_peak_bytes = state::resident_peak(daemon.id())?;
    // The tenant goes on meanwhile.
    let told = Instant::now();
    tenanted.exit_code = ended(&mut daemon)?;
    tenanted.term_ms = u64::try_from(told.elapsed().as_millis()).unwrap_or(u64::MAX);
    tenant.kill().and_then(|()| tenant.wait()).map_err(|error| format!("the tenant: {error}"))?;
    tenanted.churn = churn()?;
    tenanted.said = said();
    tenant::remove_below(folder.as_ref());
    tenanted.knobs_changed = knobs::differences(&before, &knobs::read_all());
    reporter.say(&Report::Tenanted(tenanted));
    players.into_iter().try_for_each(sys::kill).map_err(|error| format!("kill: {error}"))
}

/// Makes the tenant's group and gives it to him, as a session manager does, with a group for his process.
fn delegated(group: &str) -> Result<String, String> {
    let home = live::make_group(&format!("{group}/{}", tenant::HOME))?;
    let folder = home.trim_end_matches(tenant::HOME).trim_end_matches('/').to_owned();
    for place in [&folder, &home] {
        let files = DELEGATED.iter().map(|file| format!("{place}/{file}"));
        for path in files.chain([place.clone()]) {
            chown(&path, Some(UID), Some(UID)).map_err(|error| format!("{path}: {error}"))?;
        }
    }
    Ok(folder)
}

const SAID: &str = "/tmp/daemon.err";

fn daemon(job: &Tenancy) -> Result<Child, String> {
    let errors = File::create(SAID).map_err(|error| format!("{SAID}: {error}"))?;
    let mut command = Command::new(&job.program);
    command.args(&job.daemon).env_clear().envs(&job.environment).stdin(Stdio::null()).stdout(Stdio::null());
    command.stderr(errors).spawn().map_err(|error| format!("cannot run {}: {error}", job.program))
}

/// The end of what the daemon said.
fn said() -> String {
    let bytes = fs::read(SAID).unwrap_or_default();
    let from = bytes.len().saturating_sub(SAID_MAX);
    String::from_utf8_lossy(&bytes[from..]).into_owned()
}

/// Starts the tenant: this program again, as another user in his group.
fn attack(tenant: &Tenant, seconds: u64, folder: &str) -> Result<Child, String> {
    let churn = File::create(CHURN).map_err(|error| format!("{CHURN}: {error}"))?;
    let orders = serde_json::to_string(tenant).map_err(|error| error.to_string())?;
    let mut command = Command::new("/proc/self/exe");
    command.args([NAME, folder, &seconds.to_string(), &orders]).env_clear().stdin(Stdio::null()).stdout(churn);
    let child = command.uid(UID).gid(UID).spawn().map_err(|error| format!("the tenant: {error}"))?;
    crate::machine::write(&format!("{folder}/{}/cgroup.procs", tenant::HOME), &child.id().to_string())?;
    Ok(child)
}

/// The last whole report.
fn churn() -> Result<Churn, String> {
    let text = fs::read_to_string(CHURN).map_err(|error| format!("{CHURN}: {error}"))?;
    let last = text.lines().rev().find_map(|line| serde_json::from_str(line).ok());
    last.ok_or_else(|| format!("the tenant reported nothing: {text}"))
}

/// States of the daemon over this time.
fn looks(job: &Tenancy, seconds: u64, daemon: &mut Child) -> Result<Vec<TenancyState>, String> {
    let tool = Tool { program: &job.program, environment: &job.environment };
    let end = Instant::now() + Duration::from_secs(seconds);
    let mut states = Vec::new();
    while Instant::now() < end {
        std::thread::sleep(LOOK.min(end.saturating_duration_since(Instant::now())));
        if let Some(status) = daemon.try_wait().map_err(|error| format!("wait: {error}"))? {
            return Err(format!("the daemon ended by itself with {status}: {}", said()));
        }
        states.push(state::now(&tool, &job.status, &job.section, &job.tenant.listen)?);
    }
    Ok(states)
}

/// Exit code after SIGTERM.
fn ended(daemon: &mut Child) -> Result<Option<i32>, String> {
    let pid = i32::try_from(daemon.id()).map_err(|error| error.to_string())?;
    sys::signal(pid, Signal::Terminate).map_err(|error| format!("SIGTERM: {error}"))?;
    let latest = Instant::now() + TERM_MAX;
    loop {
        match daemon.try_wait().map_err(|error| format!("wait: {error}"))? {
            Some(status) => return Ok(status.code()),
            None if Instant::now() > latest => daemon.kill().map_err(|error| format!("kill: {error}"))?,
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    }
}
