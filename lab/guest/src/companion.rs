//! A program that runs next to a player: mostly `isotherm daemon run`.

use std::fs::File;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::sys;

const SAID: &str = "/tmp/beside";
/// Time after the request to end before it is killed.
const PATIENCE: Duration = Duration::from_secs(10);

/// A program that runs.
pub(crate) struct Beside {
    child: Option<Child>,
}

impl Beside {
    /// Starts a program, given by its absolute path and arguments, and waits for `settle`. Without a program the companion only waits.
    pub(crate) fn start(program: &[String], settle: Duration) -> Result<Self, String> {
        let child = match program.split_first() {
            None => None,
            Some((program, arguments)) => {
                std::fs::create_dir_all("/tmp").map_err(|error| format!("/tmp: {error}"))?;
                let said = || File::create(SAID).map_err(|error| format!("{SAID}: {error}"));
                let mut command = Command::new(program);
                command.args(arguments).env_clear().env("HOME", "/tmp").stdin(Stdio::null());
                let child = command.stdout(Stdio::null()).stderr(said()?).spawn();
                Some(child.map_err(|error| format!("cannot run {program}: {error}"))?)
            }
        };
        std::thread::sleep(settle);
        Ok(Self { child })
    }

    /// Asks it to end. Returns its exit and output; an empty text without a program.
    pub(crate) fn end(self) -> Result<String, String> {
        let Some(mut child) = self.child else { return Ok(String::new()) };
        let pid = i32::try_from(child.id()).map_err(|_| "a process number out of range".to_owned())?;
        // It may have ended by itself.
        let _ = sys::signal(pid, sys::Signal::Terminate);
        let begin = Instant::now();
        let status = loop {
            if let Some(status) = child.try_wait().map_err(|error| format!("wait: {error}"))? {
                break status;
            }
            if begin.elapsed() > PATIENCE {
                child.kill().map_err(|error| format!("kill: {error}"))?;
            }
            std::thread::sleep(Duration::from_millis(5));
        };
        let said = std::fs::read(SAID).map_err(|error| format!("{SAID}: {error}"))?;
        Ok(format!("{status}\n{}", String::from_utf8_lossy(&said)))
    }
}
