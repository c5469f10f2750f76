//! Runs a program with few capabilities, as a service manager does with CapabilityBoundingSet.

use std::os::unix::process::CommandExt as _;

use crate::sys;

/// Name of the tool on the command line of this program.
pub(crate) const NAME: &str = "least-capabilities";
/// CAP_SYS_PTRACE, CAP_SYS_ADMIN, CAP_SYS_NICE (linux/capability.h).
const KEPT: [u32; 3] = [19, 21, 23];
/// Above the last capability of any kernel.
const CAPABILITIES: u32 = 64;

/// Arguments: the program and its arguments. Returns only if that cannot be run.
pub(crate) fn run(arguments: &[String]) -> Result<(), String> {
    let (program, arguments) = arguments.split_first().ok_or_else(|| format!("{NAME} PROGRAM [ARGUMENTS]"))?;
    for capability in (0..CAPABILITIES).filter(|number| !KEPT.contains(number)) {
        // Capabilities that this kernel does not have are refused.
        let _ = sys::drop_capability(capability);
    }
    Err(format!("cannot run {program}: {}", std::process::Command::new(program).args(arguments).exec()))
}
