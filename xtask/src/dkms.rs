//! `cargo xtask dkms`: whether DKMS builds, installs and removes the accessed-bit module as `make module-install` copies it, each in a
//! clean root of a Debian release with its own `dkms`, for the headers of the rig's kernel of that release.

use std::path::Path;

use crate::{Findings, module, workspace};

/// Files that `make module-install` puts into /usr/src/isotherm-1.
const FILES: [&str; 6] = ["isotherm.c", "isotherm.h", "Makefile", "dkms.conf", "LICENSE", "README.md"];
/// Name and version, as module/dkms.conf has them.
const NAME: &str = "isotherm/1";

/// Tries it for the kernels named. Where roots cannot be made it says so and passes, unless `ISOTHERM_REQUIRE_ALL` is 1.
pub(crate) fn run(names: &[String]) -> Findings {
    let usual = module::USUAL.map(str::to_owned);
    let names = if names.is_empty() { &usual[..] } else { names };
    let is_required = std::env::var_os("ISOTHERM_REQUIRE_ALL").is_some_and(|all| all == "1");
    let skip = |lack: String| skip_or_fail(lack, is_required);
    if let Some(lack) = lack_of_host() {
        return told(skip(lack)).into_iter().collect();
    }
    let try_one = |name: &String| match lack_of_kernel(name) {
        Some(lack) => told(skip(lack)),
        None => told(install(name).map_err(|error| format!("{name}: {error}"))),
    };
    names.iter().filter_map(try_one).collect()
}

/// Prints the success, and returns the failure.
fn told(result: Result<String, String>) -> Option<String> {
    result.map(|line| println!("dkms: {line}")).err()
}

fn skip_or_fail(lack: String, is_required: bool) -> Result<String, String> {
    if is_required { Err(lack) } else { Ok(format!("skipped: {lack}")) }
}

/// Why roots cannot be made on this machine.
fn lack_of_host() -> Option<String> {
    let is_root = std::fs::metadata("/proc/self").is_ok_and(|of| std::os::unix::fs::MetadataExt::uid(&of) == 0);
    if !is_root {
        return Some("roots are made as root only; run it so".to_owned());
    }
    let paths = std::env::var_os("PATH").unwrap_or_default();
    let is_there = |program: &str| std::env::split_paths(&paths).any(|folder| folder.join(program).is_file());
    let missing = ["mmdebstrap", "unshare", "chroot"].into_iter().find(|program| !is_there(program))?;
    Some(format!("no {missing} here (apt-get install mmdebstrap util-linux coreutils)"))
}

/// A kernel of the rig that was not fetched. A name that is none of the rig's is an error, not a lack.
fn lack_of_kernel(name: &str) -> Option<String> {
    let is_known = module::SUITES.iter().any(|(known, _)| *known == name);
    let cache = module::cache().ok()?;
    (is_known && module::release(&cache.join("kernels").join(name)).is_none())
        .then(|| format!("Linux {name} is not at hand; `isotherm-lab rig ready {name}` fetches it"))
}

/// Adds, builds, installs and removes the module, and returns a summary.
fn install(name: &str) -> Result<String, String> {
    let (suite, release) = module::known(name)?;
    let root = module::root("dkms", "dkms,kmod", suite, &release, &module::cache()?.join("roots"))?;
    let show = |path: &Path, error: std::io::Error| format!("{}: {error}", path.display());
    let modules = root.join("lib/modules").join(&release);
    // Left by an interrupted run.
    let _ = module::run_inside(&root, &["dkms", "remove", NAME, "--all"]);
    let source = root.join("usr/src/isotherm-1");
    std::fs::create_dir_all(&source).map_err(|error| show(&source, error))?;
    for file in FILES {
        let from = workspace::root().join("module").join(file);
        std::fs::copy(&from, source.join(file)).map_err(|error| show(&from, error))?;
    }
    if let Some(old) = installed_in(&modules) {
        return Err(format!("{old} is there before anything was built"));
    }
    module::run_inside(&root, &["dkms", "add", NAME])?;
    for step in ["build", "install"] {
        module::run_inside(&root, &["dkms", step, NAME, "-k", &release])?;
    }
    let file = installed_in(&modules).ok_or_else(|| format!("DKMS put no isotherm.ko below {}", modules.display()))?;
    // By its path: without the kernel itself there may be no index of modules, and dkms makes none then.
    let path = format!("/lib/modules/{release}/{file}");
    let magic = module::run_inside(&root, &["modinfo", "-F", "vermagic", &path])?;
    if magic.split_whitespace().next() != Some(release.as_str()) {
        return Err(format!("{file} is for `{}` and not for {release}", magic.trim()));
    }
    let version = module::run_inside(&root, &["dkms", "--version"])?;
    module::run_inside(&root, &["dkms", "remove", NAME, "--all"])?;
    if let Some(left) = installed_in(&modules) {
        return Err(format!("{left} is still there after `dkms remove`"));
    }
    Ok(format!("Linux {release}, {}: {file} built, installed and removed", version.trim()))
}

/// The installed module's name in the kernel's folder, compressed or not.
fn installed_in(modules: &Path) -> Option<String> {
    let entries = modules.join("updates/dkms").read_dir().ok()?;
    let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
    names
        .filter(|name| name == "isotherm.ko" || name.starts_with("isotherm.ko."))
        .map(|name| format!("updates/dkms/{name}"))
        .next()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lack_is_a_skip_unless_all_is_required() {
        let lack = || "no mmdebstrap here".to_owned();
        assert_eq!(skip_or_fail(lack(), false), Ok("skipped: no mmdebstrap here".to_owned()));
        assert_eq!(skip_or_fail(lack(), true), Err(lack()));
        assert!(install("2.4").unwrap_err().contains("there are 6.1, 6.12, 7.2"));
    }

    /// The Makefile copies these files, and dkms.conf has their names.
    #[test]
    fn it_tries_what_is_installed() {
        let read = |path: &str| std::fs::read_to_string(workspace::root().join(path)).expect("it is there");
        let list = format!("$(addprefix module/,{})", FILES.join(" "));
        assert!(read("Makefile").contains(&list), "{list}");
        let configured = read("module/dkms.conf");
        assert!(configured.contains("PACKAGE_NAME=\"isotherm\"") && configured.contains("PACKAGE_VERSION=\"1\""));
    }
}
