//! Processes, families, maps and counts of mappings, from trees of files.

use isotherm_linux::{ClearRefs, ClearedPages, Family, LiveError, Member, Process, Root, maps, smaps};
use isotherm_units::{Duration, Instant};
use std::fs;
use std::path::{Path, PathBuf};

const TREES: [&str; 3] = ["6.1", "6.12", "7.2"];

fn tree(release: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/trees").join(release)
}

/// A copy that a test may change.
fn copy(release: &str) -> (tempfile::TempDir, Root) {
    fn copy_folder(from: &Path, to: &Path) {
        fs::create_dir_all(to).unwrap();
        for entry in fs::read_dir(from).unwrap().map(Result::unwrap) {
            let target = to.join(entry.file_name());
            if entry.file_type().unwrap().is_dir() {
                copy_folder(&entry.path(), &target);
            } else {
                fs::copy(entry.path(), target).unwrap();
            }
        }
    }
    let folder = tempfile::tempdir().unwrap();
    copy_folder(&tree(release), folder.path());
    let root = Root::below(folder.path());
    (folder, root)
}

fn pids(members: impl IntoIterator<Item = Member>) -> Vec<u32> {
    members.into_iter().map(|member| member.pid).collect()
}

/// Kind of a refusal.
fn refusal(root: &Root, pid: u32) -> String {
    match Process::open(root, pid) {
        Ok(_) => "opened".to_owned(),
        Err(LiveError::Gone(words)) => format!("gone: {words}"),
        Err(LiveError::Refused(words)) => format!("refused: {words}"),
        Err(other) => format!("other: {other}"),
    }
}

#[test]
fn mappings_and_their_numbers_agree_on_each_release() {
    for release in TREES {
        let process = Process::open(&Root::below(tree(release)), 812).unwrap();
        assert_eq!((process.name(), process.start_time()), ("web (main)", 88123), "{release}");
        let (mappings, areas) = (maps(&process).unwrap(), smaps(&process).unwrap());
        let of_areas: Vec<_> = areas.iter().map(|area| area.mapping.clone()).collect();
        assert_eq!(mappings, of_areas, "{release}");
        assert!(mappings.len() > 10 && mappings.iter().any(|mapping| mapping.name == "[stack]"), "{release}");
        assert!(areas.iter().any(|area| area.referenced_bytes > 0 && area.flags.has("ex")), "{release}");
        assert!(areas.iter().all(|area| area.referenced_bytes <= area.resident_bytes), "{release}");
        assert!(areas.iter().any(|area| area.flags.has("pf")), "{release}: [vvar] has no pages of its own");
    }
}

#[test]
fn what_cannot_be_watched_is_said() {
    for release in TREES {
        let root = Root::below(tree(release));
        assert_eq!(refusal(&root, 7), "gone: there is no process 7");
        assert_eq!(refusal(&root, 900), "gone: process 900 (worker) has ended");
        assert!(refusal(&root, 2).starts_with("refused: process 2 (kthreadd) is a kernel thread"));
    }
    let (_folder, root) = copy("7.2");
    let stat = root.path("/proc/812/stat");
    let text = fs::read_to_string(&stat).unwrap();
    fs::write(&stat, text.replace(" 4194560 ", " 4194564 ")).unwrap();
    assert_eq!(refusal(&root, 812), "gone: process 812 (web (main)) has ended", "on its way out");
    for garbage in [&[][..], b"\0\0\0", b"812", &[0xff; 4096], &text.as_bytes()[..40]] {
        fs::write(&stat, garbage).unwrap();
        assert!(refusal(&root, 812).starts_with("other: "), "{garbage:?}");
    }
    fs::write(&stat, text.replace("812 (", "813 (")).unwrap();
    assert!(refusal(&root, 812).contains("not understood"), "the file of another process");
}

#[test]
fn another_process_of_the_number_is_not_taken_for_it() {
    let (_folder, root) = copy("6.12");
    let process = Process::open(&root, 820).unwrap();
    process.check().unwrap();
    let stat = root.path("/proc/820/stat");
    let text = fs::read_to_string(&stat).unwrap();
    fs::write(&stat, text.replace(" 88200 ", " 99999 ")).unwrap();
    assert!(matches!(maps(&process), Err(LiveError::Gone(words)) if words.contains("820 (worker) has ended")));
    let code = text.split(' ').nth(25).unwrap();
    fs::write(&stat, text.replace(&format!(" {code} "), " 4096 ")).unwrap();
    assert!(matches!(maps(&process), Err(LiveError::Gone(words)) if words.contains("another program")));
    fs::write(&stat, &text).unwrap();
    assert!(maps(&process).is_ok());
    fs::remove_dir_all(root.path("/proc/820")).unwrap();
    assert!(matches!(process.check(), Err(LiveError::Gone(_))));
}

#[test]
fn a_family_follows_children_where_they_are_listed_and_where_not() {
    for release in TREES {
        let (_folder, root) = copy(release);
        let mut family = Family::of_process(&root, 812).unwrap();
        let changes = family.update().unwrap();
        assert_eq!((pids(changes.came), pids(changes.went)), (vec![812, 820, 821], vec![]), "{release}");
        assert_eq!(family.update().unwrap(), Default::default(), "{release}: each change once");
        // 820 ends, and 821 is a child of the first process now.
        fs::remove_dir_all(root.path("/proc/820")).unwrap();
        let changes = family.update().unwrap();
        assert_eq!((pids(changes.came), pids(changes.went)), (vec![], vec![820]), "{release}");
        assert_eq!(pids(family.members()), [812, 821], "{release}: known before, so still a member");
        // PID 821 is reused.
        let stat = root.path("/proc/821/stat");
        fs::write(&stat, fs::read_to_string(&stat).unwrap().replace(" 88201 ", " 90000 ").replace(" 820 ", " 1 "))
            .unwrap();
        assert_eq!(pids(family.update().unwrap().went), [821], "{release}");
        fs::remove_dir_all(root.path("/proc/812")).unwrap();
        assert_eq!(pids(family.update().unwrap().went), [812], "{release}");
        assert!(matches!(Family::of_process(&root, 812), Err(LiveError::Gone(_))));
    }
}

#[test]
fn a_group_has_the_processes_of_all_below_it() {
    for release in TREES {
        let (_folder, root) = copy(release);
        let mut family = Family::of_group(&root, "/app.slice/web-1.service").unwrap();
        assert_eq!(pids(family.update().unwrap().came), [812, 820, 821], "{release}: not what has ended, nor 0");
        let jobs = root.path("/sys/fs/cgroup/app.slice/web-1.service/jobs/cgroup.procs");
        fs::write(jobs, "garbage\n99999999999999\n\n 820\n").unwrap();
        assert_eq!(pids(family.update().unwrap().went), [821], "{release}");
        fs::remove_dir_all(root.path("/sys/fs/cgroup/app.slice/web-1.service")).unwrap();
        assert_eq!(pids(family.update().unwrap().went), [812, 820], "{release}: the group has gone");
        for group in ["/no.slice", "/../proc", "/app.slice/../../.."] {
            let words = Family::of_group(&root, group).unwrap_err().to_string();
            assert!(words.contains("cgroup"), "{words}");
        }
    }
}

#[test]
fn files_that_are_missing_empty_or_strange_are_errors_with_the_path() {
    let (_folder, root) = copy("7.2");
    let process = Process::open(&root, 821).unwrap();
    for file in ["maps", "smaps"] {
        let path = root.path(format!("/proc/821/{file}"));
        let read = || match file {
            "maps" => maps(&process).map(|mappings| mappings.len()),
            _ => smaps(&process).map(|areas| areas.len()),
        };
        fs::write(&path, "").unwrap();
        assert_eq!(read().unwrap(), 0, "{file}: a process may map nothing");
        fs::write(&path, [0xff; 100]).unwrap();
        let words = read().unwrap_err().to_string();
        assert!(words.contains(&format!("821/{file}")) && words.len() < 600, "{words}");
        let mapping = "1000-2000 rw-p 00000000 00:00 0 \nRss: 4 kB\n";
        let huge = if file == "maps" { "1000-2000 rw-p 00000000 00:00 0\n" } else { mapping };
        fs::write(&path, huge.repeat(100_000)).unwrap();
        assert_eq!(read().unwrap(), 1, "{file}: what overlaps is left out");
        fs::remove_file(&path).unwrap();
        assert!(read().unwrap_err().is_missing(), "{file}");
    }
}

#[test]
fn sweeps_are_rationed_and_clear_what_they_are_told_to() {
    let (_folder, root) = copy("6.12");
    let process = Process::open(&root, 812).unwrap();
    let refs = root.path("/proc/812/clear_refs");
    let mut source = ClearRefs::new(ClearedPages::Anonymous);
    assert!(source.sweep(&process, Instant::from_ns(5)).unwrap_err().is_missing());
    assert_eq!((source.nr_sweeps(), source.due()), (0, None), "what failed is no sweep");
    fs::write(&refs, "").unwrap();
    let found = source.sweep(&process, Instant::from_ns(5)).unwrap().expect("the first is due at once");
    assert_eq!(found.len(), maps(&process).unwrap().len());
    assert!(found.iter().map(|area| area.referenced_bytes).sum::<u64>() > 0);
    assert_eq!(fs::read_to_string(&refs).unwrap(), "2");
    let due = Instant::from_ns(5) + Duration::from_secs(1);
    assert_eq!(source.due(), Some(due));
    assert_eq!(source.sweep(&process, Instant::from_ns(6)).unwrap(), None, "too early");
    assert!(source.sweep(&process, due).unwrap().is_some());
    assert_eq!(source.nr_sweeps(), 2);
}
