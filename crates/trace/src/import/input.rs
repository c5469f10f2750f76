//! Input of importers: any stream of bytes, decompressed while reading, by lines or records.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::{Path, PathBuf};

use crate::{Result, TraceError};

const BUFFER_BYTES: usize = 1 << 18;
/// Longest line that is read: no format has longer ones, but a file of another format may have no line breaks.
const LINE_BYTES_MAX: u64 = 1 << 16;
const ZSTD_MAGIC: [u8; 4] = [0x28, 0xb5, 0x2f, 0xfd];

/// An open input with its name for messages.
pub struct Input {
    path: PathBuf,
    reader: Box<dyn BufRead>,
    line: Vec<u8>,
    line_number: u64,
    line_has_end: bool,
}

impl std::fmt::Debug for Input {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Input({}, line {})", self.path.display(), self.line_number)
    }
}

impl Input {
    /// Opens a file (or `/dev/stdin`); zstd is recognised and decompressed.
    ///
    /// # Errors
    /// The file cannot be opened or read.
    pub fn open(path: &Path) -> Result<Self> {
        let file = File::open(path).map_err(|error| TraceError::io("open", path, error))?;
        Self::from_reader(path, file)
    }

    /// The same for any reader; messages call it `name`.
    ///
    /// # Errors
    /// The input cannot be read.
    pub fn from_reader(name: &Path, reader: impl Read + 'static) -> Result<Self> {
        let mut plain = BufReader::with_capacity(BUFFER_BYTES, reader);
        let failed = |error| TraceError::io("read", name, error);
        let reader: Box<dyn BufRead> = if plain.fill_buf().map_err(failed)?.starts_with(&ZSTD_MAGIC) {
            let decoder = zstd::stream::read::Decoder::with_buffer(plain).map_err(failed)?;
            Box::new(BufReader::with_capacity(BUFFER_BYTES, decoder))
        } else {
            Box::new(plain)
        };
        Ok(Self { path: name.to_owned(), reader, line: Vec::new(), line_number: 0, line_has_end: true })
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The next bytes, without consuming them: some thousands unless the input is shorter.
    ///
    /// # Errors
    /// The input cannot be read.
    pub fn head(&mut self) -> Result<&[u8]> {
        self.reader.fill_buf().map_err(|error| TraceError::io("read", &self.path, error))
    }

    /// The next line without its end, and its number from 1; `None` at the end.
    ///
    /// # Errors
    /// The input cannot be read, or the line has more than 64 KiB.
    pub fn next_line(&mut self) -> Result<Option<(u64, &[u8])>> {
        self.line.clear();
        let mut limited = (&mut self.reader).take(LINE_BYTES_MAX);
        let len =
            limited.read_until(b'\n', &mut self.line).map_err(|error| TraceError::io("read", &self.path, error))?;
        if len == 0 {
            return Ok(None);
        }
        self.line_number += 1;
        self.line_has_end = self.line.last() == Some(&b'\n');
        if self.line_has_end {
            self.line.pop();
            if self.line.last() == Some(&b'\r') {
                self.line.pop();
            }
        } else if len as u64 == LINE_BYTES_MAX {
            return Err(TraceError::bad_value(
                &self.path,
                "line",
                self.line_number,
                "longer than 64 KiB: not a text trace",
            ));
        }
        Ok(Some((self.line_number, &self.line)))
    }

    /// Whether the last line read had a line break. The last line of a truncated file has none.
    pub fn line_has_end(&self) -> bool {
        self.line_has_end
    }

    /// Fills `record` with the next bytes. Returns their number, which is smaller at the end.
    ///
    /// # Errors
    /// The input cannot be read.
    pub fn next_record(&mut self, record: &mut [u8]) -> Result<usize> {
        let mut filled = 0;
        while filled < record.len() {
            match self.reader.read(&mut record[filled..]) {
                Ok(0) => break,
                Ok(len) => filled += len,
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(TraceError::io("read", &self.path, error)),
            }
        }
        Ok(filled)
    }

    #[cold]
    pub(crate) fn bad_line(&self, what: impl Into<String>) -> TraceError {
        TraceError::bad_value(&self.path, "line", self.line_number, what)
    }
}
