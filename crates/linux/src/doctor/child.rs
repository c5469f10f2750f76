//! A child process for probes: it holds some memory, and touches half of it on request.

use std::io::{BufRead, BufReader, Read, Write};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Mutex;

use isotherm_core::host::AddressRange;

use crate::{LiveError, Process, Root};

/// Memory that the child holds.
const BYTES: usize = 16 << 20;

/// The child; dropping this ends it.
#[derive(Debug)]
pub struct Child {
    process: std::process::Child,
    talk: Mutex<(ChildStdin, BufReader<ChildStdout>)>,
    /// Range of its memory, whole pages.
    range: AddressRange,
    /// The child as a process, as others see it.
    seen: Process,
}

impl Child {
    /// Starts `program`, which must call [`child_main`] when run with `arguments`.
    ///
    /// # Errors
    /// It cannot be started, does not answer, or cannot be read.
    pub fn start(program: &Path, arguments: &[&str]) -> Result<Self, LiveError> {
        let failed = |error| LiveError::io("start", program, error);
        let mut process = Command::new(program)
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .map_err(failed)?;
        let (Some(stdin), Some(stdout)) = (process.stdin.take(), process.stdout.take()) else {
            return Err(failed(std::io::ErrorKind::BrokenPipe.into()));
        };
        let mut stdout = BufReader::new(stdout);
        let mut line = String::new();
        let read = stdout.read_line(&mut line).map_err(failed);
        let range = line.trim().split_once(' ').and_then(|(start, end)| Some((start.parse().ok()?, end.parse().ok()?)));
        let (Ok(_), Some((start, end))) = (read, range) else {
            let _ = process.kill();
            let _ = process.wait();
            return Err(LiveError::strange(program, format!("`{}` of a child for probes", line.trim())));
        };
        let seen = Process::open(&Root::default(), process.id());
        match seen {
            Ok(seen) => {
                Ok(Self { process, talk: Mutex::new((stdin, stdout)), range: AddressRange::new(start, end), seen })
            }
            Err(error) => {
                let _ = process.kill();
                let _ = process.wait();
                Err(error)
            }
        }
    }

    /// All of its memory.
    pub fn range(&self) -> AddressRange {
        self.range
    }

    /// The child as a process, as others see it.
    pub fn process(&self) -> &Process {
        &self.seen
    }

    /// Makes it touch the lower half of its memory; `false` if it does not answer.
    pub fn touch_half(&self) -> bool {
        let Ok(mut talk) = self.talk.lock() else { return false };
        let mut answer = [0u8];
        talk.0.write_all(b"t").is_ok() && talk.0.flush().is_ok() && talk.1.read_exact(&mut answer).is_ok()
    }
}

impl Drop for Child {
    fn drop(&mut self) {
        // It ends when its input ends; the kill is for a child that hangs.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Main function of the child: writes the range of its memory, touches half of the memory for each byte that it reads, and ends with its
/// input.
///
/// # Errors
/// The output of the child is closed.
pub fn child_main(input: &mut dyn Read, output: &mut dyn Write) -> std::io::Result<()> {
    let page = usize::try_from(crate::page_bytes()).unwrap_or(1 << 16);
    let mut memory = vec![0u8; BYTES + page];
    let start = memory.as_ptr() as usize;
    let first = start.next_multiple_of(page);
    let offset = first - start;
    memory.iter_mut().step_by(page).for_each(|byte| *byte = 1);
    writeln!(output, "{first} {}", first + BYTES)?;
    output.flush()?;
    let mut told = [0u8];
    while input.read_exact(&mut told).is_ok() {
        for byte in memory[offset..offset + BYTES / 2].iter_mut().step_by(page) {
            *byte = byte.wrapping_add(1);
        }
        output.write_all(&std::hint::black_box(&memory)[offset..=offset])?;
        output.flush()?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_child_talks() {
        let mut output = Vec::new();
        child_main(&mut b"tt".as_slice(), &mut output).unwrap();
        let text = String::from_utf8_lossy(&output);
        let (line, rest) = text.split_once('\n').unwrap();
        let (start, end): (usize, usize) =
            line.split_once(' ').map(|(start, end)| (start.parse().unwrap(), end.parse().unwrap())).unwrap();
        let page = usize::try_from(crate::page_bytes()).unwrap();
        assert_eq!((start % page, end - start, rest.len()), (0, BYTES, 2));
    }

    #[test]
    fn who_is_no_child_is_refused() {
        for program in ["/no/such/program", "/bin/true", "/bin/echo"] {
            assert!(Child::start(Path::new(program), &["x"]).is_err(), "{program}");
        }
    }
}
