//! The doctor over whole trees of files, one for each release, and over the same trees damaged file by file. A tree is a text file:
//! `=== PATH`, then the text of that file; `\0` means that byte, and lines with `#` before the first path are comments.

use isotherm_linux::doctor::{Context, Finding, State, examine, names};
use isotherm_linux::{LiveError, Root};
use std::fs;
use std::path::{Path, PathBuf};

const RELEASES: [&str; 3] = ["6.1", "6.12", "7.2"];

fn files(release: &str) -> Vec<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/doctor/{release}.tree"));
    let text = fs::read_to_string(path).unwrap();
    let sections = text.split("=== ").skip(1);
    let file = |section: &str| {
        let (path, text) = section.split_once('\n').unwrap();
        (path.to_owned(), text.replace("\\0", "\0"))
    };
    sections.map(file).collect()
}

/// A machine with these files.
fn tree(files: &[(String, String)]) -> (tempfile::TempDir, Root) {
    let folder = tempfile::tempdir().unwrap();
    let root = Root::below(folder.path());
    for (path, text) in files {
        let path: PathBuf = root.path(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    (folder, root)
}

fn examined(root: &Root) -> Vec<Finding> {
    let undo = |_: &Root| Err(LiveError::Refused("nothing is changed here".to_owned()));
    examine(&Context { root, child: None, models: &["6.12", "7.2"], undo })
}

/// Findings that need our own process, and the page size, which a tree does not have.
const OF_A_LIVE_MACHINE: [&str; 4] = ["page size", "PAGEMAP_SCAN", "soft-dirty", "process_madvise"];

fn expected_names() -> Vec<&'static str> {
    names().filter(|name| !OF_A_LIVE_MACHINE.contains(name)).collect()
}

fn found_names(findings: &[Finding]) -> Vec<&'static str> {
    let mut found: Vec<&str> = findings.iter().map(|finding| finding.name).collect();
    found.dedup();
    found
}

fn of<'a>(findings: &'a [Finding], name: &str) -> &'a Finding {
    findings.iter().find(|finding| finding.name == name).unwrap_or_else(|| panic!("no finding `{name}`"))
}

#[test]
fn every_probe_answers_for_each_release() {
    for release in RELEASES {
        let (_folder, root) = tree(&files(release));
        assert_eq!(found_names(&examined(&root)), expected_names(), "{release}");
    }
}

/// Path endings of files whose damage does not change the answer: only their existence matters, or their content does not.
const SILENT: &[&str] = &[
    "/proc/self/clear_refs",
    "/proc/self/pagemap",
    "/compact",
    "/memory.reclaim",
    // Modules that are off.
    "/kdamond_pid",
    // Unknown programs, and DAMON threads whose files name their owner.
    "/1/comm",
    "/702/comm",
    "7.2 /proc/77/comm",
    "6.12 /proc/951/comm",
    // No group was switched off by it, so its pressure is still read.
    "/cgroup.pressure",
    // Where nothing is promoted, generations are off, zram is not used, a disk is no zram.
    "6.1 /proc/sys/kernel/numa_balancing_promote_rate_limit_MBps",
    "6.12 /proc/sys/kernel/numa_balancing_promote_rate_limit_MBps",
    "6.1 /sys/kernel/debug/lru_gen",
    "6.12 /sys/block/zram0/mm_stat",
    "/sys/block/sda/size",
];

#[test]
fn damage_is_noticed_and_never_a_panic_nor_good_news() {
    let huge = "7 ".repeat(1 << 19);
    for release in RELEASES {
        let whole = files(release);
        let (_folder, root) = tree(&whole);
        let sound = examined(&root);
        let mut silent = Vec::new();
        for (path, text) in &whole {
            let at = root.path(path);
            let damage =
                [None, Some(""), Some("max\n"), Some("\0\u{1}garbage\u{fffd}"), Some("-5 -5\n"), Some(huge.as_str())];
            for damaged in damage {
                match damaged {
                    Some(damaged) => fs::write(&at, damaged).unwrap(),
                    None => fs::remove_file(&at).unwrap(),
                }
                let found = examined(&root);
                let case = format!("{release}, {path}: {:?}", damaged.map(|text| &text[..text.len().min(20)]));
                assert_eq!(found_names(&found), expected_names(), "{case}");
                for finding in &found {
                    assert!(finding.words.len() < 800, "{case}: {} characters", finding.words.len());
                    assert!(!finding.words.contains(char::is_control), "{case}: {finding:?}");
                }
                let is_strange = damaged.is_some_and(|damaged| damaged.contains("garbage"));
                if is_strange && found == sound {
                    silent.push(format!("{release} {path}"));
                }
            }
            fs::write(&at, text).unwrap();
        }
        assert_eq!(examined(&root), sound, "{release}: the tree is as it was");
        silent.retain(|file| !SILENT.iter().any(|end| file.ends_with(end)));
        assert_eq!(silent, Vec::<String>::new(), "they are not read, or what they say is not told");
    }
}

/// The tree of a release, with some files changed.
fn changed(release: &str, changes: &[(&str, Option<&str>)]) -> Vec<Finding> {
    let mut files = files(release);
    for (path, text) in changes {
        files.retain(|(known, _)| known != path);
        files.extend(text.map(|text| ((*path).to_owned(), text.to_owned())));
    }
    let (_folder, root) = tree(&files);
    examined(&root)
}

#[test]
fn swap_is_there_or_full_or_missing() {
    const SWAPS: &str = "/proc/swaps";
    let header = "Filename Type Size Used Priority\n";
    let cases = [
        (Some(format!("{header}/dev/a partition 1024000 0 -2\n")), State::Works, "1000 of 1000 MiB free on /dev/a"),
        (Some(format!("{header}/dev/a partition 1024000 972800 -2\n")), State::Partly, "nearly full; 50 of 1000 MiB"),
        (Some(format!("{header}/dev/a partition 1024000 1024000 -2\n")), State::Missing, "full: what is paged out"),
        // Two devices are summed up, and one uses more than its size: no result is below 0.
        (Some(format!("{header}/a file 1024 2048 -2\n/b file 1024 0 -3\n")), State::Works, "1 of 2 MiB free on /a, /b"),
        (Some(header.to_owned()), State::Missing, "no swap"),
        (Some("max".to_owned()), State::Missing, "is not understood"),
        (None, State::Missing, "this kernel has no swap"),
    ];
    for (text, state, words) in cases {
        let findings = changed("7.2", &[(SWAPS, text.as_deref())]);
        let swap = of(&findings, "swap");
        assert!(swap.state == state && swap.words.contains(words), "{text:?}: {swap:?}");
    }
}

#[test]
fn zram_is_swap_or_could_be() {
    let no_swap = ("/proc/swaps", Some("Filename Type Size Used Priority\n"));
    let zram = |changes: &[(&str, Option<&str>)]| {
        let findings = changed("7.2", changes);
        let zram = of(&findings, "zram");
        (zram.state, zram.words.clone())
    };
    assert_eq!(
        zram(&[]),
        (State::Works, "zram0: 8192 MiB, lz4, used as swap; holds 100 MiB in 33 MiB of memory".to_owned())
    );
    assert_eq!(zram(&[no_swap]), (State::Partly, "zram0: 8192 MiB, lz4, not used as swap".to_owned()));
    assert_eq!(zram(&[no_swap, ("/sys/block/zram0/disksize", Some("0\n"))]).0, State::Missing);
    assert_eq!(zram(&[("/sys/block/zram0/mm_stat", Some("1 2"))]).0, State::Partly);
}

#[test]
fn balancing_and_demotion_follow_the_nodes() {
    const MODE: &str = "/proc/sys/kernel/numa_balancing";
    const LIMIT: &str = "/proc/sys/kernel/numa_balancing_promote_rate_limit_MBps";
    const DEMOTION: &str = "/sys/kernel/mm/numa/demotion_enabled";
    // Release, mode, state, words. 7.2 has two tiers, 6.12 two nodes in one, 6.1 one node.
    for (release, mode, state, words) in [
        ("7.2", "0", State::Partly, "off: the kernel promotes nothing"),
        ("7.2", "1", State::Partly, "moves pages to the nodes of the processors"),
        ("7.2", "2", State::Works, "at most 1024 MB/s"),
        ("7.2", "3", State::Works, "at most 1024 MB/s"),
        ("7.2", "4", State::Partly, "which no known kernel has"),
        ("7.2", "max", State::Missing, "is not understood"),
        ("6.12", "0", State::Works, "off"),
        ("6.12", "1", State::Works, "moves pages to the nodes of the processors"),
        ("6.12", "2", State::Partly, "of which there are none"),
        ("6.1", "1", State::Missing, "one node"),
    ] {
        let findings = changed(release, &[(MODE, Some(mode))]);
        let balancing = of(&findings, "NUMA balancing");
        assert!(balancing.state == state && balancing.words.contains(words), "{release}, {mode}: {balancing:?}");
    }
    let unlimited = changed("7.2", &[(LIMIT, None)]);
    assert!(of(&unlimited, "NUMA balancing").words.contains("without a limit"), "before 6.1");
    for (release, text, state, words) in [
        ("7.2", Some("true"), State::Works, "0 → 1"),
        ("7.2", Some("false"), State::Partly, "it could move pages: 0 → 1"),
        ("7.2", Some("1"), State::Missing, "is not understood"),
        ("7.2", None, State::Missing, "does not move cold pages"),
        ("6.12", Some("true"), State::Missing, "on; no node is slower"),
        ("6.1", Some("false"), State::Missing, "off; no node is slower"),
    ] {
        let findings = changed(release, &[(DEMOTION, text)]);
        let demotion = of(&findings, "demotion");
        assert!(demotion.state == state && demotion.words.contains(words), "{release}, {text:?}: {demotion:?}");
    }
}

#[test]
fn everybody_at_work_is_named_with_what_it_means() {
    let of_others = |changes: &[(&str, Option<&str>)]| -> Vec<String> {
        let findings = changed("7.2", changes);
        let others = findings.iter().filter(|finding| finding.name == "others at work");
        others.map(|finding| format!("{} {:?}", finding.words, finding.fix)).collect()
    };
    let (stat, lru, reclaim) = (
        "/sys/module/damon_stat/parameters/enabled",
        "/sys/module/damon_lru_sort/parameters/enabled",
        "/sys/module/damon_reclaim/parameters/enabled",
    );
    let comm = "/proc/830/comm";
    let quiet = [(stat, Some("N")), (comm, Some("cat\n")), ("/proc/77/comm", None)];
    // If a module does not report its thread, one thread is not reported twice.
    let untold = of_others(&[quiet[1], ("/sys/module/damon_stat/parameters/kdamond_pid", None)]);
    assert!(untold.len() == 1 && untold[0].starts_with("DAMON_STAT (/sys/module"), "{untold:?}");
    assert_eq!(of_others(&quiet), ["nobody else is known to turn the same knobs None"]);
    for name in
        ["damo", "senpai", "numad", "systemd-oomd", "oomd", "earlyoom", "nohang", "tuned", "memtierd", "uresourced"]
    {
        let found = of_others(&[quiet[0], quiet[2], (comm, Some(name))]);
        assert!(found.len() == 1 && found[0].starts_with(&format!("{name} (PID 830): ")), "{found:?}");
        assert!(found[0].ends_with("\")"), "it says what to do: {found:?}");
    }
    // A script, by its interpreter; and an interpreter of something else.
    for (command, is_known) in [
        ("/usr/bin/python3\0-E\0/opt/senpai.py\0", true),
        ("python3\0/opt/other.py\0senpai.py\0", false),
        ("python3\0", false),
        ("", false),
    ] {
        let found = of_others(&[quiet[0], quiet[2], (comm, Some("python3")), ("/proc/830/cmdline", Some(command))]);
        assert_eq!(found[0].starts_with("senpai.py (PID 830)"), is_known, "{command:?}: {found:?}");
    }
    for (file, name, does) in [(lru, "DAMON_LRU_SORT", "sorts"), (reclaim, "DAMON_RECLAIM", "takes memory")] {
        let thread = file.replace("enabled", "kdamond_pid");
        let found = of_others(&[(stat, Some("N")), quiet[1], (file, Some("Y")), (&thread, Some("77\n"))]);
        assert_eq!(found.len(), 1, "its thread is known: {found:?}");
        assert!(found[0].starts_with(&format!("{name} ({file}, PID 77): holds DAMON")), "{found:?}");
        assert!(found[0].contains(does) && found[0].contains(&format!("echo N > {file}")), "{found:?}");
    }
    // A thread of DAMON that no file explains.
    let found = of_others(&[quiet[0], quiet[1]]);
    assert!(found.len() == 1 && found[0].starts_with("kdamond (PID 77)"), "{found:?}");
}

#[test]
fn pressure_of_groups_counts_those_that_tell() {
    let (system, user) = ("/sys/fs/cgroup/system.slice", "/sys/fs/cgroup/user.slice");
    let file = |group: &str, name: &str| format!("{group}/{name}.pressure");
    let pressure = |changes: &[(&str, Option<&str>)]| {
        let findings = changed("7.2", changes);
        let finding = of(&findings, "pressure of groups").clone();
        (finding.state, format!("{} {:?}", finding.words, finding.fix))
    };
    assert_eq!(pressure(&[]).1, "2 of 2 groups at the top tell theirs None");
    // On kernels that measure it (Debian's do not).
    let irq = "full avg10=0.00 avg60=0.00 avg300=0.00 total=811\n";
    assert!(pressure(&[(&file(user, "irq"), Some(irq))]).1.contains("; time of interrupts too"));
    let (state, words) = pressure(&[(&file(user, "cgroup"), Some("0\n"))]);
    assert_eq!(state, State::Partly);
    assert!(
        words.contains("1 of 2") && words.contains("echo 1 > /sys/fs/cgroup/user.slice/cgroup.pressure"),
        "{words}"
    );
    let (state, words) = pressure(&[(&file(user, "memory"), None), (&file(system, "memory"), Some("max"))]);
    assert!(state == State::Missing && words.contains("0 of 2") && words.contains("not understood"), "{words}");
}

#[test]
fn generations_that_are_off_or_absent_are_told_apart() {
    let enabled = "/sys/kernel/mm/lru_gen/enabled";
    let listing = "/sys/kernel/debug/lru_gen";
    for (changes, words, fix) in [
        (vec![(enabled, Some("0x0000\n"))], "switched off", "as root: echo y"),
        (vec![(enabled, None), (listing, None)], "no Multi-Gen LRU", "CONFIG_LRU_GEN: 6.1"),
        (vec![(listing, None)], "debugfs is not mounted", "as root: mount -t debugfs"),
    ] {
        let findings = changed("7.2", &changes);
        let generations = of(&findings, "generations");
        assert!(generations.state == State::Missing && generations.words.contains(words), "{generations:?}");
        assert!(generations.fix.as_deref().is_some_and(|told| told.contains(fix)), "{generations:?}");
    }
}

#[test]
fn root_in_a_container_is_not_told_to_become_root() {
    for (uid, fix) in [("0", "capabilities"), ("1000", "sudo")] {
        let status = format!("Uid:\t1000\t{uid}\t0\t0\nCapEff:\t0000000000200000\n");
        let findings = changed("7.2", &[("/proc/self/status", Some(&status))]);
        let rights = of(&findings, "rights");
        assert!(rights.words.starts_with("without CAP_SYS_PTRACE"), "{rights:?}");
        assert!(rights.fix.as_deref().is_some_and(|told| told.contains(fix)), "{rights:?}");
    }
}
