//! Clean roots of Debian releases, and runs of programs in them: without privileges, with processes of its own.

use std::os::unix::fs::{PermissionsExt, chown};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use isotherm_terminal::{CliError, Ui};
use serde::{Deserialize, Serialize};

use super::programs::{Program, Size, files};

/// A release.
pub(super) struct Release {
    pub(super) name: &'static str,
}

pub(super) const RELEASES: [Release; 2] = [Release { name: "bookworm" }, Release { name: "trixie" }];

/// Packages that the programs need there.
const PACKAGES: [&str; 8] = ["python3", "sqlite3", "gcc", "libc6-dev", "redis-server", "redis-tools", "nodejs", "make"];
/// User id and home folder of programs there.
const USER: u32 = 1000;
const FOLDER: &str = "tmp/recorders";

/// Cost of a run.
#[derive(Clone, Copy, Debug, Serialize, Deserialize)]
pub(super) struct Spent {
    /// User and system time with all children, in ns.
    pub(super) cpu_ns: u64,
    pub(super) wall_ns: u64,
    exit_code: i32,
}

/// An existing root.
pub(super) struct Root {
    pub(super) release: &'static Release,
    path: PathBuf,
}

impl Root {
    /// Takes the root made before, or makes it.
    pub(super) fn of(release: &'static Release, ui: &Ui) -> Result<Self, CliError> {
        let id = output(Command::new("id").arg("-u"))?;
        if id.stdout != b"0\n" {
            return Err(CliError::host_cannot("roots of Debian releases are made and entered by root"));
        }
        let set = |variable| std::env::var_os(variable).filter(|value| !value.is_empty()).map(PathBuf::from);
        let cache = set("XDG_CACHE_HOME").or_else(|| Some(set("HOME")?.join(".cache")));
        let cache = cache.ok_or_else(|| CliError::host_cannot("neither XDG_CACHE_HOME nor HOME is set"))?;
        let path = cache.join("isotherm/roots").join(format!("{}-recorders", release.name));
        if !path.exists() {
            ui.say(format_args!("making a root of {} in {}", release.name, path.display()));
            make(release, &path)?;
        }
        Ok(Self { release, path })
    }

    /// Puts `isotherm` and its engine into the folder of `make install`, and the programs into the folder where they run; compiles the C
    /// programs.
    pub(super) fn install(&self) -> Result<(), CliError> {
        let this = std::env::current_exe().map_err(CliError::failed)?;
        let built = this.parent().unwrap_or(Path::new("/"));
        let copy = |from: &str, to: &str| {
            let to = self.path.join(to);
            std::fs::create_dir_all(to.parent().unwrap_or(&self.path)).map_err(CliError::failed)?;
            std::fs::copy(built.join(from), &to).map(drop).map_err(|error| {
                CliError::host_cannot(format!(
                    "{} cannot be copied: {error}; `make build` makes it",
                    built.join(from).display()
                ))
            })
        };
        copy("isotherm", "usr/local/bin/isotherm")?;
        for part in ["isorec-amd64-linux", "isorec-launcher", "vgpreload_core-amd64-linux.so"] {
            copy(&format!("valgrind/{part}"), &format!("usr/local/lib/isotherm/valgrind/{part}"))?;
        }
        let folder = self.path.join(FOLDER);
        let _ = std::fs::remove_dir_all(&folder);
        let wrote = std::fs::create_dir_all(folder.join("build")).and_then(|()| {
            for (name, text) in files() {
                std::fs::write(folder.join(name), text)?;
            }
            [&folder, &folder.join("build")].into_iter().try_for_each(|folder| {
                chown(folder, Some(USER), Some(USER))?;
                std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o755))
            })
        });
        wrote.map_err(CliError::failed)?;
        let compiled =
            self.shell("for name in random threads; do gcc -O2 -pthread -o $name $name.c || exit 1; done")?;
        if !compiled.status.success() {
            return Err(CliError::failed(format!("{}: {}", self.release.name, said(&compiled))));
        }
        // The first run of a program reads it from the disk, and the first recording loads the engine: neither is part of any figure.
        let warm = "python3 -c pass; node -e 0; sqlite3 :memory: .quit; gcc --version; redis-server --version; make --version; \
                    isotherm record -o t.parquet -- true";
        self.shell(warm).map(drop)
    }

    /// The last recording.
    pub(super) fn trace(&self) -> PathBuf {
        self.path.join(FOLDER).join("t.parquet")
    }

    /// Runs a program, natively or recorded.
    pub(super) fn run(&self, program: &Program, size: Size, is_recorded: bool) -> Result<Spent, CliError> {
        let line = match is_recorded {
            false => program.command.to_owned(),
            true => format!("exec isotherm --quiet record -o t.parquet -- sh -c {}", quoted(program.command)),
        };
        let load = program.load.unwrap_or_default();
        let all =
            format!("export N={}; exec python3 measure.py {} {}", program.number(size), quoted(&line), quoted(load));
        let output = self.shell(&all)?;
        let spent: Option<Spent> = serde_json::from_slice(&output.stdout).ok();
        let failed = |what: String| {
            let log = std::fs::read_to_string(self.path.join(FOLDER).join("said")).unwrap_or_default();
            let how = if is_recorded { "recorded" } else { "by itself" };
            CliError::failed(format!("{}, {}, {how}: {what}\n{log}", self.release.name, program.name))
        };
        match spent {
            None => Err(failed(said(&output))),
            Some(spent) if spent.exit_code != 0 => Err(failed(format!("exit code {}", spent.exit_code))),
            Some(spent) => Ok(spent),
        }
    }

    /// Runs a line in the root, with its own processes, as an unprivileged user.
    fn shell(&self, line: &str) -> Result<Output, CliError> {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--pid", "--fork", &format!("--mount-proc={}", self.path.join("proc").display())]);
        command.args(["chroot", &format!("--userspec={USER}:{USER}")]).arg(&self.path);
        command.args(["env", "-i", "HOME=/tmp", "PATH=/usr/local/bin:/usr/bin:/bin", "sh", "-c"]);
        output(command.arg(format!("cd /{FOLDER} && {line}")))
    }
}

/// Makes the root; it gets its final path only when it is whole.
fn make(release: &Release, path: &Path) -> Result<(), CliError> {
    let unfinished = path.with_extension("unfinished");
    let _ = std::fs::remove_dir_all(&unfinished);
    std::fs::create_dir_all(&unfinished).map_err(CliError::failed)?;
    let mut command = Command::new("mmdebstrap");
    command.args(["--variant=minbase", &format!("--include={}", PACKAGES.join(",")), release.name]).arg(&unfinished);
    let made = output(&mut command)?;
    if !made.status.success() {
        return Err(CliError::host_cannot(format!(
            "mmdebstrap cannot make a root of {}: {}",
            release.name,
            said(&made)
        )));
    }
    std::fs::rename(&unfinished, path).map_err(CliError::failed)
}

fn output(command: &mut Command) -> Result<Output, CliError> {
    command.output().map_err(|error| {
        let name = command.get_program().to_string_lossy().into_owned();
        CliError::host_cannot(format!("{name}: {error} (apt-get install mmdebstrap util-linux coreutils)"))
    })
}

fn said(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// The text as one word of a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quoted_line_is_one_word() {
        let text = "a 'b' \"c\" $d";
        let echoed = Command::new("sh").args(["-c", &format!("printf %s {}", quoted(text))]).output().unwrap();
        assert_eq!(String::from_utf8(echoed.stdout).unwrap(), text);
    }
}
