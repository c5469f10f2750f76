//! Why a section, or the loop, cannot work now. Audit lines and the status hold the words.

use super::kernel::EngineError;
use crate::changes::Refusal;
use isotherm_core::daemon::DaemonError;
use isotherm_core::host::HostError;
use isotherm_core::monitor::{MonitorError, RangesError};
use isotherm_core::presets::PresetError;
use isotherm_core::promotion::PromotionError;
use isotherm_units::{Duration, Ratio};
use serde::{Deserialize, Serialize};
use std::error::Error;
use std::sync::Arc;

macro_rules! answers {
    ($($(#[$doc:meta])* $name:ident;)*) => {$(
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
        #[error("{0}")]
        #[serde(transparent)]
        pub struct $name(String);

        impl $name {
            /// The cause.
            pub fn new(cause: impl std::fmt::Display) -> Self {
                Self(cause.to_string())
            }
        }

        impl From<String> for $name {
            fn from(words: String) -> Self {
                Self(words)
            }
        }
    )*};
}

answers! {
    /// The machine did not answer, or did not do as asked: its own words.
    SystemError;
    /// Why the audit cannot be written, as its owner says it.
    AuditError;
}

/// Why a section has no targets, or not all of them.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TargetError {
    #[error(transparent)]
    System(#[from] SystemError),
    /// `kind`: targets, groups or processes; `names` as configured.
    #[error("none of its {kind} is there now: {names}")]
    NoneThere { kind: &'static str, names: String },
    #[error("no process of its targets runs now: {0}")]
    NoneRuns(String),
    #[error("it has {nr} groups, each a filter on every page; allowed: up to {max}; name fewer")]
    TooManyGroups { nr: usize, max: usize },
    /// `left_out`: number of the others.
    #[error(
        "it watches the {watched} largest of its processes; {left_out} more are left out: name fewer groups, or one program of a user"
    )]
    Unwatched { watched: usize, left_out: usize },
    /// Two sections that clear accessed bits of the same process hide accesses from each other.
    #[error("process {process} is looked at by {section} already, and is left to it; give each its own targets")]
    Taken { process: u32, section: String },
    #[error("no generations of its groups can be read ({0}): the Multi-Gen LRU is off, or debugfs is not mounted")]
    NoGenerations(String),
}

impl TargetError {
    pub(super) fn none_there(kind: &'static str, names: &[impl AsRef<str>]) -> Self {
        Self::NoneThere { kind, names: joined(names) }
    }
}

/// Names as one text.
pub(super) fn joined(names: &[impl AsRef<str>]) -> String {
    names.iter().map(AsRef::as_ref).collect::<Vec<_>>().join(", ")
}

/// Why a section cannot work for now, or what limits it.
#[derive(Clone, Debug, thiserror::Error)]
pub(super) enum Trouble {
    #[error(transparent)]
    Audit(#[from] AuditError),
    #[error(transparent)]
    System(#[from] SystemError),
    #[error(transparent)]
    Target(#[from] TargetError),
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Knobs(#[from] Refusal),
    #[error(transparent)]
    Host(#[from] HostError),
    #[error(transparent)]
    Monitor(#[from] MonitorError),
    #[error(transparent)]
    Preset(#[from] PresetError),
    #[error(transparent)]
    Promotion(#[from] PromotionError),
    /// A daemon of `core` cannot do its work on this host.
    #[error("{0}")]
    Daemon(Arc<dyn Error + Send + Sync>),
    #[error("a sample was lost, `{call}`: {error}")]
    SampleLost { call: &'static str, error: HostError },
    #[error("nothing to watch yet: {0}")]
    NoLayout(RangesError),
    #[error(
        "kernel.numa_balancing is on: the kernel moves pages between nodes too, and two would undo each other's work; switch it off, or \
         leave it to the kernel with policy = \"numa-mode-2\""
    )]
    Balancing,
    #[error("no swap is free: anonymous memory stays, only pages of files go; add swap, or {0}")]
    NoSwap(&'static str),
    #[error("this proactiveness never starts it: no score is above 100")]
    NeverStarts,
    #[error(
        "its thread took {share} of a processor, more than [daemon] max-cpu, {max}: it is off for {off}; longer intervals or fewer regions \
         take less"
    )]
    Overspent { share: Ratio, max: Ratio, off: Duration },
    #[error("somebody switched it off, or set it otherwise; it stays off until the configuration is read anew")]
    SwitchedOff,
    /// A write of several failed.
    #[error("{error}; what was written before it is put back{}", after(.left))]
    NotWritten { error: Refusal, left: Option<Box<Refusal>> },
    /// All was written, and the engine did not start.
    #[error("{error}; put back{}", after(.left))]
    NotBegun { error: EngineError, left: Option<Box<Refusal>> },
    /// The engine was switched off for a reason, and its knobs are not all restored.
    #[error("{error}; {left}")]
    NotPutBack { error: Box<Self>, left: Box<Refusal> },
}

fn after(left: &Option<Box<Refusal>>) -> String {
    left.as_ref().map_or_else(String::new, |left| format!("; {left}"))
}

impl Trouble {
    /// The same trouble, with the knobs that could not be restored because of it.
    pub(super) fn leaving(self, left: Option<Refusal>) -> Self {
        match left {
            Some(left) => Self::NotPutBack { error: Box::new(self), left: Box::new(left) },
            None => self,
        }
    }
}

/// Knobs are restored, and the journal could not note it, for this reason.
#[derive(Clone, Debug, thiserror::Error)]
#[error("all is put back, and stays open in the journal: {0}")]
pub(super) struct NotNoted(pub(super) String);

/// Two are equal if they read the same: errors from a tape are only words, and a replay must report as often as the run did.
impl PartialEq for Trouble {
    fn eq(&self, other: &Self) -> bool {
        self.to_string() == other.to_string()
    }
}

impl From<DaemonError> for Trouble {
    fn from(error: DaemonError) -> Self {
        match error {
            DaemonError::Refused(error) => Self::Host(error),
            DaemonError::Failed(error) => Self::Daemon(error.into()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::changes::KnobError;

    #[test]
    fn answers_are_their_words_on_a_tape() {
        let answer: Result<u8, SystemError> = Err(SystemError::new("EIO"));
        let text = serde_json::to_string(&answer).unwrap();
        assert_eq!(text, r#"{"Err":"EIO"}"#);
        assert_eq!(serde_json::from_str::<Result<u8, SystemError>>(&text).unwrap(), answer);
        assert_eq!(serde_json::to_string(&AuditError::new("it is full")).unwrap(), r#""it is full""#);
    }

    #[test]
    fn each_target_error_has_its_words() {
        for (error, words) in [
            (SystemError::new("EIO").into(), "EIO"),
            (TargetError::none_there("groups", &["/a", "/b"]), "none of its groups is there now: /a, /b"),
            (TargetError::NoneRuns("/a".to_owned()), "no process of its targets runs now: /a"),
            (
                TargetError::TooManyGroups { nr: 65, max: 64 },
                "it has 65 groups, each a filter on every page; allowed: up to 64; name fewer",
            ),
            (
                TargetError::Unwatched { watched: 256, left_out: 44 },
                "it watches the 256 largest of its processes; 44 more are left out: name fewer groups, or one program of a user",
            ),
            (
                TargetError::Taken { process: 7, section: "monitors.a".to_owned() },
                "process 7 is looked at by monitors.a already, and is left to it; give each its own targets",
            ),
            (
                TargetError::NoGenerations("/a".to_owned()),
                "no generations of its groups can be read (/a): the Multi-Gen LRU is off, or debugfs is not mounted",
            ),
        ] {
            assert_eq!(error.to_string(), words);
        }
    }

    #[test]
    fn each_trouble_has_its_words() {
        let refusal = || Refusal::Knob { path: "/a".to_owned(), why: KnobError::NoKnob };
        let percent = Ratio::from_percent;
        for (trouble, words) in [
            (AuditError::new("it is full").into(), "it is full"),
            (DaemonError::Refused(HostError::NotHere("swap")).into(), "not available here: swap"),
            (DaemonError::Failed("no tool".into()).into(), "no tool"),
            (
                Trouble::SampleLost { call: "clear", error: HostError::Failed("EIO".to_owned()) },
                "a sample was lost, `clear`: EIO",
            ),
            (
                Trouble::Balancing,
                "kernel.numa_balancing is on: the kernel moves pages between nodes too, and two would undo each other's work; switch it off, \
                 or leave it to the kernel with policy = \"numa-mode-2\"",
            ),
            (
                Trouble::NoSwap("say swappiness = 0"),
                "no swap is free: anonymous memory stays, only pages of files go; add swap, or say swappiness = 0",
            ),
            (Trouble::NeverStarts, "this proactiveness never starts it: no score is above 100"),
            (
                Trouble::Overspent { share: percent(20), max: percent(1), off: Duration::from_secs(600) },
                "its thread took 20% of a processor, more than [daemon] max-cpu, 1%: it is off for 10m; longer intervals or fewer regions \
                 take less",
            ),
            (
                Trouble::SwitchedOff.leaving(Some(refusal())),
                "somebody switched it off, or set it otherwise; it stays off until the configuration is read anew; /a: there is no such knob",
            ),
            (
                Trouble::NotWritten { error: refusal(), left: None },
                "/a: there is no such knob; what was written before it is put back",
            ),
            (
                Trouble::NotBegun { error: EngineError::KdamondOff, left: Some(Box::new(refusal())) },
                "the kdamond was switched on and does not run; put back; /a: there is no such knob",
            ),
        ] {
            assert_eq!(trouble.to_string(), words);
        }
        assert_eq!(Trouble::NeverStarts.leaving(None), Trouble::NeverStarts);
        let recorded = SystemError::new(&Trouble::NeverStarts);
        assert_eq!(Trouble::from(recorded), Trouble::NeverStarts, "a tape holds the words alone");
    }
}
