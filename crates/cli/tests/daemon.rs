//! `isotherm daemon check`, `run`, `status`, `reload` and `stop`, on a tree of files that represents a machine.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Output, Stdio};

use crate::machine::{GOOD, Machine, WEB, said};

#[test]
fn a_check_says_what_would_do_nothing_on_this_machine() {
    let machine = Machine::new();
    let limits = |target: &str| format!("[[limits]]\nname = \"a\"\ntarget = \"{target}\"\nenable = true\n");
    let checked = |text: &str| {
        let output = machine.check(text);
        assert!(output.status.success(), "{}", said(&output));
        said(&output)
    };
    assert!(!checked(&limits(WEB)).contains("on this host"), "its group is there");
    let absent = checked(&limits("/app.slcie/web-*.service"));
    assert!(
        absent.contains("on this host: limits.a: none of its groups is there now: /app.slcie/web-*.service"),
        "{absent}"
    );
    fs::remove_file(machine.path("sys/kernel/mm/lru_gen/enabled")).unwrap();
    let generations = checked(GOOD);
    assert!(generations.contains("no Multi-Gen LRU; it needs 6.1 or newer"), "{generations}");
    let elsewhere = machine.command(&["check", &machine.config(GOOD), "--no-host"]).output().unwrap();
    assert!(elsewhere.status.success() && !said(&elsewhere).contains("on this host"), "{}", said(&elsewhere));
    // A machine whose memory belongs to the other version of control groups.
    fs::write(machine.path("sys/fs/cgroup/cgroup.controllers"), "cpu\n").unwrap();
    fs::create_dir_all(machine.path("sys/fs/cgroup/memory")).unwrap();
    let other = checked(&limits(WEB));
    assert!(other.contains("on this host: limits: ") && other.contains("cgroup version 1"), "{other}");
}

#[test]
fn a_configuration_is_checked_with_the_place_of_what_is_wrong() {
    let machine = Machine::new();
    let good = machine.check(GOOD);
    assert!(good.status.success(), "{}", said(&good));
    assert!(String::from_utf8_lossy(&good.stdout).contains("1 sections, 0 of which may act"));
    let acting = GOOD.replace("mode =", "enable = true\nmode =");
    assert!(machine.check(&acting).status.success());
    let twice = format!("{acting}\n[[generations]]\nname = \"b\"\nmode = \"estimate\"\ntargets = [\"/app.slice\"]\n");
    for (text, place, words) in [
        (acting.replace("threshold", "treshold"), ":10:1: ", "did you mean `threshold`?"),
        (acting.replace("[\"web\"]", "[\"wbe\"]"), ":9:", "names: web"),
        (acting.replace("[\"web\"]", "[\"/system.slice/ssh.service\"]"), ":9:", "people come in through it"),
        (twice, ":15:", ".toml:9:"),
        ("[daemon]\nmax-cpu = \"200%\"\n".to_owned(), ":2:1: ", "up to 100%"),
        ("[guard]\nfile = \"stop\"\n".to_owned(), ":2:1: ", "no full path"),
        ("[[generations]".to_owned(), ":1:", ""),
        ("\0".to_owned(), ":1:", ""),
    ] {
        let refused = machine.check(&text);
        assert_eq!(refused.status.code(), Some(2), "{text}");
        assert!(said(&refused).contains(&format!("isotherm.toml{place}")), "{}", said(&refused));
        assert!(said(&refused).contains(words), "{}", said(&refused));
    }
    let path = machine.config(&acting);
    fs::set_permissions(&path, fs::Permissions::from_mode(0o666)).unwrap();
    let refused = machine.command(&["check", &path]).output().unwrap();
    assert!(refused.status.code() == Some(2) && said(&refused).contains("chmod go-w"), "{}", said(&refused));
    machine.write("huge.toml", &"# nothing\n".repeat(200_000));
    for (path, words) in [("huge.toml", "up to 1MiB"), ("", "allowed: a file")] {
        let refused = machine.command(&["check", machine.path(path).to_str().unwrap()]).output().unwrap();
        assert!(refused.status.code() == Some(2) && said(&refused).contains(words), "{path}: {}", said(&refused));
    }
    let absent = machine.command(&["check", "/nowhere/at/all.toml"]).output().unwrap();
    assert!(absent.status.code() == Some(2) && said(&absent).contains("no such file"), "{}", said(&absent));
}

const OWN: &str = "\
[[targets]]
name = \"web\"
cgroup = \"/app.slice/web-*.service\"

[[monitors]]
name = \"cold\"
engine = \"isotherm\"
targets = [\"web\"]
config = { strategy = \"ptp\", schemes = [{ action = \"pageout\", access-pattern = { nr-accesses = { max = 0 }, age = { min = \"2m\" } } }] }

[tiering]
policy = \"rch\"
targets = [\"/app.slice/db\"]
promotion = { cover = \"30s\" }
";

#[test]
fn engines_of_our_own_are_checked() {
    let machine = Machine::new();
    let good = machine.check(OWN);
    assert!(good.status.success(), "{}", said(&good));
    for (from, to, place, words) in [
        ("targets = [\"web\"]\n", "", ":5:", "name groups"),
        ("\"pageout\"", "\"hugepage\"", ":9:", "allowed: stat, willneed"),
        ("strategy = \"ptp\"", "operations = \"paddr\"", ":9:", "allowed: vaddr"),
        ("engine = \"isotherm\"", "engine = \"kernel\"", ":9:", "say what it has: leaf"),
        ("[\"/app.slice/db\"]", "[\"/app.slice/web-2.service\"]", ":13:", ".toml:8:"),
        ("targets = [\"/app.slice/db\"]\n", "", ":", "targets = "),
        ("policy = \"rch\"", "policy = \"rch\"\nengine = \"kernel\"", ":13:", ".toml:12:"),
        ("cover = \"30s\"", "cover = \"0s\"", ":14:", "cover"),
    ] {
        assert!(OWN.contains(from), "{from}");
        let refused = machine.check(&OWN.replacen(from, to, 1));
        let words_said = said(&refused);
        assert_eq!(refused.status.code(), Some(2), "{from}: {words_said}");
        assert!(words_said.contains(&format!("isotherm.toml{place}")) && words_said.contains(words), "{words_said}");
    }
}

#[test]
fn without_the_module_an_engine_of_our_own_waits_and_says_what_it_takes() {
    let machine = Machine::new();
    machine.config(OWN);
    let mut daemon = machine.daemon(&["--for", "1500ms"]);
    assert!(daemon.wait().unwrap().success());
    let lines = machine.lines();
    let is_it = |line: &serde_json::Value| {
        line["event"] == "trouble"
            && line["section"] == "monitors.cold"
            && line["why"].as_str().is_some_and(|why| why.contains("modprobe isotherm"))
    };
    assert_eq!(lines.iter().filter(|line| is_it(line)).count(), 1, "{lines:?}");
    let engine = |line: &serde_json::Value| line["engine"].as_str().is_some_and(|name| name.starts_with("isotherm"));
    assert_eq!(lines.iter().filter(|line| engine(line)).count(), 2, "{lines:?}");
}

#[test]
fn files_of_conf_d_come_after_the_first() {
    let machine = Machine::new();
    machine.config(GOOD);
    machine
        .write("conf.d/50-more.toml", "[[generations]]\nname = \"base\"\nmode = \"estimate\"\ntargets = [\"/db\"]\n");
    machine
        .write("conf.d/60-cold.toml", "[[generations]]\nname = \"cold\"\nmode = \"estimate\"\ntargets = [\"web\"]\n");
    machine.write("conf.d/notes.txt", "this is no configuration");
    let good = machine.check(GOOD);
    let words = String::from_utf8_lossy(&good.stdout).into_owned();
    assert!(
        good.status.success() && words.contains("with 2 files of conf.d: fine; 2 sections"),
        "{words}{}",
        said(&good)
    );
    for (text, place, words) in [
        ("[daemon]\nmax-cup = \"2%\"\n", "70.toml:2:1:", "did you mean `max-cpu`?"),
        ("[[generations]]\nname = \"x\"\nmode = \"estimate\"\ntargets = [\"wbe\"]\n", "70.toml:4:", "names: web"),
        ("[[generations]]\nname = \"x\"\nmode = \"estimate\"\ntargets = [\"/db\"]\n", "70.toml:4:", "50-more.toml:4:"),
        ("[guard]\nfile = \"x\"\n", "70.toml:2:", "no full path"),
        ("[", "70.toml:1:", ""),
        ("\0\u{1}", "70.toml:1:", ""),
    ] {
        machine.write("conf.d/70.toml", text);
        let refused = machine.check(GOOD);
        assert_eq!(refused.status.code(), Some(2), "{text}: {}", said(&refused));
        assert!(said(&refused).contains(place) && said(&refused).contains(words), "{text}: {}", said(&refused));
    }
    machine.write("conf.d/70.toml", "");
    assert!(machine.check(GOOD).status.success(), "an empty file says nothing");
    machine.write("conf.d/70.toml", &format!("# {}\n", "x".repeat(1 << 19)));
    assert!(machine.check(GOOD).status.success(), "long lines are fine");
    let acting = "[[generations]]\nname = \"cold\"\nmode = \"reclaim\"\nenable = true\ntargets = [\"web\"]\n";
    machine.write("conf.d/70.toml", acting);
    fs::set_permissions(machine.path("conf.d/70.toml"), fs::Permissions::from_mode(0o646)).unwrap();
    let refused = machine.check(GOOD);
    assert!(said(&refused).contains("70.toml can be written by others"), "{}", said(&refused));
}

#[test]
fn metrics_are_served_and_written() {
    use std::io::{Read as _, Write as _};
    let machine = Machine::new();
    let (socket, file) = (machine.path("metrics.sock"), machine.path("isotherm.prom"));
    let metrics =
        format!("{GOOD}\n[metrics]\nlisten = \"unix:{}\"\ntextfile = \"{}\"\n", socket.display(), file.display());
    machine.config(&metrics);
    let mut daemon = machine.daemon(&[]);
    machine.wait_for("the state", || machine.path("run/status.json").exists());
    let mut stream = std::os::unix::net::UnixStream::connect(&socket).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    let (head, body) = text.split_once("\r\n\r\n").unwrap();
    assert!(head.starts_with("HTTP/1.1 200 OK") && head.contains("openmetrics-text"), "{head}");
    for line in [
        "isotherm_pace_factor 1.0",
        "isotherm_section_enabled{section=\"generations.cold\"} 0.0",
        "isotherm_section_targets{section=\"generations.cold\"} 1.0",
        "isotherm_journal_open_changes 0.0",
        &format!("isotherm_target_used_bytes{{target=\"{WEB}\"}} 40000000.0"),
    ] {
        assert!(body.lines().any(|found| found == line), "{line}\n{body}");
    }
    assert!(fs::read_to_string(&file).unwrap().ends_with("# EOF\n"));
    assert!(machine.ask("stop", &[]).status.success() && daemon.wait().unwrap().success());
    assert!(!socket.exists() && !file.exists(), "they go with the daemon");
    let outside =
        machine.check(&GOOD.replace("[[generations]]", "[metrics]\nlisten = \"0.0.0.0:9464\"\n[[generations]]"));
    assert!(said(&outside).contains("isotherm.toml:6:") && said(&outside).contains("loopback"), "{}", said(&outside));
}

#[test]
fn one_daemon_runs_tells_what_it_does_and_ends_at_once() {
    let machine = Machine::new();
    machine.config(GOOD);
    assert_eq!(machine.ask("status", &[]).status.code(), Some(1), "none is at work");
    let mut daemon = machine.daemon(&[]);
    machine.wait_for("the state", || machine.path("run/status.json").exists());

    let mut second = machine.daemon(&[]);
    assert_eq!(second.wait().unwrap().code(), Some(3), "one on a machine");
    let status = machine.ask("status", &[]);
    let words = String::from_utf8_lossy(&status.stdout).into_owned();
    assert!(words.contains(&format!("process {}", daemon.id())) && words.contains(WEB), "{words}");
    let json: serde_json::Value =
        serde_json::from_slice(&machine.ask("status", &["--format", "json"]).stdout).expect("JSON");
    assert_eq!((&json["sections"][0]["section"], &json["dry_run"]), (&"generations.cold".into(), &false.into()));

    machine.config("[[generation]]\n");
    let refused = machine.ask("reload", &[]);
    assert!(refused.status.code() == Some(2) && said(&refused).contains("generation"), "{}", said(&refused));
    machine.config(&GOOD.replace("\"cold\"", "\"colder\""));
    assert!(machine.ask("reload", &[]).status.success());
    let is_new = || machine.lines().iter().any(|line| line["section"] == "generations.colder");
    machine.wait_for("the new section", is_new);

    let stopped = machine.ask("stop", &[]);
    assert!(stopped.status.success(), "{}", said(&stopped));
    assert!(daemon.wait().unwrap().success());
    assert_eq!(machine.ask("status", &[]).status.code(), Some(1));
    assert_eq!(machine.ask("stop", &[]).status.code(), Some(1));
    let lines = machine.lines();
    let has = |event: &str| lines.iter().any(|line| line["event"] == event && line["time"].is_string());
    assert!(["began", "section", "came", "ended"].into_iter().all(has), "{lines:?}");
    assert!(!machine.path("run/status.json").exists());
}

#[test]
fn a_dry_run_of_an_acting_configuration_does_not_act() {
    let machine = Machine::new();
    machine.config(&GOOD.replace("mode =", "enable = true\nmode ="));
    let mut daemon = machine.daemon(&["--dry-run", "--for", "2500ms"]);
    assert!(daemon.wait().unwrap().success());
    let lines = machine.lines();
    let acts: Vec<_> = lines.iter().filter(|line| line["event"] == "acted").collect();
    assert!(acts.iter().all(|line| line["act"]["effect"] == "would"), "{acts:?}");
    assert!(lines.iter().all(|line| line["event"] != "asks"), "{lines:?}");
    let begun = lines.iter().find(|line| line["event"] == "section").expect("a section");
    assert_eq!(begun["enabled"], false);
    // The plain file holds the last write: an ageing, which monitoring needs.
    let last = fs::read_to_string(machine.path("sys/kernel/debug/lru_gen")).unwrap();
    assert!(last.starts_with("+ 42 0 3 "), "{last}");
}

#[test]
fn an_empty_configuration_and_a_folder_that_cannot_be_written_are_refused() {
    let machine = Machine::new();
    machine.config("");
    let output = machine.daemon(&[]).wait_with_output().unwrap();
    assert!(output.status.code() == Some(2) && said(&output).contains("has no section"), "{}", said(&output));
    machine.config(GOOD);
    machine.write("file", "");
    let output = machine.daemon(&["--run-dir", machine.path("file/run").to_str().unwrap()]).wait_with_output().unwrap();
    assert!(output.status.code() == Some(1) && said(&output).contains("file/run/lock"), "{}", said(&output));
}

/// docs/use/operate.md: changes of a killed daemon are undone when the next one has started, or by `isotherm restore`.
#[test]
fn what_a_killed_daemon_left_is_put_back() {
    const MODULE: &str = "sys/module/damon_reclaim/parameters";
    let machine = Machine::new();
    // Parameters that this kernel lacks are at their defaults in the configuration.
    machine.config(
        "[[monitors]]\nname = \"all\"\nenable = true\npreset = { preset = \"reclaim\", min-age = \"30s\", quota-size = \"1MiB\" }\n",
    );
    let knobs = || {
        ["enabled", "min_age", "quota_sz", "monitor_region_end"]
            .map(|name| fs::read_to_string(machine.path(&format!("{MODULE}/{name}"))).unwrap().trim().to_owned())
    };
    let before = knobs();
    for round in 0..3 {
        let mut daemon = machine.daemon(&[]);
        machine.wait_for("the module", || knobs() == ["Y", "30000000", "1048576", "1073741824"]);
        daemon.kill().unwrap();
        daemon.wait().unwrap();
        assert_eq!(knobs(), ["Y", "30000000", "1048576", "1073741824"], "nobody could put it back");
        if round == 0 {
            let journal = machine.path("journal");
            let mut restore = machine.command(&["restore", "--journal", journal.to_str().unwrap()]);
            assert!(restore.arg("--root").arg(machine.folder.path()).status().unwrap().success());
            assert_eq!(knobs(), before);
        }
    }
    // The next daemon restores it, starts again, and ends normally.
    let daemon = machine.daemon(&["--for", "3s"]);
    let output = daemon.wait_with_output().unwrap();
    assert!(
        output.status.success() && said(&output).contains("an earlier daemon left it changed"),
        "{}",
        said(&output)
    );
    assert_eq!(knobs(), before);
}

/// docs/use/operate.md: a tape leads to the same decisions without the machine, and a changed tape is detected.
#[test]
fn a_tape_is_played_again() {
    let machine = Machine::new();
    machine.config(GOOD);
    let tape = machine.path("daemon.tape");
    let tape = tape.to_str().unwrap();
    let output = machine.daemon(&["--for", "12s", "--tape", tape]).wait_with_output().unwrap();
    assert!(output.status.success(), "{}", said(&output));
    let mode = fs::metadata(tape).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let told = |output: &Output| String::from_utf8_lossy(&output.stdout).into_owned() + &said(output);
    let replay = |more: &[&str]| machine.command(&["replay", tape]).args(more).output().unwrap();
    let same = replay(&[]);
    assert!(same.status.success() && told(&same).contains("the same decisions"), "{}", told(&same));
    let json: serde_json::Value = serde_json::from_slice(&replay(&["--format", "json"]).stdout).unwrap();
    let audit = fs::read_to_string(machine.path("log/actions.jsonl")).unwrap();
    assert_eq!(json["lines"].as_u64(), Some(audit.lines().count() as u64));
    assert_eq!((&json["left"], &json["difference"]), (&serde_json::json!(0), &serde_json::Value::Null));

    let other = machine.config(&GOOD.replace("threshold = \"2s\"", "threshold = \"9s\""));
    let output = replay(&["--config", &other]);
    assert!(output.status.success() && told(&output).contains("the first difference is at line"), "{}", told(&output));
    let text = fs::read_to_string(tape).unwrap();
    fs::write(tape, text.replace("\"came\"", "\"went\"")).unwrap();
    let changed = replay(&[]);
    assert!(changed.status.code() == Some(1) && told(&changed).contains("not the same at line"), "{}", told(&changed));
    for (damaged, words) in [("", "it is empty"), ("garbage\n", "line 1"), ("{\"isotherm-tape\":9}\n", "version 9")] {
        fs::write(tape, damaged).unwrap();
        let output = replay(&[]);
        assert!(output.status.code() == Some(1) && told(&output).contains(words), "{}", told(&output));
    }
}

/// docs/use/right-sizing.md: the same table as in a scenario, with a name and `enable`.
#[test]
fn a_group_is_sized_and_its_limit_taken_back() {
    let machine = Machine::new();
    let group = |file: &str| format!("sys/fs/cgroup{WEB}/{file}");
    for (file, text) in [
        ("memory.high", "max\n"),
        ("memory.current", "1073741824\n"),
        ("memory.stat", "anon 4096\nshmem 0\nworkingset_refault_anon 0\nworkingset_refault_file 0\n"),
        (
            "memory.pressure",
            "some avg10=0.00 avg60=0.00 avg300=0.00 total=0\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=0\n",
        ),
        ("memory.events", "low 0\nhigh 0\nmax 0\noom 0\noom_kill 0\n"),
    ] {
        machine.write(&group(file), text);
    }
    let high = || fs::read_to_string(machine.path(&group("memory.high"))).unwrap().trim().to_owned();
    let table = "target = \"/app.slice/web-*.service\"\nfloor = \"512MiB\"\ninterval = \"1s\"\n";
    let text = format!("[[limits]]\nname = \"size\"\nenable = true\n{table}");
    machine.config(&text);
    let mut daemon = machine.daemon(&[]);
    machine.wait_for("a limit", || high() != "max");
    let limit: u64 = high().parse().unwrap();
    assert!((512 << 20..1 << 30).contains(&limit), "{limit}");
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    assert_ne!(high(), "max", "nobody could put it back");
    let journal = machine.path("journal");
    let mut restore = machine.command(&["restore", "--journal", journal.to_str().unwrap()]);
    assert!(restore.arg("--root").arg(machine.folder.path()).status().unwrap().success());
    assert_eq!(high(), "max");
    let output = machine.daemon(&["--for", "4s"]).wait_with_output().unwrap();
    assert!(output.status.success() && said(&output).contains("memory.high = "), "{}", said(&output));
    assert_eq!(high(), "max");

    // Contradictions, each with both places.
    let wrong = [
        (text.replace("512MiB", "1GiB") + "ceiling = \"1MiB\"\n", "ceiling"),
        (text.replace("/app.slice/web-*.service", "/system.slice/sshd.service"), "left alone"),
        (text.clone() + &text.replace("size", "other"), "two would write one memory.high"),
        (text.clone() + "limit = 1\n", "limit"),
        (text.replace("1s", "1ms"), "interval"),
    ];
    for (text, words) in wrong {
        let output = machine.check(&text);
        assert!(output.status.code() == Some(2) && said(&output).contains(words), "{words}: {}", said(&output));
    }
}

/// docs/use/operate.md: messages to a service manager.
#[test]
fn the_service_manager_hears_of_it() {
    let machine = Machine::new();
    machine.config(GOOD);
    let socket = std::os::unix::net::UnixDatagram::bind(machine.path("notify")).unwrap();
    socket.set_read_timeout(Some(std::time::Duration::from_secs(20))).unwrap();
    let mut command = machine.command(&["run"]);
    command.arg(machine.path("isotherm.toml")).arg("--root").arg(machine.folder.path()).args(["--for", "6s", "-q"]);
    for (flag, path) in [("--audit", "log/actions.jsonl"), ("--journal", "journal"), ("--run-dir", "run")] {
        command.arg(flag).arg(machine.path(path));
    }
    command.env("NOTIFY_SOCKET", machine.path("notify")).env("WATCHDOG_USEC", "4000000").env_remove("WATCHDOG_PID");
    let mut daemon = command.spawn().unwrap();
    let heard = || {
        let mut bytes = [0; 256];
        let length = socket.recv(&mut bytes).unwrap();
        String::from_utf8_lossy(&bytes[..length]).trim().to_owned()
    };
    assert_eq!(heard(), "READY=1");
    assert_eq!(heard(), "WATCHDOG=1");
    let pid = rustix::process::Pid::from_child(&daemon);
    rustix::process::kill_process(pid, rustix::process::Signal::HUP).unwrap();
    let rest: Vec<String> = std::iter::repeat_with(heard).take_while(|text| text != "STOPPING=1").collect();
    let at = rest.iter().position(|text| text.starts_with("RELOADING=1\nMONOTONIC_USEC=")).expect("a reload");
    assert!(rest[at..].contains(&"READY=1".to_owned()), "{rest:?}");
    assert!(rest.iter().filter(|text| *text == "WATCHDOG=1").count() >= 2, "{rest:?}");
    assert!(daemon.wait().unwrap().success());
}

/// Holds a lease on a file until its standard input ends; meanwhile an open for writing blocks (fcntl(2)).
const HOLDER: &str = "\
import fcntl, os, signal, sys
signal.signal(signal.SIGIO, signal.SIG_IGN)
fcntl.fcntl(os.open(sys.argv[1], os.O_RDONLY), fcntl.F_SETLEASE, fcntl.F_RDLCK)
print('held', flush=True)
sys.stdin.read()
";

#[test]
fn a_call_that_does_not_come_back_holds_nobody_up() {
    use std::io::{BufRead as _, BufReader};
    let machine = Machine::new();
    machine.config(&GOOD.replace("mode =", "enable = true\nmode ="));
    let mut python = Command::new("python3");
    python.args(["-c", HOLDER]).arg(machine.path("sys/kernel/debug/lru_gen"));
    let mut holder = python.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("python3 starts");
    let mut line = String::new();
    BufReader::new(holder.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "held\n");
    let mut daemon = machine.daemon(&[]);
    let is_stuck = || machine.lines().iter().any(|line| line.to_string().contains("has not come back"));
    machine.wait_for("it tells that the kernel does not come back", is_stuck);
    // The daemon goes on: the state is written, and only the section waits.
    let is_written = || machine.ask("status", &["--format", "json"]).status.success();
    machine.wait_for("the state", is_written);
    assert!(machine.ask("stop", &[]).status.success());
    assert!(daemon.wait().unwrap().success());
    drop(holder.stdin.take());
    holder.wait().unwrap();
}
