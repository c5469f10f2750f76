//! Kills a program at random moments, and checks for changes that it left behind.

use isotherm_guest::job::Report;
use isotherm_guest::killing::{Killed, Kills};
use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::sys::{self, Signal};
use crate::{Reporter, knobs, live};

const OUTPUT: &str = "/tmp/killed";
/// Time for a program to exit after SIGTERM; a slower one is reported, and killed.
const TERM_MAX: Duration = Duration::from_secs(30);

/// Does the job.
pub(crate) fn kill(kills: &Kills, reporter: &mut Reporter) -> Result<(), String> {
    std::fs::create_dir_all("/tmp").map_err(|error| format!("/tmp: {error}"))?;
    let (player, _) = live::start(&kills.workload, Instant::now())?;
    let before = knobs::read_all();
    let mut killed = Killed { knobs_read: before.len() as u64, ..Killed::default() };
    let mut state = kills.seed | 1;
    let mut below = |limit: u64| {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state % limit.max(1)
    };
    for round in 0..kills.rounds {
        let (first, last) = kills.busy_ms;
        let after = if round % 2 == 0 { below(kills.longest_ms) } else { first + below(last.saturating_sub(first)) };
        let mut child = started(kills, &kills.arguments)?;
        std::thread::sleep(Duration::from_millis(after));
        let kind = match round % 5 {
            0..=2 => 0,
            3 => 1,
            _ => 2,
        };
        killed.rounds[kind] += 1;
        let end = |child: &Child, signal| {
            let pid = i32::try_from(child.id()).map_err(|error| error.to_string())?;
            // A program that has ended by itself is found below.
            let _ = sys::signal(pid, signal);
            Ok::<_, String>(())
        };
        if kind > 0 {
            let told = Instant::now();
            end(&child, Signal::Terminate)?;
            let patience = if kind == 1 { Duration::from_millis(below(60)) } else { TERM_MAX };
            while child.try_wait().map_err(|error| format!("wait: {error}"))?.is_none() && told.elapsed() < patience {
                std::thread::sleep(Duration::from_millis(1));
            }
            if kind == 2 {
                let took = u64::try_from(told.elapsed().as_millis()).unwrap_or(u64::MAX);
                killed.term_longest_ms = killed.term_longest_ms.max(took);
            }
        }
        end(&child, Signal::Kill)?;
        child.wait().map_err(|error| format!("wait: {error}"))?;
        let is_changed = knobs::read_all() != before;
        if kind < 2 {
            killed.changed_when_killed += u64::from(is_changed);
            let status = started(kills, &kills.restore)?.wait().map_err(|error| format!("wait: {error}"))?;
            let said = std::fs::read_to_string(OUTPUT).unwrap_or_default();
            if !status.success() {
                return Err(format!("round {round}: {} ended with {status}: {said}", kills.restore.join(" ")));
            }
            if is_changed {
                killed.said = said;
            }
        }
        let lines = knobs::differences(&before, &knobs::read_all());
        killed.left.extend(lines.into_iter().map(|line| format!("round {round}: {line}")));
    }
    sys::kill(player).map_err(|error| format!("kill: {error}"))?;
    reporter.say(&Report::KillsDone(killed));
    Ok(())
}

fn started(kills: &Kills, arguments: &[String]) -> Result<Child, String> {
    let file = || File::create(OUTPUT).map_err(|error| format!("{OUTPUT}: {error}"));
    let output = file()?;
    let errors = output.try_clone().map_err(|error| format!("{OUTPUT}: {error}"))?;
    let mut command = Command::new(&kills.program);
    command.args(arguments).env_clear().envs(&kills.environment).stdin(Stdio::null()).stdout(output).stderr(errors);
    command.spawn().map_err(|error| format!("cannot run {}: {error}", kills.program))
}
