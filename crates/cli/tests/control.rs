//! The control socket of the daemon (docs/use/operate.md#the-control-socket), from outside.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::Shutdown;
use std::os::unix::fs::{FileTypeExt as _, PermissionsExt as _, symlink};
use std::os::unix::net::{UnixListener, UnixStream};
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command};
use std::time::Duration;

use serde_json::Value;

use crate::machine::{GOOD, Machine, said};

/// A daemon that answers.
fn started(machine: &Machine) -> Child {
    machine.config(GOOD);
    let daemon = machine.daemon(&[]);
    machine.wait_for("an answer", || UnixStream::connect(machine.path("run/control")).is_ok());
    daemon
}

fn ended(machine: &Machine, mut daemon: Child) {
    let stopped = machine.ask("stop", &[]);
    assert!(stopped.status.success(), "{}", said(&stopped));
    assert!(daemon.wait().unwrap().success());
    assert!(!machine.path("run/control").exists(), "it goes with the daemon");
}

fn connected(machine: &Machine) -> UnixStream {
    let stream = UnixStream::connect(machine.path("run/control")).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
    stream
}

/// The answer to some bytes.
fn answer(mut stream: UnixStream, bytes: &[u8]) -> Value {
    // The daemon may hang up before all of it is sent.
    let _ = stream.write_all(bytes).and_then(|()| stream.shutdown(Shutdown::Write));
    let mut line = String::new();
    BufReader::new(stream).read_line(&mut line).unwrap();
    serde_json::from_str(&line).unwrap_or_else(|error| panic!("{error}: {line:?}"))
}

fn since_start(machine: &Machine) -> u64 {
    let output = machine.ask("status", &["--format", "json"]);
    let status: Value = serde_json::from_slice(&output.stdout).unwrap_or_else(|_| panic!("{}", said(&output)));
    assert_eq!(status["sections"][0]["section"], "generations.cold");
    status["since_start_ns"].as_u64().unwrap()
}

#[test]
fn the_state_is_of_now_and_for_its_owner() {
    let machine = Machine::new();
    let daemon = started(&machine);
    let data = fs::metadata(machine.path("run/control")).unwrap();
    assert!(data.file_type().is_socket());
    assert_eq!(data.permissions().mode() & 0o777, 0o600);
    // The file is renewed every five seconds; five answers in a row are five states.
    let times: Vec<u64> = (0..5).map(|_| since_start(&machine)).collect();
    assert!(times.is_sorted_by(|a, b| a < b), "{times:?}");
    let _ = fs::remove_file(machine.path("run/status.json"));
    let words = String::from_utf8(machine.ask("status", &[]).stdout).unwrap();
    assert!(words.contains("generations.cold") && !words.contains("as of"), "{words}");

    let mut second = machine.daemon(&[]);
    assert_eq!(second.wait().unwrap().code(), Some(3), "one on a machine");
    since_start(&machine);
    ended(&machine, daemon);
}

#[test]
fn a_reload_says_what_came_of_it() {
    let machine = Machine::new();
    let daemon = started(&machine);
    machine.config("[[generation]]\n");
    let refused = machine.ask("reload", &[]);
    let words = said(&refused);
    assert_eq!(refused.status.code(), Some(2), "{words}");
    assert!(words.contains("isotherm.toml:1:") && words.contains("the old one goes on"), "{words}");
    let has = |event: &str, section: &str| {
        machine.lines().iter().any(|line| line["event"] == event && (section.is_empty() || line["section"] == section))
    };
    assert!(has("not-reloaded", "") && since_start(&machine) > 0);
    machine.config(&GOOD.replace("\"cold\"", "\"colder\""));
    let taken = machine.ask("reload", &[]);
    assert!(taken.status.success() && said(&taken).contains("has taken"), "{}", said(&taken));
    // Nothing is waited for: it is in force when the answer is there.
    assert!(machine.ask("status", &[]).stdout.windows(18).any(|bytes| bytes == b"generations.colder"));
    ended(&machine, daemon);
}

const STRANGER: &str = "\
import socket, sys
for ask in ('status', 'reload', 'stop'):
    stream = socket.socket(socket.AF_UNIX)
    stream.connect(sys.argv[1])
    stream.sendall(('{\"ask\":\"%s\"}\\n' % ask).encode())
    print(stream.makefile().readline(), end='')
";

/// The mode alone keeps strangers out; here it does not.
#[test]
fn a_stranger_is_refused_whatever_the_mode() {
    if !rustix::process::geteuid().is_root() {
        return;
    }
    let machine = Machine::new();
    let daemon = started(&machine);
    let open = |path: &str, mode| fs::set_permissions(machine.path(path), fs::Permissions::from_mode(mode)).unwrap();
    open("", 0o755);
    let stranger = || {
        let mut python = Command::new("python3");
        python.args(["-c", STRANGER]).arg(machine.path("run/control")).current_dir("/").uid(65_534).gid(65_534);
        python.output().expect("python3 starts")
    };
    assert!(said(&stranger()).contains("PermissionError"), "{}", said(&stranger()));
    open("run/control", 0o666);
    let output = stranger();
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert_eq!(text.lines().count(), 3, "{text}{}", said(&output));
    for line in text.lines() {
        let refused: Value = serde_json::from_str(line).unwrap();
        assert_eq!(
            (&refused["answer"], &refused["why"]),
            (&"refused".into(), &"user 65534 may not ask: root alone may".into())
        );
    }
    assert_eq!(machine.lines().iter().filter(|line| line["event"] == "began").count(), 1);
    ended(&machine, daemon);
}

#[test]
fn what_is_no_request_is_refused() {
    let machine = Machine::new();
    let daemon = started(&machine);
    let huge = "x".repeat(1 << 20);
    for (bytes, words) in [
        ("", "no end of line"),
        ("{\"ask\":\"stop\"}", "no end of line"),
        ("\n", "no request"),
        ("\0\u{1}garbage\n", "no request"),
        ("[\"stop\"]garbage\n", "no request"),
        ("{\"ask\":\"dance\"}\n", "allowed: one line"),
        ("{\"ask\":\"stop\",\"now\":true}\n", "unknown field"),
        (&huge, "within 4096 bytes"),
        (&format!("{{\"ask\":\"stop\"{}}}\n", " ".repeat(5000)), "within 4096 bytes"),
    ] {
        let refused = answer(connected(&machine), bytes.as_bytes());
        let why = refused["why"].as_str().unwrap_or_default();
        assert!(refused["answer"] == "refused" && why.contains(words), "{:.40}: {refused}", bytes);
    }
    // Who hangs up gets no answer, and nothing comes of half a request.
    drop(connected(&machine));
    connected(&machine).write_all(b"{\"ask\":").unwrap();
    assert_eq!(answer(connected(&machine), b"{\"ask\":\"status\"}\nand more\n")["answer"], "status");
    ended(&machine, daemon);
}

/// More than have a place. The newest of them are still waited for when who asks has the answer.
#[test]
fn the_silent_and_the_slow_hold_up_nobody() {
    let machine = Machine::new();
    let daemon = started(&machine);
    let is_at_once = || {
        let mut silent: Vec<UnixStream> = (0..200).map(|_| connected(&machine)).collect();
        for stream in silent.iter_mut().step_by(2) {
            // Those that had to go do not take it.
            let _ = stream.write_all(b"{\"ask\":");
        }
        assert_eq!(answer(connected(&machine), b"{\"ask\":\"status\"}\n")["answer"], "status");
        let newest = silent.last_mut().unwrap();
        newest.set_nonblocking(true).unwrap();
        newest.read(&mut [0]).is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock)
    };
    // A machine that is busy for two seconds in between tells nothing.
    assert!((0..5).any(|_| is_at_once()), "the silent were waited for");
    ended(&machine, daemon);
}

#[test]
fn a_socket_of_a_dead_daemon_is_replaced_and_nothing_else() {
    let machine = Machine::new();
    let mut daemon = started(&machine);
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    assert!(machine.path("run/control").exists(), "nobody could remove it");
    assert_eq!(machine.ask("status", &[]).status.code(), Some(1));
    let daemon = started(&machine);
    since_start(&machine);
    ended(&machine, daemon);

    let control = machine.path("run/control");
    let refused = |what: &str| {
        let output = machine.daemon(&[]).wait_with_output().unwrap();
        let words = said(&output);
        assert!(output.status.code() == Some(1) && words.contains("something else is there"), "{what}: {words}");
        assert!(fs::symlink_metadata(&control).is_ok(), "{what} is left alone");
    };
    machine.write("run/control", "mine");
    refused("a file");
    assert_eq!(fs::read_to_string(&control).unwrap(), "mine");
    fs::rename(&control, machine.path("mine")).unwrap();
    symlink(machine.path("mine"), &control).unwrap();
    refused("a link");
    fs::remove_file(&control).unwrap();
    fs::create_dir(&control).unwrap();
    refused("a folder");
    fs::remove_dir(&control).unwrap();
    let _listener = UnixListener::bind(&control).unwrap();
    refused("a socket that somebody listens at");
}

/// What a daemon without a socket is asked by: its files and signals.
#[test]
fn without_a_socket_there_are_files_and_signals() {
    let machine = Machine::new();
    let mut daemon = started(&machine);
    machine.wait_for("the state", || machine.path("run/status.json").exists());
    fs::remove_file(machine.path("run/control")).unwrap();
    let words = String::from_utf8(machine.ask("status", &[]).stdout).unwrap();
    assert!(words.contains("as of "), "{words}");
    machine.config("[[generation]]\n");
    let refused = machine.ask("reload", &[]);
    assert!(refused.status.code() == Some(2) && said(&refused).contains("isotherm.toml:1:"), "{}", said(&refused));
    machine.config(&GOOD.replace("\"cold\"", "\"colder\""));
    let asked = machine.ask("reload", &[]);
    assert!(asked.status.success() && !said(&asked).contains("has taken"), "{}", said(&asked));
    machine.wait_for("the new section", || machine.lines().iter().any(|line| line["section"] == "generations.colder"));
    assert!(machine.ask("stop", &[]).status.success());
    assert!(daemon.wait().unwrap().success());
}

#[test]
fn who_is_not_the_daemon_is_not_asked() {
    let machine = Machine::new();
    let mut daemon = started(&machine);
    fs::remove_file(machine.path("run/control")).unwrap();
    let listener = UnixListener::bind(machine.path("run/control")).unwrap();
    for verb in ["status", "reload", "stop"] {
        let refused = machine.ask(verb, &[]);
        let words = said(&refused);
        assert_eq!(refused.status.code(), Some(1), "{words}");
        assert!(words.contains("is not the daemon") && words.contains(&daemon.id().to_string()), "{words}");
        let mut bytes = Vec::new();
        listener.accept().unwrap().0.read_to_end(&mut bytes).unwrap();
        assert!(bytes.is_empty(), "{verb}: {bytes:?}");
    }
    drop(listener);
    assert!(machine.ask("stop", &[]).status.success(), "without a listener there are signals");
    assert!(daemon.wait().unwrap().success());
}

#[test]
fn a_daemon_that_does_not_answer_is_told_as_such() {
    let machine = Machine::new();
    let daemon = started(&machine);
    machine.wait_for("the state", || machine.path("run/status.json").exists());
    let signal = |signal| rustix::process::kill_process(rustix::process::Pid::from_child(&daemon), signal).unwrap();
    signal(rustix::process::Signal::STOP);
    let old = machine.ask("status", &[]);
    let words = String::from_utf8_lossy(&old.stdout).into_owned();
    assert!(words.contains("as of "), "{words}{}", said(&old));
    assert!(said(&old).contains("did not answer within"), "{}", said(&old));
    let reload = machine.ask("reload", &[]);
    assert!(reload.status.code() == Some(1) && said(&reload).contains("is not known"), "{}", said(&reload));
    signal(rustix::process::Signal::CONT);
    ended(&machine, daemon);
}
