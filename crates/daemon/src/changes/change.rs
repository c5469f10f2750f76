//! Writes knobs, and restores their old values.

use super::error::{KnobError, Refusal};
use super::journal::{Journal, JournalError, Store};
use super::knob_table;
use super::line::{Open, is_rounded};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// The knobs of a machine: small files that hold a value, and properties of units ([`UnitKnob`](super::UnitKnob)).
pub trait KnobStore {
    /// The value that a knob holds, without surrounding white space; for a choice, the chosen word. `None` if there is no such knob.
    ///
    /// # Errors
    /// [`KnobError`].
    fn value(&mut self, path: &str) -> Result<Option<String>, KnobError>;

    /// Writes a value.
    ///
    /// # Errors
    /// [`KnobError`].
    fn write(&mut self, path: &str, value: &str) -> Result<(), KnobError>;

    /// Inode of the group that a knob belongs to, or number of the kernel thread; `None` if it belongs to none, or to one that no longer
    /// exists.
    fn group(&mut self, path: &str) -> Option<u64>;

    /// Whether a write that timed out is still under way, and so may still take effect.
    fn is_being_written(&mut self, path: &str) -> bool;
}

/// A completed write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    pub path: String,
    pub old: String,
    /// Value after the write, read back.
    pub now: String,
    /// Nothing was written, because the knob already held this value.
    pub was_so: bool,
}

/// Outcome of a change in a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Returned {
    /// It holds the old value again.
    Back,
    /// It held the old value already: the write was never made, or another program undid it.
    WasSo,
    /// The machine was rebooted since, which reset the value.
    OtherBoot,
    /// The knob no longer exists: its group was removed, or its module unloaded. The value vanished with its owner. A group that was made
    /// again under the same name is another one.
    Gone,
    /// The knob holds a value that another program wrote, and is left alone.
    Foreign(String),
    /// It could not be read or written; the change stays open.
    Failed(KnobError),
}

impl Returned {
    /// Words with which the journal closes the change; `None` if it stays open.
    fn closes(&self) -> Option<&'static str> {
        match self {
            Self::Back => Some("back"),
            Self::WasSo => Some("it was so"),
            Self::OtherBoot => Some("of another boot"),
            Self::Gone => Some("the knob is gone"),
            Self::Foreign(_) => Some("somebody else wrote it since"),
            Self::Failed(_) => None,
        }
    }
}

/// Results of a restore.
#[derive(Debug)]
pub struct Restored {
    /// The changes, newest first, with the result of each.
    pub changes: Vec<(Open, Returned)>,
    /// Error that kept the journal from closing the changes; it still calls all of them open. Another restore finds that they are undone.
    pub not_noted: Option<JournalError>,
}

/// Writes knobs, each only after a line in the journal.
#[derive(Debug)]
pub struct JournaledKnobs<S, M> {
    journal: Journal<S>,
    machine: M,
    boot: String,
}

impl<S: Store, M: KnobStore> JournaledKnobs<S, M> {
    /// `boot` identifies this boot of the machine: `/proc/sys/kernel/random/boot_id`.
    pub fn new(journal: Journal<S>, machine: M, boot: impl Into<String>) -> Self {
        Self { journal, machine, boot: boot.into() }
    }

    /// The journal.
    pub fn journal(&self) -> &Journal<S> {
        &self.journal
    }

    /// The machine.
    pub fn machine(&mut self) -> &mut M {
        &mut self.machine
    }

    /// Writes the journal, then the knob, then reads the knob back. `accepts` returns whether the value read is the requested one; if not,
    /// the old value is restored.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn set(
        &mut self,
        section: &str,
        path: &str,
        value: &str,
        accepts: impl Fn(&str) -> bool,
    ) -> Result<Changed, Refusal> {
        let refused = |why: KnobError| Refusal::Knob { path: path.to_owned(), why };
        let old = self.held(path).map_err(refused)?;
        if accepts(&old) {
            return Ok(Changed { path: path.to_owned(), now: old.clone(), old, was_so: true });
        }
        let number = self.will_set(section, path, &old, value)?;
        let written = self.write(path, value).and_then(|()| self.held(path));
        match written {
            Ok(now) if accepts(&now) => {
                self.journal.holds(number, &now)?;
                Ok(Changed { path: path.to_owned(), old, now, was_so: false })
            }
            Ok(now) => {
                let back = self.put_back(path, &old);
                let error = Box::new(KnobError::holds(value, now));
                match back {
                    Ok(()) => {
                        self.journal.close(number, "another value came of it")?;
                        Err(refused(KnobError::Undone(error)))
                    }
                    Err(worse) => Err(refused(KnobError::Stuck { error, worse: Box::new(worse) })),
                }
            }
            Err(why) => {
                // The write failed, or its outcome is unknown: the current value decides.
                match self.held(path) {
                    // The write may still take effect, so the journal must keep it.
                    _ if self.machine.is_being_written(path) => {}
                    Ok(now) if now == old => self.journal.close(number, "the write failed")?,
                    Ok(now) => self.journal.holds(number, &now)?,
                    Err(_) => {}
                }
                Err(refused(why))
            }
        }
    }

    /// Writes a number into a knob that is written often: the journal holds a single change of it, with the last value.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn set_often(&mut self, section: &str, path: &str, value: u64) -> Result<(), Refusal> {
        let refused = |why: KnobError| Refusal::Knob { path: path.to_owned(), why };
        let old = self.held(path).map_err(refused)?;
        let group = self.machine.group(path);
        let text = value.to_string();
        let is_ours = |open: &&Open| open.section == section && open.boot == self.boot && open.group == group;
        // Only the newest change of the knob says what it holds.
        let number = self.journal.open_of(path).next_back().filter(is_ours).map(|open| open.number);
        match number {
            Some(number) => self.journal.will_set_again(number, &text)?,
            None => drop(self.will_set(section, path, &old, &text)?),
        }
        self.write(path, &text).map_err(refused)?;
        let now = self.held(path).map_err(refused)?;
        if is_rounded(&text, &now) {
            return Ok(());
        }
        let error = Box::new(KnobError::holds(&text, now));
        Err(refused(match self.put_back(path, &old) {
            Ok(()) => KnobError::Undone(error),
            Err(worse) => KnobError::StuckAgain { error, worse: Box::new(worse) },
        }))
    }

    /// Records a write that is made elsewhere, of a knob that holds `old`, or will once it exists.
    ///
    /// # Errors
    /// [`Refusal`]: then the write must not be made.
    pub fn note(&mut self, section: &str, path: &str, old: &str, new: &str) -> Result<(), Refusal> {
        self.will_set(section, path, old, new).map(drop)
    }

    /// Notes the changes of a section again, with the owner that their knobs have by now: a kernel thread that has begun.
    ///
    /// # Errors
    /// [`JournalError`].
    pub fn identify(&mut self, section: &str) -> Result<(), JournalError> {
        let open = self.journal.open().filter(|open| open.section == section && open.group.is_none());
        let paths: Vec<String> = open.map(|open| open.path.clone()).collect();
        let groups: BTreeMap<String, u64> =
            paths.into_iter().filter_map(|path| Some((path.clone(), self.machine.group(&path)?))).collect();
        self.journal.identify(|open| {
            let group = groups.get(&open.path).copied();
            group.filter(|_| open.section == section && open.group.is_none())
        })
    }

    fn will_set(&mut self, section: &str, path: &str, old: &str, new: &str) -> Result<u64, Refusal> {
        let refused = |words| Refusal::Knob { path: path.to_owned(), why: KnobError::NotOurs(words) };
        if let Some(words) = [old, new].iter().find_map(|value| knob_table::refusal(path, value)) {
            return Err(refused(words));
        }
        let group = self.machine.group(path);
        let [boot, section, path, old, new] = [&self.boot, section, path, old, new].map(str::to_owned);
        let open = Open { number: 0, boot, section, path, old, new, holds: None, before: None, group };
        Ok(self.journal.will_set(open)?)
    }

    /// Undoes all open changes, newest first, so a knob written twice ends at its first value.
    pub fn restore(&mut self) -> Restored {
        self.restore_where(|_| true)
    }

    /// Restores the knobs that these sections wrote in this boot, newest first. Writes of other sections stay.
    pub fn restore_sections(&mut self, sections: &[String]) -> Restored {
        let sections: BTreeSet<&str> = sections.iter().map(String::as_str).collect();
        let boot = self.boot.clone();
        self.restore_where(|open| sections.contains(open.section.as_str()) && open.boot == boot)
    }

    /// Undoes the open changes that `is_asked` selects, newest first. The journal is written afterwards: knobs are restored even if the
    /// disk is full or read-only.
    pub fn restore_where(&mut self, is_asked: impl Fn(&Open) -> bool) -> Restored {
        let changes = self.undo_where(is_asked, true);
        let closed: Vec<(u64, &str)> =
            changes.iter().filter_map(|(open, what)| Some((open.number, what.closes()?))).collect();
        let not_noted = self.journal.close_all(&closed).err();
        let is_told = |(open, what): &(Open, Returned)| what.closes().is_none() == self.journal.is_open(open.number);
        assert!(
            not_noted.is_some() || changes.iter().all(is_told),
            "what stays open after a restore is told, and nothing else is"
        );
        Restored { changes, not_noted }
    }

    /// The results that a restore would have, newest first, without writing anything.
    pub fn would_restore(&mut self, is_asked: impl Fn(&Open) -> bool) -> Vec<(Open, Returned)> {
        self.undo_where(is_asked, false)
    }

    fn undo_where(&mut self, is_asked: impl Fn(&Open) -> bool, writes: bool) -> Vec<(Open, Returned)> {
        let mut paths = BTreeSet::new();
        let newest_first = self.journal.open().rev().filter(|open| is_asked(open));
        let order: Vec<String> =
            newest_first.filter(|open| paths.insert(&open.path)).map(|open| open.path.clone()).collect();
        let mut changes = Vec::new();
        for path in order {
            let asked = self.journal.open_of(&path).rev().filter(|open| is_asked(open));
            let chain: Vec<Open> = asked.cloned().collect();
            changes.append(&mut self.undo(&path, chain, writes));
        }
        changes.sort_by_key(|(open, _)| Reverse(open.number));
        changes
    }

    /// Undoes the changes of one knob, newest first. The knob is written once, with the value of the oldest change: a value in between
    /// could do harm.
    fn undo(&mut self, path: &str, chain: Vec<Open>, writes: bool) -> Vec<(Open, Returned)> {
        let is_of_now = chain.iter().any(|open| self.is_current(open));
        let is_knob = knob_table::is_knob(path);
        let held = match is_of_now && is_knob {
            true if self.machine.is_being_written(path) => Err(KnobError::Pending),
            true => self.machine.value(path),
            false => Ok(None),
        };
        let group = if is_knob { self.machine.group(path) } else { None };
        let is_of_now = |open: &&Open| self.is_current(open) && open.group == group;
        let first = chain.iter().rev().find(is_of_now).map(|open| open.old.clone());
        // Undone already, by a restore that the journal could not note.
        let is_back = matches!(&held, Ok(Some(value)) if Some(value) == first.as_ref());
        let (mut changes, mut value) = (Vec::with_capacity(chain.len()), held.clone());
        for open in chain {
            let what = match self.judge(&open, group, value.clone()) {
                Returned::Foreign(_) if is_back => Returned::WasSo,
                what => what,
            };
            match &what {
                Returned::Back => value = Ok(Some(open.old.clone())),
                Returned::Failed(_) => value = Err(KnobError::LaterChange),
                _ => {}
            }
            changes.push((open, what));
        }
        let target = value.ok().flatten().filter(|value| held.as_ref() != Ok(&Some(value.clone())));
        if writes
            && let Some(target) = target
            && let Err(why) = self.put_back(path, &target)
        {
            let backs = changes.iter_mut().map(|(_, what)| what).filter(|what| **what == Returned::Back);
            let whys = std::iter::once(why).chain(std::iter::repeat(KnobError::LaterChange));
            backs.zip(whys).for_each(|(what, why)| *what = Returned::Failed(why));
        }
        changes
    }

    /// Drops the changes of one section: another program owns these values by now.
    ///
    /// # Errors
    /// [`JournalError`]: later changes stay open.
    pub fn forget(&mut self, section: &str) -> Result<(), JournalError> {
        self.drop_of(section, "somebody else wrote it since")
    }

    /// Drops the changes of one section that were undone elsewhere.
    ///
    /// # Errors
    /// [`JournalError`]: they stay open.
    pub fn undone(&mut self, section: &str) -> Result<(), JournalError> {
        self.drop_of(section, "undone")
    }

    fn drop_of(&mut self, section: &str, why: &str) -> Result<(), JournalError> {
        let open = self.journal.open().filter(|open| open.section == section && open.boot == self.boot);
        let closed: Vec<(u64, &str)> = open.map(|open| (open.number, why)).collect();
        self.journal.close_all(&closed)?;
        let is_left = self.journal.open().any(|open| open.section == section && open.boot == self.boot);
        assert!(!is_left, "a section owns no change after its changes are dropped");
        Ok(())
    }

    /// Whether no reboot has reset the knob since the change.
    fn is_current(&self, open: &Open) -> bool {
        open.boot == self.boot || knob_table::outlives_boot(&open.path)
    }

    fn judge(&self, open: &Open, group: Option<u64>, now: Result<Option<String>, KnobError>) -> Returned {
        if !self.is_current(open) {
            return Returned::OtherBoot;
        }
        if let Some(words) = knob_table::refusal(&open.path, &open.old) {
            return Returned::Failed(KnobError::NotOurs(words));
        }
        match now {
            Ok(None) => Returned::Gone,
            Ok(Some(_)) if open.group.is_some() && open.group != group => Returned::Gone,
            Ok(Some(now)) if now == open.old => Returned::WasSo,
            Ok(Some(now)) if open.wrote(&now) => Returned::Back,
            Ok(Some(now)) => Returned::Foreign(now),
            Err(why) => Returned::Failed(why),
        }
    }

    /// The only place that writes a knob.
    fn write(&mut self, path: &str, value: &str) -> Result<(), KnobError> {
        let is_noted = self.journal.open_of(path).rev().any(|open| self.is_current(open));
        assert!(is_noted, "{path} is written only while the journal holds its old value");
        self.machine.write(path, value)
    }

    /// The value of a knob that must be there.
    fn held(&mut self, path: &str) -> Result<String, KnobError> {
        self.machine.value(path)?.ok_or(KnobError::NoKnob)
    }

    fn put_back(&mut self, path: &str, old: &str) -> Result<(), KnobError> {
        self.write(path, old)?;
        match self.machine.value(path)? {
            Some(now) if now != old => Err(KnobError::holds(old, now)),
            // Its owner is gone, and the value with it.
            _ => Ok(()),
        }
    }
}
