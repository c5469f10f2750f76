//! Switches fault-around off while a trace is recorded.
//!
//! At a page fault in a file the kernel maps up to `fault_around_bytes` of its cached pages, and marks all of them accessed
//! (`do_fault_around`, mm/memory.c, Linux 6.12). Accessed bits then do not show which one was used.

use std::path::Path;

use isotherm_daemon::changes::{Restored, Returned, same_value};
use isotherm_linux::{Root, page_bytes};

use super::knobs::{MachineKnobs, Use, hands};
use super::to_cli;
use crate::error::CliError;
use crate::ui::Ui;

const KNOB: &str = "/sys/kernel/debug/fault_around_bytes";
/// Section name in the journal.
const SECTION: &str = "record";

/// Bytes that the kernel maps around a fault; `None` if it cannot be read.
pub(crate) fn fault_around_bytes(root: &Root) -> Option<u64> {
    root.value(KNOB).ok()
}

/// Keeps fault-around off until it is restored or dropped.
#[derive(Debug)]
pub(crate) struct NoFaultAround(Option<MachineKnobs>);

impl NoFaultAround {
    /// Switches it off for the whole machine, after its old value is in the journal.
    pub(crate) fn new(root: &Root, journal: &Path) -> Result<Self, CliError> {
        if let Err(error) = root.read(KNOB) {
            return Err(CliError::host_cannot(if error.is_missing() {
                format!(
                    "--no-fault-around: there is no {KNOB}: mount debugfs (mount -t debugfs none /sys/kernel/debug), or record \
                     without it"
                )
            } else {
                format!("--no-fault-around: {}", to_cli(error))
            }));
        }
        let mut hands = hands(root, journal, Use::Write)?
            .ok_or_else(|| CliError::failed("there is no journal, and none could be made"))?;
        let one_page = page_bytes().to_string();
        hands
            .set(SECTION, KNOB, &one_page, |now| same_value(now, &one_page))
            .map_err(|error| CliError::host_cannot(format!("--no-fault-around: {error}")))?;
        Ok(Self(Some(hands)))
    }

    /// Restores it. Reports the knob that could not be restored.
    pub(crate) fn put_back(mut self, ui: &Ui) -> Result<(), CliError> {
        let Some(mut hands) = self.0.take() else { return Ok(()) };
        let Restored { changes, not_noted } = hands.restore_sections(&[SECTION.to_owned()]);
        if let Some(why) = not_noted {
            ui.warn(format_args!("{KNOB} is put back, and stays open in the journal: {why}"));
        }
        for (open, returned) in changes {
            match returned {
                Returned::Failed(why) => {
                    return Err(CliError::failed(format!(
                        "{} could not be set to {} again: {why}; `isotherm restore` tries once more",
                        open.path, open.old
                    )));
                }
                Returned::Foreign(now) => {
                    ui.warn(format_args!("{} holds {now}, which somebody else wrote meanwhile: left alone", open.path));
                }
                _ => {}
            }
        }
        Ok(())
    }
}

impl Drop for NoFaultAround {
    fn drop(&mut self) {
        if let Some(hands) = &mut self.0 {
            // Another error is already being returned; open changes stay in the journal.
            let _ = hands.restore_sections(&[SECTION.to_owned()]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ui::ColourChoice;
    use std::fs;

    fn machine() -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        for (name, text) in [("proc/sys/kernel/random/boot_id", "b-1\n"), (KNOB.trim_start_matches('/'), "65536\n")] {
            let path = folder.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        }
        let root = Root::below(folder.path());
        (folder, root)
    }

    #[test]
    fn it_is_one_page_meanwhile_and_as_before_afterwards() {
        let (folder, root) = machine();
        let journal = folder.path().join("var/journal");
        let off = NoFaultAround::new(&root, &journal).unwrap();
        assert_eq!(fault_around_bytes(&root), Some(page_bytes()));
        drop(off);
        assert_eq!(fault_around_bytes(&root), Some(65536));
        // Open changes of another verb stay open.
        let mut other = hands(&root, &journal, Use::Write).unwrap().unwrap();
        other.set("apply", KNOB, "32768", |now| now == "32768").unwrap();
        drop(other);
        NoFaultAround::new(&root, &journal).unwrap().put_back(&Ui::new(true, ColourChoice::Never)).unwrap();
        assert_eq!(fault_around_bytes(&root), Some(32768));
        let open = hands(&root, &journal, Use::Read).unwrap().unwrap();
        assert_eq!(open.journal().open().map(|open| open.section.as_str()).collect::<Vec<_>>(), ["apply"]);
    }

    #[test]
    fn without_debugfs_it_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::below(folder.path());
        let error = NoFaultAround::new(&root, &folder.path().join("journal")).unwrap_err().to_string();
        assert!(error.contains("mount -t debugfs"), "{error}");
        assert!(!folder.path().join("journal").exists());
        assert_eq!(fault_around_bytes(&root), None);
    }
}
