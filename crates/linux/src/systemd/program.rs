//! Runs `systemctl`: the only caller of it.

use crate::{LiveError, Root};
use std::fs::File;
use std::io::{self, Read as _, Seek as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

/// Where distributions have it. No path of the environment is searched, because it runs as root.
const PLACES: [&str; 2] = ["/usr/bin/systemctl", "/bin/systemctl"];
/// Without a pager, a question, or the units of a user.
const USUAL: [&str; 3] = ["--system", "--no-pager", "--no-ask-password"];
/// Time between two checks whether it has ended.
const STEP: Duration = Duration::from_millis(5);
/// Checks before it is ended, 100 s and more: systemd itself gives up a call after 25 s, and a reload after 90 s.
const CHECKS: u32 = 20_000;
/// Most bytes of its output that are read.
const OUTPUT_MAX: u64 = 1 << 20;
/// Its words for missing rights.
const DENIED: [&str; 4] = ["access denied", "permission denied", "authentication required", "not permitted"];

/// Runs it, and returns what it printed.
///
/// # Errors
/// [`LiveError::NotHere`] without systemd or without the program; [`LiveError::Io`] with its words.
pub(super) fn systemctl(root: &Root, arguments: &[&str]) -> Result<String, LiveError> {
    let program = PLACES.iter().find(|place| root.has(place)).ok_or(()).and_then(|place| match super::runs(root) {
        true => Ok(root.path(place)),
        false => Err(()),
    });
    let program = program.map_err(|()| missing(root))?;
    let failed = |error: io::Error| {
        let words = format!("{}: {error}", arguments.join(" "));
        LiveError::io("run", &program, io::Error::new(error.kind(), words))
    };
    let (status, output, errors) = run(&program, arguments).map_err(failed)?;
    if status.success() {
        return Ok(output);
    }
    let words = errors.trim().lines().next_back().map_or_else(|| status.to_string(), str::to_owned);
    let is_denied = DENIED.iter().any(|denied| words.to_lowercase().contains(denied));
    let kind = if is_denied { io::ErrorKind::PermissionDenied } else { io::ErrorKind::Other };
    Err(failed(io::Error::new(kind, words)))
}

fn missing(root: &Root) -> LiveError {
    let needs = if super::runs(root) {
        "there is no program systemctl (/usr/bin/systemctl), and systemd undoes what is written past it"
    } else {
        "systemd does not run here (no folder /run/systemd/system)"
    };
    LiveError::NotHere { what: "a unit of systemd", needs: needs.to_owned() }
}

/// Its end, its output and its errors.
fn run(program: &Path, arguments: &[&str]) -> io::Result<(ExitStatus, String, String)> {
    let (output, errors) = (tempfile::tempfile()?, tempfile::tempfile()?);
    let child = Command::new(program)
        .args(USUAL)
        .args(arguments)
        .env_clear()
        .envs([("LC_ALL", "C.UTF-8"), ("PATH", "/usr/bin:/bin"), ("SYSTEMD_COLORS", "0")])
        .stdin(Stdio::null())
        .stdout(output.try_clone()?)
        .stderr(errors.try_clone()?)
        .spawn()?;
    let status = ended(child)?;
    Ok((status, text(output)?, text(errors)?))
}

/// Waits for its end, and ends it when it takes too long.
fn ended(mut child: Child) -> io::Result<ExitStatus> {
    for _ in 0..CHECKS {
        if let Some(status) = child.try_wait()? {
            return Ok(status);
        }
        std::thread::sleep(STEP);
    }
    let _ = child.kill();
    let _ = child.wait();
    Err(io::Error::new(io::ErrorKind::TimedOut, format!("it has not ended within {} s", (STEP * CHECKS).as_secs())))
}

fn text(mut file: File) -> io::Result<String> {
    let mut bytes = Vec::new();
    file.rewind()?;
    file.take(OUTPUT_MAX).read_to_end(&mut bytes)?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}
