//! Plays that a store lacks are played in real kernels, many in one boot.

use std::collections::{BTreeMap, VecDeque};
use std::path::Path;
use std::sync::Mutex;
use std::time::Duration;

use isotherm_rig::job::SeriesRun;
use isotherm_rig::{Clock, CutSeries, FileSystem, Kernel, Machine, Observation, RigError, SeriesPlay};
use isotherm_units::Pages;

use crate::FidelityError;
use crate::advice::{Boot, Key, MEMORY, Program, Store, Wanted};
use crate::matrix::{METRICS, Metric};
use crate::refresh::{counted, series_run, settings};

/// Plays in one boot, at most. An interruption loses at most these.
pub const BATCH_DEFAULT: u16 = 40;
/// Scripts of one boot, in bytes, unless a single one has more: they are unpacked into the guest's memory.
const SCRIPT_BYTES: usize = 128 << 20;
/// Time after which a boot is given up, in addition to the time of each play.
const BOOT_SECONDS: u64 = 300;

/// Settings of the plays.
#[derive(Clone, Copy, Debug)]
pub struct Jobs<'a> {
    /// Release of the kernel, as in [`KERNELS`](crate::advice::KERNELS), and the kernel.
    pub kernel: (&'a str, &'a Kernel),
    /// The guest's program.
    pub guest: &'a Path,
    /// Folder of the stores.
    pub folder: &'a Path,
    /// Virtual machines at the same time; at least one is used.
    pub jobs: usize,
    /// Plays in one boot, at most.
    pub batch: usize,
    /// A boot is given up when it takes longer, in seconds for each of its plays (and five minutes).
    pub seconds_a_play: u64,
}

/// Result of playing.
#[derive(Clone, Debug)]
pub struct Played {
    /// The store of the kernel after playing.
    pub store: Store,
    /// Plays made.
    pub plays: usize,
    /// Wall-clock time of all boots together; several run at the same time.
    pub took: Duration,
}

/// Plays to be made in one boot.
type Batch = Vec<Key>;

/// Plays the plays of `wanted` that the store of the kernel lacks, so that each has `boots` boots, and appends to the store after each
/// boot. Plays of other scripts of the same programs are dropped. `say` is called with a line of progress at a time.
///
/// A program that is killed or takes too long is stored as such, and so is a play that takes its guest down.
///
/// # Errors
/// A program of `wanted` is not among `programs`, the rig lacks something, or the store cannot be read or written. Earlier plays stay
/// stored.
pub fn play_wanted(
    jobs: &Jobs<'_>,
    programs: &[Program],
    wanted: &[Wanted],
    boots: u32,
    say: &(dyn Fn(&str) + Sync),
) -> Result<Played, FidelityError> {
    let by_name: BTreeMap<&str, &Program> = programs.iter().map(|program| (program.name(), program)).collect();
    let keys = keys_of(wanted, &by_name)?;
    let (name, kernel) = jobs.kernel;
    let none = Store::new(name, &kernel.release, MEMORY.get());
    let mut store = Store::change(jobs.folder, none.clone(), |store| {
        for program in programs {
            let dropped = store.drop_older(program.name(), program.digest());
            if dropped > 0 {
                say(&format!("{name}: {dropped} plays of an older recording of {} are dropped", program.name()));
            }
        }
    })?;
    let bytes: BTreeMap<&str, usize> =
        programs.iter().map(|program| (program.name(), program.workload.script.encode().len())).collect();
    let batches = batches(&store, &keys, boots, jobs.batch.max(1), jobs.jobs.max(1), &|name| bytes[name]);
    let mut left: usize = batches.iter().map(Vec::len).sum();
    if left > 0 {
        say(&format!("{name}: {left} plays in {} boots of Linux {}", batches.len(), kernel.release));
    }
    let (mut plays, mut took, mut failure) = (0, Duration::ZERO, None);
    let queue = Mutex::new(VecDeque::from(batches));
    let (sender, receiver) = std::sync::mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..jobs.jobs.max(1) {
            let (sender, queue, by_name) = (sender.clone(), &queue, &by_name);
            scope.spawn(move || {
                let next = || queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner).pop_front();
                while let Some(batch) = next() {
                    let played = jobs.play(by_name, &batch);
                    if sender.send((batch, played)).is_err() {
                        break;
                    }
                }
            });
        }
        drop(sender);
        for (batch, played) in receiver {
            let stored = played.and_then(|(seen, time)| {
                let mut newer = none.clone();
                batch.iter().cloned().zip(seen).for_each(|(key, boot)| newer.add(key, boot));
                took += time;
                plays += batch.len();
                left -= batch.len();
                let of: std::collections::BTreeSet<&str> = batch.iter().map(|key| key.program.as_str()).collect();
                let of: Vec<&str> = of.into_iter().collect();
                say(&format!(
                    "{name}: {} plays of {} in {:.0} s ({:.1} s each); {left} left",
                    batch.len(),
                    of.join(", "),
                    time.as_secs_f64(),
                    time.as_secs_f64() / batch.len() as f64
                ));
                Store::append(jobs.folder, newer)
            });
            match stored {
                Ok(all) => store = all,
                Err(error) => {
                    // Plays under way are still stored; nothing more is begun.
                    queue.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clear();
                    failure.get_or_insert(error);
                }
            }
        }
    });
    failure.map_or(Ok(Played { store, plays, took }), Err)
}

fn keys_of(wanted: &[Wanted], programs: &BTreeMap<&str, &Program>) -> Result<Vec<Key>, FidelityError> {
    let key = |wanted: &Wanted| -> Result<Key, FidelityError> {
        let known = || programs.keys().copied().collect::<Vec<_>>().join(", ");
        let unknown = || FidelityError::Unknown { what: "program", name: wanted.program.clone(), known: known() };
        let program = programs.get(wanted.program.as_str()).ok_or_else(unknown)?;
        Ok(Key {
            program: wanted.program.clone(),
            digest: program.digest().to_owned(),
            policy: wanted.policy.clone(),
            limit_pages: wanted.limit_pages,
        })
    };
    let mut keys = wanted.iter().map(key).collect::<Result<Vec<_>, _>>()?;
    let mut seen = std::collections::BTreeSet::new();
    keys.retain(|key| seen.insert(key.clone()));
    // Programs stay in the order they are wanted in, each in one piece.
    let place: BTreeMap<String, usize> =
        keys.iter().enumerate().rev().map(|(index, key)| (key.program.clone(), index)).collect();
    keys.sort_by_key(|key| place[&key.program]);
    Ok(keys)
}

/// Missing plays, in boots. No boot has the same play twice. Boots are made smaller if there would be fewer than `jobs`.
fn batches(
    store: &Store,
    keys: &[Key],
    boots: u32,
    most: usize,
    jobs: usize,
    script_bytes: &dyn Fn(&str) -> usize,
) -> Vec<Batch> {
    let mut batches = Vec::new();
    for boot in 0..boots as usize {
        let missing: Vec<&Key> = keys.iter().filter(|key| store.nr_boots(key) <= boot).collect();
        let most = most.min(missing.len().div_ceil(jobs)).max(1);
        let (mut batch, mut bytes) = (Batch::new(), 0);
        for key in missing {
            let is_new = batch.last().is_none_or(|last: &Key| last.program != key.program);
            let more = if is_new { script_bytes(&key.program) } else { 0 };
            if batch.len() == most || !batch.is_empty() && is_new && bytes + more > SCRIPT_BYTES {
                batches.push(std::mem::take(&mut batch));
                bytes = script_bytes(&key.program);
            } else {
                bytes += more;
            }
            batch.push(key.clone());
        }
        if !batch.is_empty() {
            batches.push(batch);
        }
    }
    batches
}

/// Results of one boot: the outcome of each play, and the wall-clock time.
type Seen = (Vec<Boot>, Duration);

impl Jobs<'_> {
    /// Plays a batch. If the guest does not finish, the remaining plays are played again. The play at which it stopped is played
    /// alone, and stored as failed if it fails again.
    fn play(&self, programs: &BTreeMap<&str, &Program>, batch: &[Key]) -> Result<Seen, FidelityError> {
        let cut = match self.boot(programs, batch) {
            Ok(seen) => return Ok(seen),
            Err(cut) => *cut,
        };
        let (what, mut seen) = match cut {
            // The guest reached user space, so a play failed.
            Cut { error: FidelityError::Rig(RigError::Guest { what, .. }), booted: true, seen } => (what, seen),
            Cut { error, .. } => return Err(error),
        };
        let mut took = Duration::ZERO;
        let left = &batch[seen.len()..];
        if batch.len() == 1 && left.len() == 1 {
            return Ok((vec![Boot::Failed(what)], took));
        }
        // The play at which the guest stopped has a boot of its own.
        let (first, rest) = left.split_at(left.len().min(1));
        for part in [first, rest] {
            if !part.is_empty() {
                let (more, time) = self.play(programs, part)?;
                seen.extend(more);
                took += time;
            }
        }
        Ok((seen, took))
    }

    fn boot(&self, programs: &BTreeMap<&str, &Program>, batch: &[Key]) -> Result<Seen, Box<Cut>> {
        let mut names: Vec<&str> = batch.iter().map(|key| key.program.as_str()).collect();
        names.dedup();
        let scripts: Vec<_> = names.iter().map(|name| &programs[name].workload.script).collect();
        let script = |key: &Key| names.iter().position(|name| *name == key.program).unwrap_or_default();
        let run = |key: &Key| -> SeriesRun {
            let script = u32::try_from(script(key)).expect("as many as programs");
            series_run(script, &key.policy, Pages::new(key.limit_pages), MEMORY, &[])
        };
        let runs: Vec<SeriesRun> = batch.iter().map(run).collect();
        let machine = Machine {
            memory_bytes: MEMORY.get(),
            time_limit: Duration::from_secs(BOOT_SECONDS + self.seconds_a_play * batch.len() as u64),
            clock: Clock::Instructions,
            isolated_tables: true,
            ..Machine::default()
        };
        let settings = settings();
        let series = SeriesPlay {
            kernel: self.kernel.1,
            machine: &machine,
            guest: self.guest,
            file_system: &FileSystem::SINGLE,
            settings: &settings,
            scripts: &scripts,
            runs: &runs,
        };
        let none = |error| Box::new(Cut { error, booted: false, seen: Vec::new() });
        match series.go_as_far(&|_| ()) {
            Ok(outcome) => {
                let boots = outcome.runs.into_iter().map(|run| self.boot_of(run)).collect::<Result<_, _>>();
                Ok((boots.map_err(none)?, outcome.took))
            }
            Err(cut) => {
                let CutSeries { error, kernel, runs } = *cut;
                let over = runs.into_iter().map_while(|run| run);
                let seen = over.map(|run| self.boot_of(run)).collect::<Result<_, _>>().map_err(none)?;
                Err(Box::new(Cut { error: error.into(), booted: kernel.is_some(), seen }))
            }
        }
    }

    fn boot_of(&self, observed: Result<Observation, String>) -> Result<Boot, FidelityError> {
        let Ok(seen) = observed.as_ref() else { return Ok(Boot::Failed(observed.err().unwrap_or_default())) };
        let count = |metric: &Metric| {
            let missing = || FidelityError::NoCounter { kernel: self.kernel.0.to_owned(), counter: metric.counter };
            counted(seen, metric.counter).ok_or_else(missing)
        };
        METRICS.iter().map(count).collect::<Result<_, _>>().map(Boot::Counted)
    }
}

/// A boot that did not finish.
struct Cut {
    error: FidelityError,
    /// Whether the kernel reached user space.
    booted: bool,
    /// The finished plays, in order.
    seen: Vec<Boot>,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(program: &str, limit_pages: u64) -> Key {
        Key { program: program.to_owned(), digest: "d".to_owned(), policy: "mglru".to_owned(), limit_pages }
    }

    fn shape(batches: &[Batch]) -> Vec<Vec<(&str, u64)>> {
        batches.iter().map(|batch| batch.iter().map(|key| (key.program.as_str(), key.limit_pages)).collect()).collect()
    }

    /// Three plays, one with a boot already; two boots are wanted.
    #[test]
    fn only_what_is_missing_is_played_and_no_boot_has_a_play_twice() {
        let mut store = Store::new("6.12", "6.12.1", 1);
        store.add(key("a", 1), Boot::Counted(vec![0; METRICS.len()]));
        let keys = [key("a", 1), key("a", 2), key("b", 1)];
        let made = batches(&store, &keys, 2, 40, 1, &|_| 1);
        assert_eq!(shape(&made), [vec![("a", 2), ("b", 1)], vec![("a", 1), ("a", 2), ("b", 1)]]);
        assert_eq!(shape(&batches(&store, &keys[..1], 1, 40, 1, &|_| 1)), Vec::<Vec<_>>::new());
    }

    #[test]
    fn batches_end_at_their_size_at_the_room_for_scripts_and_where_several_machines_can_work() {
        let store = Store::new("6.12", "6.12.1", 1);
        let keys: Vec<Key> = (1..=5).map(|limit| key("a", limit)).chain([key("b", 1), key("b", 2)]).collect();
        let sizes = |most, jobs, bytes| -> Vec<usize> {
            batches(&store, &keys, 1, most, jobs, &|_| bytes).iter().map(Vec::len).collect()
        };
        assert_eq!(sizes(40, 1, 1), [7]);
        assert_eq!(sizes(3, 1, 1), [3, 3, 1]);
        assert_eq!(sizes(40, 2, 1), [4, 3]);
        assert_eq!(sizes(40, 1, SCRIPT_BYTES / 2 + 1), [5, 2], "both scripts together are too large");
        assert_eq!(sizes(40, 1, SCRIPT_BYTES * 2), [5, 2], "a script that is too large has a boot of its own");
    }
}
