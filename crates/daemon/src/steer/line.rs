//! What is told: a line for each thing that happened, and the state as a whole.

use isotherm_core::compaction::{BudgetLimit, Why};
use isotherm_units::{Bytes, Duration, Instant};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// What came of an action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "effect", rename_all = "kebab-case")]
pub enum Effect {
    /// All that was asked for.
    Done,
    /// Some of it; the rest is in use, locked, being written, or has no place to go.
    Partly,
    /// Nothing was done, because the section only observes.
    Would,
    /// Nothing was done, and why.
    Refused { why: String },
}

/// An action on one group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Act {
    /// What was done: `evict`.
    pub action: Cow<'static, str>,
    /// The group.
    pub target: String,
    pub node: u32,
    /// The write that carries it out, as the kernel reads it.
    pub write: String,
    pub asked_bytes: u64,
    /// Gone, as read back afterwards: the kernel itself does not say.
    pub verified_bytes: u64,
    #[serde(flatten)]
    pub effect: Effect,
}

/// A line of the audit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Line {
    /// The daemon has begun, or has taken a new configuration.
    Began { sections: usize, acting: usize },
    /// A section has begun.
    Section { section: String, engine: Cow<'static, str>, enabled: bool, why: String },
    /// A group belongs to a section from now on.
    Came { section: String, target: String },
    /// It is gone, or no longer belongs to it.
    Went { section: String, target: String },
    /// A group that the section was told to act on is left alone.
    LeftAlone { section: String, target: String, why: String },
    /// Something is about to be done: this line is there before it is.
    Asks { section: String, target: String, write: String },
    /// Something was done, or would have been.
    Acted { section: String, at_ns: u64, act: Act },
    /// A zone was compacted, or the attempt ended, and what the node is like afterwards, as read back.
    Compacted {
        section: String,
        at_ns: u64,
        node: u32,
        /// Its number in the node, from the lowest addresses up.
        zone: u8,
        /// Of `extfrag`.
        order: u32,
        #[serde(deserialize_with = "WhyNames::deserialize")]
        why: Why,
        /// Free pages of the zone that lie in blocks smaller than the order, percent.
        extfrag_before: u32,
        extfrag_after: u32,
        /// The kernel's score, and huge pages free.
        node_score_after: u32,
        huge_free_after: u64,
        /// As the kernel counts, on the whole machine meanwhile.
        pages_moved: u64,
        /// Huge pages of the zone by which its free ones have grown.
        blocks_freed: u64,
        /// CPU time of the process that compacted.
        cpu_ns: u64,
    },
    /// A knob is about to be written; the journal has what it holds now.
    Writes { section: String, path: String, value: String },
    /// It would be, if the section might act.
    WouldWrite { section: String, path: String, value: String },
    /// What the kernel itself did for a section since the last such line, as it counts.
    Counted { section: String, asked_bytes: u64, verified_bytes: u64 },
    /// What a section wrote holds again what it held before.
    PutBack { section: String },
    /// Nothing acts from now on.
    Paused { why: String },
    /// It does again.
    Resumed,
    /// Sections run so many times less often than they were asked to.
    Paced { stretch: u32 },
    /// A section cannot do its work for now.
    Trouble { section: String, why: String },
    /// A new configuration was refused; the old one goes on.
    NotReloaded { why: String },
    /// The daemon ends, and what it cost.
    Ended {
        why: String,
        // Early versions wrote no costs.
        #[serde(default)]
        since_start_ns: u64,
        #[serde(default)]
        cpu_ns: u64,
        resident_bytes: Option<u64>,
        #[serde(default)]
        longest_turn_ns: u64,
    },
}

/// Takes the texts of a line, each for what it is.
pub trait Texts {
    /// Table and name of a section; of the knobs of a group, with the group after a blank.
    fn section(&mut self, section: &mut String);
    /// A group, a process or a node.
    fn target(&mut self, target: &mut String);
    /// A file, and what is written into it.
    fn write(&mut self, path: &mut String, value: &mut String);
    /// Anything else, in which names may stand.
    fn words(&mut self, words: &mut String);
}

impl Line {
    /// Lets `texts` change every text of the line that the configuration or the machine named.
    pub fn each_text(&mut self, texts: &mut impl Texts) {
        // Without `..`: what becomes of a new field is decided here.
        match self {
            Self::Began { sections: _, acting: _ } | Self::Resumed | Self::Paced { stretch: _ } => {}
            Self::Section { section, engine: _, enabled: _, why } | Self::Trouble { section, why } => {
                texts.section(section);
                texts.words(why);
            }
            Self::Came { section, target } | Self::Went { section, target } => {
                texts.section(section);
                texts.target(target);
            }
            Self::LeftAlone { section, target, why: words } | Self::Asks { section, target, write: words } => {
                texts.section(section);
                texts.target(target);
                texts.words(words);
            }
            Self::Acted { section, at_ns: _, act } => {
                let Act { action: _, target, node: _, write, asked_bytes: _, verified_bytes: _, effect } = act;
                texts.section(section);
                texts.target(target);
                texts.words(write);
                match effect {
                    Effect::Done | Effect::Partly | Effect::Would => {}
                    Effect::Refused { why } => texts.words(why),
                }
            }
            Self::Compacted {
                section,
                at_ns: _,
                node: _,
                zone: _,
                order: _,
                why: _,
                extfrag_before: _,
                extfrag_after: _,
                node_score_after: _,
                huge_free_after: _,
                pages_moved: _,
                blocks_freed: _,
                cpu_ns: _,
            } => texts.section(section),
            Self::Counted { section, asked_bytes: _, verified_bytes: _ } | Self::PutBack { section } => {
                texts.section(section);
            }
            Self::Writes { section, path, value } | Self::WouldWrite { section, path, value } => {
                texts.section(section);
                texts.write(path, value);
            }
            Self::Paused { why }
            | Self::NotReloaded { why }
            | Self::Ended { why, since_start_ns: _, cpu_ns: _, resident_bytes: _, longest_turn_ns: _ } => {
                texts.words(why);
            }
        }
    }
}

/// The state of one section.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SectionStatus {
    /// Table and name: `generations.web`.
    pub section: String,
    pub engine: Cow<'static, str>,
    pub enabled: bool,
    /// `acting`, `observing`, or why not.
    pub state: String,
    pub targets: Vec<String>,
    /// Times that it has run.
    pub runs: u64,
    pub asked_bytes: u64,
    pub verified_bytes: u64,
    /// Acts that were withheld or failed.
    pub refused: u64,
    /// What it has done and what held it back, in words.
    pub words: Vec<String>,
}

/// The state of the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    pub since_start_ns: u64,
    /// Why nothing acts, if so.
    pub paused: Option<String>,
    pub stretch: u32,
    /// CPU time that it took, threads of the kernel that it started included.
    pub cpu_ns: u64,
    pub resident_bytes: Option<u64>,
    /// The longest time that one turn of the loop took.
    pub longest_turn_ns: u64,
    pub sections: Vec<SectionStatus>,
}

impl Status {
    pub(super) fn at(now: Instant, cpu: Duration, resident: Option<Bytes>) -> Self {
        Self {
            since_start_ns: now.since(Instant::START).ns(),
            paused: None,
            stretch: 1,
            cpu_ns: cpu.ns(),
            resident_bytes: resident.map(Bytes::get),
            longest_turn_ns: 0,
            sections: Vec::new(),
        }
    }
}

/// [`Why`] as it is read: `core` writes it alone.
#[derive(Deserialize)]
#[serde(remote = "Why", rename_all = "kebab-case")]
enum WhyNames {
    AlreadyBelowHigh,
    ReachedLow,
    ScannersMet,
    NoTargets,
    Budget(#[serde(with = "BudgetLimitNames")] BudgetLimit),
    NoProgress,
    ReclaimRunning,
    Cancelled,
    Contended,
    Deferred,
}

#[derive(Deserialize)]
#[serde(remote = "BudgetLimit", rename_all = "kebab-case")]
enum BudgetLimitNames {
    Pages,
    Cpu,
    Stall,
    Wall,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn compacted(why: Why) -> Line {
        Line::Compacted {
            section: "compaction.huge".to_owned(),
            at_ns: 1,
            node: 0,
            zone: 2,
            order: 9,
            why,
            extfrag_before: 80,
            extfrag_after: 20,
            node_score_after: 30,
            huge_free_after: 7,
            pages_moved: 5000,
            blocks_freed: 6,
            cpu_ns: u64::MAX,
        }
    }

    #[test]
    fn lines_are_read_as_they_were_written() {
        let act = |effect| Act {
            action: "evict".into(),
            target: "/a".to_owned(),
            node: 0,
            write: "-".to_owned(),
            asked_bytes: u64::MAX,
            verified_bytes: 0,
            effect,
        };
        let effects = [Effect::Done, Effect::Partly, Effect::Would, Effect::Refused { why: "busy".to_owned() }];
        let whys = [
            Why::AlreadyBelowHigh,
            Why::ReachedLow,
            Why::ScannersMet,
            Why::NoTargets,
            Why::NoProgress,
            Why::ReclaimRunning,
            Why::Cancelled,
            Why::Contended,
            Why::Deferred,
        ];
        let limits = [BudgetLimit::Pages, BudgetLimit::Cpu, BudgetLimit::Stall, BudgetLimit::Wall];
        let acted =
            effects.map(|effect| Line::Acted { section: "generations.a".to_owned(), at_ns: 1, act: act(effect) });
        let ends = whys.into_iter().chain(limits.map(Why::Budget)).map(compacted);
        for line in acted.into_iter().chain(ends).chain([Line::Resumed]) {
            let text = serde_json::to_string(&line).unwrap();
            assert_eq!(serde_json::from_str::<Line>(&text).unwrap(), line, "{text}");
        }
    }

    #[test]
    fn the_end_is_read_as_earlier_versions_wrote_it() {
        let Line::Ended { why, cpu_ns: 0, resident_bytes: None, .. } =
            serde_json::from_str("{\"event\":\"ended\",\"why\":\"the time is over\"}").unwrap()
        else {
            panic!("another line")
        };
        assert_eq!(why, "the time is over");
    }
}
