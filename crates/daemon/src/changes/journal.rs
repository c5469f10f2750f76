//! The journal: an append-only list of changed knobs.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;
use std::sync::Arc;

/// Version of the line format.
const VERSION: u32 = 1;
/// Largest journal in bytes: hundreds of thousands of changes.
const BYTES_MAX: usize = 64 << 20;

/// Storage of a journal.
pub trait Store {
    /// All bytes; empty if there is no journal yet.
    ///
    /// # Errors
    /// Of the file system.
    fn read(&mut self) -> io::Result<Vec<u8>>;

    /// Appends bytes. When it returns, they outlive a power cut.
    ///
    /// # Errors
    /// Of the file system; some of the bytes may have been written.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
}

/// A line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
enum Line {
    /// The first line.
    Journal { version: u32 },
    /// A knob is about to be written.
    Set { number: u64, boot: String, section: String, path: String, old: String, new: String },
    /// Value read after the write, where the kernel formats or rounds it differently.
    Holds { number: u64, value: String },
    /// The change was undone, or no section owns it any more.
    Closed { number: u64, why: String },
}

/// A change that is not undone yet.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Open {
    /// Sequence number.
    pub number: u64,
    /// Identifier of the boot in which it was made.
    pub boot: String,
    /// Section that made it.
    pub section: String,
    /// Absolute path of the knob.
    pub path: String,
    /// What it held before.
    pub old: String,
    /// What was written.
    pub new: String,
    /// Value after the write, if it is known and differs from `new`.
    pub holds: Option<String>,
}

impl Open {
    /// Whether a knob that holds `value` holds what this change wrote. If the program ended before it noted the result, the
    /// kernel may have formatted the number differently, or rounded it down to a page.
    pub fn wrote(&self, value: &str) -> bool {
        match &self.holds {
            Some(holds) => value == holds,
            None => {
                value == self.new
                    || is_rounded(&self.new, value)
                    || number(value).is_some_and(|value| self.covers(value))
            }
        }
    }

    /// Whether this change covers a range of numbers that holds `value`.
    pub fn covers(&self, value: u64) -> bool {
        let bounds = self.new.split_once("..").and_then(|(low, high)| Some((number(low)?, number(high)?)));
        bounds.is_some_and(|(low, high)| (low..=high).contains(&value))
    }
}

/// Largest base page of any Linux, in bytes.
const PAGE_MAX: u64 = 64 << 10;

/// A value as a number, if it is one; kernels print some in hexadecimal.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Whether two values are equal, in whatever format.
pub fn same_value(one: &str, other: &str) -> bool {
    one == other || number(one).is_some_and(|value| number(other) == Some(value))
}

/// Numbers that one line covers: from half to twice this one. The kernel rounds down to a page.
pub(super) fn band(value: u64) -> String {
    format!("{}..{}", value / 2, value.saturating_mul(2))
}

/// Whether a knob that holds `held` holds what was written, rounded down to a page of any Linux.
pub fn is_rounded(written: &str, held: &str) -> bool {
    match (number(written), number(held)) {
        (Some(written), Some(held)) => {
            held <= written && (written == held || (written >= PAGE_MAX && written - held < PAGE_MAX))
        }
        _ => false,
    }
}

/// Why a journal cannot be used.
#[derive(Clone, Debug, thiserror::Error)]
pub enum JournalError {
    /// Its file.
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
    #[error("the journal is of version {0}; allowed: {VERSION}. The isotherm that wrote it can restore from it")]
    Version(u32),
}

impl JournalError {
    fn io(what: &'static str, error: io::Error) -> Self {
        Self::Io { what, error: Arc::new(error) }
    }
}

/// The open changes, and the store for new lines.
#[derive(Debug)]
pub struct Journal<S> {
    store: S,
    open: BTreeMap<u64, Open>,
    next: u64,
    /// The journal ends in a torn line, whose write was cut short.
    has_torn_tail: bool,
    is_empty: bool,
}

impl<S: Store> Journal<S> {
    /// Reads the journal. A torn last line does not count: the write it announced was not made.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn read(mut store: S) -> Result<Self, JournalError> {
        let bytes = store.read().map_err(|error| JournalError::io("read", error))?;
        if bytes.len() > BYTES_MAX {
            let error = io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {BYTES_MAX} bytes"));
            return Err(JournalError::io("read", error));
        }
        // End of the last line that counts. A line that lacks only its line break counts.
        let mut whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
        let is_torn = whole < bytes.len();
        if serde_json::from_slice::<Line>(&bytes[whole..]).is_ok() {
            whole = bytes.len();
        }
        let mut journal = Self { store, open: BTreeMap::new(), next: 1, has_torn_tail: is_torn, is_empty: whole == 0 };
        for (index, line) in bytes[..whole].split(|&byte| byte == b'\n').enumerate() {
            // After a torn tail, a new line begins.
            if line.is_empty() {
                continue;
            }
            let damaged = |why: String| JournalError::Damaged { line: index + 1, why };
            match serde_json::from_slice::<Line>(line) {
                Ok(line) => journal.take(line).map_err(|flaw| match flaw {
                    Flaw::Version(version) => JournalError::Version(version),
                    Flaw::Words(why) => damaged(why),
                })?,
                // A torn line; the next one begins after it.
                Err(error) if error.is_eof() => {}
                Err(error) => return Err(damaged(error.to_string())),
            }
        }
        debug_assert!(journal.open.keys().all(|&number| number < journal.next), "a new change has a number of its own");
        Ok(journal)
    }

    fn take(&mut self, line: Line) -> Result<(), Flaw> {
        match line {
            Line::Journal { version: VERSION } => {}
            Line::Journal { version } => return Err(Flaw::Version(version)),
            Line::Set { number, boot, section, path, old, new } => {
                if number < self.next {
                    return Err(Flaw::Words(format!("change {number} comes after change {}", self.next - 1)));
                }
                let next =
                    number.checked_add(1).ok_or_else(|| Flaw::Words("it is the last number there is".to_owned()))?;
                self.next = next;
                self.open.insert(number, Open { number, boot, section, path, old, new, holds: None });
            }
            Line::Holds { number, value } => {
                if let Some(open) = self.open.get_mut(&number) {
                    open.holds = Some(value);
                }
            }
            // Written twice where the first write lost only its line break.
            Line::Closed { number, .. } => drop(self.open.remove(&number)),
        }
        Ok(())
    }

    /// Changes that are not undone, oldest first.
    pub fn open(&self) -> impl DoubleEndedIterator<Item = &Open> {
        self.open.values()
    }

    /// Whether a change is not undone.
    pub(super) fn is_open(&self, number: u64) -> bool {
        self.open.contains_key(&number)
    }

    /// Records a write before it is made, and returns its number.
    ///
    /// # Errors
    /// [`JournalError::Io`]: then the write must not be made.
    pub(super) fn will_set(
        &mut self,
        boot: &str,
        section: &str,
        path: &str,
        old: &str,
        new: &str,
    ) -> Result<u64, JournalError> {
        assert!(path.starts_with('/'), "a change names the knob that a restore writes: `{path}`");
        let number = self.next;
        let [boot, section, path, old, new] = [boot, section, path, old, new].map(str::to_owned);
        self.append(Line::Set { number, boot, section, path, old, new })?;
        assert!(self.is_open(number), "a change is open before its knob is written");
        assert!(number < self.next, "numbers of changes only grow");
        Ok(number)
    }

    pub(super) fn holds(&mut self, number: u64, value: &str) -> Result<(), JournalError> {
        assert!(self.is_open(number), "only an open change tells what its knob holds");
        self.append(Line::Holds { number, value: value.to_owned() })
    }

    pub(super) fn close(&mut self, number: u64, why: &str) -> Result<(), JournalError> {
        assert!(self.is_open(number), "only an open change is closed");
        self.append(Line::Closed { number, why: why.to_owned() })?;
        assert!(!self.is_open(number), "a closed change is not undone again");
        Ok(())
    }

    fn append(&mut self, line: Line) -> Result<(), JournalError> {
        let mut bytes = Vec::new();
        if self.has_torn_tail {
            bytes.push(b'\n');
        }
        let mut push = |line: &Line| {
            serde_json::to_writer(&mut bytes, line).map_err(io::Error::from)?;
            bytes.push(b'\n');
            Ok(())
        };
        let first = Line::Journal { version: VERSION };
        let pushed: io::Result<()> = if self.is_empty { push(&first).and_then(|()| push(&line)) } else { push(&line) };
        let appended = pushed.and_then(|()| self.store.append(&bytes));
        if let Err(error) = appended {
            // Some or all of the line may have been written, so its number is not used again.
            self.has_torn_tail = true;
            self.next = self.next.saturating_add(1);
            return Err(JournalError::io("written", error));
        }
        (self.has_torn_tail, self.is_empty) = (false, false);
        self.take(line).map_err(|flaw| match flaw {
            Flaw::Version(version) => JournalError::Version(version),
            Flaw::Words(why) => JournalError::Damaged { line: 0, why },
        })
    }
}

enum Flaw {
    Version(u32),
    Words(String),
}
