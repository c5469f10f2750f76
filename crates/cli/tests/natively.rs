//! `isotherm verify` from outside, on this machine. Needs root and a memory cgroup hierarchy; skipped with a message, or an error when
//! ISOTHERM_REQUIRE_ALL=1.

use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

fn isotherm(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_isotherm"));
    command.arg("verify").args(arguments).stdin(Stdio::null());
    command
}

fn verify(arguments: &[&str]) -> Output {
    isotherm(arguments).output().unwrap()
}

fn talk(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Groups that were made, of all processes.
fn groups() -> Vec<PathBuf> {
    let entries =
        ["/sys/fs/cgroup", "/sys/fs/cgroup/memory"].into_iter().filter_map(|folder| std::fs::read_dir(folder).ok());
    let paths = entries.flatten().flatten().map(|entry| entry.path());
    paths
        .filter(|path| path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("isotherm-own-")))
        .collect()
}

/// Reports why a test is skipped where no groups can be made.
fn can_verify() -> bool {
    let output = verify(&["--memory", "64MiB", "--", "no-such-program"]);
    if output.status.code() == Some(3) {
        crate::roots::skip(talk(&output).trim());
        return false;
    }
    true
}

/// A program that takes 48 MiB and prints the lengths of two bursts.
const PROGRAM: [&str; 3] = ["python3", "-c", "x = bytearray(48 << 20); print(1000); print(2000)"];

#[test]
fn a_command_is_run_alone_and_under_each_limit() {
    if !can_verify() {
        return;
    }
    let flags = ["--memory", "256MiB,200MiB", "--pairs", "2", "--bursts", "--anyway", "--format", "json", "--"];
    let output = verify(&[&flags[..], &PROGRAM].concat());
    assert!([Some(0), Some(1), Some(4)].contains(&output.status.code()), "{}", talk(&output));
    let verified: Value = serde_json::from_slice(&output.stdout).unwrap();
    let turns = verified["turns"].as_array().unwrap();
    let limits = |turn: &Value| {
        let mut limits: Vec<Option<u64>> =
            turn.as_array().unwrap().iter().map(|run| run["memory_bytes"].as_u64()).collect();
        limits.sort_unstable();
        limits
    };
    assert_eq!(turns.iter().map(limits).collect::<Vec<_>>(), vec![vec![None, Some(200 << 20), Some(256 << 20)]; 2]);
    for run in turns.iter().flat_map(|turn| turn.as_array().unwrap()) {
        assert_eq!(run["end"]["exit"], 0, "{run}");
        assert_eq!(run["bursts_ns"], serde_json::json!([1000, 2000]));
        assert!(run["peak_bytes"].as_u64().is_none_or(|peak| peak > 48 << 20 && peak < 200 << 20), "{run}");
    }
    let starts: Vec<&str> = turns.iter().map(|turn| turn[0]["start"].as_str().unwrap()).collect();
    assert_eq!(starts, ["warm", "cold"]);
    let sizes = verified["sizes"].as_array().unwrap();
    assert_eq!(sizes.iter().map(|size| size["is_asked"].as_bool().unwrap()).collect::<Vec<_>>(), [true, false]);
    assert_eq!(sizes[0]["runtime_ratio"]["mean"], 1.0, "bursts are as long in each run");
    assert_eq!(sizes[0]["verdict"], "holds");
}

#[test]
fn a_limit_that_is_too_small_does_not_hold() {
    if !can_verify() {
        return;
    }
    let has_swap = std::fs::read_to_string("/proc/swaps").is_ok_and(|swaps| swaps.lines().count() > 1);
    let flags = ["--memory", "24MiB", "--pairs", "1", "--start", "warm", "--anyway", "--"];
    let output = verify(&[&flags[..], &PROGRAM].concat());
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    if !has_swap {
        assert_eq!(output.status.code(), Some(1), "{}", talk(&output));
        assert!(printed.contains("python3 does not hold at 24.0 MiB"), "{printed}");
        assert!(printed.contains("the kernel killed in 1 of 1 runs"), "{printed}");
    }
    assert!(printed.contains("does not hold") || has_swap, "{printed}");
}

#[test]
fn commands_that_say_nothing_are_refused() {
    if !can_verify() {
        return;
    }
    for (arguments, code, words) in [
        (&["--memory", "64MiB", "--", "no-such-program"][..], 2, "program `no-such-program` not found"),
        (&["--memory", "64MiB", "--", "sh", "-c", "echo why >&2; exit 3"], 1, "ended with exit code 3; it said: why"),
        (&["--memory", "64MiB", "--", "sh", "-c", "kill -11 $$"], 1, "was ended by signal 11"),
        (&["--memory", "64MiB", "--at-most", "300ms", "--", "sleep", "60"], 1, "isotherm daemon trial"),
        (&["--memory", "64MiB", "--bursts", "--", "echo", "ready"], 1, "printed `ready` where the length of a burst"),
        (&["--memory", "64MiB,lots", "--", "true"], 2, "lots"),
        (&["--advice", "/no/such/file", "--", "true"], 2, "/no/such/file"),
        (&["--advice", "/proc/self/cmdline", "--", "true"], 2, "is no JSON"),
        (&["--memory", "64MiB", "--start", "hot", "--", "true"], 2, "allowed: both, cold, warm"),
        (&["--memory", "64MiB", "--latency", "2ms", "--", "true"], 2, "--bursts"),
        (&["--memory", "64MiB"], 2, "COMMAND"),
    ] {
        let output = verify(&[&["--anyway"], arguments].concat());
        assert_eq!(output.status.code(), Some(code), "{arguments:?}: {}", talk(&output));
        assert!(talk(&output).contains(words), "{arguments:?}: {}", talk(&output));
        assert!(output.stdout.is_empty(), "{arguments:?}");
    }
}

#[test]
fn whoever_is_left_behind_is_ended_and_named() {
    if !can_verify() {
        return;
    }
    let line = "sleep 600 & exit 0";
    let output = verify(&["--memory", "64MiB", "--pairs", "1", "--anyway", "--", "sh", "-c", line]);
    let printed = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(printed.contains("left processes behind, which were ended"), "{printed}{}", talk(&output));
}

/// Also after SIGKILL, when this program can do nothing more.
#[test]
fn nothing_is_left_after_any_end() {
    if !can_verify() {
        return;
    }
    for signal in [rustix::process::Signal::INT, rustix::process::Signal::TERM, rustix::process::Signal::KILL] {
        let mark = format!("{}.{}", 600 + signal.as_raw(), std::process::id());
        let mut command = isotherm(&["--memory", "64MiB", "--anyway", "--", "sleep", &mark]);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).process_group(0).spawn().unwrap();
        let own = format!("isotherm-own-{}", child.id());
        let has_group = || groups().iter().any(|path| path.ends_with(&own));
        let within = |what: &str, is_so: &dyn Fn() -> bool| {
            let began = Instant::now();
            while !is_so() {
                assert!(began.elapsed() < Duration::from_secs(20), "{signal:?}: {what}");
                std::thread::sleep(Duration::from_millis(20));
            }
        };
        let runs = || {
            let line = |pid: &str| std::fs::read_to_string(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.file_name());
            processes.into_iter().any(|pid| line(&pid.to_string_lossy()) == format!("sleep\0{mark}\0"))
        };
        within("the command runs", &|| has_group() && runs());
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), signal).unwrap();
        let status = child.wait().unwrap();
        if signal != rustix::process::Signal::KILL {
            assert_eq!(status.code(), Some(4), "{signal:?}");
        }
        within("its group is gone", &|| !has_group());
        within("the command is ended", &|| !runs());
    }
}

#[test]
fn without_the_right_to_make_groups_it_says_what_to_do() {
    if !rustix::process::geteuid().is_root() {
        return crate::roots::skip("only root can be another user");
    }
    // Where another user may enter: the build's folder need not be one.
    let folder = tempfile::tempdir().unwrap();
    let program = folder.path().join("isotherm");
    std::fs::copy(env!("CARGO_BIN_EXE_isotherm"), &program).unwrap();
    std::fs::set_permissions(folder.path(), std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    let mut command = Command::new(&program);
    command.args(["verify", "--memory", "64MiB", "--", "true"]).stdin(Stdio::null()).current_dir("/");
    let output = command.uid(65_534).gid(65_534).output().unwrap();
    assert_eq!(output.status.code(), Some(3), "{}", talk(&output));
    assert!(talk(&output).contains("root"), "{}", talk(&output));
}

/// A calibration is measured, written, taken by `advise`, and refused where it is damaged.
#[test]
fn prices_of_this_machine_are_measured_and_taken() {
    let folder = tempfile::tempdir().unwrap();
    let path = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let isotherm = |arguments: &[&str]| {
        let mut command = Command::new(env!("CARGO_BIN_EXE_isotherm"));
        command.args(arguments).stdin(Stdio::null()).output().unwrap()
    };
    let host = path("host.toml");
    let output = isotherm(&["calibrate", "--anyway", "-o", &host, "--format", "json"]);
    assert!(output.status.success(), "{}", talk(&output));
    let calibration: Value = serde_json::from_slice(&output.stdout).unwrap();
    let measured = calibration["measured"].as_array().unwrap();
    assert!(
        measured.iter().any(|one| one["name"] == "minor_fault_anon_ns" && one["ns"].as_u64() > Some(0)),
        "{calibration}"
    );
    let swaps = std::fs::read_to_string("/proc/swaps").is_ok_and(|swaps| swaps.lines().count() > 1);
    let has_swapped = measured.iter().any(|one| one["name"] == "swapped_page_ns");
    assert!(has_swapped || talk(&output).contains("swapping is not measured"), "{}", talk(&output));
    assert!(swaps || !has_swapped, "{calibration}");

    let storage = &calibration["storage"];
    assert!(storage.is_object() || talk(&output).contains("the disk under files is not measured"), "{}", talk(&output));
    let output = isotherm(&["calibrate", "--anyway", "-o", &path("nowhere.toml"), "--folder", "/no/such/folder"]);
    assert!(output.status.success() && talk(&output).contains("/no/such/folder"), "{}", talk(&output));
    assert!(!std::fs::read_to_string(path("nowhere.toml")).unwrap().contains("[storage]"));

    // Prices that no machine has, so that each difference is theirs.
    let text = std::fs::read_to_string(&host).unwrap();
    let dear = path("dear.toml");
    let swapped = "simulated-swapped-page-ns = 1000\n";
    let more =
        "\n[[measured]]\nname = \"swapped_page_ns\"\nns = 20000\nquarter-ns = [1, 2]\nsamples = 3\nhow = \"by hand\"\n";
    let text = text.lines().filter(|line| !line.starts_with("simulated-swapped")).collect::<Vec<_>>().join("\n");
    let text = text.replacen("[host]", &format!("{swapped}[host]"), 1).replace("\"swapped_page_ns\"", "\"earlier\"");
    std::fs::write(&dear, text + more).unwrap();
    let trace = path("pages.parquet");
    let source = path("pages.txt");
    let requests: String = (0..8u32).flat_map(|_| (0..600u32).map(|page| format!("{page}\n"))).collect();
    std::fs::write(&source, requests).unwrap();
    assert!(isotherm(&["--quiet", "convert", "import", &source, "-o", &trace, "--from", "text"]).status.success());
    let advise = |more: &[&str]| {
        let output = isotherm(
            &[
                &["advise", &trace, "--kernel", "7.2", "--memory", "60%", "--no-cache", "--anyway", "--format", "json"],
                more,
            ]
            .concat(),
        );
        assert!(output.status.success(), "{}", talk(&output));
        serde_json::from_slice::<Value>(&output.stdout).unwrap()
    };
    let (plain, priced) = (advise(&[]), advise(&["--host", &dear]));
    assert_eq!((plain["prices"].clone(), priced["prices"]["swap_in_fault_ns"].clone()), (Value::Null, 30_000.into()));
    let slow = |answer: &Value| answer["rows"][0]["runtime_ratio_ppm"]["median"].as_u64().unwrap();
    assert!(slow(&priced) > slow(&plain), "{} {}", slow(&priced), slow(&plain));

    let on = |device: &str| {
        let head = "version = 1\nmade-at = 1\n[host]\nmachine = \"x\"\nkernel = \"x\"\nprocessor = \"x\"\npolicy = \"classic\"\n";
        format!("{head}[storage]\nfolder = \"/srv\"\ndevice = \"{device}\"\n")
    };
    std::fs::write(path("disk"), on("latency=4ms,bandwidth=30MiB/s,queue=1")).unwrap();
    let of_host = advise(&["--host", &path("disk")]);
    assert_eq!(of_host["storage"], "latency=4ms,bandwidth=30MiB/s,queue=1");
    assert_eq!(advise(&["--host", &path("disk"), "--storage", "ssd"])["storage"], "ssd");

    for (name, text, words) in [
        ("empty", "", "isotherm calibrate"),
        ("slow", &on("latency=0us,bandwidth=30MiB/s"), "a time from 1us to 10s"),
        ("garbage", "\u{0}\u{1}", "isotherm calibrate"),
        ("torn", "version = 1\nmade-at = 1\n[host]\nmachine = \"x", "isotherm calibrate"),
        ("foreign", "title = \"a scenario\"\n", "title"),
    ] {
        std::fs::write(path(name), text).unwrap();
        let output = isotherm(&["advise", &trace, "--host", &path(name)]);
        assert_eq!(output.status.code(), Some(2), "{name}: {}", talk(&output));
        assert!(talk(&output).contains(words) && talk(&output).contains(name), "{name}: {}", talk(&output));
    }
    assert_eq!(isotherm(&["advise", &trace, "--host", "/no/such"]).status.code(), Some(2));
    let output = isotherm(&["calibrate", "--anyway", "-o", "/proc/self/no/such"]);
    assert_eq!(output.status.code(), Some(1), "{}", talk(&output));
}

/// The command prints while it is recorded; results alone go to standard output, of `advise` too.
#[test]
fn what_a_recorded_command_prints_is_no_result() {
    if !can_verify() {
        return;
    }
    let output = verify(&["--anyway", "--format", "json", "--", "sh", "-c", "echo printed"]);
    if output.status.code() == Some(3) {
        return crate::roots::skip(talk(&output).trim());
    }
    assert_eq!(output.status.code(), Some(2), "{}", talk(&output));
    assert!(talk(&output).contains("recommends no size"), "{}", talk(&output));
    assert_eq!(String::from_utf8_lossy(&output.stdout), "");
    let mut advise = Command::new(env!("CARGO_BIN_EXE_isotherm"));
    advise.args(["advise", "--anyway", "--no-cache", "--effort", "quick", "--format", "json", "--"]);
    let output = advise.args(["sh", "-c", "echo printed"]).stdin(Stdio::null()).output().unwrap();
    let answer: Value =
        serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{error}: {}", talk(&output)));
    assert_eq!(answer["program"], "sh");
}
