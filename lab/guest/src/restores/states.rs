//! States of the machine in which a restore runs.

use isotherm_guest::living::LiveWorkload;
use isotherm_guest::restoring::RestoreState;
use std::fs::{self, OpenOptions, Permissions};
use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;

use super::differences::Knobs;
use crate::draws::Draws;
use crate::live::GROUPS;
use crate::machine::write;
use crate::sys::{self, Access};

const BOOT: &str = "/proc/sys/kernel/random/boot_id";
/// Shown in its place.
const OTHER_BOOT: &str = "/tmp/boot_id";
/// Size of the file system of the journal.
const JOURNAL_KIB: u64 = 64;
/// What the administrator of the group that is made again sets, if it is not what was there.
const ADMIN_HIGH: &str = "100663296";
/// Most zeros behind a journal.
const ZEROS_MAX: u64 = 8192;
/// Most bytes of padding in a journal.
const PADDING_MAX: u64 = 4096;

/// Where states are made.
pub(super) struct Place {
    journal: String,
    /// Its file system.
    folder: String,
    /// The group that is made again, without the root of all.
    group: String,
}

impl Place {
    pub(super) fn new(journal: &str, workloads: &[LiveWorkload]) -> Result<Self, String> {
        let group = workloads.first().ok_or("no workload: there is no group to be made again")?.group.clone();
        let (folder, _) = journal.rsplit_once('/').ok_or_else(|| format!("{journal}: not absolute"))?;
        fs::create_dir_all(folder).map_err(|error| format!("{folder}: {error}"))?;
        let boot = "11111111-2222-4333-8444-555555555555\n";
        // As the one in whose place it is shown: not to be written, so it is no knob.
        let made =
            fs::write(OTHER_BOOT, boot).and_then(|()| fs::set_permissions(OTHER_BOOT, Permissions::from_mode(0o444)));
        made.map_err(|error| format!("{OTHER_BOOT}: {error}"))?;
        Ok(Self { journal: journal.to_owned(), folder: folder.to_owned(), group })
    }

    /// A new file system for the journal, which begins with this history.
    pub(super) fn renew(&self, (before, after): &(String, String), draws: &mut Draws) -> Result<(), String> {
        // Not there in the first moment.
        let _ = sys::unmount(&self.folder);
        sys::mount("tmpfs", &self.folder, "tmpfs", &format!("size={JOURNAL_KIB}k,mode=700"))
            .map_err(|error| format!("{}: {error}", self.folder))?;
        let padding = "x".repeat(usize::try_from(draws.below(PADDING_MAX)).expect("a few KiB"));
        write(&self.journal, &format!("{before}{padding}{after}"))
    }

    fn filler(&self) -> String {
        format!("{}/filler", self.folder)
    }

    fn high(&self) -> String {
        format!("{GROUPS}/{}/memory.high", self.group)
    }

    /// The journal, as far as it is text.
    fn read(&self) -> Result<Vec<u8>, String> {
        fs::read(&self.journal).map_err(|error| format!("{}: {error}", self.journal))
    }
}

/// The state of one moment.
pub(super) struct State {
    kind: RestoreState,
    pub(super) round: u64,
    made: Option<Made>,
}

/// What it needs to be ended.
#[derive(Default)]
struct Made {
    /// `memory.high` of the group that was made again.
    high: Option<String>,
    /// The journal before the restores.
    journal: Vec<u8>,
}

impl State {
    pub(super) const fn new(kind: RestoreState, round: u64) -> Self {
        Self { kind, round, made: None }
    }

    /// Whether it is made while the program runs.
    pub(super) const fn is_early(&self) -> bool {
        matches!(self.kind, RestoreState::DiskFull | RestoreState::GroupMadeAgain) && self.round % 4 >= 2
    }

    pub(super) const fn is_made(&self) -> bool {
        self.made.is_some()
    }

    /// Brings it about.
    pub(super) fn make(&mut self, place: &Place, draws: &mut Draws) -> Result<(), String> {
        let mut made = Made { journal: place.read()?, high: None };
        match self.kind {
            RestoreState::DiskFull => fill(&place.filler())?,
            RestoreState::ReadOnly => remount(place, Access::Read)?,
            RestoreState::ZeroedTail => append_zeros(&place.journal, 1 + draws.below(ZEROS_MAX))?,
            RestoreState::GroupMadeAgain => made.high = Some(make_again(place, draws.below(2) == 0)?),
            RestoreState::OtherBoot => sys::bind(OTHER_BOOT, BOOT).map_err(|error| format!("{BOOT}: {error}"))?,
        }
        self.made = Some(made);
        Ok(())
    }

    /// Ends it. The journal of another boot is put in place again, because its changes are those of this boot.
    pub(super) fn lift(&self, place: &Place) -> Result<(), String> {
        match (self.kind, &self.made) {
            (RestoreState::DiskFull, _) => {
                fs::remove_file(place.filler()).map_err(|error| format!("{}: {error}", place.filler()))
            }
            (RestoreState::ReadOnly, _) => remount(place, Access::Write),
            (RestoreState::OtherBoot, Some(made)) => {
                sys::unmount(BOOT).map_err(|error| format!("{BOOT}: {error}"))?;
                fs::write(&place.journal, &made.journal).map_err(|error| format!("{}: {error}", place.journal))
            }
            _ => Ok(()),
        }
    }

    /// Takes the administrator's limit away.
    pub(super) fn clean(&self, place: &Place) -> Result<(), String> {
        let is_set = self.made.as_ref().is_some_and(|made| made.high.is_some());
        if is_set { write(&place.high(), "max") } else { Ok(()) }
    }

    /// Text of the journal, in which all lines count that were written until the kill.
    pub(super) fn journal(&self, place: &Place) -> Result<String, String> {
        Ok(String::from_utf8_lossy(&place.read()?).into_owned())
    }

    /// `memory.high` of the group that was made again: the administrator's.
    pub(super) fn group_file(&self, place: &Place) -> Option<String> {
        self.made.as_ref()?.high.as_ref().map(|_| place.high())
    }

    /// Knobs as they must be after a restore.
    pub(super) fn expected(&self, before: &Knobs, at_kill: &Knobs, place: &Place) -> Knobs {
        let mut knobs = if self.kind == RestoreState::OtherBoot { at_kill } else { before }.clone();
        if let Some(high) = self.made.as_ref().and_then(|made| made.high.as_ref()) {
            knobs.insert(place.high(), format!("{high}\n"));
        }
        knobs
    }
}

/// Writes until there is no room for another byte.
fn fill(path: &str) -> Result<(), String> {
    let mut file = fs::File::create(path).map_err(|error| format!("{path}: {error}"))?;
    for bytes in [4096, 1] {
        while file.write_all(&vec![1; bytes]).is_ok() {}
    }
    Ok(())
}

fn remount(place: &Place, access: Access) -> Result<(), String> {
    sys::remount(&place.folder, access).map_err(|error| format!("{}: {error}", place.folder))
}

fn append_zeros(path: &str, bytes: u64) -> Result<(), String> {
    let zeros = vec![0; usize::try_from(bytes).expect("a few KiB")];
    let file = OpenOptions::new().append(true).open(path);
    file.and_then(|mut file| file.write_all(&zeros)).map_err(|error| format!("{path}: {error}"))
}

/// Removes the group and makes it again, with the same processes and a limit of its administrator, which is returned.
fn make_again(place: &Place, as_it_was: bool) -> Result<String, String> {
    let folder = format!("{GROUPS}/{}", place.group);
    let read = |path: &str| fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
    let (processes, was) = (read(&format!("{folder}/cgroup.procs"))?, read(&place.high())?);
    let moved = |to: &str| processes.lines().try_for_each(|pid| write(&format!("{to}/cgroup.procs"), pid));
    moved(GROUPS)?;
    fs::remove_dir(&folder).and_then(|()| fs::create_dir(&folder)).map_err(|error| format!("{folder}: {error}"))?;
    let high = if as_it_was && was.trim() != "max" { was.trim() } else { ADMIN_HIGH };
    write(&place.high(), high)?;
    moved(&folder)?;
    Ok(high.to_owned())
}
