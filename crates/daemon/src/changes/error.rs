//! Why a knob is not read, written or restored.

use super::{JournalError, shown};
use serde::{Deserialize, Serialize, Serializer};

/// Why a knob could not be read or written.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KnobError {
    /// The machine's answer, as text.
    #[error("{0}")]
    Machine(String),
    #[error("there is no such knob")]
    NoKnob,
    /// The text names the allowed values.
    #[error("{0}")]
    NotOurs(String),
    /// Error of a file that exists only because of a knob.
    #[error("there is no such file")]
    NoFile,
    /// The kernel made another value of the written one.
    #[error("`{written}` was written, and it holds `{held}`")]
    Holds { written: String, held: String },
    /// A write was undone at once.
    #[error("{0}; the old value stands there again")]
    Undone(Box<Self>),
    /// A write could not be undone at once, and stays in the journal.
    #[error("{error}, and cannot be put back: {worse}")]
    Stuck { error: Box<Self>, worse: Box<Self> },
    /// The same error, of a knob that we wrote before.
    #[error("{error}; it cannot be put back: {worse}")]
    StuckAgain { error: Box<Self>, worse: Box<Self> },
    #[error("a later change of it was not taken back")]
    LaterChange,
    /// The write may still take effect.
    #[error("an earlier write of it has not come back from the kernel")]
    Pending,
}

impl KnobError {
    /// The machine's answer.
    pub fn machine(answer: impl std::fmt::Display) -> Self {
        Self::Machine(answer.to_string())
    }

    pub(super) fn holds(written: &str, held: String) -> Self {
        Self::Holds { written: shown(written).to_owned(), held: shown(&held).to_owned() }
    }
}

/// A change that a restore left as it is.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotRestored {
    /// It stays in the journal.
    #[error("{path} could not be put back: {why}")]
    Failed { path: String, why: KnobError },
    /// Another program wrote the knob since.
    #[error("{path} holds {now}, which is somebody else's: left alone")]
    Foreign { path: String, now: String },
}

/// Why knobs were not written or restored. A knob that was to be written keeps its old value, unless the text reports otherwise.
///
/// A tape holds only the words.
#[derive(Clone, Debug, thiserror::Error, Deserialize)]
#[serde(from = "String")]
pub enum Refusal {
    /// The journal could not record the old value, so nothing was written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The knob itself.
    #[error("{path}: {why}")]
    Knob { path: String, why: KnobError },
    /// Some of the section's changes are not restored; not empty.
    #[error("{}", all_of(.0))]
    Left(Vec<NotRestored>),
    #[error("{0} is not written in a dry run")]
    DryRun(String),
    /// The error as a tape holds it.
    #[error("{0}")]
    Recorded(String),
}

fn all_of(left: &[NotRestored]) -> String {
    left.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

impl From<String> for Refusal {
    fn from(words: String) -> Self {
        Self::Recorded(words)
    }
}

impl Serialize for Refusal {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_error_has_its_words() {
        let holds = || KnobError::holds("2", "1".to_owned());
        let eio = || Box::new(KnobError::machine("EIO"));
        for (error, words) in [
            (*eio(), "EIO"),
            (KnobError::NoKnob, "there is no such knob"),
            (KnobError::NoFile, "there is no such file"),
            (holds(), "`2` was written, and it holds `1`"),
            (
                KnobError::Undone(Box::new(holds())),
                "`2` was written, and it holds `1`; the old value stands there again",
            ),
            (
                KnobError::Stuck { error: Box::new(holds()), worse: eio() },
                "`2` was written, and it holds `1`, and cannot be put back: EIO",
            ),
            (
                KnobError::StuckAgain { error: Box::new(holds()), worse: eio() },
                "`2` was written, and it holds `1`; it cannot be put back: EIO",
            ),
            (KnobError::LaterChange, "a later change of it was not taken back"),
            (KnobError::Pending, "an earlier write of it has not come back from the kernel"),
        ] {
            assert_eq!(error.to_string(), words);
        }
    }

    #[test]
    fn a_tape_holds_the_words_of_a_refusal() {
        let (a, b) = ("/a".to_owned(), "/b".to_owned());
        let left = vec![
            NotRestored::Failed { path: a.clone(), why: KnobError::machine("EIO") },
            NotRestored::Foreign { path: b, now: "7".to_owned() },
        ];
        let full = || std::sync::Arc::new(std::io::Error::other("it is full"));
        for (refusal, words) in [
            (
                Refusal::Journal(JournalError::Io { what: "written", error: full() }),
                "the journal cannot be written: it is full",
            ),
            (Refusal::Knob { path: a.clone(), why: KnobError::NoKnob }, "/a: there is no such knob"),
            (Refusal::Left(left), "/a could not be put back: EIO; /b holds 7, which is somebody else's: left alone"),
            (Refusal::DryRun(a), "/a is not written in a dry run"),
        ] {
            assert_eq!(refusal.to_string(), words);
            let answer: Result<(), Refusal> = Err(refusal);
            let text = serde_json::to_string(&answer).unwrap();
            assert_eq!(text, format!("{{\"Err\":\"{words}\"}}"));
            let read: Result<(), Refusal> = serde_json::from_str(&text).unwrap();
            assert_eq!(read.unwrap_err().to_string(), words);
        }
    }
}
