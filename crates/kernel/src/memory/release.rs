//! Linux release of the simulated kernel: one key for all rules that differ between releases.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A release of Linux that the simulated machine has rules of. Rules that name no release are the same in all.
///
/// Written as its name, `6.12`, `6.18` or `7.2`, in scenarios, results and on the command line.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum KernelRelease {
    /// 6.12: readahead and the Multi-Gen LRU as they were before (`docs/mechanism/machine.md`).
    V6_12,
    /// 6.18: reads ahead as 7.2, but learns from what is mapped already as 6.12; the Multi-Gen LRU as in 7.2.
    V6_18,
    /// 7.2.
    #[default]
    V7_2,
}

/// A text that names no release with rules.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("there are no rules of Linux `{name}`; allowed: {}", KernelRelease::names())]
pub struct UnknownRelease {
    name: String,
}

impl KernelRelease {
    /// All releases, the oldest first.
    pub const ALL: [Self; 3] = [Self::V6_12, Self::V6_18, Self::V7_2];

    /// Releases whose rules were compared with running kernels (`docs/evidence/fidelity.md`), the oldest first. Those of the others were
    /// read in their sources.
    pub const COMPARED: [Self; 2] = [Self::V6_12, Self::V7_2];

    /// The newest release with rules: the default.
    pub const NEWEST: Self = Self::V7_2;

    /// Major and minor number with a dot between: `6.12`, `6.18`, `7.2`.
    pub const fn name(self) -> &'static str {
        match self {
            Self::V6_12 => "6.12",
            Self::V6_18 => "6.18",
            Self::V7_2 => "7.2",
        }
    }

    /// The names of all releases, the oldest first: `6.12, 6.18, 7.2`.
    pub fn names() -> String {
        Self::ALL.map(Self::name).join(", ")
    }

    /// The release whose rules a running kernel follows, by the text of `/proc/sys/kernel/osrelease` (`6.12.48+deb13-amd64`). Major
    /// and minor number must be the same; `None` for every other kernel.
    pub fn of_osrelease(osrelease: &str) -> Option<Self> {
        let running = numbers(osrelease)?;
        Self::ALL.into_iter().find(|release| numbers(release.name()) == Some(running))
    }

    /// The release with rules that is nearest to a running kernel: the newest that is not newer, else the oldest. `None` for a text that
    /// begins with no major and minor number.
    pub fn nearest(osrelease: &str) -> Option<Self> {
        let running = numbers(osrelease)?;
        let not_newer = |release: &Self| numbers(release.name()).is_some_and(|release| release <= running);
        Some(Self::ALL.into_iter().rfind(not_newer).unwrap_or(Self::ALL[0]))
    }

    /// Whether the default was chosen: such a key is not printed.
    #[allow(clippy::trivially_copy_pass_by_ref, reason = "serde wants a reference")]
    pub fn is_default(&self) -> bool {
        *self == Self::default()
    }
}

/// Major and minor number at the start of a text.
fn numbers(text: &str) -> Option<(u32, u32)> {
    let mut numbers = text.trim().split(['.', '-', '+']).map(|number| number.parse().ok());
    Some((numbers.next()??, numbers.next()??))
}

impl fmt::Display for KernelRelease {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for KernelRelease {
    type Err = UnknownRelease;

    /// Reads `6.12`, `6.18` and `7.2`, and the spellings of older scenarios, `v6_12` and `v7_2`.
    fn from_str(name: &str) -> Result<Self, UnknownRelease> {
        match name {
            "6.12" | "v6_12" => Ok(Self::V6_12),
            "6.18" | "v6_18" => Ok(Self::V6_18),
            "7.2" | "v7_2" => Ok(Self::V7_2),
            _ => Err(UnknownRelease { name: name.to_owned() }),
        }
    }
}

impl Serialize for KernelRelease {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.name())
    }
}

impl<'de> Deserialize<'de> for KernelRelease {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = KernelRelease;
            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                write!(
                    f,
                    "a release in quotes, one of {}",
                    KernelRelease::ALL.map(|one| format!("\"{one}\"")).join(", ")
                )
            }
            fn visit_str<E: serde::de::Error>(self, name: &str) -> Result<KernelRelease, E> {
                name.parse().map_err(E::custom)
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_old_spellings_are_read() {
        for release in KernelRelease::ALL {
            assert_eq!(release.to_string().parse(), Ok(release));
            assert_eq!(format!("v{}", release.name().replace('.', "_")).parse(), Ok(release));
        }
        assert_eq!(KernelRelease::ALL.iter().max(), Some(&KernelRelease::NEWEST));
        let error = "6.1".parse::<KernelRelease>().unwrap_err().to_string();
        assert_eq!(error, "there are no rules of Linux `6.1`; allowed: 6.12, 6.18, 7.2");
    }

    #[test]
    fn scenarios_carry_the_name_in_quotes() {
        #[derive(Debug, PartialEq, Serialize, Deserialize)]
        struct Table {
            kernel: KernelRelease,
        }
        let (old, new) = (Table { kernel: KernelRelease::V6_12 }, "kernel = \"6.12\"\n");
        assert_eq!(toml::to_string(&old).unwrap(), new);
        for text in [new, "kernel = \"v6_12\""] {
            assert_eq!(toml::from_str::<Table>(text).unwrap(), old);
        }
        let error = |text| toml::from_str::<Table>(text).unwrap_err().to_string();
        assert!(error("kernel = \"5.4\"").contains("no rules of Linux `5.4`; allowed: 6.12, 6.18, 7.2"));
        assert!(error("kernel = 6.12").contains("expected a release in quotes, one of \"6.12\", \"6.18\", \"7.2\""));
    }

    #[test]
    fn a_running_kernel_is_matched_by_major_and_minor() {
        let table = [
            ("6.12.48+deb13-amd64\n", Some(KernelRelease::V6_12)),
            ("6.12.0-1-cloud", Some(KernelRelease::V6_12)),
            ("6.12-rc3", Some(KernelRelease::V6_12)),
            ("7.2.13+deb14-amd64", Some(KernelRelease::V7_2)),
            ("7.2", Some(KernelRelease::V7_2)),
            ("6.1.0-28-amd64", None),
            ("6.120.1", None),
            ("7.20.1", None),
            ("6.18.5", Some(KernelRelease::V6_18)),
            ("6.17.0-8-generic", None),
            ("16.12.1", None),
            ("6", None),
            ("", None),
            ("..", None),
            ("six.twelve", None),
        ];
        for (osrelease, expected) in table {
            assert_eq!(KernelRelease::of_osrelease(osrelease), expected, "{osrelease:?}");
        }
    }

    #[test]
    fn another_kernel_has_a_nearest_release() {
        let table = [
            ("5.14.0-503.el9.x86_64", Some(KernelRelease::V6_12)),
            ("6.8.0-45-generic", Some(KernelRelease::V6_12)),
            ("6.12.48+deb13-amd64", Some(KernelRelease::V6_12)),
            ("6.17.0-8-generic", Some(KernelRelease::V6_12)),
            ("6.18.5", Some(KernelRelease::V6_18)),
            ("7.1.3-arch1-1", Some(KernelRelease::V6_18)),
            ("7.2.0", Some(KernelRelease::V7_2)),
            ("10.0.1", Some(KernelRelease::V7_2)),
            ("six.twelve", None),
            ("", None),
            ("99999999999.1", None),
        ];
        for (osrelease, expected) in table {
            assert_eq!(KernelRelease::nearest(osrelease), expected, "{osrelease:?}");
        }
    }
}
