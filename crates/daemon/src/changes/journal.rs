//! The journal: a list of changed knobs that is appended to, and rewritten when most of it is closed.

use super::line::{Changes, Extent, Flaw, Line, Open, VERSION, text};
use std::io::{self, BufReader, Read as _};
use std::sync::Arc;

/// Most bytes that new changes make a journal grow to: a hundred thousand open ones. Far below the size that is read.
const WRITTEN_MAX: u64 = 32 << 20;
/// Most bytes that are read: earlier versions never rewrote a journal.
const READ_MAX: u64 = 1 << 30;
/// A journal of up to this many bytes is not rewritten.
const SHORT: u64 = 256 << 10;

/// Storage of a journal.
pub trait Store {
    /// A reader of all bytes from the first on; of none if there is no journal yet.
    ///
    /// # Errors
    /// Error of the file system.
    fn reader(&mut self) -> io::Result<Box<dyn io::Read + '_>>;

    /// Removes the bytes after the first `bytes`.
    ///
    /// # Errors
    /// Error of the file system.
    fn cut(&mut self, bytes: u64) -> io::Result<()>;

    /// Appends bytes. When it returns, the bytes outlive a power cut.
    ///
    /// # Errors
    /// Error of the file system: some of the bytes may have been written. [`io::ErrorKind::NotFound`]: none was, because the journal was
    /// removed.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;

    /// Makes these the only bytes. A power cut leaves either the old ones or these.
    ///
    /// # Errors
    /// Error of the file system: the old bytes stand.
    fn replace(&mut self, bytes: &[u8]) -> io::Result<()>;
}

/// A journal in memory.
impl Store for Vec<u8> {
    fn reader(&mut self) -> io::Result<Box<dyn io::Read + '_>> {
        Ok(Box::new(&self[..]))
    }
    fn cut(&mut self, bytes: u64) -> io::Result<()> {
        self.truncate(usize::try_from(bytes).unwrap_or(usize::MAX));
        Ok(())
    }
    fn append(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.extend_from_slice(bytes);
        Ok(())
    }
    fn replace(&mut self, bytes: &[u8]) -> io::Result<()> {
        bytes.clone_into(self);
        Ok(())
    }
}

/// Why a journal cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
pub enum JournalError {
    /// Error of the journal's file.
    #[error("the journal cannot be {what}: {error}")]
    Io {
        what: &'static str,
        #[source]
        error: Arc<io::Error>,
    },
    /// A line before the last is not in our format.
    #[error(
        "line {line} of the journal is damaged: {why}; look at it, put back by hand what it says, and move it away"
    )]
    Damaged { line: usize, why: String },
    /// Written by a later isotherm.
    #[error("the journal is of version {0}; allowed: 1 to {VERSION}. The isotherm that wrote it can restore from it")]
    Version(u32),
    /// It is as long as it may become.
    #[error("the journal holds {0} open changes and takes no more; `isotherm restore` undoes them")]
    Full(usize),
}

impl JournalError {
    fn io(what: &'static str, error: io::Error) -> Self {
        Self::Io { what, error: Arc::new(error) }
    }

    fn of(line: usize, flaw: Flaw) -> Self {
        match flaw {
            Flaw::Io(error) => Self::io("read", error),
            Flaw::Version(version) => Self::Version(version),
            Flaw::Words(why) => Self::Damaged { line, why },
        }
    }
}

/// The open changes, and the store for new lines.
#[derive(Debug)]
pub struct Journal<S> {
    store: S,
    changes: Changes,
    /// Bytes that count; the store may hold others after them.
    bytes: u64,
    lacks_break: bool,
    has_junk: bool,
    /// The journal is rewritten once it has this many bytes.
    long: u64,
}

impl<S: Store> Journal<S> {
    /// Reads the journal. A last line that was cut short does not count: the write that it announced was not made.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn read(mut store: S) -> Result<Self, JournalError> {
        let mut changes = Changes::new();
        let reader = store.reader().map_err(|error| JournalError::io("read", error))?;
        let read = changes.read(BufReader::new(reader.take(READ_MAX + 1)));
        let Extent { bytes, lacks_break, has_junk } = read.map_err(|(line, flaw)| JournalError::of(line, flaw))?;
        if bytes > READ_MAX {
            let error = io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {READ_MAX} bytes"));
            return Err(JournalError::io("read", error));
        }
        Ok(Self { store, changes, bytes, lacks_break, has_junk, long: SHORT })
    }

    /// Changes that are not undone, oldest first.
    pub fn open(&self) -> impl DoubleEndedIterator<Item = &Open> {
        self.changes.open()
    }

    /// Open changes of one knob.
    pub(super) fn open_of<'a>(&'a self, path: &str) -> impl DoubleEndedIterator<Item = &'a Open> {
        self.changes.of(path)
    }

    /// Whether a change is not undone.
    pub(super) fn is_open(&self, number: u64) -> bool {
        self.changes.is_open(number)
    }

    /// Records a write before it is made, and returns its number. The number of `open` does not count.
    ///
    /// # Errors
    /// Then the write must not be made.
    pub(super) fn will_set(&mut self, open: Open) -> Result<u64, JournalError> {
        let Open { boot, section, path, old, new, group, .. } = open;
        assert!(path.starts_with('/'), "a change names the knob that a restore writes: `{path}`");
        let number = self.changes.next();
        self.append(vec![Line::Set { number, boot, section, path, old, new, group }])?;
        assert!(self.is_open(number), "a change is open before its knob is written");
        assert!(number < self.changes.next(), "numbers of changes only grow");
        Ok(number)
    }

    /// Records that the knob of an open change is written again, before it is.
    ///
    /// # Errors
    /// Then the write must not be made.
    pub(super) fn will_set_again(&mut self, number: u64, value: &str) -> Result<(), JournalError> {
        assert!(self.is_open(number), "only the knob of an open change is written again");
        self.append(vec![Line::Next { number, value: value.to_owned() }])
    }

    pub(super) fn holds(&mut self, number: u64, value: &str) -> Result<(), JournalError> {
        assert!(self.is_open(number), "only an open change tells what its knob holds");
        self.append(vec![Line::Holds { number, value: value.to_owned() }])
    }

    pub(super) fn close(&mut self, number: u64, why: &str) -> Result<(), JournalError> {
        self.close_all(&[(number, why)])
    }

    /// All are closed in one write, because each write takes as long as the disk does.
    pub(super) fn close_all(&mut self, closed: &[(u64, &str)]) -> Result<(), JournalError> {
        assert!(closed.iter().all(|&(number, _)| self.is_open(number)), "only an open change is closed");
        if closed.is_empty() {
            return Ok(());
        }
        let lines = closed.iter().map(|&(number, why)| Line::Closed { number, why: why.to_owned() });
        self.append(lines.collect())?;
        assert!(!closed.iter().any(|&(number, _)| self.is_open(number)), "a closed change is not undone again");
        Ok(())
    }

    /// Notes open changes again with the present owner of their knobs, where `group` returns one.
    pub(super) fn identify(&mut self, group: impl Fn(&Open) -> Option<u64>) -> Result<(), JournalError> {
        let found: Vec<(Open, u64)> = self.open().filter_map(|open| Some((open.clone(), group(open)?))).collect();
        let mut lines = Vec::new();
        for (number, (open, group)) in (self.changes.next()..).zip(found) {
            lines.push(Line::Closed { number: open.number, why: "noted again".to_owned() });
            lines.extend(Open { number, group: Some(group), ..open }.lines());
        }
        if lines.is_empty() { Ok(()) } else { self.append(lines) }
    }

    fn append(&mut self, mut lines: Vec<Line>) -> Result<(), JournalError> {
        let written = |error| JournalError::io("written", error);
        let only_closes = lines.iter().all(|line| matches!(line, Line::Closed { .. }));
        if self.bytes > self.long {
            self.shorten();
        }
        if self.changes.is_of_earlier_version() {
            lines.insert(0, Line::Journal { version: VERSION });
        }
        let new = text(&lines).map_err(written)?;
        let bytes = if self.lacks_break { [b"\n", &new[..]].concat() } else { new };
        let grown = self.bytes + bytes.len() as u64;
        if grown > WRITTEN_MAX && !only_closes {
            return Err(JournalError::Full(self.open().count()));
        }
        match self.put(&bytes) {
            Ok(()) => (self.bytes, self.lacks_break) = (grown, false),
            // It was removed or moved: what is open is noted again.
            Err(error) if error.kind() == io::ErrorKind::NotFound => {
                let open = self.changes.text().map_err(written)?;
                self.replace(&[open, bytes].concat()).map_err(written)?;
            }
            Err(error) => {
                // Some or all of it may have been written.
                self.has_junk = true;
                self.changes.skip_number();
                return Err(written(error));
            }
        }
        lines.into_iter().try_for_each(|line| self.changes.take(line)).map_err(|flaw| JournalError::of(0, flaw))
    }

    /// Drops closed changes, if they are most of the journal. A disk that has no room for it now may have later.
    fn shorten(&mut self) {
        let Ok(open) = self.changes.text() else { return };
        if (open.len() as u64) < self.bytes / 2 && self.replace(&open).is_ok() {
            // What was written begins with the version.
            let _ = self.changes.take(Line::Journal { version: VERSION });
        }
        self.long = SHORT.max(2 * self.bytes);
    }

    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.has_junk {
            self.store.cut(self.bytes)?;
            self.has_junk = false;
        }
        self.store.append(bytes)
    }

    fn replace(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.store.replace(bytes)?;
        (self.bytes, self.lacks_break, self.has_junk) = (bytes.len() as u64, false, false);
        Ok(())
    }
}
