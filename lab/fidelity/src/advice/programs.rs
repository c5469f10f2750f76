//! The recordings on which advice is judged.

use std::path::{Path, PathBuf};

use isotherm_rig::{Script, script_of};
use isotherm_units::Pages;
use isotherm_workload::{BuildContext, TraceSpec, WorkloadSpec};
use serde::Deserialize;

use crate::matrix::{Set, Workload, digest};
use crate::{FidelityError, simulate};

/// A program of the list.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Listed {
    /// Name of the program, as in the stores.
    pub name: String,
    /// Recording of the program, relative to the folder that holds `traces`.
    pub path: PathBuf,
    /// Whether predictions may be calibrated on it.
    pub set: Set,
}

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Raw {
    programs: Vec<Listed>,
}

/// The list of programs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Programs {
    /// All programs, in the order of the list.
    pub listed: Vec<Listed>,
}

/// A program ready to be played as a whole.
#[derive(Clone, Debug)]
pub struct Program {
    /// Script, digest and peak. The peak is the most pages charged at a time, without a limit, in the simulated machine.
    pub workload: Workload,
}

impl Programs {
    /// Reads the list.
    ///
    /// # Errors
    /// It is no such list, or names a program twice; `place` is its path for the message.
    pub fn parse(text: &str, place: &str) -> Result<Self, FidelityError> {
        let raw: Raw =
            toml::from_str(text).map_err(|source| FidelityError::Workloads { place: place.to_owned(), source })?;
        let mut names: Vec<&str> = raw.programs.iter().map(|program| program.name.as_str()).collect();
        names.sort_unstable();
        if let Some(twice) = names.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(FidelityError::Twice { place: place.to_owned(), name: twice[0].to_owned() });
        }
        Ok(Self { listed: raw.programs })
    }

    /// The programs that come with isotherm.
    ///
    /// # Panics
    /// Never: a test reads them.
    pub fn bundled() -> Self {
        let text = include_str!("../../../../scenarios/fidelity/advice.toml");
        Self::parse(text, "scenarios/fidelity/advice.toml").expect("a test reads it")
    }

    /// The programs called `names`, in the order of the list; all programs for an empty list.
    ///
    /// # Errors
    /// A name that is not in the list.
    pub fn named(&self, names: &[String]) -> Result<Vec<&Listed>, FidelityError> {
        if let Some(name) = names.iter().find(|name| self.listed.iter().all(|listed| listed.name != **name)) {
            let known: Vec<&str> = self.listed.iter().map(|listed| listed.name.as_str()).collect();
            return Err(FidelityError::Unknown { what: "program", name: name.clone(), known: known.join(", ") });
        }
        let is_named = |listed: &&Listed| names.is_empty() || names.contains(&listed.name);
        Ok(self.listed.iter().filter(is_named).collect())
    }

    /// The set of a program; `None` for a name that is not in the list.
    pub fn set_of(&self, name: &str) -> Option<Set> {
        self.listed.iter().find(|listed| listed.name == name).map(|listed| listed.set)
    }
}

impl Listed {
    /// Digest of the recording's script, without playing it. The recording's path is relative to `folder`; `None`: it does not exist.
    ///
    /// # Errors
    /// A recording that cannot be read or that a guest cannot play.
    pub fn digest(&self, folder: &Path) -> Result<Option<String>, FidelityError> {
        Ok(self.script(folder)?.map(|script| digest(&script.encode())))
    }

    /// Makes the script of the whole recording and plays it once without a limit, which gives the peak. The recording's path is
    /// relative to `folder`; `None`: it does not exist.
    ///
    /// # Errors
    /// A recording that cannot be read, that a guest cannot play, or that the simulated machine cannot play.
    pub fn build(&self, folder: &Path) -> Result<Option<Program>, FidelityError> {
        let Some(script) = self.script(folder)? else { return Ok(None) };
        let digest = digest(&script.encode());
        let mut workload = Workload {
            name: self.name.clone(),
            what: String::new(),
            set: self.set,
            script,
            subgroups: Vec::new(),
            peak: Pages::new(0),
            digest,
        };
        workload.peak = simulate::peak(&workload)?;
        Ok(Some(Program { workload }))
    }

    fn script(&self, folder: &Path) -> Result<Option<Script>, FidelityError> {
        if !folder.join(&self.path).exists() {
            return Ok(None);
        }
        let context = BuildContext::new(folder).named(self.name.clone());
        let built = WorkloadSpec::Trace(TraceSpec::new(&self.path)).build(&context);
        let program = built.map_err(|source| FidelityError::Workload { workload: self.name.clone(), source })?;
        Ok(Some(script_of(program)?))
    }
}

impl Program {
    pub fn name(&self) -> &str {
        &self.workload.name
    }

    /// Digest of its script.
    pub fn digest(&self) -> &str {
        &self.workload.digest
    }

    /// The most pages charged at a time without a limit.
    pub fn peak(&self) -> Pages {
        self.workload.peak
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_bundled_list_has_both_sets() {
        let programs = Programs::bundled();
        let of = |set| programs.listed.iter().filter(|of| of.set == set).map(|of| of.name.as_str()).collect::<Vec<_>>();
        assert_eq!(of(Set::Fitting), ["sqlite", "redis", "gcc", "postgres", "rustc", "perl"]);
        assert_eq!(of(Set::HeldOut), ["python", "node", "git", "web", "zstd", "shell"]);
    }

    #[test]
    fn what_is_no_list_is_refused_with_its_place() {
        let error = |text: &str| Programs::parse(text, "list.toml").unwrap_err().to_string();
        assert!(error("programs = 3").starts_with("list.toml: "));
        let one = "[[programs]]\nname = \"a\"\npath = \"a\"\nset = \"fitting\"\n";
        assert_eq!(error(&one.repeat(2)), "list.toml: `a` is listed twice");
        assert!(error(&one.replace("fitting", "other")).contains("unknown variant"));
    }

    #[test]
    fn a_program_that_is_not_listed_is_named_with_those_that_are() {
        let programs = Programs::bundled();
        let error = programs.named(&["oracle".to_owned()]).unwrap_err().to_string();
        assert!(error.starts_with("no program is called `oracle`; there are sqlite, redis"), "{error}");
        let two = programs.named(&["node".to_owned(), "gcc".to_owned()]).unwrap();
        assert_eq!(two.iter().map(|listed| listed.name.as_str()).collect::<Vec<_>>(), ["gcc", "node"]);
    }

    #[test]
    fn a_recording_that_is_not_there_is_no_error() {
        let folder = tempfile::tempdir().unwrap();
        assert!(Programs::bundled().listed[0].build(folder.path()).unwrap().is_none());
    }
}
