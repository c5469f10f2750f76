//! Time, and the cost limit of monitoring.

use std::sync::atomic::Ordering;

use isotherm_daemon::WatchOptions;
use isotherm_linux::{Stopwatch, own_cpu_time};
use isotherm_units::{Clock, Duration, Instant, Meter, Ratio, Woken};

use super::daemon::Served;
use crate::error::CliError;

/// The machine's clock; SIGINT and SIGTERM end its sleeps.
#[derive(Debug)]
pub(crate) struct LiveClock(Stopwatch);

impl LiveClock {
    pub(crate) fn start() -> Result<Self, CliError> {
        Stopwatch::start().map(Self).map_err(|error| CliError::failed(error).while_doing("cannot catch signals"))
    }
}

impl Clock for LiveClock {
    fn now(&self) -> Instant {
        self.0.now()
    }

    fn sleep_until(&mut self, until: Instant) -> Woken {
        if self.0.sleep_until(until) { Woken::Due } else { Woken::Stopped }
    }
}

/// CPU time of this process.
#[derive(Debug)]
pub(crate) struct OwnCpu;

impl Meter for OwnCpu {
    fn spent(&mut self) -> Duration {
        own_cpu_time()
    }
}

/// CPU time of this process, readers of metrics apart: whoever may connect would slow monitoring down otherwise.
#[derive(Debug)]
pub(crate) struct LoopCpu(pub(crate) Option<Served>);

impl Meter for LoopCpu {
    fn spent(&mut self) -> Duration {
        let served = self.0.as_ref().map_or(0, |served| served.load(Ordering::Relaxed));
        own_cpu_time().saturating_sub(Duration::from_ns(served))
    }

    fn total(&mut self) -> Duration {
        own_cpu_time()
    }
}

/// Length and cost limits.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct BudgetArgs {
    /// How long to watch [default: until Ctrl-C, or until the target ends].
    #[arg(long = "for", value_name = "TIME")]
    length: Option<Duration>,
    /// Share of one processor that watching may take, threads of the kernel included. Above this share, samples are taken less often.
    #[arg(long, value_name = "SHARE", default_value = "1%")]
    max_cpu: Ratio,
}

impl BudgetArgs {
    pub(crate) const fn new(length: Option<Duration>, max_cpu: Ratio) -> Self {
        Self { length, max_cpu }
    }

    /// Refuses a length if no live target is monitored.
    pub(crate) fn refuse_length(self) -> Result<(), CliError> {
        match self.length {
            Some(_) => Err(CliError::usage("--for is for what runs now; allowed with --pid, --cgroup, and the like")),
            None => Ok(()),
        }
    }

    /// Checks the values.
    pub(crate) fn options(self) -> Result<WatchOptions, CliError> {
        if self.length == Some(Duration::ZERO) {
            return Err(CliError::usage("--for is 0; allowed: any time above, as in --for 60s"));
        }
        if self.max_cpu == Ratio::from_ppm(0) || self.max_cpu > Ratio::ONE {
            return Err(CliError::usage(format!(
                "--max-cpu is {}; allowed: above 0% up to 100% of one processor",
                self.max_cpu
            )));
        }
        Ok(WatchOptions { length: self.length, max_cpu: self.max_cpu })
    }
}
