//! Writing knobs, and taking back what was written.

use super::journal::{Journal, JournalError, Open, Store, band, is_rounded};
use std::collections::{BTreeMap, BTreeSet};

/// The knobs of a machine: small files that hold a value.
pub trait Taken {
    /// The value that a knob holds, without white space around it; of a choice the word that is chosen. `None`: there is no such
    /// knob.
    ///
    /// # Errors
    /// In words.
    fn value(&mut self, path: &str) -> Result<Option<String>, String>;

    /// Writes a value.
    ///
    /// # Errors
    /// In words.
    fn write(&mut self, path: &str, value: &str) -> Result<(), String>;

    /// Whether a write that failed because it took too long has not come back yet, so that it may still come to its end.
    fn is_being_written(&mut self, _path: &str) -> bool {
        false
    }
}

/// A write that was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Changed {
    pub path: String,
    pub old: String,
    /// What it holds now, read back.
    pub now: String,
    /// Nothing was written: it held that already.
    pub was_so: bool,
}

/// Why a knob was not changed. It holds what it held, unless the words say otherwise.
#[derive(Debug, thiserror::Error)]
pub enum Refusal {
    /// What was written could not be put back, so nothing was written.
    #[error(transparent)]
    Journal(#[from] JournalError),
    /// The knob itself.
    #[error("{path}: {why}")]
    Knob { path: String, why: String },
}

/// What became of a change in a restore.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Returned {
    /// It holds the old value again.
    Back,
    /// It held the old value already: the write was never made, or somebody took it back.
    WasSo,
    /// The machine was started anew since: what was written is gone with the machine it was written to.
    OtherBoot,
    /// There is no such knob any more: the group was removed, the module unloaded. What was written went with it.
    Gone,
    /// Another value stands there, which is somebody else's: left alone.
    Foreign(String),
    /// It could not be read or written; the change stays open.
    Failed(String),
}

/// Hands that write nothing without the journal.
#[derive(Debug)]
pub struct Hands<S, M> {
    journal: Journal<S>,
    machine: M,
    boot: String,
}

impl<S: Store, M: Taken> Hands<S, M> {
    /// `boot` tells this start of the machine from all others: `/proc/sys/kernel/random/boot_id`.
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

    /// Writes a knob: the journal first, then the knob, then it is read back. `accepts` says whether what was read is what was
    /// asked for; if not, the old value is put back.
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
        let refused = |why: String| Refusal::Knob { path: path.to_owned(), why };
        let old = self.held(path).map_err(refused)?;
        if accepts(&old) {
            return Ok(Changed { path: path.to_owned(), now: old.clone(), old, was_so: true });
        }
        let number = self.journal.will_set(&self.boot, section, path, &old, value)?;
        let written = self.machine.write(path, value).and_then(|()| self.held(path));
        match written {
            Ok(now) if accepts(&now) => {
                self.journal.holds(number, &now)?;
                Ok(Changed { path: path.to_owned(), old, now, was_so: false })
            }
            Ok(now) => {
                let back = self.put_back(path, &old);
                let why = format!("`{value}` was written, and it holds `{now}`");
                match back {
                    Ok(()) => {
                        self.journal.close(number, "another value came of it")?;
                        Err(refused(format!("{why}; the old value stands there again")))
                    }
                    Err(worse) => Err(refused(format!("{why}, and cannot be put back: {worse}"))),
                }
            }
            Err(why) => {
                // The kernel took nothing, or nobody knows: what stands there now tells.
                match self.held(path) {
                    // It may still come to its end, and then the journal must know.
                    _ if self.machine.is_being_written(path) => {}
                    Ok(now) if now == old => self.journal.close(number, "the write failed")?,
                    Ok(now) => self.journal.holds(number, &now)?,
                    Err(_) => {}
                }
                Err(refused(why))
            }
        }
    }

    /// Writes a number into a knob that is written over and over. The journal has a range from half to twice the first number, and gets
    /// another line only when a number falls out of it.
    ///
    /// # Errors
    /// [`Refusal`].
    pub fn set_within_band(&mut self, section: &str, path: &str, value: u64) -> Result<(), Refusal> {
        let refused = |why: String| Refusal::Knob { path: path.to_owned(), why };
        let old = self.held(path).map_err(refused)?;
        let is_covered =
            |open: &Open| open.section == section && open.path == path && open.boot == self.boot && open.covers(value);
        // The newest change of the knob alone says what stands there.
        let covers = self.journal.open().rev().find(|open| open.path == path).is_some_and(is_covered);
        if !covers {
            self.journal.will_set(&self.boot, section, path, &old, &band(value))?;
        }
        self.machine.write(path, &value.to_string()).map_err(refused)?;
        let now = self.held(path).map_err(refused)?;
        if is_rounded(&value.to_string(), &now) {
            return Ok(());
        }
        let back = match self.put_back(path, &old) {
            Ok(()) => "the old value stands there again".to_owned(),
            Err(worse) => format!("it cannot be put back: {worse}"),
        };
        Err(refused(format!("`{value}` was written, and it holds `{now}`; {back}")))
    }

    /// Takes back all that is open, newest first, so that a knob that was written twice ends where it began.
    ///
    /// # Errors
    /// [`JournalError`]: what follows stays open.
    pub fn restore(&mut self) -> Result<Vec<(Open, Returned)>, JournalError> {
        self.restore_where(|_| true)
    }

    /// Takes back what one section wrote in this boot, newest first, and leaves what others wrote.
    ///
    /// # Errors
    /// [`JournalError`]: what follows stays open.
    pub fn restore_section(&mut self, section: &str) -> Result<Vec<(Open, Returned)>, JournalError> {
        let boot = self.boot.clone();
        self.restore_where(|open| open.section == section && open.boot == boot)
    }

    /// Takes back those of the open changes that are asked for, newest first.
    ///
    /// # Errors
    /// [`JournalError`]: what follows stays open.
    pub fn restore_where(&mut self, is_asked: impl Fn(&Open) -> bool) -> Result<Vec<(Open, Returned)>, JournalError> {
        let all: Vec<Open> = self.journal.open().rev().filter(|open| is_asked(open)).cloned().collect();
        let mut returned = Vec::with_capacity(all.len());
        let mut stuck = BTreeSet::<String>::new();
        let mut jumped = BTreeSet::<String>::new();
        for open in all.clone() {
            // A knob that was written several times goes to where it began at once: a value between could do harm. Until that is
            // written all of its changes are open; if we end right after it, each of them finds what it can close.
            if !jumped.contains(&open.path)
                && let Some(first) = self.first_of(&open.path, &all)
                && self.put_back(&open.path, &first).is_ok()
            {
                jumped.insert(open.path.clone());
            }
            let what = if jumped.contains(&open.path) {
                Returned::Back
            } else if stuck.contains(&open.path) {
                Returned::Failed("a later change of it was not taken back".to_owned())
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
        Ok(returned)
    }

    /// Where a knob that was changed several times began, if each of the changes, newest first, can be taken back.
    fn first_of(&mut self, path: &str, all: &[Open]) -> Option<String> {
        let chain: Vec<&Open> = all.iter().filter(|open| open.path == path).collect();
        if chain.len() < 2 {
            return None;
        }
        let mut value = self.machine.value(path).ok()??;
        for open in chain {
            match self.judge(open, Ok(Some(value))) {
                Returned::Back | Returned::WasSo => value = open.old.clone(),
                _ => return None,
            }
        }
        Some(value)
    }

    /// Lets go of what one section wrote: it is somebody else's by now.
    ///
    /// # Errors
    /// [`JournalError`]: what follows stays open.
    pub fn forget(&mut self, section: &str) -> Result<(), JournalError> {
        let open = self.journal.open().filter(|open| open.section == section && open.boot == self.boot);
        let numbers: Vec<u64> = open.map(|open| open.number).collect();
        numbers.into_iter().try_for_each(|number| self.journal.close(number, "somebody else wrote it since"))
    }

    /// What a restore would do, in its order. Nothing is written.
    pub fn would_restore(&mut self) -> Vec<(Open, Returned)> {
        // What the changes after it would have put back, by path.
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

    fn judge(&self, open: &Open, now: Result<Option<String>, String>) -> Returned {
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
            return Returned::Failed("an earlier write of it has not come back from the kernel".to_owned());
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

    /// The value of a knob that must be there.
    fn held(&mut self, path: &str) -> Result<String, String> {
        self.machine.value(path)?.ok_or_else(|| "there is no such knob".to_owned())
    }

    fn put_back(&mut self, path: &str, old: &str) -> Result<(), String> {
        self.machine.write(path, old)?;
        let now = self.held(path)?;
        if now == old { Ok(()) } else { Err(format!("`{old}` was written, and it holds `{now}`")) }
    }
}
