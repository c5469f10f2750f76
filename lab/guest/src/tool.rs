//! A program of the host that a job runs many times.

use std::collections::BTreeMap;
use std::fs::File;
use std::process::{Child, Command, Stdio};

/// What the last run printed.
const STDOUT: &str = "/tmp/tool.out";
const STDERR: &str = "/tmp/tool.err";

/// Where it is, and its whole environment.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Tool<'a> {
    /// Absolute path.
    pub(crate) program: &'a str,
    pub(crate) environment: &'a BTreeMap<String, String>,
}

/// How a run of it ended.
#[derive(Clone, Debug)]
pub(crate) struct ToolEnd {
    /// `None`: a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Tool<'_> {
    /// Starts it. Its output replaces that of an earlier run.
    pub(crate) fn start(&self, arguments: &[String]) -> Result<Child, String> {
        let file = |path: &str| File::create(path).map_err(|error| format!("{path}: {error}"));
        let mut command = Command::new(self.program);
        command.args(arguments).env_clear().envs(self.environment).stdin(Stdio::null());
        let started = command.stdout(file(STDOUT)?).stderr(file(STDERR)?).spawn();
        started.map_err(|error| format!("cannot run {}: {error}", self.program))
    }

    /// Runs it to its end. Output that is no text is replaced.
    pub(crate) fn run(&self, arguments: &[String]) -> Result<ToolEnd, String> {
        let status = self.start(arguments)?.wait().map_err(|error| format!("wait: {error}"))?;
        let text = |path: &str| {
            let bytes = std::fs::read(path).map_err(|error| format!("{path}: {error}"))?;
            Ok::<_, String>(String::from_utf8_lossy(&bytes).into_owned())
        };
        Ok(ToolEnd { code: status.code(), stdout: text(STDOUT)?, stderr: text(STDERR)? })
    }
}
