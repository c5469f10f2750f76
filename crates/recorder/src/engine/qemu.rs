//! QEMU's user-mode emulation with the tracer plugin, from version 4.2 on.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{EpochLength, Launch, find_part, find_tool};
use crate::error::RecordError;
use crate::program::Program;

const EMULATOR: &str = "qemu-x86_64";
const TRACER: &str = "libisotherm_tracer.so";

/// The emulator and the plugin.
struct Qemu {
    emulator: PathBuf,
    tracer: PathBuf,
}

/// Finds both.
pub(super) fn locate() -> Result<Box<dyn Launch>, RecordError> {
    let emulator = find_tool(EMULATOR).ok_or(RecordError::ToolMissing { tool: EMULATOR, package: "qemu-user" })?;
    Ok(Box::new(Qemu { emulator, tracer: find_part(TRACER, "ISOTHERM_TRACER", "")? }))
}

impl Launch for Qemu {
    fn path(&self) -> &Path {
        &self.emulator
    }

    fn parts(&self) -> Vec<PathBuf> {
        vec![self.emulator.clone(), self.tracer.clone()]
    }

    fn recorder(&self) -> &'static str {
        "qemu-user plugin"
    }

    fn sees_the_kernel(&self) -> bool {
        false // six system calls are not all
    }

    fn has_prices(&self) -> bool {
        false
    }

    fn command(&self, spool: &Path, epoch: EpochLength, program: &Program) -> Command {
        command(&self.emulator, &plugin_argument(&self.tracer, spool, epoch), program)
    }
}

fn plugin_argument(tracer: &Path, spool: &Path, epoch: EpochLength) -> OsString {
    // The emulator wants commas doubled.
    let escape = |path: &Path| {
        let bytes = path.as_os_str().as_bytes().iter();
        bytes.flat_map(|&byte| if byte == b',' { vec![byte, byte] } else { vec![byte] }).collect::<Vec<u8>>()
    };
    let (tracer, spool) = (escape(tracer), escape(spool));
    let EpochLength { instructions, ns, .. } = epoch;
    let numbers = format!(",epoch-instructions={instructions},epoch-ns={ns},uid=0");
    let parts = [&tracer[..], b",tracer=", &tracer, b",spool=", &spool, numbers.as_bytes()];
    OsStr::from_bytes(&parts.concat()).to_owned()
}

fn command(emulator: &Path, plugin: &OsStr, program: &Program) -> Command {
    let mut command = Command::new(emulator);
    command.args(["-L", "/", "-plugin"]).arg(plugin);
    // Variables of the dynamic loader are meant for the program. With a comma, the emulator would cut them in two.
    for name in ["LD_PRELOAD", "LD_LIBRARY_PATH"] {
        if let Some(value) = std::env::var_os(name).filter(|value| !value.as_bytes().contains(&b',')) {
            let setting = [name.as_bytes(), b"=", value.as_bytes()].concat();
            command.arg("-E").arg(OsStr::from_bytes(&setting)).env_remove(name);
        }
    }
    let mut arguments = program.arguments.iter();
    command.arg("-0").arg(arguments.next().map_or(OsStr::new(""), OsStr::new)).arg(&program.path).args(arguments);
    command
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_of_the_emulator() {
        let program = Program { path: "/bin/x".into(), arguments: vec!["y".into(), "-z".into()] };
        let plugin = plugin_argument(
            Path::new("/a,b.so"),
            Path::new("/s"),
            EpochLength { instructions: 10, ns: 3, by_prices: false },
        );
        assert_eq!(plugin, "/a,,b.so,tracer=/a,,b.so,spool=/s,epoch-instructions=10,epoch-ns=3,uid=0");
        let command = command(Path::new("/q"), &plugin, &program);
        let line: Vec<_> = command.get_args().map(|word| word.to_string_lossy().into_owned()).collect();
        assert_eq!(line[..3], ["-L", "/", "-plugin"]);
        assert_eq!(line[line.len() - 4..], ["-0", "y", "/bin/x", "-z"]);
    }
}
