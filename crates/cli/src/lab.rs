//! Finds and runs `isotherm-lab`, the command that runs real kernels.

use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use isotherm_terminal::{CliError, Ui};

const NAME: &str = "isotherm-lab";

/// Path of the command.
#[derive(Debug)]
pub(crate) struct Lab(PathBuf);

impl Lab {
    /// Searches for it: at `ISOTHERM_LAB`, next to this command, in `PATH`. An error message begins with `why`, the
    /// reason for its use.
    ///
    /// # Errors
    /// It is not found: exit code 3.
    pub(crate) fn find(why: &str) -> Result<Self, CliError> {
        let set = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty());
        let (configured, executable) = (set("ISOTHERM_LAB"), std::env::current_exe().ok());
        let found = find(configured.as_deref().map(Path::new), executable.as_deref(), set("PATH").as_deref());
        found.map(Self).map_err(|what| CliError::host_cannot(format!("{why}: {what}")))
    }

    /// Runs it, and returns its output. It shows progress and messages itself.
    ///
    /// # Errors
    /// The lab's own error, which it has already printed, or the error that it cannot be run.
    pub(crate) fn run<A: AsRef<OsStr>>(&self, arguments: &[A], ui: &Ui) -> Result<Vec<u8>, CliError> {
        let failed = |what: String| CliError::failed(format!("{} {what}", self.0.display()));
        let output = self
            .command()
            .args(ui.flags())
            .args(arguments)
            .stdin(Stdio::null())
            .stderr(Stdio::inherit())
            .output()
            .map_err(|error| failed(format!("cannot be run: {error}")))?;
        match output.status.code().and_then(|code| u8::try_from(code).ok()) {
            Some(0) => Ok(output.stdout),
            Some(code @ 1..=4) => Err(CliError::Reported(code)),
            _ => Err(failed(format!("broke down ({})", output.status))),
        }
    }

    /// Makes it end with us in any case, if util-linux is installed.
    fn command(&self) -> Command {
        let Some(setpriv) = std::env::var_os("PATH").and_then(|path| in_path("setpriv", &path)) else {
            return Command::new(&self.0);
        };
        let mut command = Command::new(setpriv);
        command.args(["--pdeathsig", "KILL"]).arg(&self.0);
        command
    }
}

fn find(configured: Option<&Path>, executable: Option<&Path>, path: Option<&OsStr>) -> Result<PathBuf, String> {
    const GET: &str = "build it in a checkout of isotherm with `make lab`";
    if let Some(place) = configured {
        let missing = || format!("ISOTHERM_LAB names {}, which is no file; {GET}", place.display());
        return place.is_file().then(|| place.to_path_buf()).ok_or_else(missing);
    }
    let next_to_us = executable.and_then(Path::parent).map(|folder| folder.join(NAME)).filter(|place| place.is_file());
    next_to_us.or_else(|| in_path(NAME, path?)).ok_or_else(|| {
        format!(
            "{NAME} is missing: it is neither beside this command nor in PATH; {GET} and name it by ISOTHERM_LAB, \
             or put it there"
        )
    })
}

fn in_path(name: &str, path: &OsStr) -> Option<PathBuf> {
    std::env::split_paths(path).map(|folder| folder.join(name)).find(|place| place.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_is_looked_for_where_the_user_says_beside_us_and_in_path() {
        let folder = tempfile::tempdir().unwrap();
        let put = |name: &str| {
            let place = folder.path().join(name).join(NAME);
            std::fs::create_dir_all(place.parent().unwrap()).unwrap();
            std::fs::write(&place, "").unwrap();
            place
        };
        let (own, next_to_us, in_path) = (put("own"), put("beside"), put("path"));
        let (executable, alone) = (next_to_us.with_file_name("isotherm"), folder.path().join("isotherm"));
        let path = std::env::join_paths([folder.path(), in_path.parent().unwrap()]).unwrap();
        assert_eq!(find(Some(&own), Some(&executable), Some(&path)), Ok(own));
        assert_eq!(find(None, Some(&executable), Some(&path)), Ok(next_to_us));
        assert_eq!(find(None, Some(&alone), Some(&path)), Ok(in_path.clone()));
        assert_eq!(find(None, None, Some(&path)), Ok(in_path));
        let error = find(Some(folder.path()), Some(&executable), Some(&path)).unwrap_err();
        assert!(error.contains("which is no file") && error.contains("`make lab`"), "{error}");
        let error = find(None, Some(&alone), None).unwrap_err();
        assert!(error.contains("isotherm-lab is missing") && error.contains("`make lab`"), "{error}");
    }
}
