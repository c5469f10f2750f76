//! `--for`: how long to watch, or for which platform the answer is.

use isotherm_advise::advice::platform::Platform;
use isotherm_units::{Duration, Ratio};
use std::str::FromStr;

use crate::live::BudgetArgs;

/// How long, at what cost, and for whose words.
#[derive(Debug, clap::Args)]
pub(super) struct Purpose {
    /// Lines to paste for what keeps the program: systemd, docker, podman, compose, kubernetes, nomad or cgroup, with its name there if
    /// you like, as in systemd:nginx.service [default: systemd where it runs, for COMMAND and with --here; else cgroup]. With --cgroup: a
    /// time, how long to watch [default: until Ctrl-C].
    #[arg(long = "for", value_name = "PLATFORM|TIME")]
    said: Vec<For>,
    /// With --cgroup: share of one processor that watching may take. Above it looks come less often.
    #[arg(long, help_heading = super::RUNNING, value_name = "SHARE", default_value = "1%")]
    max_cpu: Ratio,
}

#[derive(Clone, Debug)]
enum For {
    Time(Duration),
    Platform(Platform),
}

impl FromStr for For {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text.starts_with(|c: char| c.is_ascii_digit()) {
            return text.parse().map(Self::Time).map_err(|refused: <Duration as FromStr>::Err| refused.to_string());
        }
        text.parse().map(Self::Platform).map_err(|refused| format!("{refused}; with --cgroup a time, such as 10m"))
    }
}

impl Purpose {
    pub(super) fn budget(&self) -> BudgetArgs {
        let time = self.said.iter().rev().find_map(|said| match said {
            For::Time(time) => Some(*time),
            For::Platform(_) => None,
        });
        BudgetArgs::new(time, self.max_cpu)
    }

    pub(super) fn platform(&self) -> Option<&Platform> {
        self.said.iter().rev().find_map(|said| match said {
            For::Platform(platform) => Some(platform),
            For::Time(_) => None,
        })
    }
}
