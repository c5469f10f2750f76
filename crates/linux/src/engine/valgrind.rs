//! Our Valgrind tool (`recorder/valgrind`): a static executable that needs no Valgrind installed.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{EpochLength, Launch, find_part};
use crate::error::RecordError;
use crate::program::Program;

const TOOL: &str = "isorec-amd64-linux";
/// What the tool starts where the program starts another: executes the tool again.
const LAUNCHER: &str = "isorec-launcher";
/// Where tool, launcher and Valgrind's own preload library lie, below the places where isotherm looks.
const FOLDER: &str = "valgrind";

/// The tool, in its folder.
struct Valgrind {
    tool: PathBuf,
}

/// Finds the tool.
pub(super) fn locate() -> Result<Box<dyn Launch>, RecordError> {
    let tool = find_part(TOOL, "ISOTHERM_VALGRIND", FOLDER)?;
    let tool =
        std::fs::canonicalize(&tool).map_err(|error| RecordError::io(format!("find {}", tool.display()), error))?;
    Ok(Box::new(Valgrind { tool }))
}

impl Launch for Valgrind {
    fn path(&self) -> &Path {
        &self.tool
    }

    fn recorder(&self) -> &'static str {
        "valgrind tool"
    }

    fn command(&self, spool: &Path, epoch: EpochLength, program: &Program) -> Command {
        let folder = self.tool.parent().unwrap_or(Path::new("/"));
        let mut command = Command::new(&self.tool);
        command.env("VALGRIND_LIB", folder).env("VALGRIND_LAUNCHER", folder.join(LAUNCHER));
        // Threads take turns by rights; chasing calls into one block costs more to translate than it saves.
        command.args(["--tool=isorec", "-q", "--trace-children=yes", "--fair-sched=yes", "--vex-guest-chase=no"]);
        let EpochLength { instructions, ns } = epoch;
        command.arg(format!("--spool={}", spool.display()));
        command.arg(format!("--epoch-instructions={instructions}")).arg(format!("--epoch-ns={ns}")).arg("--uid=0");
        command.arg(&program.path).args(program.arguments.iter().skip(1));
        command
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_of_the_tool() {
        let program = Program { path: "/bin/x".into(), arguments: vec!["y".into(), "-z".into()] };
        let engine = Valgrind { tool: "/lib/isotherm/valgrind/isorec-amd64-linux".into() };
        let command = engine.command(Path::new("/s"), EpochLength { instructions: 10, ns: 3 }, &program);
        let line: Vec<_> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        assert_eq!(
            line[line.len() - 6..],
            ["--spool=/s", "--epoch-instructions=10", "--epoch-ns=3", "--uid=0", "/bin/x", "-z"]
        );
        let variables: Vec<_> = command.get_envs().filter_map(|(_, value)| value?.to_str()).collect();
        assert_eq!(variables, ["/lib/isotherm/valgrind/isorec-launcher", "/lib/isotherm/valgrind"]);
    }
}
