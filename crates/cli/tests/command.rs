//! The command from outside: exit codes, streams, and messages for bad input.

use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

fn isotherm(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_isotherm"));
    command.args(arguments).stdin(Stdio::null());
    command
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

struct Said {
    code: Option<i32>,
    stdout: String,
    stderr: String,
}

fn run(arguments: &[&str]) -> Said {
    let Output { status, stdout, stderr } = isotherm(arguments).output().unwrap();
    Said { code: status.code(), stdout: lossy(stdout), stderr: lossy(stderr) }
}

fn lossy(bytes: Vec<u8>) -> String {
    String::from_utf8_lossy(&bytes).into_owned()
}

#[test]
fn help_and_version_are_results() {
    let version = run(&["-V"]);
    assert_eq!(
        (version.code, version.stdout.as_str()),
        (Some(0), concat!("isotherm ", env!("CARGO_PKG_VERSION"), "\n"))
    );
    let help = run(&["--help"]);
    assert_eq!(help.code, Some(0));
    assert!(help.stdout.contains("Exit codes:") && help.stderr.is_empty());
}

#[test]
fn a_wrong_command_line_is_2_and_says_what_is_allowed() {
    for arguments in [&["advice"][..], &["import", "x"], &["import", "x", "-o", "y", "--from", "xml"], &[]] {
        let said = run(arguments);
        assert_eq!(said.code, Some(2), "{arguments:?}: {}", said.stderr);
        assert!(said.stdout.is_empty() && !said.stderr.is_empty(), "{arguments:?}");
    }
    assert!(run(&["advice"]).stderr.contains("'advise'"), "a near name is suggested");
}

/// `isotherm … | head -c1`: no message, no panic, and exit code 0.
#[test]
fn a_reader_that_leaves_is_no_error() {
    let trace = root().join("traces/sqlite.parquet");
    let mut child = isotherm(&["report", "heatmap", trace.to_str().unwrap(), "--format", "csv"])
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let mut first = [0];
    child.stdout.take().unwrap().read_exact(&mut first).unwrap(); // and drops the pipe
    let output = child.wait_with_output().unwrap();
    assert_eq!((output.status.code(), lossy(output.stderr).as_str()), (Some(0), ""));
}

#[test]
fn results_are_plain_where_no_terminal_is() {
    let trace = root().join("traces/sqlite.parquet");
    let info = run(&["report", "info", trace.to_str().unwrap()]);
    assert_eq!(info.code, Some(0), "{}", info.stderr);
    assert!(!info.stdout.contains('\x1b') && !info.stderr.contains('\x1b'));
}

/// Every verb that takes a file, with `FILE` where it goes.
const READERS: &[&[&str]] = &[
    &["import", "FILE", "-o", "OUT", "--from", "parquet"],
    &["import", "FILE", "-o", "OUT", "--from", "lackey"],
    &["import", "FILE", "-o", "OUT", "--from", "oracle-general"],
    &["import", "FILE", "-o", "OUT", "--from", "csv"],
    &["import", "FILE", "-o", "OUT", "--from", "text"],
    &["import", "FILE", "-o", "OUT", "--from", "lcs"],
    &["import", "FILE", "-o", "OUT", "--from", "drmemtrace"],
    &["import", "FILE", "-o", "OUT", "--from", "perf-samples"],
    &["trace", "cut", "FILE", "-o", "OUT", "--from", "1s"],
    &["trace", "filter", "FILE", "-o", "OUT", "--range", "0-1GiB"],
    &["trace", "merge", "FILE", "FILE", "-o", "OUT"],
    &["export", "FILE", "-o", "OUT", "--to", "csv"],
    &["report", "info", "FILE"],
    &["report", "heatmap", "FILE"],
    &["report", "wss", "FILE"],
    &["report", "mrc", "FILE"],
    &["report", "hot", "FILE"],
    &["report", "idle", "FILE"],
    &["report", "access", "FILE"],
    &["monitor", "FILE", "-o", "OUT"],
    &["accuracy", "FILE"],
    &["import", "FILE", "-o", "OUT", "--from", "json"],
    &["import", "FILE", "-o", "OUT", "--from", "perf_script"],
    &["advise", "FILE"],
    &["simulate", "FILE"],
];

/// Missing, a folder, empty, garbage, and a real trace cut off early and in the middle: one message that names the file,
/// exit code 1 or 2, never a panic, and no output file left behind.
#[test]
fn bad_files_get_one_clear_message() {
    let folder = tempfile::tempdir().unwrap();
    let trace = std::fs::read(root().join("traces/sqlite.parquet")).unwrap();
    let garbage: Vec<u8> = (0..5000u32).map(|i| i.wrapping_mul(2_654_435_761).to_le_bytes()[2]).collect();
    let contents: [(&str, &[u8]); 5] = [
        ("empty", b""),
        ("garbage", &garbage),
        ("magic-only", b"PAR1"),
        ("cut-early", &trace[..40]),
        ("cut-in-the-middle", &trace[..trace.len() / 2]),
    ];
    for (name, bytes) in contents {
        std::fs::write(folder.path().join(name), bytes).unwrap();
    }
    std::fs::create_dir(folder.path().join("folder")).unwrap();
    for name in contents.iter().map(|(name, _)| *name).chain(["missing", "folder"]) {
        let file = folder.path().join(name);
        for reader in READERS {
            let output = folder.path().join("output");
            let place = |word: &&str| match *word {
                "FILE" => file.to_str().unwrap().to_owned(),
                "OUT" => output.to_str().unwrap().to_owned(),
                other => other.to_owned(),
            };
            let arguments: Vec<String> = reader.iter().map(place).collect();
            let said = run(&arguments.iter().map(String::as_str).collect::<Vec<_>>());
            let context = format!("{arguments:?}: {:?} {}", said.code, said.stderr);
            assert!(matches!(said.code, Some(1 | 2)), "{context}");
            assert!(said.stderr.contains("error: ") && said.stderr.contains(name), "{context}");
            assert!(!said.stderr.contains("panicked") && said.stderr.lines().count() <= 4, "{context}");
            assert!(said.stdout.is_empty() && !output.exists(), "{context}");
        }
    }
}

#[test]
fn a_trace_survives_a_round_trip_through_other_formats() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    std::fs::write(folder.path().join("pages.txt"), "7\n9 w\n7\n8\n1000000\n9\n").unwrap();
    for (arguments, output) in [
        (["import", "pages.txt", "-o", "a.parquet"], "a.parquet"),
        (["export", "a.parquet", "-o", "a.oracleGeneral.zst"], "a.oracleGeneral.zst"),
        (["import", "a.oracleGeneral.zst", "-o", "b.parquet"], "b.parquet"),
        (["export", "b.parquet", "-o", "b.oracleGeneral"], "b.oracleGeneral"),
    ] {
        let said = isotherm(&arguments).current_dir(folder.path()).output().unwrap();
        assert!(said.status.success() && folder.path().join(output).exists(), "{}", lossy(said.stderr));
    }
    let records = std::fs::read(path("b.oracleGeneral")).unwrap();
    let record = |index: usize| {
        let at = &records[index * 24..];
        let page = u64::from_le_bytes(at[4..12].try_into().unwrap());
        (page, i64::from_le_bytes(at[16..24].try_into().unwrap()))
    };
    assert_eq!(records.len(), 6 * 24);
    let expected = [(7, 2), (9, 5), (7, -1), (8, -1), (1_000_000, -1), (9, -1)];
    assert_eq!((0..6).map(record).collect::<Vec<_>>(), expected);
}

/// A user names his group so that it would set the title of a root's terminal, and turn the writing direction.
#[test]
fn names_of_others_steer_no_terminal() {
    const NAME: &str = "/user.slice/\u{1b}]0;OWNED\u{7}\u{9b}2J\u{202e}x";
    let folder = tempfile::tempdir().unwrap();
    let audit = folder.path().join("actions.jsonl");
    let left_alone = serde_json::json!({ "time": "2026-01-01T00:00:01.000Z", "event": "left-alone", "section": "limits.web", "target": NAME, "why": "protect" });
    std::fs::write(&audit, format!("{left_alone}\n")).unwrap();
    let explain = ["daemon", "explain", "--audit", audit.to_str().unwrap()];
    let words = run(&explain);
    assert_eq!(words.code, Some(0), "{}", words.stderr);
    assert!(words.stdout.contains("left /user.slice/?]0;OWNED??2J?x alone: protect"), "{:?}", words.stdout);
    // A program gets the name as it is.
    let json: serde_json::Value =
        serde_json::from_str(&run(&[&explain[..], &["--format", "json"]].concat()).stdout).unwrap();
    assert_eq!(json["sections"]["limits.web"]["left_alone"][NAME], "protect");
}
