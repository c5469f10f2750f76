//! Pressure stall information of the system and of cgroups.

use super::parsed;
use crate::{LiveError, Root};
use isotherm_texts::pressure::{Pressure, parse};
use std::path::Path;

/// Resource that tasks wait for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Resource {
    Memory,
    Cpu,
    Io,
}

impl Resource {
    /// Name in file names.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Cpu => "cpu",
            Self::Io => "io",
        }
    }
}

/// Pressure of the whole system.
///
/// # Errors
/// [`LiveError::NotHere`] if the kernel does not measure it, [`LiveError::Strange`].
pub fn of_system(root: &Root, resource: Resource) -> Result<Pressure, LiveError> {
    read(root, &Path::new("/proc/pressure").join(resource.name()))
}

/// Pressure of the cgroup in `folder`, a path below the root.
///
/// # Errors
/// As of [`of_system`].
pub fn of_group(root: &Root, folder: &Path, resource: Resource) -> Result<Pressure, LiveError> {
    read(root, &folder.join(format!("{}.pressure", resource.name())))
}

fn read(root: &Root, path: &Path) -> Result<Pressure, LiveError> {
    parsed(root, path, parse).map_err(|error| match &error {
        LiveError::Io { source, .. } if error.is_missing() || source.raw_os_error() == Some(libc::EOPNOTSUPP) => {
            LiveError::NotHere {
                what: "pressure stall information",
                needs: format!(
                    "{} cannot be read; it needs a kernel with CONFIG_PSI, booted with `psi=1` where that is not the default",
                    path.display()
                ),
            }
        }
        _ => error,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_kernel_without_it_is_told_how() {
        let folder = tempfile::tempdir().unwrap();
        let error = of_system(&Root::below(folder.path()), Resource::Memory).unwrap_err();
        assert!(matches!(&error, LiveError::NotHere { .. }) && error.to_string().contains("psi=1"), "{error}");
    }
}
