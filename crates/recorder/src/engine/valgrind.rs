//! Our Valgrind tool (`recorder/valgrind`): a static executable that needs no Valgrind installed.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{EpochLength, find_part};
use crate::error::RecordError;
use crate::program::Program;

const TOOL: &str = "isorec-amd64-linux";
/// Executes the tool in its own folder. We start it, and the tool starts it when the program starts another one.
const LAUNCHER: &str = "isorec-launcher";
/// Valgrind's own library, which the tool makes the program load.
const PRELOAD: &str = "vgpreload_core-amd64-linux.so";
/// Folder of tool, launcher and Valgrind's own preload library, below the folders that isotherm searches.
const FOLDER: &str = "valgrind";

/// The tool, in its folder.
pub(crate) struct Valgrind {
    tool: PathBuf,
}

impl Valgrind {
    /// Name of the recorder in a trace.
    pub(crate) const RECORDER: &str = "valgrind tool";

    /// Finds the tool.
    pub(super) fn locate() -> Result<Self, RecordError> {
        let tool = find_part(TOOL, "ISOTHERM_VALGRIND", FOLDER)?;
        let tool =
            std::fs::canonicalize(&tool).map_err(|error| RecordError::io(format!("find {}", tool.display()), error))?;
        Ok(Self { tool })
    }

    /// The tool's file, for messages.
    pub(crate) fn path(&self) -> &Path {
        &self.tool
    }

    /// All files that it is made of, as far as isotherm knows.
    pub(super) fn parts(&self) -> Vec<PathBuf> {
        [TOOL, LAUNCHER, PRELOAD].iter().map(|name| self.tool.with_file_name(name)).collect()
    }

    /// The command that runs `program` and sends its records to the spool in the folder `spool`.
    pub(crate) fn command(&self, spool: &Path, epoch: EpochLength, program: &Program) -> Command {
        let folder = self.tool.parent().unwrap_or(Path::new("/"));
        let mut command = Command::new(folder.join(LAUNCHER));
        // No ~/.valgrindrc or VALGRIND_OPTS, no debugger's pipes, and fair scheduling of threads.
        command.args(["--tool=isorec", "-q", "--command-line-only=yes", "--vgdb=no", "--fair-sched=yes"]);
        let EpochLength { instructions, ns } = epoch;
        command.arg(option("--spool=", spool.as_os_str()));
        if let Some(instructions) = instructions {
            command.arg(format!("--epoch-instructions={instructions}"));
        }
        command.arg(format!("--epoch-ns={ns}")).arg("--uid=0");
        let mut words = program.arguments.iter();
        if let Some(name) = words.next().filter(|name| *name != program.path.as_os_str()) {
            command.arg(option("--argv0=", name));
        }
        command.arg(&program.path).args(words);
        command
    }
}

fn option(name: &str, value: &OsStr) -> OsString {
    let mut option = OsString::from(name);
    option.push(value);
    option
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_of_the_tool() {
        let program = Program { path: "/bin/x".into(), arguments: vec!["y".into(), "-z".into()] };
        let engine = Valgrind { tool: "/lib/isotherm/valgrind/isorec-amd64-linux".into() };
        let command = |instructions| engine.command(Path::new("/s"), EpochLength { instructions, ns: 3 }, &program);
        let line = |command: &Command| -> Vec<_> {
            command.get_args().map(|word| word.to_string_lossy().into_owned()).skip(5).collect()
        };
        assert_eq!(
            line(&command(Some(10))),
            ["--spool=/s", "--epoch-instructions=10", "--epoch-ns=3", "--uid=0", "--argv0=y", "/bin/x", "-z"]
        );
        let command = command(None);
        assert_eq!(line(&command), ["--spool=/s", "--epoch-ns=3", "--uid=0", "--argv0=y", "/bin/x", "-z"]);
        assert_eq!(command.get_program(), "/lib/isotherm/valgrind/isorec-launcher");
    }
}
