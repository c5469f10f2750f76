//! Identity of a run, independent of names and places of files: equal identities give equal results of one build.

use crate::variant::ready_in_worlds;
use crate::{Scenario, ScenarioError};
use isotherm_kernel::reclaim::AddedPolicies;
use isotherm_workload::WorkloadSpec;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// Digests of recordings, each read once.
#[derive(Debug, Default)]
pub struct Digests(BTreeMap<PathBuf, String>);

impl Digests {
    /// Identity of the recording at `path`.
    ///
    /// # Errors
    /// It cannot be read.
    pub fn of(&mut self, path: &Path) -> Result<&str, ScenarioError> {
        if !self.0.contains_key(path) {
            let digest =
                digest_of_file(path).map_err(|source| ScenarioError::Io { path: path.to_path_buf(), source })?;
            self.0.insert(path.to_path_buf(), digest);
        }
        Ok(&self.0[path])
    }
}

/// The identity of a scenario whose relative paths start at `folder`: 32 hexadecimal digits. Names of variants and workloads count, as results
/// show them; the name and title of the scenario and where its recordings lie do not.
///
/// # Errors
/// A file that cannot be read, or variants that are invalid.
pub fn identity(scenario: &Scenario, folder: &Path, digests: &mut Digests) -> Result<String, ScenarioError> {
    let mut hasher = Sha256::new();
    hasher.update(scenario.repeats.to_le_bytes());
    hasher.update(scenario.metrics.join(","));
    for (world, variants) in
        ready_in_worlds(scenario, &scenario.name, folder, &AddedPolicies::default())?.into_iter().enumerate()
    {
        for variant in variants {
            let mut played = variant.scenario;
            (played.name, played.title) = ("identity".to_owned(), String::new());
            for workload in &mut played.workloads {
                if let WorkloadSpec::Trace(trace) = &mut workload.load {
                    trace.path = PathBuf::from(digests.of(&folder.join(&trace.path))?);
                }
            }
            hasher.update(format!("{world}\0{}\0{}\0", variant.name, variant.only.join(",")));
            hasher.update(crate::print(&played));
        }
    }
    Ok(hex(&hasher.finalize()))
}

/// A digest of texts, in which their borders count: 32 hexadecimal digits.
pub fn digest_of_text(parts: &[&str]) -> String {
    let mut hasher = Sha256::new();
    for part in parts {
        hasher.update((part.len() as u64).to_le_bytes());
        hasher.update(part);
    }
    hex(&hasher.finalize())
}

/// A digest of the bytes of a file: 32 hexadecimal digits.
///
/// # Errors
/// It cannot be read.
pub fn digest_of_file(path: &Path) -> io::Result<String> {
    let mut file = File::open(path)?;
    let mut hasher = Sha256::new();
    let mut block = vec![0; 1 << 20];
    loop {
        match file.read(&mut block)? {
            0 => return Ok(hex(&hasher.finalize())),
            read => hasher.update(&block[..read]),
        }
    }
}

fn hex(digest: &[u8]) -> String {
    let mut text = String::new();
    for byte in &digest[..16] {
        write!(text, "{byte:02x}").expect("a string takes all");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(text: &str, folder: &Path) -> String {
        identity(&crate::parse(text, "x").unwrap(), folder, &mut Digests::default()).unwrap()
    }

    #[test]
    fn what_is_played_counts_and_where_it_lies_does_not() {
        let folder = tempfile::tempdir().unwrap();
        for (name, bytes) in [("a", "1"), ("b", "1"), ("c", "2")] {
            std::fs::write(folder.path().join(name), bytes).unwrap();
        }
        let scenario = |name: &str, trace: &str, more: &str| {
            format!("name = '{name}'\n{more}\n[[workloads]]\nname = 'w'\nload = {{ kind = 'trace', path = '{trace}' }}")
        };
        let base = of(&scenario("x", "a", ""), folder.path());
        assert_eq!(base.len(), 32);
        assert_eq!(base, of(&scenario("y", "b", "title = 'other'"), folder.path()), "called otherwise");
        let absolute = folder.path().join("a");
        assert_eq!(base, of(&scenario("x", absolute.to_str().unwrap(), ""), Path::new("elsewhere")));
        for other in [
            scenario("x", "c", ""),
            scenario("x", "a", "seed = 2"),
            scenario("x", "a", "repeats = 2"),
            scenario("x", "a", "policy = 'mglru'"),
            scenario("x", "a", "metrics = ['runtime_ns']"),
        ] {
            assert_ne!(base, of(&other, folder.path()), "{other}");
        }
        let missing = scenario("x", "none", "");
        let error = identity(&crate::parse(&missing, "x").unwrap(), folder.path(), &mut Digests::default());
        assert!(error.unwrap_err().to_string().contains("none"), "the file is named");
    }
}
