//! One target after the other, each in children of its own, until its time or its inputs are used up.

use crate::faults::{Fault, Kind, Replayer};
use crate::target::Target;
use crate::{corpus, mutate};
use std::io::{self, Read as _, Seek as _};
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Faults after which a target is left: the same ones come again and again.
const FAULTS_MAX: usize = 5;
/// Ends of children after which a target is left, faults that were seen before included.
const ENDS_MAX: usize = 40;
/// Interval between two checks of a child.
const LOOK: Duration = Duration::from_millis(5);
/// Wall time without progress after which a child hangs, in limits of CPU time: others use the machine too.
const PATIENCE: u64 = 12;

/// How long a target runs.
#[derive(Clone, Copy, Debug)]
pub enum Extent {
    /// Number of inputs.
    Inputs(u64),
    /// Wall time in seconds.
    Seconds(f64),
}

/// Result of a target.
#[derive(Clone, Debug, Default)]
pub struct Outcome {
    /// Inputs that were run.
    pub executions: u64,
    pub faults: Vec<Fault>,
}

/// Common to all targets.
#[derive(Debug)]
pub struct Campaign<'a> {
    /// This program, which is started for children.
    pub program: &'a Path,
    pub seed: u64,
    /// Seconds of CPU time that one input may take.
    pub input_seconds: u64,
    /// Where inputs that show faults are kept.
    pub kept: &'a Path,
}

impl Campaign<'_> {
    /// Runs a target.
    ///
    /// # Errors
    /// When there is no corpus, or children or files cannot be made.
    pub fn run(&self, target: &'static Target, extent: Extent) -> io::Result<Outcome> {
        let corpus = corpus::load(target.name)?;
        let scratch = scratch_folder()?;
        let (progress, start) = (scratch.path().join("progress"), Instant::now());
        let mut outcome = Outcome::default();
        let (mut from, mut ends) = (0, 0);
        let until = match extent {
            Extent::Inputs(inputs) => inputs,
            Extent::Seconds(_) => u64::MAX,
        };
        let left = || match extent {
            Extent::Inputs(_) => None,
            Extent::Seconds(seconds) => Some(seconds - start.elapsed().as_secs_f64()),
        };
        while from < until && left().is_none_or(|left| left > 0.0) {
            std::fs::write(&progress, from.to_le_bytes())?;
            let mut words = vec![format!("--seed={}", self.seed), format!("--from={from}"), format!("--until={until}")];
            words.push(format!("--input-seconds={}", self.input_seconds));
            words.extend(left().map(|left| format!("--seconds={left}")));
            let ended = self.child(target, scratch.path(), &progress, &words)?;
            let at = read_progress(&progress)?;
            outcome.executions += at - from;
            let Some(kind) = ended else { break };
            outcome.executions += 1;
            ends += 1;
            if !outcome.faults.iter().any(|fault| fault.kind.is_like(&kind)) {
                let bytes = mutate::input(self.seed, target.name, target.words, &corpus, at);
                outcome.faults.extend(self.look_into(target, scratch.path(), at, bytes)?);
            }
            if outcome.faults.len() >= FAULTS_MAX || ends >= ENDS_MAX {
                break;
            }
            from = at + 1;
        }
        Ok(outcome)
    }

    /// Whether an input fails alone, too; then it is made smaller and kept. An input that fails only after others is not a fault
    /// of its own: the bound on memory holds for a child's whole life.
    fn look_into(&self, target: &Target, scratch: &Path, n: u64, bytes: Vec<u8>) -> io::Result<Option<Fault>> {
        let replayer =
            Replayer { program: self.program, target: target.name, scratch, input_seconds: self.input_seconds };
        let Some(kind) = replayer.replay(&bytes)? else { return Ok(None) };
        let bytes = replayer.smaller(bytes, &kind)?;
        let input = replayer.keep(&bytes, self.kept)?;
        Ok(Some(Fault { target: target.name, kind, n, input, bytes: bytes.len() }))
    }

    /// Runs a child to its end; returns how it ended if it failed.
    fn child(&self, target: &Target, scratch: &Path, progress: &Path, words: &[String]) -> io::Result<Option<Kind>> {
        let folder = scratch.join("files");
        std::fs::create_dir_all(&folder)?;
        let mut told = tempfile::tempfile_in(scratch)?;
        let mut child = Command::new(self.program)
            .args(["child", target.name])
            .args(words)
            .arg("--progress")
            .arg(progress)
            .arg("--scratch")
            .arg(&folder)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(told.try_clone()?)
            .spawn()?;
        let status = self.wait(&mut child, progress)?;
        let mut text = Vec::new();
        told.rewind()?;
        told.take(1 << 20).read_to_end(&mut text)?;
        let Some(status) = status else { return Ok(Some(Kind::Time)) };
        Ok(Kind::of(status, &String::from_utf8_lossy(&text)))
    }

    /// Waits for a child; `None` if it made no progress and had to be ended.
    fn wait(&self, child: &mut Child, progress: &Path) -> io::Result<Option<ExitStatus>> {
        let (mut last, mut since) = (read_progress(progress)?, Instant::now());
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(Some(status));
            }
            let now = read_progress(progress)?;
            if now != last {
                (last, since) = (now, Instant::now());
            } else if since.elapsed().as_secs() > self.input_seconds * PATIENCE {
                child.kill()?;
                child.wait()?;
                return Ok(None);
            }
            std::thread::sleep(LOOK);
        }
    }
}

/// A folder for files that every input rewrites: in memory if possible, to avoid waiting for a disk.
///
/// # Errors
/// No folder can be made.
pub fn scratch_folder() -> io::Result<tempfile::TempDir> {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir())
}

fn read_progress(file: &Path) -> io::Result<u64> {
    let bytes = std::fs::read(file)?;
    bytes.first_chunk().map(|bytes| u64::from_le_bytes(*bytes)).ok_or_else(|| io::ErrorKind::UnexpectedEof.into())
}
