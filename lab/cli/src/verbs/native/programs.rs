//! The programs, whose texts are in `lab/native`. To add one: its file there, and a line in [`PROGRAMS`].

use std::path::{Path, PathBuf};
use std::process::Command;

use isotherm_terminal::CliError;
use serde::{Deserialize, Serialize};
use tempfile::TempDir;

/// Which part of a program is timed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(super) enum Timed {
    /// It waits most of the time, and prints how long each of its bursts took: one number of nanoseconds a line.
    Bursts,
    /// It computes from beginning to end: all of it.
    Whole,
}

/// A program.
pub(super) struct Program {
    pub(super) name: &'static str,
    pub(super) timed: Timed,
    /// Its file in `lab/native`, and its text.
    file: (&'static str, &'static str),
    /// What makes it of its file; `@` stands for the folder.
    build: &'static [&'static str],
    /// How it starts.
    command: &'static [&'static str],
    /// Other programs that it starts.
    needs: &'static [&'static str],
}

impl Program {
    /// `isotherm advise` gives such programs no recommendation.
    pub(super) fn is_jvm(&self) -> bool {
        self.command.first() == Some(&"java")
    }
}

macro_rules! programs {
    ($($timed:ident $name:literal: $file:literal, $build:expr, $command:expr, $needs:expr;)*) => {
        &[$(Program {
            name: $name,
            timed: Timed::$timed,
            file: ($file, include_str!(concat!("../../../../native/", $file))),
            build: &$build,
            command: &$command,
            needs: &$needs,
        }),*]
    };
}

pub(super) const PROGRAMS: &[Program] = programs! {
    Bursts "timer": "timer.py", [], ["python3", "@/timer.py", "60"], [];
    Bursts "requests": "requests.py", [], ["python3", "@/requests.py", "100"], [];
    Bursts "node": "requests.js", [], ["node", "@/requests.js", "100"], [];
    Bursts "redis": "redis.py", [], ["python3", "@/redis.py", "100"], ["redis-server"];
    Bursts "pool": "pool.c", ["gcc", "-O2", "-o", "@/pool", "@/pool.c", "-lpthread"], ["@/pool", "200"], [];
    Bursts "jobs": "jobs.sh", [], ["sh", "@/jobs.sh", "25"], ["awk", "sort"];
    Bursts "java": "Ticker.java", ["javac", "-d", "@", "@/Ticker.java"], ["java", "-Xmx96m", "-cp", "@", "Ticker", "100"], ["javac"];
    Bursts "java-g1": "Ticker.java", ["javac", "-d", "@", "@/Ticker.java"], ["java", "-XX:+UseG1GC", "-Xmx96m", "-cp", "@", "Ticker", "100"], ["javac"];
    Bursts "go": "ticker.go", ["go", "build", "-o", "@/ticker", "@/ticker.go"], ["@/ticker", "100"], ["go"];
    Whole "memory": "scattered.c", ["gcc", "-O2", "-o", "@/memory", "@/scattered.c", "-lm"], ["@/memory", "memory", "24576", "1000000"], [];
    Whole "mapped": "scattered.c", ["sh", "-c", MAPPED], ["@/mapped", "mapped", "@/mapped.bin", "1000000"], ["gcc"];
    Whole "read": "scattered.c", ["sh", "-c", READ], ["@/read", "read", "@/read.bin", "1000000"], ["gcc"];
    Whole "awk": "pairs.awk", ["sh", "-c", "python3 @/words.py 60000 > @/awk.txt"], ["awk", "-f", "@/pairs.awk", "@/awk.txt"], ["python3"];
    Whole "xz": "words.py", ["sh", "-c", "python3 @/words.py 40000 > @/xz.txt"], ["xz", "-6", "-T1", "-k", "-f", "@/xz.txt"], ["python3"];
    Whole "index": "index.py", ["sh", "-c", "python3 @/words.py 60000 > @/index.txt"], ["python3", "@/index.py", "@/index.txt"], [];
    Whole "orders": "Orders.java", ["javac", "-d", "@", "@/Orders.java"], ["java", "-Xmx128m", "-cp", "@", "Orders", "80000", "6"], ["javac"];
    Whole "orders-g1": "Orders.java", ["javac", "-d", "@", "@/Orders.java"], ["java", "-XX:+UseG1GC", "-Xmx128m", "-cp", "@", "Orders", "80000", "6"], ["javac"];
    Whole "perl": "lines.pl", ["sh", "-c", "python3 @/words.py 60000 > @/perl.txt"], ["perl", "@/lines.pl", "@/perl.txt"], ["python3"];
    Whole "sqlite": "stock.sql", [], ["sqlite3", ":memory:", ".read @/stock.sql"], [];
    Whole "ruby": "graph.rb", [], ["ruby", "@/graph.rb", "250000"], [];
    Whole "php": "sessions.php", [], ["php", "@/sessions.php", "60"], [];
    Whole "convert": "words.py", [], ["convert", "-limit", "thread", "2", "-seed", "3", "-size", "1600x1200", "plasma:tomato-steelblue", "-resize", "140%", "-blur", "0x2", "-rotate", "90", "-resize", "25%", "@/convert.ppm"], [];
    Whole "count": "count.go", ["go", "build", "-o", "@/count", "@/count.go"], ["@/count", "2000000"], ["go"];
};

const MAPPED: &str = "gcc -O2 -o @/mapped @/scattered.c -lm && head -c 64M /dev/urandom > @/mapped.bin";
const READ: &str = "gcc -O2 -o @/read @/scattered.c -lm && head -c 64M /dev/urandom > @/read.bin";

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
        let is_made_here = |word: &&str| Path::new(word).starts_with(self.folder.path());
        let first = [build.first(), command.first()].into_iter().flatten().map(String::as_str);
        let wanted: Vec<&str> = first.filter(|word| !is_made_here(word)).chain(program.needs.iter().copied()).collect();
        if let Some(missing) = wanted.into_iter().find(|name| !is_there(name)) {
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
        let program = Program {
            name: "none",
            timed: Timed::Bursts,
            file: ("none", ""),
            build: &[],
            command: &["sh"],
            needs: &["no-such-interpreter"],
        };
        assert_eq!(workshop.command(&program).unwrap_err(), "no-such-interpreter is not installed");
    }

    #[test]
    fn a_program_that_cannot_be_built_says_why() {
        let workshop = Workshop::new().unwrap();
        let program = Program {
            name: "none",
            timed: Timed::Whole,
            file: ("none", ""),
            build: &["sh", "-c", "echo no such thing >&2; exit 1"],
            command: &["@/none"],
            needs: &[],
        };
        assert_eq!(workshop.command(&program).unwrap_err(), "sh failed: no such thing");
    }
}
