//! `cargo xtask module`: builds the accessed-bit module for the kernels of the rig, each in a clean root of its Debian release with the
//! compiler and the headers of exactly that kernel. The rig reads `modules/RELEASE/isotherm.ko` in the cache.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Findings, workspace};

/// Kernels of the rig and the suites that they come from, as in lab/rig/src/packages.rs.
pub(crate) const SUITES: [(&str, &str); 3] = [("6.1", "bookworm"), ("6.12", "trixie"), ("7.2", "sid")];
/// Kernels to build for by default.
pub(crate) const USUAL: [&str; 3] = ["6.1", "6.12", "7.2"];
const SOURCES: [&str; 3] = ["isotherm.c", "isotherm.h", "Makefile"];

/// Builds it for the kernels named.
pub(crate) fn run(names: &[String]) -> Findings {
    let usual = USUAL.map(str::to_owned);
    let names = if names.is_empty() { &usual[..] } else { names };
    names.iter().filter_map(|name| build(name).err().map(|error| format!("{name}: {error}"))).collect()
}

fn build(name: &str) -> Result<(), String> {
    let (suite, release) = known(name)?;
    let cache = cache()?;
    let root = root("module", "gcc,make", suite, &release, &cache.join("roots"))?;
    let inside = root.join("module");
    let show = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    std::fs::create_dir_all(&inside).map_err(|error| show(&inside, error))?;
    for file in SOURCES {
        let from = workspace::root().join("module").join(file);
        std::fs::copy(&from, inside.join(file)).map_err(|error| show(&from, error))?;
    }
    // The headers' own tools read /proc. Those of the root have no pahole.
    let kernel = format!("KVER={release}");
    run_inside(&root, &["make", "-C", "/module", &kernel, "KCFLAGS=-Wall -Werror", "CONFIG_DEBUG_INFO_BTF_MODULES="])?;
    let place = cache.join("modules").join(&release);
    std::fs::create_dir_all(&place).map_err(|error| show(&place, error))?;
    // Under another name first: a guest may be about to get the old file.
    let (part, whole) = (place.join("isotherm.ko.part"), place.join("isotherm.ko"));
    std::fs::copy(inside.join("isotherm.ko"), &part).map_err(|error| show(&part, error))?;
    std::fs::rename(&part, &whole).map_err(|error| show(&whole, error))?;
    println!("module: {} (Linux {release})", whole.display());
    Ok(())
}

/// The suite of a kernel of the rig, and its `uname -r`.
pub(crate) fn known(name: &str) -> Result<(&'static str, String), String> {
    let known = SUITES.map(|(name, _)| name).join(", ");
    let suite = SUITES.iter().find(|(known, _)| *known == name).map(|(_, suite)| *suite);
    let suite = suite.ok_or_else(|| format!("no kernel of the rig; there are {known}"))?;
    let release = release(&cache()?.join("kernels").join(name));
    let missing = || format!("the kernel is not at hand; `isotherm-lab rig ready {name}` fetches it");
    Ok((suite, release.ok_or_else(missing)?))
}

/// The folder that the rig keeps its kernels in, too.
pub(crate) fn cache() -> Result<PathBuf, String> {
    let named = |name: &str| std::env::var_os(name).filter(|value| !value.is_empty()).map(PathBuf::from);
    named("ISOTHERM_CACHE")
        .or_else(|| named("XDG_CACHE_HOME").map(|folder| folder.join("isotherm")))
        .or_else(|| named("HOME").map(|folder| folder.join(".cache/isotherm")))
        .ok_or_else(|| "no folder for kernels: set ISOTHERM_CACHE to one".to_owned())
}

/// `uname -r` of a kernel that the rig has fetched.
pub(crate) fn release(kernel: &Path) -> Option<String> {
    let modules = ["usr/lib/modules", "lib/modules"].iter().find_map(|place| kernel.join(place).read_dir().ok())?;
    modules.flatten().next()?.file_name().into_string().ok()
}

/// A clean root of the suite with `packages`, separated by commas, and the kernel's headers, made if it does not exist. `purpose` is
/// part of its name.
pub(crate) fn root(purpose: &str, packages: &str, suite: &str, release: &str, roots: &Path) -> Result<PathBuf, String> {
    let path = roots.join(format!("{suite}-{purpose}-{release}"));
    if path.exists() {
        return Ok(path);
    }
    println!("module: making a root of {suite} in {}", path.display());
    let unfinished = roots.join(format!("{suite}-{purpose}-{release}.unfinished"));
    // Left by an interrupted run.
    let _ = std::fs::remove_dir_all(&unfinished);
    std::fs::create_dir_all(&unfinished).map_err(|error| format!("{}: {error}", unfinished.display()))?;
    let packages = format!("--include={packages},linux-headers-{release}");
    // A mirror may be frozen at a date, as the kernel is. Signatures are still checked.
    let options = ["--aptopt=Acquire::Check-Valid-Until \"false\"", "--variant=minbase"];
    run_command(Command::new("mmdebstrap").args(options).args([packages.as_str(), suite]).arg(&unfinished)).map_err(
        |error| {
            format!(
                "{error}; where the mirror has no linux-headers-{release} any more, remove the kernel from the cache and have \
                 `isotherm-lab rig ready` fetch the present one"
            )
        },
    )?;
    std::fs::rename(&unfinished, &path).map_err(|error| format!("{}: {error}", path.display()))?;
    Ok(path)
}

/// Runs a command in a root, with a /proc of its own, and returns its output.
pub(crate) fn run_inside(root: &Path, words: &[&str]) -> Result<String, String> {
    run_command(
        Command::new("unshare")
            .args(["--mount", "--pid", "--fork", &format!("--mount-proc={}", root.join("proc").display()), "chroot"])
            .arg(root)
            .args(["env", "-i", "PATH=/usr/sbin:/usr/bin:/sbin:/bin"])
            .args(words),
    )
    .map_err(|error| format!("`{}`: {error}", words.join(" ")))
}

fn run_command(command: &mut Command) -> Result<String, String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let output = command.env("LC_ALL", "C").output().map_err(|error| {
        format!("cannot run {name}: {error} (as root: apt-get install mmdebstrap util-linux coreutils)")
    })?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    let lines: Vec<&str> = said.lines().collect();
    Err(format!("{name} failed:\n{}", lines[lines.len().saturating_sub(20)..].join("\n")))
}
