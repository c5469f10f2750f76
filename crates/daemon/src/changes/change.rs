//! Writes knobs, and restores their old values.

use super::error::{KnobError, Refusal};
use super::journal::{Journal, JournalError, Open, Store, band, is_rounded};
use std::collections::{BTreeMap, BTreeSet};

/// The knobs of a machine: small files that hold a value.
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

    /// Whether a write that timed out is still under way, and so may still take effect.
    fn is_being_written(&mut self, _path: &str) -> bool {
        false
    }
}

/// A completed write.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    pub path: String,
    pub old: String,
    /// Value after the write, read back.
    pub now: String,
    /// Nothing was written, because the knob held this value already.
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
    /// The knob no longer exists: its group was removed, or its module unloaded. The value went with it.
    Gone,
    /// The knob holds a value that another program wrote, and is left alone.
    Foreign(String),
    /// It could not be read or written; the change stays open.
    Failed(KnobError),
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

    /// Writes the journal, then the knob, then reads the knob back. `accepts` says whether the value read is the one asked for; if not,
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
        let number = self.journal.will_set(&self.boot, section, path, &old, value)?;
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

    /// Writes a number into a knob that is written often. The journal records a range from half to twice the first number, and gets
    /// another line only when a number leaves it.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn set_within_band(&mut self, section: &str, path: &str, value: u64) -> Result<(), Refusal> {
        let refused = |why: KnobError| Refusal::Knob { path: path.to_owned(), why };
        let old = self.held(path).map_err(refused)?;
        let is_covered =
            |open: &Open| open.section == section && open.path == path && open.boot == self.boot && open.covers(value);
        // Only the newest change of the knob says what it holds.
        let covers = self.journal.open().rev().find(|open| open.path == path).is_some_and(is_covered);
        if !covers {
            self.journal.will_set(&self.boot, section, path, &old, &band(value))?;
        }
        self.write(path, &value.to_string()).map_err(refused)?;
        let now = self.held(path).map_err(refused)?;
        if is_rounded(&value.to_string(), &now) {
            return Ok(());
        }
        let error = Box::new(KnobError::holds(&value.to_string(), now));
        Err(refused(match self.put_back(path, &old) {
            Ok(()) => KnobError::Undone(error),
            Err(worse) => KnobError::StuckInBand { error, worse: Box::new(worse) },
        }))
    }

    /// Undoes all open changes, newest first, so a knob written twice ends at its first value.
    ///
    /// # Errors
    /// [`JournalError`]: later changes stay open.
    pub fn restore(&mut self) -> Result<Vec<(Open, Returned)>, JournalError> {
        self.restore_where(|_| true)
    }

    /// Undoes what one section wrote in this boot, newest first. Writes of other sections stay.
    ///
    /// # Errors
    /// [`JournalError`]: later changes stay open.
    pub fn restore_section(&mut self, section: &str) -> Result<Vec<(Open, Returned)>, JournalError> {
        let boot = self.boot.clone();
        self.restore_where(|open| open.section == section && open.boot == boot)
    }

    /// Undoes the open changes that `is_asked` selects, newest first.
    ///
    /// # Errors
    /// [`JournalError`]: later changes stay open.
    pub fn restore_where(&mut self, is_asked: impl Fn(&Open) -> bool) -> Result<Vec<(Open, Returned)>, JournalError> {
        let all: Vec<Open> = self.journal.open().rev().filter(|open| is_asked(open)).cloned().collect();
        debug_assert!(all.is_sorted_by(|one, next| one.number > next.number), "changes are undone newest first");
        let mut returned = Vec::with_capacity(all.len());
        let mut stuck = BTreeSet::<String>::new();
        let mut jumped = BTreeSet::<String>::new();
        for open in all.clone() {
            // A knob written several times is set to its first value directly: a value in between could do harm. Until then all of its
            // changes are open. If we end right after it, each of them can still be closed.
            if !jumped.contains(&open.path)
                && let Some(first) = self.first_of(&open.path, &all)
                && self.put_back(&open.path, &first).is_ok()
            {
                jumped.insert(open.path.clone());
            }
            let what = if jumped.contains(&open.path) {
                Returned::Back
            } else if stuck.contains(&open.path) {
                Returned::Failed(KnobError::LaterChange)
            } else {
                self.take_back(&open)
            };
            if let Returned::Failed(_) = what {
                stuck.insert(open.path.clone());
            }
            let why = match &what {
                Returned::Back => Some("back"),
                Returned::WasSo => Some("it was so"),
                Returned::OtherBoot => Some("of another boot"),
                Returned::Gone => Some("the knob is gone"),
                Returned::Foreign(_) => Some("somebody else wrote it since"),
                Returned::Failed(_) => None,
            };
            if let Some(why) = why {
                self.journal.close(open.number, why)?;
            }
            returned.push((open, what));
        }
        let is_told =
            |(open, what): &(Open, Returned)| matches!(what, Returned::Failed(_)) == self.journal.is_open(open.number);
        assert!(returned.iter().all(is_told), "what stays open after a restore is told, and nothing else is");
        Ok(returned)
    }

    /// First value of a knob that was changed several times, if each change, newest first, can be undone.
    fn first_of(&mut self, path: &str, all: &[Open]) -> Option<String> {
        let chain: Vec<&Open> = all.iter().filter(|open| open.path == path).collect();
        if chain.len() < 2 {
            return None;
        }
        let oldest = chain.last().map(|open| open.old.clone());
        let mut value = self.machine.value(path).ok()??;
        for open in chain {
            match self.judge(open, Ok(Some(value))) {
                Returned::Back | Returned::WasSo => value = open.old.clone(),
                _ => return None,
            }
        }
        debug_assert_eq!(Some(&value), oldest.as_ref(), "of several changes the oldest value wins");
        Some(value)
    }

    /// Drops the changes of one section: another program owns these values by now.
    ///
    /// # Errors
    /// [`JournalError`]: later changes stay open.
    pub fn forget(&mut self, section: &str) -> Result<(), JournalError> {
        let open = self.journal.open().filter(|open| open.section == section && open.boot == self.boot);
        let numbers: Vec<u64> = open.map(|open| open.number).collect();
        numbers.into_iter().try_for_each(|number| self.journal.close(number, "somebody else wrote it since"))?;
        let is_left = self.journal.open().any(|open| open.section == section && open.boot == self.boot);
        assert!(!is_left, "a section owns no change after its changes are dropped");
        Ok(())
    }

    /// The steps of a restore, in order, without writing anything.
    pub fn would_restore(&mut self) -> Vec<(Open, Returned)> {
        // Values that later changes would have restored, by path.
        let mut after = BTreeMap::<String, String>::new();
        let all: Vec<Open> = self.journal.open().rev().cloned().collect();
        let mut returned = Vec::with_capacity(all.len());
        for open in all {
            let now = match after.get(&open.path) {
                Some(value) => Ok(Some(value.clone())),
                None => self.machine.value(&open.path),
            };
            let what = self.judge(&open, now);
            if what == Returned::Back {
                after.insert(open.path.clone(), open.old.clone());
            }
            returned.push((open, what));
        }
        returned
    }

    fn judge(&self, open: &Open, now: Result<Option<String>, KnobError>) -> Returned {
        if open.boot != self.boot {
            return Returned::OtherBoot;
        }
        match now {
            Ok(None) => Returned::Gone,
            Ok(Some(now)) if now == open.old => Returned::WasSo,
            Ok(Some(now)) if open.wrote(&now) => Returned::Back,
            Ok(Some(now)) => Returned::Foreign(now),
            Err(why) => Returned::Failed(why),
        }
    }

    fn take_back(&mut self, open: &Open) -> Returned {
        if open.boot == self.boot && self.machine.is_being_written(&open.path) {
            return Returned::Failed(KnobError::Pending);
        }
        let now = if open.boot == self.boot { self.machine.value(&open.path) } else { Ok(None) };
        match self.judge(open, now) {
            Returned::Back => match self.put_back(&open.path, &open.old) {
                Ok(()) => Returned::Back,
                Err(why) => Returned::Failed(why),
            },
            other => other,
        }
    }

    /// The only place that writes a knob.
    fn write(&mut self, path: &str, value: &str) -> Result<(), KnobError> {
        let is_noted = self.journal.open().rev().any(|open| open.path == path && open.boot == self.boot);
        assert!(is_noted, "{path} is written only while the journal holds its old value");
        self.machine.write(path, value)
    }

    /// The value of a knob that must be there.
    fn held(&mut self, path: &str) -> Result<String, KnobError> {
        self.machine.value(path)?.ok_or(KnobError::NoKnob)
    }

    fn put_back(&mut self, path: &str, old: &str) -> Result<(), KnobError> {
        self.write(path, old)?;
        let now = self.held(path)?;
        if now == old { Ok(()) } else { Err(KnobError::holds(old, now)) }
    }
}
