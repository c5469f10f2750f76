//! A run of the child that ended early: its kind, its replay, and smaller inputs.

use crate::child;
use std::io;
use std::os::unix::process::ExitStatusExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus, Stdio};

/// Runs of the child that making one input smaller may take.
const TRIES_MAX: usize = 150;
/// Numbers of Linux.
const SIGSEGV: i32 = 11;
const SIGXCPU: i32 = 24;

/// Why a child ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Kind {
    /// At this place, `file:line`, with this message.
    Panic { place: String, message: String },
    /// It asked for more memory than it may have.
    Memory,
    /// It worked too long on one input.
    Time,
    /// The stack ran over.
    Stack,
    /// Anything else.
    Other(String),
}

impl std::fmt::Display for Kind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Panic { place, message } => write!(f, "panic at {place}: {message}"),
            Self::Memory => write!(f, "more than {} MiB of memory", child::MEMORY_MAX_BYTES >> 20),
            Self::Time => write!(f, "too much CPU time for one input"),
            Self::Stack => write!(f, "stack overflow"),
            Self::Other(what) => write!(f, "{what}"),
        }
    }
}

impl Kind {
    /// From the exit status and output of the child; `None` if it ended well.
    pub fn of(status: ExitStatus, told: &str) -> Option<Self> {
        if status.success() {
            return None;
        }
        if let Some(said) = child::panic_in(told) {
            let (place, message) = said.split_once(": ").unwrap_or((said, ""));
            return Some(Self::Panic { place: place.to_owned(), message: message.to_owned() });
        }
        Some(match status.signal() {
            _ if told.contains("memory allocation of") => Self::Memory,
            _ if told.contains("has overflowed its stack") => Self::Stack,
            Some(SIGXCPU) => Self::Time,
            Some(SIGSEGV) => Self::Stack,
            _ => Self::Other(format!("{status}: {}", told.lines().last().unwrap_or("nothing was said"))),
        })
    }

    /// Whether two faults have one cause, as far as can be known: messages of panics often hold parts of the input.
    pub fn is_like(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Panic { place: one, .. }, Self::Panic { place: other, .. }) => one == other,
            _ => self == other,
        }
    }
}

/// A fault with its input.
#[derive(Clone, Debug)]
pub struct Fault {
    pub target: &'static str,
    pub kind: Kind,
    /// Number of the input.
    pub n: u64,
    /// Where the smallest input that shows it is kept.
    pub input: PathBuf,
    pub bytes: usize,
}

/// Runs inputs one by one, each in a child of its own.
#[derive(Debug)]
pub struct Replayer<'a> {
    pub program: &'a Path,
    pub target: &'static str,
    pub scratch: &'a Path,
    /// Seconds of CPU time that one input may take.
    pub input_seconds: u64,
}

impl Replayer<'_> {
    /// Result of an input.
    ///
    /// # Errors
    /// When no child can be started.
    pub fn replay(&self, bytes: &[u8]) -> io::Result<Option<Kind>> {
        let file = self.scratch.join("replayed");
        std::fs::write(&file, bytes)?;
        let folder = self.scratch.join("replaying");
        std::fs::create_dir_all(&folder)?;
        let done = Command::new(self.program)
            .args(["child", self.target, "--file"])
            .arg(&file)
            .arg("--scratch")
            .arg(&folder)
            .arg(format!("--input-seconds={}", self.input_seconds))
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .output()?;
        Ok(Kind::of(done.status, &String::from_utf8_lossy(&done.stderr)))
    }

    /// A smaller input with the same fault: parts are left out as long as it stays.
    ///
    /// # Errors
    /// As [`Self::replay`].
    pub fn smaller(&self, mut bytes: Vec<u8>, kind: &Kind) -> io::Result<Vec<u8>> {
        let mut tries = if *kind == Kind::Time { TRIES_MAX / 50 } else { TRIES_MAX };
        let mut part = bytes.len().div_ceil(2);
        while part > 0 && tries > 0 {
            let mut at = 0;
            let before = bytes.len();
            while at < bytes.len() && tries > 0 {
                let mut candidate = bytes.clone();
                candidate.drain(at..(at + part).min(bytes.len()));
                tries -= 1;
                if self.replay(&candidate)?.is_some_and(|found| found.is_like(kind)) {
                    bytes = candidate;
                } else {
                    at += part;
                }
            }
            if bytes.len() == before || part > bytes.len() {
                part /= 2;
            }
        }
        Ok(bytes)
    }

    /// Keeps an input below `folder` under a name that follows from its bytes.
    ///
    /// # Errors
    /// When it cannot be written.
    pub fn keep(&self, bytes: &[u8], folder: &Path) -> io::Result<PathBuf> {
        let folder = folder.join(self.target);
        std::fs::create_dir_all(&folder)?;
        let path = folder.join(format!("{:016x}", isotherm_units::hash::fnv1a(bytes.iter().copied())));
        std::fs::write(&path, bytes)?;
        Ok(path)
    }
}
