//! `min-ttl` of the daemon's configuration, on a tree of files: forecast, dry run, write, restore.

use super::machine::{GOOD, Machine, WEB, said};
use std::fs;
use std::process::Output;

const FILE: &str = "sys/kernel/mm/lru_gen/min_ttl_ms";

fn machine() -> Machine {
    let machine = Machine::new();
    machine.write(FILE, "0\n");
    let listing = format!(
        "memcg     1 /\n node     0\n          0      90000          0          0\n          1      60000          0          0\n\
         memcg    42 {WEB}\n node     0\n          0      90000          0       8192\n          1      60000          0          0\n          \
         2        500          0       8192\n          3          0        200          0\n"
    );
    machine.write("sys/kernel/debug/lru_gen", &listing);
    for (pid, score, adjustment) in [(700, 812, 0), (701, 900, -1000), (702, 100, 0)] {
        let stat = format!("{pid} (p{pid}) S 1 1 1 0 -1 0 {}\n", "0 ".repeat(43));
        for (file, text) in [
            ("stat", stat.as_str()),
            ("oom_score", &format!("{score}\n")),
            ("oom_score_adj", &format!("{adjustment}\n")),
            ("cgroup", &format!("0::{WEB}\n")),
        ] {
            machine.write(&format!("proc/{pid}/{file}"), text);
        }
    }
    machine
}

fn with(min_ttl: &str, enable: bool) -> String {
    GOOD.replace("threshold", &format!("enable = {enable}\nmin-ttl = \"{min_ttl}\"\nthreshold"))
}

fn ended(output: Output) -> String {
    let words = format!("{}{}", String::from_utf8_lossy(&output.stdout), said(&output));
    assert!(output.status.success(), "{words}");
    words
}

#[test]
fn a_check_says_when_and_whom_and_writes_nothing() {
    let machine = machine();
    let words = ended(machine.check(&with("1s", true)));
    let now = "on this host: min-ttl = 1s: nothing would be killed now: 32.0 MiB of node 0 that may be evicted is older, up to 1.50 m";
    assert!(words.contains(now), "{words}");
    assert!(words.contains("it would take p700 (PID 700, oom_score 812)"), "{words}");
    machine.write(&format!("sys/fs/cgroup{WEB}/memory.oom.group"), "1\n");
    assert!(ended(machine.check(&with("1s", true))).contains(&format!("and all of {WEB} with it")));
    let words = ended(machine.check(&with("2min", false)));
    assert!(words.contains("would kill as soon as memory of node 0 is short"), "{words}");
    machine.write(&format!("sys/fs/cgroup{WEB}/memory.min"), "max\n");
    machine.write("proc/sys/vm/panic_on_oom", "1\n");
    let words = ended(machine.check(&with("1s", true)));
    assert!(words.contains("with every value but 0") && words.contains("the machine would panic"), "{words}");
    assert_eq!(fs::read_to_string(machine.path(FILE)).unwrap(), "0\n");
    assert!(!ended(machine.check(GOOD)).contains("min-ttl"));
    // A machine that cannot do it.
    machine.write("sys/kernel/mm/lru_gen/enabled", "0x0000\n");
    let words = ended(machine.check(&with("1s", true)));
    assert!(words.contains("min-ttl.kernel: the Multi-Gen LRU is off") && !words.contains("killed"), "{words}");
    fs::remove_dir_all(machine.path("sys/kernel/mm/lru_gen")).unwrap();
    let words = ended(machine.check(&with("1s", true)));
    assert!(words.contains("no Multi-Gen LRU") && !words.contains("min-ttl ="), "{words}");
    // Values of the kernel, and one of them.
    let two = with("1s", true)
        + &GOOD[GOOD.find("[[generations]]").unwrap()..]
            .replace("cold", "b")
            .replace("targets = [\"web\"]", "targets = [\"/b\"]\nmin-ttl = \"2s\"");
    for (text, words) in [(with("1500us", true), "whole milliseconds"), (two, "one value for the whole machine")] {
        let refused = machine.check(&text);
        assert_eq!(refused.status.code(), Some(2), "{text}");
        assert!(said(&refused).contains(words), "{}", said(&refused));
    }
}

/// In a tree of files a command to age would take the place of the listing, so no group is aged here.
fn without_groups(text: &str) -> String {
    text.replace("/app.slice/web-*.service", "/app.slice/none-*.service")
}

#[test]
fn a_dry_run_and_explain_say_it_too() {
    let machine = machine();
    machine.config(&without_groups(&with("1s", true)));
    let output = machine.daemon(&["--dry-run", "--for", "2s"]).wait_with_output().unwrap();
    let words = ended(output);
    assert!(words.contains("min-ttl.kernel: min-ttl = 1s: nothing would be killed now"), "{words}");
    assert!(words.contains(&format!("would write /{FILE} = 1000")), "{words}");
    assert_eq!(fs::read_to_string(machine.path(FILE)).unwrap(), "0\n");
    let audit = machine.path("log/actions.jsonl");
    let explain = |more: &[&str]| {
        let all = [&["explain", "--live", "--audit", audit.to_str().unwrap()], more].concat();
        ended(machine.command(&all).output().unwrap())
    };
    let words = explain(&["--section", "min-ttl.kernel"]);
    assert!(words.contains("forecast when it was last written, or would have been: min-ttl = 1s"), "{words}");
    assert!(words.contains("would take p700"), "{words}");
    let json: serde_json::Value = serde_json::from_str(&explain(&["--format", "json"])).unwrap();
    assert!(json["sections"]["min-ttl.kernel"]["forecast"].as_str().unwrap().contains("p700"));
}

#[test]
fn it_is_put_back_at_the_end_and_after_a_kill() {
    let machine = machine();
    machine.config(&without_groups(&with("1s", true)));
    let held = || fs::read_to_string(machine.path(FILE)).unwrap().trim().to_owned();
    let mut daemon = machine.daemon(&[]);
    machine.wait_for("it is written", || held() == "1000");
    daemon.kill().unwrap();
    daemon.wait().unwrap();
    assert_eq!(held(), "1000");
    let root = machine.folder.path().to_str().unwrap().to_owned();
    let journal = machine.path("journal");
    let restore = ["restore", "--of-daemon", "--root", &root, "--journal", journal.to_str().unwrap()];
    ended(machine.command(&restore).output().unwrap());
    assert_eq!(held(), "0");
    let daemon = machine.daemon(&["--for", "8s"]);
    machine.wait_for("it is written again", || held() == "1000");
    ended(daemon.wait_with_output().unwrap());
    assert_eq!(held(), "0");
}
