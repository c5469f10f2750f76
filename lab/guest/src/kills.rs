//! Kills a program at random moments, and checks for changes that it left behind.

use isotherm_guest::job::Report;
use isotherm_guest::killing::{Killed, Kills};
use std::process::Child;
use std::time::{Duration, Instant};

use crate::draws::Draws;
use crate::sys::{self, Signal};
use crate::tool::{Tool, ToolEnd};
use crate::{Reporter, knobs, live};

/// Time for a program to exit after SIGTERM; a slower one is reported, and killed.
const TERM_MAX: Duration = Duration::from_secs(30);

/// Does the job.
pub(crate) fn kill(kills: &Kills, reporter: &mut Reporter) -> Result<(), String> {
    std::fs::create_dir_all("/tmp").map_err(|error| format!("/tmp: {error}"))?;
    let (player, _) = live::start(&kills.workload, Instant::now())?;
    let before = knobs::read_all();
    let mut killed = Killed { knobs_read: before.len() as u64, ..Killed::default() };
    let mut draws = Draws::new(kills.seed);
    let tool = Tool { program: &kills.program, environment: &kills.environment };
    for round in 0..kills.rounds {
        let (first, last) = kills.busy_ms;
        let after = if round % 2 == 0 {
            draws.below(kills.longest_ms)
        } else {
            first + draws.below(last.saturating_sub(first))
        };
        let mut child = tool.start(&kills.arguments)?;
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
            let patience = if kind == 1 { Duration::from_millis(draws.below(60)) } else { TERM_MAX };
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
            let ToolEnd { code, stdout, stderr } = tool.run(&kills.restore)?;
            let said = stdout + &stderr;
            if code != Some(0) {
                return Err(format!("round {round}: {} ended with {code:?}: {said}", kills.restore.join(" ")));
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
