//! Installed programs of the host, with all that they need in a guest: libraries, and Python modules.

use std::collections::BTreeSet;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::run::Extra;
use crate::{RigError, packages};

/// A program of this machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HostProgram {
    /// Path, on the host and in the guest.
    pub path: String,
    /// The program and the files it loads. Each has the same path in the guest.
    pub files: Vec<Extra>,
}

/// Prints the files of modules, which are the arguments, and of all that these import.
const FILES_OF_MODULES: &str = r#"
import importlib, os, sys
for name in sys.argv[1:]:
    importlib.import_module(name)
for module in list(sys.modules.values()):
    for attribute in ("__file__", "__cached__"):
        path = getattr(module, attribute, None)
        if path and os.path.isfile(path):
            print(path)
"#;

impl HostProgram {
    /// The program called `name`, or at that path, which is in `package`.
    ///
    /// # Errors
    /// It is not installed; its libraries cannot be found.
    pub fn find(name: &'static str, package: &str) -> Result<Self, RigError> {
        let path = packages::find(name, package)?;
        let mut files = BTreeSet::from([path.clone()]);
        files.extend(libraries_of(&path)?);
        Ok(Self { path: path.display().to_string(), files: extras(&files)? })
    }

    /// The program with these modules, and modules that it loads before any program: for Python.
    ///
    /// # Errors
    /// It cannot be run, or has no such module.
    pub fn with_modules(self, modules: &[&str]) -> Result<Self, RigError> {
        // Without additions of this machine's site packages.
        let mut asked = Command::new(&self.path);
        asked.args(["-I", "-S", "-c", FILES_OF_MODULES, "site", "encodings.utf_8"]).args(modules);
        let printed = output_of(&mut asked, Path::new(&self.path))?;
        let mut files: BTreeSet<PathBuf> = printed.lines().map(PathBuf::from).collect();
        let libraries: Vec<PathBuf> =
            files.iter().filter(|file| file.extension().is_some_and(|end| end == "so")).cloned().collect();
        for library in libraries {
            files.extend(libraries_of(&library)?);
        }
        files.extend(self.files.iter().map(|file| file.from.clone()));
        Ok(Self { files: extras(&files)?, ..self })
    }
}

/// The shared libraries of a program, its loader among them; none if it is static.
fn libraries_of(path: &Path) -> Result<BTreeSet<PathBuf>, RigError> {
    packages::need("ldd", "libc-bin")?;
    let done = Command::new("ldd").arg(path).stdin(Stdio::null()).output().map_err(RigError::io("ldd"))?;
    Ok(paths_in(&String::from_utf8_lossy(&done.stdout)))
}

/// The paths in the output of ldd: `name => path (address)`, or `path (address)`.
fn paths_in(text: &str) -> BTreeSet<PathBuf> {
    let path =
        |line: &str| line.split_whitespace().find(|word| word.starts_with('/') && *word != "/").map(PathBuf::from);
    text.lines().map(|line| line.split_once("=> ").map_or(line, |(_, after)| after)).filter_map(path).collect()
}

fn output_of(command: &mut Command, path: &Path) -> Result<String, RigError> {
    let done = command.stdin(Stdio::null()).output().map_err(RigError::io(path))?;
    if !done.status.success() {
        let words = String::from_utf8_lossy(&done.stderr);
        let reason = words.trim().lines().last().unwrap_or("it ended without a word").to_owned();
        return Err(RigError::Damaged { path: path.to_owned(), reason });
    }
    Ok(String::from_utf8_lossy(&done.stdout).into_owned())
}

fn extras(files: &BTreeSet<PathBuf>) -> Result<Vec<Extra>, RigError> {
    let extra = |path: &PathBuf| {
        let file = fs::metadata(path).map_err(RigError::io(path))?;
        let is_program = file.permissions().mode() & 0o111 != 0;
        Ok(Extra { from: path.clone(), to: path.display().to_string(), is_program })
    };
    files.iter().map(extra).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn libraries_are_what_ldd_names() {
        let text = "\tlinux-vdso.so.1 (0x00007f)\n\tlibz.so.1 => /lib/x/libz.so.1 (0x00007f)\n\tlibq.so => not found\n\
                    \t/lib64/ld-linux-x86-64.so.2 (0x00007f)\n";
        let found: Vec<_> = paths_in(text).into_iter().collect();
        assert_eq!(found, [Path::new("/lib/x/libz.so.1"), Path::new("/lib64/ld-linux-x86-64.so.2")]);
        assert!(paths_in("\tnot a dynamic executable\n").is_empty());
    }

    #[test]
    fn a_program_comes_with_its_loader_and_one_that_is_missing_is_a_lack() {
        let shell = HostProgram::find("/bin/sh", "dash").unwrap();
        assert!(shell.files.iter().any(|file| file.to == "/bin/sh" && file.is_program), "{shell:?}");
        let missing = HostProgram::find("isotherm-is-not-called-so", "nothing").unwrap_err();
        assert!(missing.is_lack() && missing.to_string().contains("apt-get install nothing"), "{missing}");
    }
}
