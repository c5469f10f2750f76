//! The journal: which knobs were changed, by lines that are only ever appended.

use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io;

/// Of the format of lines.
const VERSION: u32 = 1;
/// Bytes of a journal at most: hundreds of thousands of changes.
const BYTES_MAX: usize = 64 << 20;

/// Where the lines of a journal are kept.
pub trait Store {
    /// All bytes there are; none if there is no journal yet.
    ///
    /// # Errors
    /// What the file system says.
    fn read(&mut self) -> io::Result<Vec<u8>>;

    /// Appends bytes. When it returns, they outlive a power cut.
    ///
    /// # Errors
    /// What the file system says; some of the bytes may be there then.
    fn append(&mut self, bytes: &[u8]) -> io::Result<()>;
}

/// A line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
enum Line {
    /// The first.
    Journal { version: u32 },
    /// A knob is about to be written.
    Set { number: u64, boot: String, section: String, path: String, old: String, new: String },
    /// What was read after the write, where the kernel spells or rounds it another way.
    Holds { number: u64, value: String },
    /// It is as before, or is nobody's any more.
    Closed { number: u64, why: String },
}

/// A change that was not taken back.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Open {
    /// Changes are numbered as they come.
    pub number: u64,
    /// The boot in which it was made.
    pub boot: String,
    /// Who wanted it.
    pub section: String,
    /// The knob, from the root on.
    pub path: String,
    /// What it held before.
    pub old: String,
    /// What was written.
    pub new: String,
    /// What it held after the write, if that is known and another text.
    pub holds: Option<String>,
}

impl Open {
    /// Whether a knob that holds `value` holds what this change wrote. Where what came of the write was not noted, because the
    /// program ended between the two, the kernel may have spelled the number another way, or rounded it down to a page.
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

    /// Whether this change stands for a range of numbers, and this is one of them.
    pub fn covers(&self, value: u64) -> bool {
        let bounds = self.new.split_once("..").and_then(|(low, high)| Some((number(low)?, number(high)?)));
        bounds.is_some_and(|(low, high)| (low..=high).contains(&value))
    }
}

/// The largest page of any Linux.
const PAGE_MAX: u64 = 64 << 10;

/// A value as a number, if it is one; kernels print some in hexadecimal.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Whether two values are one, however they are spelled.
pub fn same_value(one: &str, other: &str) -> bool {
    one == other || number(one).is_some_and(|value| number(other) == Some(value))
}

/// Numbers that one line stands for: from half to twice this one. The kernel rounds down to a page.
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
#[derive(Debug, thiserror::Error)]
pub enum JournalError {
    /// Its file.
    #[error("the journal cannot be {what}: {error}")]
    Io {
        what: &'static str,
        #[source]
        error: io::Error,
    },
    /// A line in the middle is none of ours.
    #[error(
        "line {line} of the journal is damaged: {why}; look at it, put back by hand what it says, and move it away"
    )]
    Damaged { line: usize, why: String },
    /// Written by a later isotherm.
    #[error("the journal is of version {0}; allowed: {VERSION}. The isotherm that wrote it can restore from it")]
    Version(u32),
}

/// What is open, and where new lines go.
#[derive(Debug)]
pub struct Journal<S> {
    store: S,
    open: BTreeMap<u64, Open>,
    next: u64,
    /// Bytes behind the last whole line: the write of a line that was cut short.
    has_torn_tail: bool,
    is_empty: bool,
}

impl<S: Store> Journal<S> {
    /// Reads what is there. A line that was cut short at the end does not count: what it announced was not done.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn read(mut store: S) -> Result<Self, JournalError> {
        let bytes = store.read().map_err(|error| JournalError::Io { what: "read", error })?;
        if bytes.len() > BYTES_MAX {
            let error = io::Error::new(io::ErrorKind::FileTooLarge, format!("it has more than {BYTES_MAX} bytes"));
            return Err(JournalError::Io { what: "read", error });
        }
        // The end of the last line that counts. One whose line break alone was lost does.
        let mut whole = bytes.iter().rposition(|&byte| byte == b'\n').map_or(0, |last| last + 1);
        let is_torn = whole < bytes.len();
        if serde_json::from_slice::<Line>(&bytes[whole..]).is_ok() {
            whole = bytes.len();
        }
        let mut journal = Self { store, open: BTreeMap::new(), next: 1, has_torn_tail: is_torn, is_empty: whole == 0 };
        for (index, line) in bytes[..whole].split(|&byte| byte == b'\n').enumerate() {
            // Behind a tail that was cut short, a new line begins.
            if line.is_empty() {
                continue;
            }
            let damaged = |why: String| JournalError::Damaged { line: index + 1, why };
            match serde_json::from_slice::<Line>(line) {
                Ok(line) => journal.take(line).map_err(|flaw| match flaw {
                    Flaw::Version(version) => JournalError::Version(version),
                    Flaw::Words(why) => damaged(why),
                })?,
                // It was cut short, and the next one begins behind it.
                Err(error) if error.is_eof() => {}
                Err(error) => return Err(damaged(error.to_string())),
            }
        }
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
            // Told twice where the first time was cut short behind its last letter.
            Line::Closed { number, .. } => drop(self.open.remove(&number)),
        }
        Ok(())
    }

    /// What was not taken back, oldest first.
    pub fn open(&self) -> impl DoubleEndedIterator<Item = &Open> {
        self.open.values()
    }

    /// Notes a write that comes next, and returns its number.
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
        let number = self.next;
        let [boot, section, path, old, new] = [boot, section, path, old, new].map(str::to_owned);
        self.append(Line::Set { number, boot, section, path, old, new })?;
        Ok(number)
    }

    pub(super) fn holds(&mut self, number: u64, value: &str) -> Result<(), JournalError> {
        self.append(Line::Holds { number, value: value.to_owned() })
    }

    pub(super) fn close(&mut self, number: u64, why: &str) -> Result<(), JournalError> {
        self.append(Line::Closed { number, why: why.to_owned() })
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
            // Some of it may stand there, or all of it: its number is not given again.
            self.has_torn_tail = true;
            self.next = self.next.saturating_add(1);
            return Err(JournalError::Io { what: "written", error });
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
