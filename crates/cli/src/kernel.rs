//! `--kernel`: the release whose rules the simulated kernel follows.

use std::str::FromStr;

use isotherm_kernel::memory::KernelRelease;

use crate::error::CliError;

/// Value of `--kernel`: a release with rules, `host` or `all`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KernelArg {
    /// The given release.
    Release(KernelRelease),
    /// The release of the running kernel, or the nearest to it.
    Host,
    /// Every release that was compared with running kernels, side by side.
    All,
}

/// Releases to simulate, and the reason.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Kernels {
    /// At least one release, oldest first.
    pub(crate) releases: Vec<KernelRelease>,
    /// Part of a sentence, for people: `rules of Linux 6.12, which this machine runs (6.12.48+deb13-amd64)`.
    pub(crate) why: String,
}

impl FromStr for KernelArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "host" => Ok(Self::Host),
            "all" => Ok(Self::All),
            _ => text.parse().map(Self::Release).map_err(|error| format!("{error}, host, all")),
        }
    }
}

impl KernelArg {
    /// The requested releases.
    ///
    /// # Errors
    /// `host` on a machine whose kernel is not known: exit code 3.
    pub(crate) fn resolve(self) -> Result<Kernels, CliError> {
        self.resolve_on(isotherm_linux::kernel_version().as_deref())
    }

    fn resolve_on(self, host: Option<&str>) -> Result<Kernels, CliError> {
        match self {
            Self::Release(release) => {
                Ok(Kernels { releases: vec![release], why: format!("{}, as asked for", rules(release)) })
            }
            Self::All => {
                let names = KernelRelease::COMPARED.map(KernelRelease::name).join(" and ");
                Ok(Kernels {
                    releases: KernelRelease::COMPARED.to_vec(),
                    why: format!("rules of Linux {names}, side by side"),
                })
            }
            Self::Host => of_host(host).ok_or_else(|| {
                let runs = host.map_or_else(
                    || "which kernel runs here cannot be read from /proc/sys/kernel/osrelease".to_owned(),
                    |version| format!("this machine runs `{version}`, which begins with no release of Linux"),
                );
                let names = KernelRelease::names();
                CliError::host_cannot(format!("--kernel host: {runs}; there are rules of {names}: name one, or `all`"))
            }),
        }
    }
}

/// The releases of `--kernel`. Without the flag: the nearest to the running release, or the newest where none is known.
///
/// # Errors
/// See [`KernelArg::resolve`].
pub(crate) fn asked_or_host(asked: Option<KernelArg>) -> Result<Kernels, CliError> {
    asked_or(asked, isotherm_linux::kernel_version().as_deref())
}

fn asked_or(asked: Option<KernelArg>, host: Option<&str>) -> Result<Kernels, CliError> {
    match asked {
        Some(asked) => asked.resolve_on(host),
        None => Ok(of_host(host).unwrap_or_else(|| newest(host))),
    }
}

fn of_host(host: Option<&str>) -> Option<Kernels> {
    let version = host?;
    let release = KernelRelease::nearest(version)?;
    let why = match KernelRelease::of_osrelease(version) {
        Some(_) => format!("{}, which this machine runs ({version})", rules(release)),
        None => {
            format!("{}, the nearest to what this machine runs ({version}), of which there are none", rules(release))
        }
    };
    Some(Kernels { releases: vec![release], why })
}

/// Whose rules, and whether they were compared with kernels.
fn rules(release: KernelRelease) -> String {
    let is_compared = KernelRelease::COMPARED.contains(&release);
    format!("rules of Linux {release}{}", if is_compared { "" } else { " (compared with no running kernel)" })
}

fn newest(host: Option<&str>) -> Kernels {
    let release = KernelRelease::NEWEST;
    let runs = host.map_or_else(
        || "which kernel runs here cannot be read".to_owned(),
        |version| format!("this machine runs `{version}`, which begins with no release of Linux"),
    );
    Kernels { releases: vec![release], why: format!("rules of Linux {release} (the newest; {runs})") }
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: KernelRelease = KernelRelease::V6_12;
    const NEW: KernelRelease = KernelRelease::V7_2;

    #[test]
    fn the_flag_takes_releases_host_and_all() {
        for (text, arg) in [
            ("6.12", KernelArg::Release(OLD)),
            ("6.18", KernelArg::Release(KernelRelease::V6_18)),
            ("7.2", KernelArg::Release(NEW)),
            ("host", KernelArg::Host),
            ("all", KernelArg::All),
        ] {
            assert_eq!(text.parse(), Ok(arg));
        }
        let error = "6.17".parse::<KernelArg>().unwrap_err();
        assert_eq!(error, "there are no rules of Linux `6.17`; allowed: 6.12, 6.18, 7.2, host, all");
    }

    #[test]
    fn each_choice_says_why() {
        let (debian, other) = (Some("6.12.48+deb13-amd64"), Some("6.8.0-45-generic"));
        let table = [
            (Some(KernelArg::Release(OLD)), other, vec![OLD], "rules of Linux 6.12, as asked for"),
            (Some(KernelArg::All), other, vec![OLD, NEW], "rules of Linux 6.12 and 7.2, side by side"),
            (
                Some(KernelArg::Host),
                debian,
                vec![OLD],
                "rules of Linux 6.12, which this machine runs (6.12.48+deb13-amd64)",
            ),
            (None, debian, vec![OLD], "rules of Linux 6.12, which this machine runs (6.12.48+deb13-amd64)"),
            (
                None,
                other,
                vec![OLD],
                "rules of Linux 6.12, the nearest to what this machine runs (6.8.0-45-generic), of which there are none",
            ),
            (
                None,
                Some("6.18.5"),
                vec![KernelRelease::V6_18],
                "rules of Linux 6.18 (compared with no running kernel), which this machine runs (6.18.5)",
            ),
            (None, None, vec![NEW], "rules of Linux 7.2 (the newest; which kernel runs here cannot be read)"),
        ];
        for (asked, host, releases, why) in table {
            let kernels = asked_or(asked, host).unwrap();
            assert_eq!((kernels.releases, kernels.why.as_str()), (releases, why), "{asked:?} on {host:?}");
        }
    }

    #[test]
    fn a_host_without_a_release_cannot_be_asked_for() {
        for (host, says) in [(Some("none"), "this machine runs `none`, which"), (None, "cannot be read")] {
            let error = KernelArg::Host.resolve_on(host).unwrap_err();
            assert!(matches!(error, CliError::HostCannot(_)), "exit code 3");
            let error = error.to_string();
            assert!(
                error.contains(says) && error.ends_with("there are rules of 6.12, 6.18, 7.2: name one, or `all`"),
                "{error}"
            );
        }
    }
}
