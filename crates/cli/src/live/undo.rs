//! Notes the changes that a session of DAMON makes, so that `isotherm restore` undoes them if the program was killed.

use std::path::PathBuf;

use isotherm_linux::damon::Undo;
use isotherm_linux::{LiveError, Root};

use super::knobs::{MachineKnobs, Use, hands};
use crate::error::CliError;

/// Section name in the journal.
const SECTION: &str = "watch";

/// Journal of the verbs that watch, below a root. A reboot ends all that it notes. While the daemon runs it has its own journal.
pub(crate) fn watch_journal(root: &Root) -> PathBuf {
    root.path("/run/isotherm-watch.journal")
}

/// Notes in that journal.
#[derive(Debug)]
struct Notes(MachineKnobs);

/// The journal that notes the changes of one session.
///
/// # Errors
/// Another session holds the journal, or it cannot be written.
pub(crate) fn undo(root: &Root) -> Result<Box<dyn Undo>, LiveError> {
    let refused = |error: CliError| LiveError::Refused(error.to_string());
    let made = hands(root, &watch_journal(root), Use::Write).map_err(refused)?;
    let knobs = made.ok_or_else(|| LiveError::Refused("there is no journal, and none could be made".to_owned()))?;
    Ok(Box::new(Notes(knobs)))
}

impl Undo for Notes {
    fn will_write(&mut self, path: &str, old: &str, new: &str) -> Result<(), LiveError> {
        self.0.note(SECTION, path, old, new).map_err(|error| LiveError::Refused(error.to_string()))
    }

    fn begun(&mut self) {
        // Without it a restore only trusts the values.
        let _ = self.0.identify(SECTION);
    }

    fn undone(&mut self) {
        // Otherwise a restore finds that all is as before.
        let _ = self.0.undone(SECTION);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_daemon::changes::Returned;
    use isotherm_texts::damon::{NR_KDAMONDS, STATE};
    use std::fs;

    const STAT: &str = "/sys/module/damon_stat/parameters/enabled";
    const PID: &str = "/sys/kernel/mm/damon/admin/kdamonds/0/pid";

    fn machine() -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::below(folder.path());
        for (path, text) in [
            ("/proc/sys/kernel/random/boot_id", "b-1"),
            ("/run/x", ""),
            (STAT, "Y"),
            (NR_KDAMONDS, "0"),
            (STATE, "off"),
            (PID, "-1"),
        ] {
            fs::create_dir_all(root.path(path).parent().unwrap()).unwrap();
            fs::write(root.path(path), text).unwrap();
        }
        (folder, root)
    }

    fn write(root: &Root, path: &str, text: &str) {
        fs::write(root.path(path), text).unwrap();
    }

    /// What a session does until it is killed.
    fn killed(root: &Root, pid: &str) {
        let mut undo = undo(root).unwrap();
        for (path, old, new) in [(STAT, "Y", "N"), (NR_KDAMONDS, "0", "1"), (STATE, "off", "on")] {
            undo.will_write(path, old, new).unwrap();
            write(root, path, new);
        }
        write(root, PID, pid);
        undo.begun();
    }

    fn restored(root: &Root) -> Vec<(String, Returned)> {
        let mut hands = hands(root, &watch_journal(root), Use::Restore).unwrap().unwrap();
        hands.restore().changes.into_iter().map(|(open, what)| (open.path, what)).collect()
    }

    #[test]
    fn what_a_killed_session_left_is_undone() {
        let (_folder, root) = machine();
        killed(&root, "77");
        let back = [STATE, NR_KDAMONDS, STAT].map(|path| (path.to_owned(), Returned::Back));
        assert_eq!(restored(&root), back, "the newest first: a kdamond ends before its folder goes");
        assert_eq!([STATE, NR_KDAMONDS, STAT].map(|path| root.read(path).unwrap()), ["off", "0", "Y"]);
        assert!(restored(&root).is_empty());
    }

    #[test]
    fn a_kdamond_that_began_since_is_left_alone() {
        let (_folder, root) = machine();
        killed(&root, "77");
        write(&root, PID, "91");
        assert_eq!(restored(&root)[0], (STATE.to_owned(), Returned::Gone));
        assert_eq!(root.read(STATE).unwrap(), "on");
    }

    #[test]
    fn two_sessions_do_not_share_the_journal_and_one_that_ended_leaves_nothing() {
        let (_folder, root) = machine();
        let mut first = undo(&root).unwrap();
        first.will_write(NR_KDAMONDS, "0", "1").unwrap();
        assert!(undo(&root).unwrap_err().to_string().contains("another isotherm is at work"));
        first.undone();
        drop(first);
        assert!(restored(&root).is_empty());
        assert!(undo(&root).unwrap().will_write("/etc/passwd", "0", "1").is_err());
    }
}
