//! Programs that run in the rig's guests, statically linked: `cargo xtask guest` builds their first process into `target/guest`,
//! `cargo xtask static` isotherm itself into `target/static`.

use std::path::Path;

use crate::{Findings, workspace};

const TARGET: &str = "x86_64-unknown-linux-gnu";
/// Linked into one file, at a fixed address below everything that scripts map.
const FLAGS: &[&str] = &["-Ctarget-feature=+crt-static", "-Crelocation-model=static"];

/// Links as the system likes: isotherm maps nothing at places of its own.
const STATIC_FLAGS: &[&str] = &["-Ctarget-feature=+crt-static"];

/// Builds the first process.
pub(crate) fn run() -> Findings {
    build(&workspace::lab(), ("isotherm-guest", "isotherm-guest"), "guest", FLAGS)
}

/// Builds isotherm.
pub(crate) fn run_static() -> Findings {
    build(&workspace::root(), ("isotherm-cli", "isotherm"), "static", STATIC_FLAGS)
}

fn build(workspace: &Path, (package, program): (&str, &str), folder: &str, flags: &[&str]) -> Findings {
    if std::env::consts::ARCH != "x86_64" {
        println!("{program}: not built: the rig's guests are x86-64, and no cross compiler is set up here");
        return Vec::new();
    }
    // A target of its own, so that build scripts and macros are linked as usual.
    let status = workspace::cargo_in(workspace)
        .args(["build", "--locked", "--release", "--package", package, "--bin", program, "--target", TARGET])
        .args(["--config", &format!("target.{TARGET}.rustflags={flags:?}")])
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(_) => return vec![format!("{program} does not build; see above")],
        Err(error) => return vec![format!("cannot run cargo: {error}")],
    }
    put(&workspace::target().join(TARGET).join("release").join(program), folder, program)
}

/// Copies a program into a folder of the target folder.
fn put(built: &Path, folder: &str, program: &str) -> Findings {
    let folder = workspace::target().join(folder);
    let place = folder.join(program);
    // Under another name first: a guest may be starting from the old file.
    let part = folder.join(format!("{program}.part"));
    let put = || -> std::io::Result<()> {
        std::fs::create_dir_all(&folder)?;
        std::fs::copy(built, &part)?;
        std::fs::rename(&part, &place)
    };
    put().map_or_else(|error| vec![format!("{}: {error}", place.display())], |()| Vec::new())
}
