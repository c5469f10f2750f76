//! Lines of the journal, and the open changes that they make.

use super::unit::UnitKnob;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::io::{self, BufRead, Read as _};

/// Version of the line format. Versions from 1 on are read.
pub(super) const VERSION: u32 = 2;
/// Longest line that is read, in bytes.
const LINE_MAX: u64 = 1 << 20;

/// A line.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case", deny_unknown_fields)]
pub(super) enum Line {
    /// The lines that follow are of this version.
    Journal { version: u32 },
    /// A knob is about to be written. `group`: inode of the knob's group, which a new group of the same name does not have.
    Set {
        number: u64,
        boot: String,
        section: String,
        path: String,
        old: String,
        new: String,
        #[serde(default, skip_serializing_if = "Option::is_none")]
        group: Option<u64>,
    },
    /// The knob of an open change is about to be written again.
    Next { number: u64, value: String },
    /// Value read after the write.
    Holds { number: u64, value: String },
    /// The change was undone, or no section owns it any more.
    Closed { number: u64, why: String },
}

/// Text of lines, each with its line break.
pub(super) fn text<'a>(lines: impl IntoIterator<Item = &'a Line>) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    for line in lines {
        serde_json::to_writer(&mut text, line)?;
        text.push(b'\n');
    }
    Ok(text)
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
    /// Value before the change.
    pub old: String,
    /// Value written last.
    pub new: String,
    /// Value after the last write, if it is known.
    pub holds: Option<String>,
    /// Value before the last write, of ours too: the knob still holds it if that write was not made.
    pub before: Option<String>,
    /// Inode of the group that the knob belongs to, if it belongs to one.
    pub group: Option<u64>,
}

impl Open {
    /// Whether a knob that holds `value` holds the value of this change. If the program ended before it noted the result, the kernel may
    /// have formatted the number differently, or rounded it down to a page.
    pub fn wrote(&self, value: &str) -> bool {
        if let Some(unit) = UnitKnob::of(&self.path) {
            return unit.is_of(self, value);
        }
        match &self.holds {
            Some(holds) => value == holds,
            None => is_rounded(&self.new, value) || self.before.as_deref() == Some(value),
        }
    }

    /// Whether a section of the daemon made it. Changes of other verbs are meant to stay (`apply`), or belong to a running program.
    pub fn is_of_daemon(&self) -> bool {
        self.section.contains('.')
    }

    /// The lines that make it.
    pub(super) fn lines(&self) -> impl Iterator<Item = Line> + use<> {
        let Self { number, boot, section, path, old, new, holds, before, group } = self.clone();
        let (new, next) = match before {
            Some(before) => (before, Some(Line::Next { number, value: new })),
            None => (new, None),
        };
        let holds = holds.map(|value| Line::Holds { number, value });
        [Some(Line::Set { number, boot, section, path, old, new, group }), next, holds].into_iter().flatten()
    }
}

/// Base pages of Linux's architectures, in bytes: a memory limit is rounded down to a multiple of them.
const PAGES: [u64; 3] = [4 << 10, 16 << 10, 64 << 10];

/// A value as a number, if it is one; kernels print some in hexadecimal.
fn number(text: &str) -> Option<u64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok(),
        None => text.parse().ok(),
    }
}

/// Whether two values are equal, in any format.
pub fn same_value(one: &str, other: &str) -> bool {
    one == other || number(one).is_some_and(|value| number(other) == Some(value))
}

/// Whether a knob that holds `held` holds the written value, in any format, or rounded down to a page as a kernel does it.
pub fn is_rounded(written: &str, held: &str) -> bool {
    let is_whole_pages = |(written, held)| held > 0 && PAGES.iter().any(|page| held == written / page * page);
    same_value(written, held) || number(written).zip(number(held)).is_some_and(is_whole_pages)
}

/// Fault of a line.
pub(super) enum Flaw {
    Version(u32),
    Words(String),
    Io(io::Error),
}

/// The part of a journal that counts.
pub(super) struct Extent {
    /// Bytes that count.
    pub(super) bytes: u64,
    /// The last line that counts has no line break.
    pub(super) lacks_break: bool,
    /// Other bytes follow: a line that was cut short, or zeros after a power cut.
    pub(super) has_junk: bool,
}

/// The open changes.
#[derive(Debug)]
pub(super) struct Changes {
    open: BTreeMap<u64, Open>,
    /// Numbers of the open changes of each knob.
    of_path: BTreeMap<String, BTreeSet<u64>>,
    next: u64,
    /// Version of the last line that says one; 0: of none.
    version: u32,
}

impl Changes {
    pub(super) fn new() -> Self {
        Self { open: BTreeMap::new(), of_path: BTreeMap::new(), next: 1, version: 0 }
    }

    /// Takes all lines of a journal.
    ///
    /// # Errors
    /// The fault, and its line, from 1 on.
    pub(super) fn read(&mut self, mut reader: impl BufRead) -> Result<Extent, (usize, Flaw)> {
        let mut extent = Extent { bytes: 0, lacks_break: false, has_junk: false };
        let (mut bytes, mut line) = (0_u64, Vec::new());
        for index in 1.. {
            line.clear();
            let io = |error| (index, Flaw::Io(error));
            let read = reader.by_ref().take(LINE_MAX).read_until(b'\n', &mut line).map_err(io)?;
            if read == 0 {
                break;
            }
            let is_whole = line.last() == Some(&b'\n');
            let start = bytes;
            bytes += read as u64;
            // A power cut can leave zeros in place of bytes that were not written yet; earlier versions appended behind them.
            let zeros = line.iter().take_while(|&&byte| byte == 0).count();
            let end = line.iter().rposition(|&byte| byte != 0 && byte != b'\n').map_or(zeros, |last| last + 1);
            let json = &line[zeros..end];
            match serde_json::from_slice::<Line>(json) {
                Ok(line) if is_whole || zeros == 0 => {
                    self.take(line).map_err(|flaw| (index, flaw))?;
                    extent.bytes = if is_whole { bytes } else { start + end as u64 };
                    (extent.lacks_break, extent.has_junk) = (!is_whole, !is_whole && (end as u64) < read as u64);
                }
                // A line that was cut short; the next one begins behind it.
                Err(error) if is_whole && (json.is_empty() || error.is_eof()) => {
                    (extent.bytes, extent.lacks_break, extent.has_junk) = (bytes, false, false);
                }
                Err(error) if is_whole => return Err((index, Flaw::Words(error.to_string()))),
                _ if json.len() as u64 == LINE_MAX => {
                    return Err((index, Flaw::Words(format!("it is longer than {LINE_MAX} bytes"))));
                }
                _ => extent.has_junk = true,
            }
        }
        debug_assert!(self.open.keys().all(|&number| number < self.next), "a new change has a number of its own");
        Ok(extent)
    }

    pub(super) fn take(&mut self, line: Line) -> Result<(), Flaw> {
        match line {
            Line::Journal { version } if (1..=VERSION).contains(&version) => self.version = version,
            Line::Journal { version } => return Err(Flaw::Version(version)),
            Line::Set { number, boot, section, path, old, new, group } => {
                if number < self.next {
                    return Err(Flaw::Words(format!("change {number} comes after change {}", self.next - 1)));
                }
                let next =
                    number.checked_add(1).ok_or_else(|| Flaw::Words("it is the last number there is".to_owned()))?;
                self.next = next;
                self.of_path.entry(path.clone()).or_default().insert(number);
                let (holds, before) = (None, None);
                self.open.insert(number, Open { number, boot, section, path, old, new, holds, before, group });
            }
            Line::Next { number, value } => {
                if let Some(open) = self.open.get_mut(&number) {
                    let new = std::mem::replace(&mut open.new, value);
                    open.before = Some(open.holds.take().unwrap_or(new));
                }
            }
            Line::Holds { number, value } => {
                if let Some(open) = self.open.get_mut(&number) {
                    (open.holds, open.before) = (Some(value), None);
                }
            }
            // Written twice where the first write lost only its line break.
            Line::Closed { number, .. } => {
                if let Some(open) = self.open.remove(&number)
                    && let Some(numbers) = self.of_path.get_mut(&open.path)
                {
                    numbers.remove(&number);
                    if numbers.is_empty() {
                        self.of_path.remove(&open.path);
                    }
                }
            }
        }
        Ok(())
    }

    /// Oldest first.
    pub(super) fn open(&self) -> impl DoubleEndedIterator<Item = &Open> {
        self.open.values()
    }

    pub(super) fn is_open(&self, number: u64) -> bool {
        self.open.contains_key(&number)
    }

    /// Changes of one knob, oldest first.
    pub(super) fn of<'a>(&'a self, path: &str) -> impl DoubleEndedIterator<Item = &'a Open> {
        self.of_path.get(path).into_iter().flatten().map(|number| &self.open[number])
    }

    /// Number of the next change.
    pub(super) fn next(&self) -> u64 {
        self.next
    }

    /// A number that a failed write may have left in the journal is not used again.
    pub(super) fn skip_number(&mut self) {
        self.next = self.next.saturating_add(1);
    }

    /// Whether new lines need another line with their version first.
    pub(super) fn is_of_earlier_version(&self) -> bool {
        self.version < VERSION
    }

    /// A journal that holds the open changes only.
    pub(super) fn text(&self) -> io::Result<Vec<u8>> {
        let lines = self.open().flat_map(Open::lines);
        text(&std::iter::once(Line::Journal { version: VERSION }).chain(lines).collect::<Vec<_>>())
    }
}
