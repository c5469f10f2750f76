//! `isotherm daemon run` inside real kernels, next to a tenant who does what he can to hold it up.

use isotherm_guest::job::{Job, Report, Task};
use isotherm_guest::living::LiveWorkload;
use isotherm_guest::patterns::{Motion, Part, Pattern};
use isotherm_guest::tenancy::{Tenancy, TenancyState, Tenant, Tenanted};
use isotherm_rig::{Extra, Extras};
use serde::{Deserialize, Serialize};
use std::time::Duration;

use super::live::{Asked, PROGRAM, Product};
use super::{Rig, reports};
use crate::FidelityError;

const CONFIG: &str = "/etc/isotherm.toml";
const LISTEN: &str = "127.0.0.1:9464";
const TENANT: &str = "user.slice/user-65534.slice";
const SECTION: &str = "limits.web";
/// Interval of the sections, in seconds, and how often groups are read in one (`LOOKS_PER_INTERVAL` in `crates/core/src/limits/daemon.rs`).
const INTERVAL_S: f64 = 5.0;
const LOOKS: f64 = 4.0;
const SECONDS_ALONE: u64 = 60;
/// Windows in which runs are counted: twelve intervals.
const WINDOW_NS: u64 = 60_000_000_000;

/// What must hold.
pub const RATE_MIN: f64 = 0.8;
/// See [`RATE_MIN`].
pub const RATE_MAX: f64 = 1.2;
/// See [`RATE_MIN`].
pub const RESIDENT_MAX_BYTES: u64 = 64 << 20;
/// See [`RATE_MIN`].
pub const TERM_MAX_MS: u64 = 2000;

/// The services have a section of their own. Their limit is far above what they use, so that they never wait for memory: `[guard]` would
/// have all sections pause.
const CONFIGURATION: &str = r#"
[[limits]]
name = "web"
enable = true
target = "/app.slice/web-*"
ceiling = "256MiB"
interval = "5s"

[[limits]]
name = "tenants"
enable = true
target = "/user.slice/*/*"
ceiling = "256MiB"
interval = "5s"

[[generations]]
name = "cold"
mode = "reclaim"
targets = ["/user.slice/*/*"]
threshold = "2m"

[metrics]
listen = "127.0.0.1:9464"
"#;

/// What the tenant does.
#[derive(Clone, Copy, Debug)]
pub struct Attack {
    pub seconds: u64,
    /// Groups that he makes, if the guest is fast enough.
    pub groups: u64,
    pub groups_at_a_time: u64,
    pub connections: u64,
    pub seed: u64,
}

/// Result on one kernel.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct TenantRun {
    /// `uname -r`.
    pub kernel: String,
    /// Runs of the services' section before the tenant came, as a share of those that its interval asks for.
    pub rate_alone: f64,
    /// The same while he was there: over all of that time, and the least and the greatest of a minute.
    pub rate: f64,
    pub rate_least: f64,
    pub rate_most: f64,
    /// Longest time for a reader of metrics, in milliseconds; `None`: one had no answer.
    pub metrics_longest_ms: Option<u64>,
    /// CPU time of the daemon while he was there, in percent of an emulated processor.
    pub cpu_percent: f64,
    #[serde(flatten)]
    pub tenanted: Tenanted,
}

impl TenantRun {
    /// What does not hold, a line each.
    pub fn misses(&self) -> Vec<String> {
        let Tenanted { resident_peak_bytes, term_ms, exit_code, .. } = self.tenanted;
        let rates = [("least", self.rate_least), ("greatest", self.rate_most), ("whole", self.rate)];
        let is_off = |rate: f64| !(RATE_MIN..=RATE_MAX).contains(&rate);
        let off = rates.into_iter().filter(|&(_, rate)| is_off(rate));
        let mut misses: Vec<String> =
            off.map(|(name, rate)| format!("{SECTION} ran {rate:.2} times as often as asked for ({name})")).collect();
        let mut miss = |is_missed: bool, words: String| misses.extend(is_missed.then_some(words));
        let kib = resident_peak_bytes >> 10;
        miss(resident_peak_bytes > RESIDENT_MAX_BYTES, format!("the daemon held {kib} KiB"));
        miss(term_ms > TERM_MAX_MS, format!("SIGTERM to the end took {term_ms} ms"));
        miss(exit_code != Some(0), format!("it ended with {exit_code:?}: {}", self.tenanted.said.trim()));
        misses.into_iter().map(|words| format!("{}: {words}", self.kernel)).collect()
    }
}

/// Runs the daemon next to the tenant in one boot.
///
/// # Errors
/// The guest does not finish, or the daemon ends by itself, with its output.
pub fn tenant(rig: &Rig<'_>, product: Product<'_>, attack: &Attack) -> Result<TenantRun, FidelityError> {
    let failed = |error: std::io::Error| FidelityError::Live(error.to_string());
    let folder = tempfile::tempdir().map_err(failed)?;
    let configuration = folder.path().join("isotherm.toml");
    std::fs::write(&configuration, CONFIGURATION).map_err(failed)?;
    let Asked { settings, mut machine, .. } = Asked::alone(&[]);
    machine.time_limit = Duration::from_secs(3600 + 20 * attack.seconds);
    let job = Job { settings, zram_bytes: Some(64 << 20), files_device: None, task: Task::Host(job(attack)) };
    let mut files = product.files()?;
    files.push(Extra { from: configuration, to: CONFIG.to_owned(), is_program: false });
    let result = rig.run_with(&machine, &job, &Extras { modules: Vec::new(), files })?;
    let tenanted = reports(&result, 1, |report| match report {
        Report::Tenanted(tenanted) => Some(tenanted),
        _ => None,
    })?[0];
    judged(result.kernel.clone(), tenanted.clone()).ok_or_else(|| {
        FidelityError::Live("the daemon's state was not written often enough to count the runs of a minute".to_owned())
    })
}

fn job(attack: &Attack) -> Tenancy {
    let parts = vec![Part { first: 0, pages: 512, motion: Motion::Every { passes: 1 } }];
    let pattern = Pattern { pages: 4096, parts };
    let workload = |group: &str| LiveWorkload {
        group: group.to_owned(),
        pattern: pattern.clone(),
        pass_us: 200_000,
        high_bytes: None,
    };
    let words = |words: &[&str]| words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>();
    Tenancy {
        workloads: ["app.slice/web-1", "app.slice/web-2"].map(workload).to_vec(),
        program: PROGRAM.to_owned(),
        environment: [("HOME".to_owned(), "/tmp".to_owned())].into(),
        daemon: words(&["daemon", "run", CONFIG]),
        status: words(&["daemon", "status", "--format", "json"]),
        section: SECTION.to_owned(),
        tenant: Tenant {
            group: TENANT.to_owned(),
            groups: attack.groups,
            groups_at_a_time: attack.groups_at_a_time,
            connections: attack.connections,
            listen: LISTEN.to_owned(),
            seed: attack.seed,
        },
        seconds_alone: SECONDS_ALONE,
        seconds: attack.seconds,
    }
}

/// `None` where too few states are known.
fn judged(kernel: String, tenanted: Tenanted) -> Option<TenantRun> {
    let (alone, with) = (&tenanted.alone[..], &tenanted.with_tenant[..]);
    let windows: Vec<f64> = windows(with).collect();
    let (first, last) = (with.first()?, with.last()?);
    let span_ns = last.at_ns.checked_sub(first.at_ns).filter(|&ns| ns > 0)?;
    let answers = with.iter().map(|state| state.metrics_ms).collect::<Option<Vec<u64>>>();
    Some(TenantRun {
        kernel,
        rate_alone: rate(alone.first()?, alone.last()?)?,
        rate: rate(first, last)?,
        rate_least: windows.iter().copied().reduce(f64::min)?,
        rate_most: windows.iter().copied().reduce(f64::max)?,
        metrics_longest_ms: answers.and_then(|answers| answers.into_iter().max()),
        cpu_percent: 100.0 * last.cpu_ns.saturating_sub(first.cpu_ns) as f64 / span_ns as f64,
        tenanted,
    })
}

/// Runs between two states as a share of those that the interval asks for.
fn rate(first: &TenancyState, last: &TenancyState) -> Option<f64> {
    let span_ns = last.at_ns.checked_sub(first.at_ns).filter(|&ns| ns > 0)?;
    let wanted = span_ns as f64 / 1e9 * LOOKS / INTERVAL_S;
    Some(last.runs.saturating_sub(first.runs) as f64 / wanted)
}

/// The rate of each minute: from each state to the first one that is a minute later.
fn windows(states: &[TenancyState]) -> impl Iterator<Item = f64> {
    states.iter().enumerate().filter_map(|(index, first)| {
        let last = states[index..].iter().find(|state| state.at_ns >= first.at_ns + WINDOW_NS)?;
        rate(first, last)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A state each ten seconds, with this number of runs between two.
    fn states(runs: &[u64]) -> Vec<TenancyState> {
        let mut sum = 0;
        let state = |(index, &more): (usize, &u64)| {
            sum += more;
            TenancyState {
                at_ns: index as u64 * 10_000_000_000,
                runs: sum,
                metrics_ms: Some(3),
                ..TenancyState::default()
            }
        };
        runs.iter().enumerate().map(state).collect()
    }

    #[test]
    fn rates_are_shares_of_what_the_interval_asks_for() {
        // Eight runs in ten seconds are four in an interval. A minute with half of them at its end.
        let with_tenant = states(&[8, 8, 8, 8, 8, 8, 8, 4, 4, 4]);
        let tenanted = Tenanted {
            alone: states(&[8, 8, 8]),
            with_tenant,
            exit_code: Some(0),
            term_ms: 2500,
            resident_peak_bytes: 65 << 20,
            ..Tenanted::default()
        };
        let run = judged("7.2".to_owned(), tenanted).unwrap();
        assert_eq!((run.rate_alone, run.rate_most, run.rate_least), (1.0, 1.0, 0.75));
        assert_eq!(run.metrics_longest_ms, Some(3));
        assert_eq!(
            run.misses(),
            [
                "7.2: limits.web ran 0.75 times as often as asked for (least)",
                "7.2: the daemon held 66560 KiB",
                "7.2: SIGTERM to the end took 2500 ms",
            ]
        );
    }

    #[test]
    fn a_daemon_that_wrote_no_state_is_not_judged() {
        let tenanted = Tenanted { alone: states(&[8, 8]), with_tenant: states(&[8, 8, 8]), ..Tenanted::default() };
        assert!(judged("7.2".to_owned(), tenanted).is_none(), "less than a minute");
    }
}
