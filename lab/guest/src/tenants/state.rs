//! The daemon seen from outside.

use isotherm_guest::tenancy::TenancyState;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::tool::Tool;

/// Longest time for a reader of metrics.
const PATIENCE: Duration = Duration::from_secs(20);

/// Its state by its own report; a reader of metrics asks at the same time.
pub(super) fn now(tool: &Tool<'_>, arguments: &[String], section: &str, listen: &str) -> Result<TenancyState, String> {
    let end = tool.run(arguments)?;
    let told: serde_json::Value = serde_json::from_str(&end.stdout)
        .map_err(|error| format!("{}: {error}: {:?} {}", arguments.join(" "), end.code, end.stderr.trim()))?;
    let state = of(&told, section).ok_or_else(|| format!("no section {section} in {}", end.stdout))?;
    Ok(TenancyState { metrics_ms: asked(listen), ..state })
}

fn of(told: &serde_json::Value, section: &str) -> Option<TenancyState> {
    let sections = told["sections"].as_array()?;
    let runs = sections.iter().find(|one| one["section"] == section)?["runs"].as_u64()?;
    let targets = sections.iter().filter_map(|one| one["targets"].as_array()).map(|targets| targets.len() as u64);
    Some(TenancyState {
        at_ns: told["since_start_ns"].as_u64()?,
        runs,
        stretch: told["stretch"].as_u64()?,
        cpu_ns: told["cpu_ns"].as_u64()?,
        targets: targets.sum(),
        paused: told["paused"].as_str().map(str::to_owned),
        metrics_ms: None,
    })
}

/// Time until the answer is there, in milliseconds.
fn asked(listen: &str) -> Option<u64> {
    let begin = Instant::now();
    let mut stream = TcpStream::connect_timeout(&listen.parse().ok()?, PATIENCE).ok()?;
    stream.set_read_timeout(Some(PATIENCE)).ok()?;
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: x\r\n\r\n").ok()?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).ok()?;
    let is_whole = answer.starts_with("HTTP/1.1 200") && answer.ends_with("# EOF\n");
    is_whole.then(|| u64::try_from(begin.elapsed().as_millis()).unwrap_or(u64::MAX))
}

/// `VmHWM` of a process, in bytes.
pub(super) fn resident_peak(pid: u32) -> Result<u64, String> {
    let path = format!("/proc/{pid}/status");
    let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
    let kib =
        text.lines().find_map(|line| line.strip_prefix("VmHWM:")?.trim().strip_suffix(" kB")?.parse::<u64>().ok());
    kib.map(|kib| kib * 1024).ok_or_else(|| format!("{path}: no VmHWM"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_state_is_that_of_the_section() {
        let told = serde_json::json!({
            "since_start_ns": 7, "stretch": 2, "cpu_ns": 3, "paused": null,
            "sections": [
                { "section": "limits.web", "runs": 5, "targets": ["/a", "/b"] },
                { "section": "limits.tenant", "runs": 9, "targets": ["/c"] },
            ],
        });
        let state = of(&told, "limits.web").unwrap();
        assert_eq!((state.at_ns, state.runs, state.stretch, state.targets), (7, 5, 2, 3));
        assert_eq!(of(&told, "limits.other"), None);
    }
}
