//! The tape: every answer of the machine to the loop, every time read from a clock, and every resulting line
//! (docs/spec/live.md#6-state-on-disk). It lets the same loop come to the same decisions without the machine.
//!
//! A tape consists of lines of JSON: the first is a [`Header`], each other line a call as `[name, question, answer]`.

mod compacting;
mod no_host;
mod probes;
mod taped;
#[cfg(test)]
mod tests;

pub use no_host::NoHost;
pub use taped::Taped;

use crate::config::Config;
use isotherm_units::{Bytes, Duration};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::io;
use std::rc::Rc;
use std::sync::Arc;

/// Version of the format. Others are refused.
pub const VERSION: u32 = 3;
/// Longest line, in bytes, that we record.
const LINE_MAX: usize = 64 << 20;

/// Description of the recording.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Header {
    /// [`VERSION`].
    pub isotherm_tape: u32,
    /// Program that recorded it.
    pub build: String,
    /// Configuration of the run.
    pub config: Config,
    /// Configured length of the run.
    pub length: Option<Duration>,
}

/// Output for the lines of a tape.
pub trait Sink {
    /// Adds a line, without its end.
    ///
    /// # Errors
    /// [`RecordError`]; the tape ends there, and the loop goes on.
    fn add(&mut self, line: &str) -> Result<(), RecordError>;
}

/// The first place at which a replay differs from the tape.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Difference {
    /// Line of the tape, from 1.
    pub line: usize,
    /// The recorded call.
    pub tape: String,
    /// The call of the replay.
    pub replay: String,
}

/// Why a tape cannot be replayed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TapeError {
    #[error("it is empty: a tape begins with a line that says what was recorded")]
    Empty,
    #[error("line {line} is no line of a tape: {why}")]
    Strange { line: usize, why: String },
    #[error("it is of version {0}, and this program reads version {VERSION}")]
    Version(u32),
}

/// Why a tape is not recorded any further.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RecordError {
    /// It has as many bytes as it may.
    #[error("it has {0} (--tape-max)")]
    Full(Bytes),
    #[error("{0}")]
    Io(Arc<io::Error>),
    /// A call has no JSON.
    #[error("{0}")]
    Line(Arc<serde_json::Error>),
}

impl From<io::Error> for RecordError {
    fn from(error: io::Error) -> Self {
        Self::Io(Arc::new(error))
    }
}

impl From<serde_json::Error> for RecordError {
    fn from(error: serde_json::Error) -> Self {
        Self::Line(Arc::new(error))
    }
}

/// Result of a replay.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Played {
    /// Calls answered from the tape, including lines.
    pub calls: usize,
    /// Audit lines that equal the recorded ones.
    pub lines: usize,
    pub difference: Option<Difference>,
    /// Recorded calls that were not made; 0 if the replay ends in the same way.
    pub left: usize,
}

enum Deck {
    Records { sink: Box<dyn Sink>, lost: Option<RecordError> },
    Plays { calls: Vec<(usize, Call)>, at: usize, lines: usize, difference: Option<Difference> },
}

/// Name, question and answer.
type Call = (String, Value, Value);

/// A tape that is recorded or replayed. Clones share it.
#[derive(Clone)]
pub struct Tape {
    deck: Rc<RefCell<Deck>>,
    /// Constant texts of hosts, read from a tape: few, each kept once for the life of the process.
    constants: Rc<RefCell<BTreeSet<&'static str>>>,
}

impl std::fmt::Debug for Tape {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Tape")
    }
}

impl Tape {
    fn of(deck: Deck) -> Self {
        Self { deck: Rc::new(RefCell::new(deck)), constants: Rc::default() }
    }

    /// Starts a recording.
    ///
    /// # Errors
    /// Error of the sink.
    pub fn record(header: &Header, mut sink: Box<dyn Sink>) -> Result<Self, RecordError> {
        sink.add(&serde_json::to_string(header)?)?;
        Ok(Self::of(Deck::Records { sink, lost: None }))
    }

    /// Reads a tape for a replay. The last line may be torn, if recording was interrupted.
    ///
    /// # Errors
    /// [`TapeError`].
    pub fn read(text: &str) -> Result<(Header, Self), TapeError> {
        let strange = |line: usize, why: String| TapeError::Strange { line, why };
        let mut lines = (1..).zip(text.split_inclusive('\n')).filter(|(_, line)| !line.trim().is_empty());
        let (number, first) = lines.next().ok_or(TapeError::Empty)?;
        let value: Value = serde_json::from_str(first).map_err(|error| strange(number, error.to_string()))?;
        match value.get("isotherm-tape").and_then(Value::as_u64) {
            Some(version) if version == u64::from(VERSION) => {}
            Some(version) => return Err(TapeError::Version(u32::try_from(version).unwrap_or(u32::MAX))),
            None => return Err(strange(number, "it does not say `isotherm-tape`".to_owned())),
        }
        let header: Header = serde_json::from_value(value).map_err(|error| strange(number, error.to_string()))?;
        let mut calls = Vec::new();
        for (number, line) in lines {
            if line.len() > LINE_MAX {
                return Err(strange(number, format!("it is longer than {} MiB", LINE_MAX >> 20)));
            }
            match serde_json::from_str(line) {
                Ok(call) => calls.push((number, call)),
                Err(_) if !line.ends_with('\n') => break,
                Err(error) => return Err(strange(number, error.to_string())),
            }
        }
        Ok((header, Self::of(Deck::Plays { calls, at: 0, lines: 0, difference: None })))
    }

    /// Why recording stopped; `None` if it did not.
    pub fn lost(&self) -> Option<RecordError> {
        match &*self.deck.borrow() {
            Deck::Records { lost, .. } => lost.clone(),
            Deck::Plays { .. } => None,
        }
    }

    /// Result of a replay so far.
    pub fn played(&self) -> Played {
        match &*self.deck.borrow() {
            Deck::Records { .. } => Played::default(),
            Deck::Plays { calls, at, lines, difference } => {
                Played { calls: *at, lines: *lines, difference: difference.clone(), left: calls.len() - at }
            }
        }
    }

    /// Whether a replay has ended: the tape is over, or the replay differs from it.
    fn is_over(&self) -> bool {
        match &*self.deck.borrow() {
            Deck::Records { .. } => false,
            Deck::Plays { calls, at, difference, .. } => difference.is_some() || *at >= calls.len(),
        }
    }

    /// A call: made and recorded, or answered from the tape. `otherwise` is the answer of a replay that is over.
    fn call<Q: Serialize, A: Serialize + DeserializeOwned>(
        &self,
        name: &'static str,
        asked: Q,
        make: impl FnOnce() -> A,
        otherwise: impl FnOnce() -> A,
    ) -> A {
        let is_recorded = matches!(&*self.deck.borrow(), Deck::Records { .. });
        let asked = serde_json::to_value(asked).unwrap_or(Value::Null);
        if !is_recorded {
            return self.play(name, &asked).unwrap_or_else(otherwise);
        }
        let answer = make();
        if let Deck::Records { sink, lost } = &mut *self.deck.borrow_mut()
            && lost.is_none()
        {
            let line = serde_json::to_string(&(name, &asked, &answer)).map_err(RecordError::from);
            *lost = line.and_then(|line| sink.add(&line)).err();
        }
        answer
    }

    /// The answer to the next call on the tape, if the call is this one.
    fn play<A: DeserializeOwned>(&self, name: &str, asked: &Value) -> Option<A> {
        let Deck::Plays { calls, at, lines, difference } = &mut *self.deck.borrow_mut() else { return None };
        if difference.is_some() {
            return None;
        }
        let words =
            |name: &str, asked: &Value| if asked.is_null() { name.to_owned() } else { format!("{name} {asked}") };
        let (line, (known, was_asked, answer)) = calls.get(*at)?;
        let differs = |replay: String| Difference { line: *line, tape: words(known, was_asked), replay };
        if known != name || was_asked != asked {
            *difference = Some(differs(words(name, asked)));
            return None;
        }
        match A::deserialize(answer) {
            Ok(answer) => {
                *at += 1;
                *lines += usize::from(name == "line");
                Some(answer)
            }
            Err(error) => {
                *difference = Some(differs(format!("an answer that this call cannot have: {error}")));
                None
            }
        }
    }

    /// The text as a constant.
    fn constant(&self, words: String) -> &'static str {
        let mut constants = self.constants.borrow_mut();
        match constants.get(words.as_str()) {
            Some(known) => known,
            None => {
                let constant: &'static str = Box::leak(words.into_boxed_str());
                constants.insert(constant);
                constant
            }
        }
    }
}
