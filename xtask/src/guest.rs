//! `cargo xtask guest`: builds the first process of the rig's guests, statically linked, into `target/guest`.

use std::path::PathBuf;

use crate::{Findings, workspace};

const TARGET: &str = "x86_64-unknown-linux-gnu";
/// Linked into one file, at a fixed address below everything that scripts map.
const FLAGS: &str = "['-Ctarget-feature=+crt-static', '-Crelocation-model=static']";

/// Builds it.
pub(crate) fn run() -> Findings {
    if std::env::consts::ARCH != "x86_64" {
        println!("guest: not built: the rig's guests are x86-64, and no cross compiler is set up here");
        return Vec::new();
    }
    // A target of its own, so that build scripts and macros are linked as usual.
    let status = workspace::cargo()
        .args(["build", "--locked", "--release", "--package", "isotherm-guest", "--target", TARGET])
        .args(["--config", &format!("target.{TARGET}.rustflags={FLAGS}")])
        .status();
    match status {
        Ok(status) if status.success() => {}
        Ok(_) => return vec!["the guest's program does not build; see above".to_owned()],
        Err(error) => return vec![format!("cannot run cargo: {error}")],
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or_else(|| workspace::root().join("target"), PathBuf::from);
    let built = target.join(TARGET).join("release/isotherm-guest");
    let folder = target.join("guest");
    let place = folder.join("isotherm-guest");
    // Another name first: a guest may be started from the old one just now.
    let part = folder.join("isotherm-guest.part");
    let put = || -> std::io::Result<()> {
        std::fs::create_dir_all(&folder)?;
        std::fs::copy(&built, &part)?;
        std::fs::rename(&part, &place)
    };
    put().map_or_else(|error| vec![format!("{}: {error}", place.display())], |()| Vec::new())
}
