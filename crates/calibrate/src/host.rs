//! Which machine prices are of.

use isotherm_linux::{Root, kernel_version};
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};

/// A machine, as far as its prices depend on it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Host {
    /// A digest of the number that each installation has (machine-id(5)), which does not tell that number.
    pub machine: String,
    /// Release of the running kernel.
    pub kernel: String,
    /// Model name of the first processor.
    pub processor: String,
    /// Page-replacement policy: `classic` or `mglru`.
    pub policy: String,
}

impl Host {
    /// This machine. What it does not tell is empty.
    pub fn here(root: &Root, policy: &str) -> Self {
        let read = |path: &str| root.read(path).unwrap_or_default();
        let id = read("/etc/machine-id");
        let digest = Sha256::digest(format!("isotherm calibrate {}", id.trim()).as_bytes());
        let cpuinfo = read("/proc/cpuinfo");
        let model = cpuinfo.lines().find_map(|line| line.strip_prefix("model name")?.split_once(':'));
        Self {
            machine: digest.iter().take(8).map(|byte| format!("{byte:02x}")).collect(),
            kernel: kernel_version().unwrap_or_default(),
            processor: model.map_or_else(String::new, |(_, model)| model.trim().to_owned()),
            policy: policy.to_owned(),
        }
    }

    /// In what this machine differs from another, in words; `None` where prices of one hold on the other.
    pub fn unlike(&self, other: &Self) -> Option<String> {
        let pairs = [
            ("machine", &self.machine, &other.machine),
            ("kernel", &self.kernel, &other.kernel),
            ("processor", &self.processor, &other.processor),
            ("page-replacement policy", &self.policy, &other.policy),
        ];
        let (what, mine, theirs) = pairs.into_iter().find(|(_, mine, theirs)| mine != theirs)?;
        Some(match what {
            "machine" => "on another machine".to_owned(),
            _ => format!("with the {what} {theirs}, and here it is {mine}"),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_machine_is_known_again_and_its_number_is_not_told() {
        let folder = tempfile_tree();
        let root = Root::below(folder.path());
        let here = Host::here(&root, "classic");
        assert_eq!((here.machine.len(), here.processor.as_str()), (16, "A processor"));
        assert_eq!(here.unlike(&Host::here(&root, "classic")), None);
        let other = Host::here(&root, "mglru");
        assert_eq!(here.unlike(&other).unwrap(), "with the page-replacement policy mglru, and here it is classic");
        std::fs::write(folder.path().join("etc/machine-id"), "2\n").unwrap();
        assert_eq!(here.unlike(&Host::here(&root, "classic")).unwrap(), "on another machine");
    }

    fn tempfile_tree() -> tempfile::TempDir {
        let folder = tempfile::tempdir().unwrap();
        for (path, text) in [("etc/machine-id", "1\n"), ("proc/cpuinfo", "processor\t: 0\nmodel name\t: A processor\n")]
        {
            let path = folder.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        folder
    }
}
