//! Why texts are refused.

use isotherm_units::free_blocks::BlocksError;

/// A text that no known kernel writes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{found}")]
pub struct Strange {
    /// The part that is not understood: its beginning in backquotes, or the word `nothing`.
    found: String,
}

impl Strange {
    /// This part is not understood.
    pub fn new(found: &str) -> Self {
        let found = match found.trim() {
            "" => "nothing".to_owned(),
            text => format!("`{}`", shortened(text)),
        };
        Self { found }
    }
}

/// Why a text about free memory is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TextError {
    /// The text has no zone.
    #[error(
        "no zones in it; /proc/buddyinfo and /proc/pagetypeinfo have at least one, /proc/pagetypeinfo only for root"
    )]
    Empty,
    /// The last line has no line end.
    #[error("line {line} is cut off: the text must end with a whole line")]
    CutOff {
        /// Number of the line, from 1.
        line: usize,
    },
    /// The text ends before it is complete.
    #[error("the text ends before {missing}")]
    Missing {
        /// The part that is missing.
        missing: String,
    },
    /// A line that should not be there.
    #[error("line {line}: expected {expected}, found {found}")]
    Unexpected {
        /// Number of the line, from 1.
        line: usize,
        /// The text that is expected in this line.
        expected: String,
        /// The text that was found, shortened and in quotes.
        found: String,
    },
    /// The counts of free blocks are impossible.
    #[error("line {line}: {source}")]
    Blocks {
        /// Number of the line, from 1.
        line: usize,
        /// Fault of the counts.
        source: BlocksError,
    },
    /// The same zone, or the same row of a zone, occurs twice.
    #[error("line {line}: {what} for the second time; give one reading, not several behind each other")]
    Twice {
        /// Number of the line, from 1.
        line: usize,
        /// The item that occurs for the second time.
        what: String,
    },
}

/// The beginning of a text, for messages.
pub fn shortened(text: &str) -> String {
    const SHOWN: usize = 60;
    match text.char_indices().nth(SHOWN) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_long_is_shortened() {
        assert_eq!(shortened(&"é".repeat(100)).chars().count(), 61);
        assert_eq!(Strange::new(" a b\n").to_string(), "`a b`");
        assert_eq!(Strange::new(" \n").to_string(), "nothing");
    }
}
