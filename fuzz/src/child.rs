//! The process that a target runs in: one input after the other, within bounds.

use crate::target::{Scratch, Target};
use crate::{corpus, mutate};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::{ClockId, clock_gettime};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Instant;

/// Address space of one run in addition to the program itself, bytes.
pub const MEMORY_MAX_BYTES: u64 = 512 << 20;
/// Default CPU time of one input, seconds. A debug build on a slow machine takes milliseconds.
pub const INPUT_SECONDS: u64 = 10;
/// Prefix of the line that announces a panic.
const EXIT_TOLD: &str = "isotherm-fuzz: panicked at ";

/// Work of a child.
#[derive(Clone, Debug)]
pub struct Order<'a> {
    pub seed: u64,
    /// First input.
    pub from: u64,
    /// Number after the last input.
    pub until: u64,
    /// Seconds of wall time after which it stops before the last input.
    pub seconds_max: Option<f64>,
    /// Seconds of CPU time that one input may take.
    pub input_seconds: u64,
    /// File with the number of the current input.
    pub progress: &'a Path,
}

/// Runs inputs. Ends the process at a fault.
///
/// # Errors
/// When limits cannot be set, or there is no corpus.
pub fn run(target: &Target, scratch: &Scratch, order: &Order<'_>) -> io::Result<()> {
    let corpus = corpus::load(target.name)?;
    let progress = File::options().write(true).create(true).truncate(false).open(order.progress)?;
    let start = Instant::now();
    bound()?;
    for n in order.from..order.until {
        progress.write_all_at(&n.to_le_bytes(), 0)?;
        if order.seconds_max.is_some_and(|most| start.elapsed().as_secs_f64() > most) {
            return Ok(());
        }
        let bytes = mutate::input(order.seed, target.name, target.words, &corpus, n);
        one(target, scratch, &bytes, order.input_seconds)?;
    }
    progress.write_all_at(&order.until.to_le_bytes(), 0)
}

/// Runs the bytes of a file.
///
/// # Errors
/// When it cannot be read, or limits cannot be set.
pub fn run_file(target: &Target, scratch: &Scratch, file: &Path, input_seconds: u64) -> io::Result<()> {
    let bytes = std::fs::read(file)?;
    bound()?;
    one(target, scratch, &bytes, input_seconds)
}

fn one(target: &Target, scratch: &Scratch, bytes: &[u8], seconds: u64) -> io::Result<()> {
    let used = clock_gettime(ClockId::ProcessCPUTime).tv_sec;
    let end = u64::try_from(used).map_err(io::Error::other)? + seconds;
    let maximum = getrlimit(Resource::Cpu).maximum;
    setrlimit(Resource::Cpu, Rlimit { current: Some(end), maximum })?;
    (target.run)(scratch, bytes);
    Ok(())
}

/// Memory above the bound fails, panics of any thread end the process, no core is dumped.
fn bound() -> io::Result<()> {
    let statm = std::fs::read_to_string("/proc/self/statm")?;
    let pages: u64 = statm.split_whitespace().next().and_then(|word| word.parse().ok()).unwrap_or(0);
    let maximum = getrlimit(Resource::As).maximum;
    let current = pages * rustix::param::page_size() as u64 + MEMORY_MAX_BYTES;
    setrlimit(Resource::As, Rlimit { current: Some(current), maximum })?;
    setrlimit(Resource::Core, Rlimit { current: Some(0), maximum: getrlimit(Resource::Core).maximum })?;
    std::panic::set_hook(Box::new(|info| {
        use io::Write as _;
        let place = info.location().map_or_else(String::new, |place| format!("{}:{}", place.file(), place.line()));
        let message = info.payload_as_str().unwrap_or("");
        // Standard error goes to the campaign, which reads the fault from it.
        let _ = writeln!(io::stderr(), "{EXIT_TOLD}{place}: {message}");
        std::process::abort();
    }));
    Ok(())
}

/// The line that the hook wrote for a panic, from the whole output.
pub(crate) fn panic_in(told: &str) -> Option<&str> {
    told.lines().find_map(|line| line.strip_prefix(EXIT_TOLD))
}
