//! `isotherm-lab verify` and `rig ready` as commands, in a real kernel if one is available. Without an emulator, a kernel or the guest's
//! program that test says so and passes; with `ISOTHERM_REQUIRE_ALL=1` it fails.
#![expect(clippy::print_stdout, reason = "says what is skipped, and what is fetched")]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use isotherm_rig::AtHand;
use isotherm_trace::{EventKind, MapKind, MapRange, TraceMeta, TraceRow, TraceWriter};

/// Exit code, standard output and standard error, with kernels and the guest's program from the folder `target` that cargo builds into.
fn run(arguments: &[&str], target: &Path) -> (Option<i32>, String, String) {
    let mut command = Command::new(env!("CARGO_BIN_EXE_isotherm-lab"));
    command.args(arguments).stdin(Stdio::null()).env("ISOTHERM_CACHE", target);
    let output = command.env("ISOTHERM_GUEST", target.join("guest/isotherm-guest")).output().unwrap();
    let text = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    (output.status.code(), text(output.stdout), text(output.stderr))
}

/// Ten sweeps over 2000 pages.
fn recording(folder: &Path) -> PathBuf {
    const MS: u64 = 1_000_000;
    let path = folder.join("sweeps.parquet");
    let mut writer = TraceWriter::create(&path, TraceMeta { epoch_ns: MS, ..TraceMeta::single("sweeps") }).unwrap();
    let (start, end) = (1 << 20, (1 << 20) + 2000);
    let map = MapRange { start, end, what: MapKind::Anonymous, ..MapRange::default() };
    writer.event(0, 0, EventKind::Map(map)).unwrap();
    for ms in 0..200 {
        let page = start + ms % 20 * 100;
        writer.push(TraceRow { time_ns: ms * MS, thread: 0, page, pages: 100, write: true, kernel: false }).unwrap();
    }
    writer.set_outcome(Some(0), true).unwrap();
    writer.finish().unwrap();
    path
}

#[test]
fn plays_are_counted_by_a_real_kernel_in_their_order() {
    let target = Path::new(env!("CARGO_TARGET_TMPDIR")).parent().expect("it lies in the target folder");
    let is_required = std::env::var_os("ISOTHERM_REQUIRE_ALL").is_some_and(|all| all == "1");
    let found = AtHand::find(target, "6.12", is_required, &|what| println!("{what}")).unwrap();
    if found.is_none() {
        return;
    }
    assert_eq!(run(&["rig", "ready", "6.12"], target), (Some(0), String::new(), String::new()));
    let folder = tempfile::tempdir().unwrap();
    let trace = recording(folder.path());
    let plays = ["--play", "6.12/classic/16MiB", "--play", "6.12/classic/6MiB", "--play", "6.12/mglru/16MiB"];
    let (code, results, talk) =
        run(&[&["verify", "--format", "json"], &plays[..], &[trace.to_str().unwrap()]].concat(), target);
    assert_eq!(code, Some(0), "{talk}");
    let json: serde_json::Value = serde_json::from_str(&results).unwrap();
    let rows = json["rows"].as_array().unwrap();
    let of = |name: &str| rows.iter().map(|row| row[name].clone()).collect::<Vec<_>>();
    assert_eq!(of("policy"), ["classic", "classic", "mglru"]);
    assert_eq!(of("memory_bytes"), [16 << 20, 6 << 20, 16 << 20]);
    let faults: Vec<u64> = rows.iter().map(|row| row["major_faults"].as_u64().unwrap()).collect();
    // Its 7.8 MiB fit or do not: sweeps over more than the memory have at least each fourth page missing.
    assert!(faults[0] < 50 && faults[1] > 1000 && faults[2] < 50, "{faults:?}");

    let (code, results, talk) = run(&["verify", "nowhere.parquet", "--play", "6.12/classic/1MiB"], target);
    assert_eq!((code, results.as_str()), (Some(1), ""));
    assert!(talk.contains("nowhere.parquet: there is no such recording"), "{talk}");
}

#[test]
fn what_cannot_be_played_is_told_first() {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("guest")).unwrap();
    std::fs::write(folder.path().join("guest/isotherm-guest"), "").unwrap();
    for arguments in [&["rig", "ready", "5.4"][..], &["verify", "nowhere.parquet", "--play", "5.4/classic/1MiB"]] {
        let (code, results, talk) = run(arguments, folder.path());
        assert_eq!((code, results.as_str()), (Some(2), ""), "{arguments:?}");
        assert!(talk.contains("no kernel is called `5.4`"), "{talk}");
    }
    for (play, says) in [("6.12/opt/1MiB", "no policy of kernels is called `opt`"), ("6.12", "as in 7.2/classic")] {
        let (code, _, talk) = run(&["verify", "nowhere.parquet", "--play", play], folder.path());
        assert!(code == Some(2) && talk.contains(says), "{talk}");
    }
}
