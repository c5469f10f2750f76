//! Reports: a line for each event, and the state as a whole.

use isotherm_core::compaction::Why;
use isotherm_units::{Bytes, Duration, Instant};
use serde::{Deserialize, Serialize};
use std::borrow::Cow;

/// Outcome of an action.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "effect", rename_all = "kebab-case")]
pub enum Effect {
    /// All of the request.
    Done,
    /// Part of the request; the rest is in use, locked, under writeback, or has nowhere to go.
    Partly,
    /// No action, because the section only observes.
    Would,
    /// Nothing was done, and why.
    Refused { why: String },
}

/// An action on one group.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Act {
    /// The action: `evict`.
    pub action: Cow<'static, str>,
    /// The group.
    pub target: String,
    pub node: u32,
    /// The write that carries it out, in the kernel's format.
    pub write: String,
    pub asked_bytes: u64,
    /// Bytes evicted, as read back afterwards: the kernel itself does not report them.
    pub verified_bytes: u64,
    #[serde(flatten)]
    pub effect: Effect,
}

/// A group, or `machine`, whose tasks wait for memory, so that sections do not act on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Stalled {
    pub target: String,
    /// The sections that it holds back: table and name.
    pub sections: Vec<String>,
    /// Share of the time in which all tasks waited, by the last reading, in millionths.
    pub share_ppm: u64,
}

/// A line of the audit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Line {
    /// The daemon has started, or has loaded a new configuration.
    Began { sections: usize, acting: usize },
    /// A section has started.
    Section { section: String, engine: Cow<'static, str>, enabled: bool, why: String },
    /// A group was added to a section.
    Came { section: String, target: String },
    /// A group no longer exists, or was removed from a section.
    Went { section: String, target: String },
    /// More groups were added and removed, by the same search.
    MoreMoved { section: String, came: u64, went: u64 },
    /// A configured group is left alone.
    LeftAlone { section: String, target: String, why: String },
    /// More groups are left alone, from the same search.
    MoreLeftAlone { section: String, groups: u64 },
    /// An action follows; this line is written before it.
    Asks { section: String, target: String, write: String },
    /// An action was carried out, or would have been.
    Acted { section: String, at_ns: u64, act: Act },
    /// A zone was compacted, or the attempt ended; with the state of the node afterwards, as read
    /// back.
    Compacted {
        section: String,
        at_ns: u64,
        node: u32,
        /// Number of the zone in the node, from the lowest addresses up.
        zone: u8,
        /// Order of `extfrag`.
        order: u32,
        why: Why,
        /// Free pages of the zone that lie in blocks smaller than the order, percent.
        extfrag_before: u32,
        extfrag_after: u32,
        /// The kernel's fragmentation score, and free huge pages.
        node_score_after: u32,
        huge_free_after: u64,
        /// Pages moved on the whole machine in the same time, by the kernel's count.
        pages_moved: u64,
        /// Increase of the zone's free huge pages.
        blocks_freed: u64,
        /// CPU time of the process that compacted.
        cpu_ns: u64,
    },
    /// What the writes of a section would do to the machine, as of now.
    Forecast { section: String, words: String },
    /// A knob is about to be written; the journal holds its current value.
    Writes { section: String, path: String, value: String },
    /// A knob would be written, if the section could act.
    WouldWrite { section: String, path: String, value: String },
    /// Work of the kernel for a section since the last such line, by the kernel's counters.
    Counted { section: String, asked_bytes: u64, verified_bytes: u64 },
    /// All knobs that a section wrote are restored.
    PutBack { section: String },
    /// No section acts from now on.
    Paused { why: String },
    /// Sections act again.
    Resumed,
    /// Sections do not act on a group, or on the machine, from now on.
    Stalled(Stalled),
    /// They do again, or it is gone.
    Calmed { target: String },
    /// A section runs `stretch` times less often than configured.
    Paced {
        // Early versions had one factor for all sections.
        #[serde(default)]
        section: Option<String>,
        stretch: u32,
    },
    /// A section cannot work for now.
    Trouble { section: String, why: String },
    /// A new configuration was refused; the old one stays.
    NotReloaded { why: String },
    /// The daemon ends; with its cost.
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

/// Visitor of the texts of a line, one method for each kind.
pub trait Texts {
    /// Table and name of a section. For the knobs of a group, the group follows after a space.
    fn section(&mut self, section: &mut String);
    /// A group, a process or a node.
    fn target(&mut self, target: &mut String);
    /// A file, and the value written into it.
    fn write(&mut self, path: &mut String, value: &mut String);
    /// Any other text, which may contain names.
    fn words(&mut self, words: &mut String);
}

/// Most lines of one search about groups that were added, and about groups that were removed. A user whose groups are targets could
/// push all other lines out of the audit otherwise.
const MOVES_MAX: usize = 32;

impl Line {
    /// What a search found to be new, and what it no longer found.
    pub(super) fn moves(
        section: &str,
        came: impl IntoIterator<Item = String>,
        went: impl IntoIterator<Item = String>,
    ) -> Vec<Self> {
        let section = || section.to_owned();
        let (mut came, mut went) = (came.into_iter(), went.into_iter());
        let first_came = came.by_ref().take(MOVES_MAX).map(|target| Self::Came { section: section(), target });
        let mut lines: Vec<Self> = first_came.collect();
        lines.extend(went.by_ref().take(MOVES_MAX).map(|target| Self::Went { section: section(), target }));
        let (came, went) = (came.count() as u64, went.count() as u64);
        lines.extend((came + went > 0).then(|| Self::MoreMoved { section: section(), came, went }));
        lines
    }

    /// Lets `texts` change every text of the line that comes from the configuration or the machine.
    pub fn each_text(&mut self, texts: &mut impl Texts) {
        // No `..` here, so each new field must be handled.
        match self {
            Self::Began { sections: _, acting: _ } | Self::Resumed => {}
            Self::Paced { section, stretch: _ } => section.iter_mut().for_each(|section| texts.section(section)),
            Self::MoreLeftAlone { section, groups: _ } | Self::MoreMoved { section, came: _, went: _ } => {
                texts.section(section);
            }
            Self::Section { section, engine: _, enabled: _, why }
            | Self::Trouble { section, why }
            | Self::Forecast { section, words: why } => {
                texts.section(section);
                texts.words(why);
            }
            Self::Stalled(Stalled { target, sections, share_ppm: _ }) => {
                sections.iter_mut().for_each(|section| texts.section(section));
                texts.target(target);
            }
            Self::Calmed { target } => texts.target(target),
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
    /// Number of runs.
    pub runs: u64,
    /// Factor by which its intervals are longer than configured, so that all sections stay within `max-cpu`.
    // Early versions had one factor for all sections.
    #[serde(default = "unstretched")]
    pub stretch: u32,
    pub asked_bytes: u64,
    pub verified_bytes: u64,
    /// Number of actions that were withheld or failed.
    pub refused: u64,
    /// Time since it last acted; `None` if it has not acted since it started. A section acted if an action was carried out, wholly or
    /// partly, if compaction moved pages, or if the kernel's counters show memory for which the kernel did its part. Actions that it only
    /// would have done, or that were refused, do not count. The kernel's counters are read once a minute, actions of our own engines are
    /// noted once a second.
    // Early versions wrote none.
    #[serde(default)]
    pub since_acted_ns: Option<u64>,
    /// Results of the section and its limitations; one text each.
    pub words: Vec<String>,
}

fn unstretched() -> u32 {
    1
}

/// The state of the daemon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Status {
    pub since_start_ns: u64,
    /// Why no section acts; `None` if they may.
    pub paused: Option<String>,
    /// What waits for memory, and the sections that do not act on it; up to 64.
    // Early versions wrote none.
    #[serde(default)]
    pub stalled: Vec<Stalled>,
    /// The largest factor of a section.
    pub stretch: u32,
    /// CPU time used, including kernel threads that it started.
    pub cpu_ns: u64,
    pub resident_bytes: Option<u64>,
    /// Longest time of one turn of the loop.
    pub longest_turn_ns: u64,
    pub sections: Vec<SectionStatus>,
}

impl Status {
    pub(super) fn at(now: Instant, cpu: Duration, resident: Option<Bytes>) -> Self {
        Self {
            since_start_ns: now.since(Instant::START).ns(),
            paused: None,
            stalled: Vec::new(),
            stretch: 1,
            cpu_ns: cpu.ns(),
            resident_bytes: resident.map(Bytes::get),
            longest_turn_ns: 0,
            sections: Vec::new(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_core::compaction::BudgetLimit;

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
        let sections = vec!["limits.size".to_owned()];
        let stalled = Line::Stalled(Stalled { target: "/a".to_owned(), sections, share_ppm: 485_000 });
        let acted =
            effects.map(|effect| Line::Acted { section: "generations.a".to_owned(), at_ns: 1, act: act(effect) });
        let ends = whys.into_iter().chain(limits.map(Why::Budget)).map(compacted);
        for line in acted.into_iter().chain(ends).chain([Line::Resumed, stalled]) {
            let text = serde_json::to_string(&line).unwrap();
            assert_eq!(serde_json::from_str::<Line>(&text).unwrap(), line, "{text}");
        }
    }

    #[test]
    fn a_thousand_groups_that_come_and_go_are_summed_up() {
        let names = |from: u32| (from..from + 1000).map(|number| format!("/user/{number}"));
        let lines = Line::moves("limits.a", names(0), names(1000));
        assert_eq!(lines.len(), 2 * MOVES_MAX + 1);
        assert_eq!(lines[0], Line::Came { section: "limits.a".to_owned(), target: "/user/0".to_owned() });
        assert_eq!(
            lines.last(),
            Some(&Line::MoreMoved { section: "limits.a".to_owned(), came: 1000 - 32, went: 1000 - 32 })
        );
        assert_eq!(Line::moves("limits.a", ["/a".to_owned()], []).len(), 1);
    }

    #[test]
    fn a_section_is_read_as_earlier_versions_wrote_it() {
        let text = "{\"section\":\"limits.a\",\"engine\":\"\",\"enabled\":true,\"state\":\"acting\",\"targets\":[],\"runs\":1,\
                    \"asked_bytes\":2,\"verified_bytes\":2,\"refused\":0,\"words\":[]}";
        let section: SectionStatus = serde_json::from_str(text).unwrap();
        assert_eq!((section.verified_bytes, section.since_acted_ns), (2, None));
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
