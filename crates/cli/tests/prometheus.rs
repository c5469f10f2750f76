//! A real Prometheus reads the daemon's metrics: each query of the board returns data, and the alerts load. Needs Debian's package
//! prometheus; skipped with a message, or an error when ISOTHERM_REQUIRE_ALL=1.
#![expect(clippy::print_stderr, reason = "a test that is skipped says why")]

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use crate::machine::{GOOD, Machine, WEB};
use serde_json::Value;

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// A port of the loopback address that was just free.
fn free_port() -> u16 {
    TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port()
}

/// Answer of a server on this machine to a path; `None` if it does not answer.
fn ask(port: u16, path: &str) -> Option<Value> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).ok()?;
    stream.set_read_timeout(Some(Duration::from_secs(5))).ok()?;
    write!(stream, "GET {path} HTTP/1.0\r\nHost: localhost\r\n\r\n").ok()?;
    let mut text = String::new();
    stream.read_to_string(&mut text).ok()?;
    let (head, body) = text.split_once("\r\n\r\n")?;
    head.split_whitespace().nth(1).filter(|status| *status == "200")?;
    serde_json::from_str(body).ok()
}

/// A query, percent-encoded.
fn encoded(query: &str) -> String {
    query
        .bytes()
        .map(|byte| if byte.is_ascii_alphanumeric() { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// Ends its child on drop.
struct Ending(Child);

impl Drop for Ending {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The queries of the board for all machines and groups.
fn queries() -> Vec<String> {
    let board = std::fs::read_to_string(repository("contrib/grafana/isotherm.json")).unwrap();
    let board: Value = serde_json::from_str(&board).unwrap();
    let panels = board["panels"].as_array().unwrap();
    let targets = panels.iter().filter_map(|panel| panel["targets"].as_array()).flatten();
    let fill = |query: &str| query.replace("$instance", ".+").replace("$target", ".+");
    targets.map(|target| fill(target["expr"].as_str().unwrap())).collect()
}

/// A machine with a value for every metric.
fn machine(metrics_port: u16) -> Machine {
    let machine = Machine::new();
    let group = format!("sys/fs/cgroup{WEB}");
    for (name, text) in [
        ("memory.high", "80000000\n"),
        ("memory.swap.current", "4096000\n"),
        ("memory.stat", "anon 30000000\nfile 10000000\nworkingset_refault_anon 3\nworkingset_refault_file 4\n"),
        (
            "memory.pressure",
            "some avg10=0.00 avg60=0.00 avg300=0.00 total=1000\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=500\n",
        ),
    ] {
        machine.write(&format!("{group}/{name}"), text);
    }
    machine.write("proc/buddyinfo", "Node 0, zone   Normal   100 50 20 10 5 4 3 2 1 1 7\n");
    let zone = "Node 0, zone   Normal\n  pages free     3840\n        boost    0\n        min      16\n        low      20\n        \
                high     24\n        spanned  16384\n        present  16384\n        managed  16000\n      nr_free_pages 3840\n  \
                start_pfn:           0\n";
    machine.write("proc/zoneinfo", zone);
    machine.write("proc/swaps", "Filename Type Size Used Priority\n/dev/zram0 partition 1048572 4000 100\n");
    // Right-sizing, not generations: those would write to a file that a kernel generates for each reader.
    let web = GOOD.split("[[generations]]").next().unwrap();
    let limits = "[[limits]]\nname = \"size\"\ntarget = \"web\"\n";
    machine.config(&format!("{web}{limits}\n[metrics]\nlisten = \"127.0.0.1:{metrics_port}\"\n"));
    machine
}

#[test]
fn a_real_prometheus_reads_it_and_every_query_returns_data() {
    let is_there =
        |name: &str| Command::new(name).arg("--version").output().is_ok_and(|output| output.status.success());
    if !is_there("prometheus") || !is_there("promtool") {
        let why = "prometheus is not installed (apt-get install prometheus)";
        assert!(std::env::var_os("ISOTHERM_REQUIRE_ALL").is_none_or(|value| value != "1"), "{why}");
        eprintln!("skipped: {why}");
        return;
    }
    let (metrics_port, port) = (free_port(), free_port());
    let machine = machine(metrics_port);
    let _daemon = Ending(machine.daemon(&[]));
    machine.wait_for("the state", || machine.path("run/status.json").exists());

    let rules = repository("contrib/prometheus/isotherm.rules.yml").canonicalize().unwrap();
    let config = format!(
        "global: {{ scrape_interval: 1s, evaluation_interval: 1s }}\nrule_files: [{}]\nscrape_configs:\n  - job_name: isotherm\n    \
         static_configs: [{{ targets: ['127.0.0.1:{metrics_port}'] }}]\n",
        rules.display()
    );
    machine.write("prometheus.yml", &config);
    let config = machine.path("prometheus.yml");
    let checked = Command::new("promtool").args(["check", "config"]).arg(&config).output().unwrap();
    assert!(checked.status.success(), "{}", String::from_utf8_lossy(&checked.stderr));
    let _prometheus = Ending(
        Command::new("prometheus")
            .arg(format!("--config.file={}", config.display()))
            .arg(format!("--storage.tsdb.path={}", machine.path("data").display()))
            .arg(format!("--web.listen-address=127.0.0.1:{port}"))
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap(),
    );
    let begun = Instant::now();
    let mut missing = queries();
    assert!(missing.len() >= 15, "{missing:?}");
    while !missing.is_empty() {
        let last: Vec<String> = missing.clone();
        missing.retain(|query| {
            let answer = ask(port, &format!("/api/v1/query?query={}", encoded(query)));
            answer.is_none_or(|answer| answer["data"]["result"].as_array().is_none_or(Vec::is_empty))
        });
        assert!(begun.elapsed() < Duration::from_secs(90), "no data for {last:?}");
        std::thread::sleep(Duration::from_millis(500));
    }
    let rules = ask(port, "/api/v1/rules").expect("Prometheus answers");
    let rules = rules["data"]["groups"][0]["rules"].as_array().expect("the alerts");
    assert!(
        rules.len() >= 5 && rules.iter().all(|rule| rule["health"] == "ok" || rule["health"] == "unknown"),
        "{rules:?}"
    );
}
