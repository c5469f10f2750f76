//! Many replays in one boot, each as if the machine were new.

use isotherm_guest::job::{Report, SCRIPT_PATH, Series, SeriesRun};
use isotherm_guest::script::Script;
use std::fs::File;
use std::time::Duration;

use crate::machine::{FILES_PATH, GROUP_PATH, mount_disk, swap_off_zram, swap_on_zram, write, write_settings};
use crate::{Reporter, conductor, sys};

/// Attempts to remove a group with exiting processes, a hundredth of a second apart.
const REMOVALS: u32 = 500;

/// Plays them. A failure is reported, and the next one is played.
pub(crate) fn play(series: &Series, reporter: &mut Reporter) -> Result<(), String> {
    if let Some(disk) = &series.disk {
        mount_disk(disk)?;
    }
    for (index, run) in (0u32..).zip(&series.runs) {
        if let Err(message) = play_one(index, run, reporter) {
            reporter.say(&Report::RunFailed { run: index, message });
        }
        // Left-overs would be part of the next run.
        clear(run).map_err(|error| format!("after run {index}: {error}"))?;
    }
    Ok(())
}

fn play_one(index: u32, run: &SeriesRun, reporter: &mut Reporter) -> Result<(), String> {
    let script = conductor::script_at(&format!("{SCRIPT_PATH}-{}", run.script))?;
    write_settings(&run.settings)?;
    if let Some(bytes) = run.zram_bytes {
        swap_on_zram(bytes)?;
    }
    make_files(&script)?;
    sys::sync();
    write("/proc/sys/vm/drop_caches", "3")?;
    let mut killed = None;
    let outcome =
        conductor::perform(&run.play, &script, &run.subgroups, run.play.limit_bytes, &mut |report| match report {
            Report::Observed(observation) => reporter.say(&Report::Ran { run: index, observation }),
            Report::Killed { process, operation } => killed = Some((process, operation)),
            _ => {}
        });
    match killed {
        Some((process, operation)) => Err(format!("process {process} was killed at operation {operation}")),
        None => outcome,
    }
}

/// Empty files as long as the script's.
fn make_files(script: &Script) -> Result<(), String> {
    for (index, file) in script.files.iter().enumerate().filter(|(_, file)| !file.shared_memory) {
        let path = format!("{FILES_PATH}/{index}");
        let made = File::create(&path).and_then(|made| made.set_len(file.pages.saturating_mul(sys::PAGE)));
        made.map_err(|error| format!("{path}: {error}"))?;
    }
    Ok(())
}

/// Ends the remaining processes of a run and frees its memory.
fn clear(run: &SeriesRun) -> Result<(), String> {
    let mut groups: Vec<String> = run.subgroups.iter().map(|group| format!("{GROUP_PATH}/{group}")).collect();
    groups.sort_unstable();
    groups.dedup();
    groups.push(GROUP_PATH.to_owned());
    for group in groups.iter().filter(|group| std::path::Path::new(group).exists()) {
        write(&format!("{group}/cgroup.kill"), "1")?;
        let mut removed = std::fs::remove_dir(group);
        for _ in 0..REMOVALS {
            if removed.is_ok() {
                break;
            }
            std::thread::sleep(Duration::from_millis(10));
            sys::reap();
            removed = std::fs::remove_dir(group);
        }
        removed.map_err(|error| format!("{group}: {error}"))?;
    }
    remove_files().map_err(|error| format!("{FILES_PATH}: {error}"))?;
    swap_off_zram()
}

/// Removes the files of a run. A remaining file would be part of the next one.
fn remove_files() -> std::io::Result<()> {
    let files = match std::fs::read_dir(FILES_PATH) {
        // A series without files has no disk for them.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(()),
        files => files?,
    };
    for file in files {
        let file = file?;
        // The file system has a folder of its own, which stays.
        if !file.file_type()?.is_dir() {
            std::fs::remove_file(file.path())?;
        }
    }
    Ok(())
}
