//! The tape's file.

use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Write as _};
use std::path::Path;

use isotherm_daemon::config::Config;
use isotherm_daemon::tape::{Header, RecordError, Sink, Tape, VERSION};
use isotherm_units::{Bytes, Duration};

use crate::error::CliError;
use crate::live::private_file;

struct TapeFile {
    file: BufWriter<File>,
    left: u64,
    max: Bytes,
}

impl Sink for TapeFile {
    fn add(&mut self, line: &str) -> Result<(), RecordError> {
        let bytes = line.len() as u64 + 1;
        if bytes > self.left {
            return Err(RecordError::Full(self.max));
        }
        self.left -= bytes;
        let file = &mut self.file;
        let written = file.write_all(line.as_bytes()).and_then(|()| file.write_all(b"\n"));
        // Flushed once a turn, so that the tape of a killed daemon is nearly complete.
        let is_turn = line.starts_with("[\"sleep\"");
        let written = written.and_then(|()| if is_turn { file.flush() } else { Ok(()) });
        Ok(written?)
    }
}

/// Starts a tape in a file that only root can read.
pub(crate) fn tape(path: &Path, max: Bytes, config: &Config, length: Option<Duration>) -> Result<Tape, CliError> {
    let failed =
        |error: std::io::Error| CliError::failed(error).while_doing(format!("cannot write {}", path.display()));
    let file = private_file::open(OpenOptions::new().write(true).create(true).truncate(false), path).map_err(failed)?;
    file.set_len(0).map_err(failed)?;
    let sink = TapeFile { file: BufWriter::with_capacity(1 << 16, file), left: max.get(), max };
    let build = env!("CARGO_PKG_VERSION").to_owned();
    let header = Header { isotherm_tape: VERSION, build, config: config.clone(), length };
    Tape::record(&header, Box::new(sink))
        .map_err(|why| CliError::failed(why).while_doing(format!("cannot write {}", path.display())))
}
