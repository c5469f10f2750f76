//! `isotherm record` with a fake engine, without an engine, and on hosts that run out of a resource.
#![expect(clippy::print_stderr, reason = "a test that is skipped says why")]

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};

/// Records `sh -c 'exit 3'` with the engine at this place.
fn record(folder: &Path, arguments: &[&str], engine: &Path) -> Output {
    let mut command = Command::new(env!("CARGO_BIN_EXE_isotherm"));
    command.arg("record").args(arguments).args(["--", "sh", "-c", "exit 3"]).current_dir(folder);
    // Findings of other tests about the engine must not be used here.
    command.env("XDG_CACHE_HOME", folder.join("cache")).env("ISOTHERM_VALGRIND", engine).output().unwrap()
}

/// Reports why a test is skipped, or fails if all tests must run.
fn skip(why: &str) {
    assert!(std::env::var_os("ISOTHERM_REQUIRE_ALL").is_none_or(|value| value != "1"), "{why}");
    eprintln!("skipped: {why}");
}

/// Whether the engine records here. Builds it, because tests of this crate do not depend on it; if Valgrind's headers are missing,
/// the build says so.
fn engine_works() -> bool {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let made = Command::new("make").args(["--silent", "recorder"]).current_dir(&root).status();
    assert!(made.is_ok_and(|status| status.success()), "`make recorder` fails");
    isotherm_recorder::probe_engine().map_err(|error| skip(&format!("nothing is recorded here: {error}"))).is_ok()
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// A launcher that runs `line`, next to a file with the tool's name.
fn pretender(folder: &Path, line: &str) -> std::path::PathBuf {
    let tool = folder.join("isorec-amd64-linux");
    let launcher = folder.join("isorec-launcher");
    std::fs::write(&tool, "").unwrap();
    std::fs::write(&launcher, format!("#!/bin/sh\n{line}\n")).unwrap();
    std::fs::set_permissions(&launcher, std::fs::Permissions::from_mode(0o755)).unwrap();
    tool
}

#[test]
fn an_engine_that_records_nothing_is_named() {
    let folder = tempfile::tempdir().unwrap();
    for line in ["exit 0", "exit 9"] {
        let output = record(folder.path(), &["-o", "t.parquet"], &pretender(folder.path(), line));
        let text = said(&output);
        assert_eq!(output.status.code(), Some(3), "{text}");
        assert!(
            text.contains("programs cannot be recorded here:") && text.contains("before the program began"),
            "{text}"
        );
        assert!(text.contains("apt-get install valgrind"), "the way out: {text}");
        assert!(!folder.path().join("t.parquet").exists());
    }
}

/// Counts its starts in `starts`, sends the data of an engine for a program that touches one page, and exits normally.
const SENDS_ONE_ROW: &str = r#"echo >> "${0%/*}/starts"
for word; do case $word in --spool=*) spool=${word#--spool=};; esac; done
printf 'iTR1\022\0\0\0\0\0\0\0\0\0\0\0\001\001\011\011\0\0\0\001p\002\0\0\003\310\001\0\013\001' > "$spool/fifo""#;

#[test]
fn an_engine_that_was_found_to_work_is_not_tried_again_until_something_changes() {
    let folder = tempfile::tempdir().unwrap();
    let tool = pretender(folder.path(), SENDS_ONE_ROW);
    std::fs::write(folder.path().join("vgpreload_core-amd64-linux.so"), "").unwrap();
    let starts = || std::fs::read_to_string(folder.path().join("starts")).map_or(0, |lines| lines.len());
    let run = || {
        let output = record(folder.path(), &["-o", "t.parquet"], &tool);
        (output.status.code(), said(&output))
    };
    for starts_now in [2, 3, 4] {
        let (code, text) = run();
        assert_eq!((code, starts()), (Some(0), starts_now), "tried once: {text}");
        assert!(text.contains("1 rows"), "{text}");
    }
    std::fs::write(&tool, "another").unwrap();
    assert_eq!((run().0, starts()), (Some(0), 6), "another file is tried");
    std::fs::remove_dir_all(folder.path().join("cache")).unwrap();
    std::fs::write(folder.path().join("cache"), "no folder").unwrap();
    assert_eq!((run().0, starts()), (Some(0), 8), "without a cache it is tried each time");
    assert_eq!((run().0, starts()), (Some(0), 10));
}

#[test]
fn a_finding_that_does_not_hold_is_said_and_tried_again() {
    let folder = tempfile::tempdir().unwrap();
    // Works until the file `broken` exists, which no finding can show.
    let line = format!("test -e \"${{0%/*}}/broken\" && exit 9\n{SENDS_ONE_ROW}");
    let tool = pretender(folder.path(), &line);
    std::fs::write(folder.path().join("vgpreload_core-amd64-linux.so"), "").unwrap();
    let run = || {
        let output = record(folder.path(), &["-o", "t.parquet"], &tool);
        (output.status.code(), said(&output))
    };
    assert_eq!(run().0, Some(0));
    std::fs::write(folder.path().join("broken"), "").unwrap();
    let (code, text) = run();
    assert_eq!(code, Some(1), "{text}");
    assert!(text.contains("before the program began"), "{text}");
    let (code, text) = run();
    assert_eq!(code, Some(3), "now it is tried first: {text}");
    assert!(text.contains("programs cannot be recorded here:"), "{text}");
}

#[test]
fn an_engine_that_hangs_is_given_up_and_killed() {
    let folder = tempfile::tempdir().unwrap();
    let tool = pretender(folder.path(), "sleep 1234567 & echo $! > \"${0%/*}/pid\"; wait");
    let began = std::time::Instant::now();
    let output = record(folder.path(), &["-o", "t.parquet"], &tool);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("did not end within 10 s with a program that does nothing, and was killed"), "{text}");
    assert!(began.elapsed().as_secs() < 1234, "it was not waited for");
    let pid = std::fs::read_to_string(folder.path().join("pid")).unwrap();
    // A signal takes effect when its process next runs.
    loop {
        let status = std::fs::read_to_string(format!("/proc/{}/stat", pid.trim())).unwrap_or_default();
        if status.is_empty() || status.contains(") Z ") {
            break;
        }
        assert!(began.elapsed().as_secs() < 60, "what it started is gone too: {status}");
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
}

/// A launcher that sends the contents of `chunks`: a thread that touches `rows` scattered pages, and then ends.
fn sender(folder: &Path, rows: u64) -> std::path::PathBuf {
    let hello = [1, 1, 9, 9, 0, 0, 0, 1, b'p', 2, 0, 0];
    let (mut chunks, mut payload, mut sequence) = (Vec::new(), hello.to_vec(), 0u32);
    let mut send = |payload: &mut Vec<u8>, chunks: &mut Vec<u8>| {
        chunks.extend(b"iTR1");
        for word in [u32::try_from(payload.len()).unwrap(), 0, sequence] {
            chunks.extend(word.to_le_bytes());
        }
        chunks.append(payload);
        sequence += 1;
    };
    let (mut state, mut end) = (1u64, 0i64);
    for _ in 0..rows {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let page = i64::try_from(state >> 40).unwrap();
        let mut delta = ((page - end) << 1 ^ (page - end) >> 63).cast_unsigned();
        payload.push(3);
        while delta >= 0x80 {
            payload.push(delta.to_le_bytes()[0] | 0x80);
            delta >>= 7;
        }
        payload.extend([delta.to_le_bytes()[0], 0]);
        end = page + 1;
        if payload.len() > 4000 {
            send(&mut payload, &mut chunks);
            (payload, end) = (vec![2, 0, 0], 0);
        }
    }
    payload.extend([11, 1]);
    send(&mut payload, &mut chunks);
    std::fs::write(folder.join("chunks"), chunks).unwrap();
    let line = r#"for word; do case $word in --spool=*) spool=${word#--spool=};; esac; done; cat "${0%/*}/chunks" > "$spool/fifo""#;
    pretender(folder, line)
}

/// The stored finding about a working engine: its file below the folder, and its bytes.
fn finding(folder: &Path, tool: &Path) -> (std::path::PathBuf, Vec<u8>) {
    std::fs::write(folder.join("vgpreload_core-amd64-linux.so"), "").unwrap();
    let output = record(folder, &["-o", "first.parquet"], tool);
    assert_eq!(output.status.code(), Some(0), "{}", said(&output));
    let file = folder.join("cache/isotherm/engines/valgrind");
    let bytes = std::fs::read(&file).unwrap();
    (file, bytes)
}

/// Rows of a trace that must open.
fn rows(trace: &Path) -> u64 {
    isotherm_trace::TraceReader::open(trace)
        .unwrap_or_else(|error| panic!("what was recorded opens: {error}"))
        .meta()
        .rows
}

#[test]
fn a_file_that_may_not_grow_further_keeps_what_it_has_and_the_program_runs_on() {
    let folder = tempfile::tempdir().unwrap();
    let tool = sender(folder.path(), 4000);
    let (kept, bytes) = finding(folder.path(), &tool);
    let trace = folder.path().join("out/t.parquet");
    let mut codes = std::collections::BTreeSet::new();
    // Every file that isotherm writes is limited to `limit` bytes, including its own spool of 4096.
    for limit in (0..30_000u64).step_by(397) {
        let _ = std::fs::remove_dir_all(folder.path().join("out"));
        std::fs::create_dir(folder.path().join("out")).unwrap();
        // The engine must not be tried under the limit, and its finding is dropped when a recording fails.
        std::fs::write(&kept, &bytes).unwrap();
        let mut command = Command::new("prlimit");
        command.arg(format!("--fsize={limit}:{limit}")).arg(env!("CARGO_BIN_EXE_isotherm"));
        command.args(["record", "-o"]).arg(&trace).args(["--", "true"]);
        command.env("XDG_CACHE_HOME", folder.path().join("cache")).env("ISOTHERM_VALGRIND", &tool);
        let output = command.output().unwrap();
        let (code, text) = (output.status.code(), said(&output));
        match code {
            Some(0) => assert_eq!(rows(&trace), 4000, "{limit}: {text}"),
            Some(4) => {
                assert!(text.contains("disk full while writing"), "{limit}: {text}");
                assert!([0, 4000].contains(&rows(&trace)), "{limit}: all batches or none: {text}");
            }
            // Failed before the program was started.
            Some(1) => assert!(text.contains("File too large") && !trace.exists(), "{limit}: {text}"),
            _ => panic!("{limit}: {code:?} {text}"),
        }
        codes.extend(code);
        let left = std::fs::read_dir(folder.path().join("out")).unwrap().count();
        assert_eq!(left, usize::from(code != Some(1)), "{limit}: no temporary file stays");
    }
    assert_eq!(codes, [0, 1, 4].into(), "limits of all three kinds were tried");
}

#[test]
fn a_full_disk_keeps_what_it_has_and_the_program_runs_on() {
    let folder = tempfile::tempdir().unwrap();
    let tool = sender(folder.path(), 20_000);
    finding(folder.path(), &tool);
    let place = folder.path().join("disk");
    std::fs::create_dir(&place).unwrap();
    let (mut codes, mut kept) = (std::collections::BTreeSet::new(), std::collections::BTreeSet::new());
    for pages in (2..48).step_by(3) {
        // A separate file system that ends with the shell, so its files are read before.
        let line = format!(
            "mount -t tmpfs -o size={} none disk || exit 99
             {} record -o disk/t.parquet -- true; code=$?
             cp disk/t.parquet out; ls -A disk | wc -l > names; exit $code",
            pages * 4096,
            env!("CARGO_BIN_EXE_isotherm")
        );
        let mut command = Command::new("unshare");
        command.args(["--mount", "sh", "-c", &line]).current_dir(folder.path());
        command.env("XDG_CACHE_HOME", folder.path().join("cache")).env("ISOTHERM_VALGRIND", &tool);
        let output = command.output();
        let Ok(output) = output else { return skip("no unshare") };
        let (code, text) = (output.status.code(), said(&output));
        if matches!(code, Some(99)) || text.contains("unshare failed") {
            return skip("file systems are mounted by root");
        }
        let rows = rows(&folder.path().join("out"));
        match code {
            Some(0) => assert_eq!(rows, 20_000, "{pages}: {text}"),
            Some(4) => assert!(text.contains("disk full while writing"), "{pages}: {text}"),
            _ => panic!("{pages}: {code:?} {text}"),
        }
        assert_eq!(std::fs::read_to_string(folder.path().join("names")).unwrap().trim(), "1", "{pages}: {text}");
        codes.extend(code);
        kept.insert(rows);
    }
    assert_eq!(codes, [0, 4].into());
    assert!(kept.contains(&20_000) && kept.contains(&0), "{kept:?}");
}

#[test]
fn more_processes_than_open_files_are_recorded_to_their_ends() {
    if !engine_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let line = "ulimit -Sn 24; exec \"$0\" record -o t.parquet -- \
                sh -c 'for i in 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 19 20 21 22 23 24 25 26 27 28 29 30
                       do (sleep 3; exit 7) & done; exit 5'";
    let mut command = Command::new("sh");
    command.args(["-c", line, env!("CARGO_BIN_EXE_isotherm")]).current_dir(folder.path());
    let output = command.env("XDG_CACHE_HOME", folder.path().join("cache")).output().unwrap();
    assert_eq!(output.status.code(), Some(5), "{}", said(&output));
    let trace = isotherm_trace::TraceReader::open(folder.path().join("t.parquet")).unwrap();
    let meta = trace.meta();
    assert!(meta.complete && meta.processes.len() >= 31, "{} processes: {}", meta.processes.len(), said(&output));
    // Each process slept, which is in the trace only if it was recorded to its end.
    let slept = meta.events.iter().filter(|event| matches!(event.kind, isotherm_trace::EventKind::Idle { .. }));
    let slept: std::collections::BTreeSet<u32> = slept.map(|event| event.thread).collect();
    assert!(slept.len() >= 30, "{} slept", slept.len());
}

#[test]
fn an_engine_that_is_missing_is_said_with_the_places_looked_at() {
    let folder = tempfile::tempdir().unwrap();
    let output = record(folder.path(), &["-o", "t.parquet"], &folder.path().join("nowhere"));
    let text = said(&output);
    assert_eq!(output.status.code(), Some(3), "{text}");
    assert!(text.contains("isorec-amd64-linux not found; looked at") && text.contains("ISOTHERM_VALGRIND="), "{text}");
    assert!(text.contains("apt-get install valgrind"), "the way out: {text}");
}

#[test]
fn advice_on_a_command_runs_it_by_itself_first_where_it_may_run_twice() {
    let folder = tempfile::tempdir().unwrap();
    let advise = |engine: Option<&Path>, flags: &[&str], input: Stdio| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_isotherm"));
        command.args(["advise", "--kernel", "6.12", "--memory", "100%"]).args(flags).args(["--", "sh", "-c", ":"]);
        command.stdin(input).env("XDG_CACHE_HOME", folder.path().join("cache"));
        command.envs(engine.map(|place| ("ISOTHERM_VALGRIND", place))).output().unwrap()
    };
    let without = advise(Some(&folder.path().join("nowhere")), &[], Stdio::null());
    assert_eq!(without.status.code(), Some(3), "{}", said(&without));
    if !engine_works() {
        return;
    }
    // A pipe can be read only once.
    let cases = [
        (None, false, true),
        (Some("--once"), false, false),
        (None, true, false),
        (Some("--native-first"), true, true),
    ];
    for (flag, is_pipe, is_first) in cases {
        let input = if is_pipe { Stdio::piped() } else { Stdio::null() };
        let output = advise(None, flag.as_slice(), input);
        assert_eq!(output.status.code(), Some(0), "{}", said(&output));
        let answer = String::from_utf8_lossy(&output.stdout);
        assert_eq!(answer.contains("resident when it ran by itself"), is_first, "{flag:?}: {answer}");
        let talk = String::from_utf8_lossy(&output.stderr);
        assert_eq!(talk.contains("running it once unchanged"), is_first, "{talk}");
        assert_eq!(talk.contains("can be read only once"), flag.is_none() && !is_first, "{talk}");
    }
    let both = advise(None, &["--once", "--native-first"], Stdio::null());
    assert_eq!(both.status.code(), Some(2), "{}", said(&both));
}

#[test]
fn a_native_run_needs_no_engine_and_no_file() {
    let folder = tempfile::tempdir().unwrap();
    let nowhere = folder.path().join("nowhere");
    let output = record(folder.path(), &["--native-only"], &nowhere);
    let text = said(&output);
    assert_eq!(output.status.code(), Some(3), "the program's own: {text}");
    assert!(text.contains("without recording:") && text.contains("resident"), "{text}");
    assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    let refused = record(folder.path(), &["--native-only", "-o", "t.parquet"], &nowhere);
    assert_eq!(refused.status.code(), Some(2), "{}", said(&refused));
}

/// Commands of the tutorial that need no rights: those before "Apply".
pub(crate) fn tutorial() -> Vec<String> {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/use/tutorial.md");
    let text = std::fs::read_to_string(page).unwrap();
    let (head, _) = text.split_once("## 4. Apply").unwrap();
    let steps: Vec<String> = head.lines().filter_map(|line| line.strip_prefix("$ ")).map(str::to_owned).collect();
    assert!(steps.len() >= 7, "{steps:?}");
    steps
}

#[test]
fn the_tutorial_works() {
    if !engine_works() {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    let programs = Path::new(env!("CARGO_BIN_EXE_isotherm")).parent().unwrap().display();
    let path = format!("{programs}:{}", std::env::var("PATH").unwrap());
    let output = Command::new("sh")
        .args(["-ec", &tutorial().join("\n")])
        .current_dir(folder.path())
        .env("PATH", path)
        .env("XDG_CACHE_HOME", folder.path().join("cache"))
        .output()
        .unwrap();
    let words = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success(), "{}\n{words}", said(&output));
    assert!(words.contains("Recommendation: ") && words.contains("Working set in windows"), "{words}");
}
