//! The programs, whose texts are in `lab/native`. To add one: its file there, and a line in [`PROGRAMS`].

use std::path::{Path, PathBuf};
use std::process::Command;

use isotherm_terminal::CliError;
use tempfile::TempDir;

/// A program that prints how long each of its bursts took, one number of nanoseconds a line.
pub(super) struct Program {
    pub(super) name: &'static str,
    /// Its file in `lab/native`, and its text.
    file: (&'static str, &'static str),
    /// What makes it of its file; `@` stands for the folder.
    build: &'static [&'static str],
    /// How it starts. The last word is the number of bursts.
    command: &'static [&'static str],
    /// Other programs that it starts.
    needs: &'static [&'static str],
}

macro_rules! programs {
    ($($name:literal: $file:literal, $build:expr, $command:expr, $needs:expr;)*) => {
        &[$(Program {
            name: $name,
            file: ($file, include_str!(concat!("../../../../native/", $file))),
            build: &$build,
            command: &$command,
            needs: &$needs,
        }),*]
    };
}

pub(super) const PROGRAMS: &[Program] = programs! {
    "timer": "timer.py", [], ["python3", "@/timer.py", "60"], [];
    "requests": "requests.py", [], ["python3", "@/requests.py", "100"], [];
    "node": "requests.js", [], ["node", "@/requests.js", "100"], [];
    "redis": "redis.py", [], ["python3", "@/redis.py", "100"], ["redis-server"];
    "pool": "pool.c", ["gcc", "-O2", "-o", "@/pool", "@/pool.c", "-lpthread"], ["@/pool", "200"], [];
    "jobs": "jobs.sh", [], ["sh", "@/jobs.sh", "25"], ["awk", "sort"];
    "java": "Ticker.java", ["javac", "-d", "@", "@/Ticker.java"], ["java", "-Xmx96m", "-cp", "@", "Ticker", "100"], ["javac"];
    "go": "ticker.go", ["go", "build", "-o", "@/ticker", "@/ticker.go"], ["@/ticker", "100"], ["go"];
};

/// A folder with the files of all programs, for as long as they run.
pub(super) struct Workshop {
    folder: TempDir,
}

impl Workshop {
    pub(super) fn new() -> Result<Self, CliError> {
        let folder = tempfile::tempdir().map_err(CliError::failed)?;
        for Program { file: (name, text), .. } in PROGRAMS {
            std::fs::write(folder.path().join(name), text).map_err(CliError::failed)?;
        }
        Ok(Self { folder })
    }

    /// A file of this name, for a recording.
    pub(super) fn file(&self, name: &str) -> PathBuf {
        self.folder.path().join(name)
    }

    /// How the program starts, built if need be; or what is missing.
    pub(super) fn command(&self, program: &Program) -> Result<Vec<String>, String> {
        let command = self.words(program.command);
        let build = self.words(program.build);
        let first = [build.first().unwrap_or(&command[0]).as_str()];
        if let Some(missing) = first.iter().chain(program.needs).find(|name| !is_there(name)) {
            return Err(format!("{missing} is not installed"));
        }
        let Some((compiler, arguments)) = build.split_first() else { return Ok(command) };
        let built = Command::new(compiler).args(arguments).current_dir(self.folder.path()).output();
        match built {
            Ok(output) if output.status.success() => Ok(command),
            Ok(output) => Err(format!("{compiler} failed: {}", String::from_utf8_lossy(&output.stderr).trim())),
            Err(error) => Err(format!("{compiler}: {error}")),
        }
    }

    fn words(&self, words: &[&str]) -> Vec<String> {
        let folder = self.folder.path().display().to_string();
        words.iter().map(|word| word.replace('@', &folder)).collect()
    }
}

/// Whether a program of this name is in the path, or is a file.
fn is_there(name: &str) -> bool {
    let folders = std::env::var_os("PATH").unwrap_or_default();
    Path::new(name).is_file() || std::env::split_paths(&folders).any(|folder| folder.join(name).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_interpreter_is_named() {
        let workshop = Workshop::new().unwrap();
        let program =
            Program { name: "none", file: ("none", ""), build: &[], command: &["sh"], needs: &["no-such-interpreter"] };
        assert_eq!(workshop.command(&program).unwrap_err(), "no-such-interpreter is not installed");
    }

    #[test]
    fn a_program_that_cannot_be_built_says_why() {
        let workshop = Workshop::new().unwrap();
        let program = Program {
            name: "none",
            file: ("none", ""),
            build: &["sh", "-c", "echo no such thing >&2; exit 1"],
            command: &["@/none"],
            needs: &[],
        };
        assert_eq!(workshop.command(&program).unwrap_err(), "sh failed: no such thing");
    }
}
