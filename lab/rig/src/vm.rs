//! The virtual machine: QEMU's software emulation of a PC.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::packages::need;
use crate::{Kernel, RigError};

/// The emulator.
const QEMU: &str = "qemu-system-x86_64";
/// Lines of the console that an error shows.
const TAIL_LINES: usize = 15;

/// A machine to emulate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Machine {
    /// Memory in bytes; a multiple of 1 MiB.
    pub memory_bytes: u64,
    /// Processors.
    pub cpus: u32,
    /// Longest run time.
    pub time_limit: Duration,
    /// Source of the guest's clock.
    pub clock: Clock,
    /// Whether user and kernel have page tables of their own (`pti=on`). An emulated processor keeps translations much longer than a real
    /// one, and sets accessed bits only when it walks: a page that reclaim has scanned seems idle however often it is used. With separate
    /// tables each entry into the kernel drops all translations.
    pub isolated_tables: bool,
    /// Size of a second node without processors, which the firmware declares as slow. Memory of the slow node follows the memory of the
    /// first.
    pub slow_bytes: Option<u64>,
}

/// Source of a guest's clock.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Clock {
    /// The host's clock: delays of the emulator appear as slowness in the guest.
    #[default]
    Host,
    /// Executed instructions, 1 ns each; when all processors are idle the clock jumps to the next event. Timing does not depend on
    /// the speed or load of the host; processors take turns.
    Instructions,
}

impl Default for Machine {
    fn default() -> Self {
        Self {
            memory_bytes: 1 << 30,
            cpus: 1,
            time_limit: Duration::from_secs(120),
            clock: Clock::Host,
            isolated_tables: false,
            slow_bytes: None,
        }
    }
}

/// Result of a machine.
#[derive(Debug)]
pub(crate) struct Ended {
    /// QEMU's exit code; `None` if it was killed.
    pub(crate) code: Option<i32>,
    /// Output of the guest's second serial port.
    pub(crate) reports: String,
    /// Output of its console.
    pub(crate) console: String,
    /// Wall-clock time.
    pub(crate) took: Duration,
}

/// Fails unless the emulator is installed.
pub(crate) fn check() -> Result<(), RigError> {
    need(QEMU, "qemu-system-x86")
}

/// Boots `kernel` with `initramfs` in `folder`, where it may leave files, and waits for the end. `drives` are raw images. `sample`
/// is called from time to time with the file of reports, as far as it is written.
pub(crate) fn boot(
    machine: &Machine,
    kernel: &Kernel,
    initramfs: &Path,
    drives: &[PathBuf],
    folder: &Path,
    sample: &mut dyn FnMut(&Path),
) -> Result<Ended, RigError> {
    check()?;
    let (console, reports) = (folder.join("console"), folder.join("reports"));
    let started = Instant::now();
    let mut running =
        Running(command(machine, kernel, initramfs, drives, &console, &reports).spawn().map_err(RigError::io(QEMU))?);
    let status = running.wait(started + machine.time_limit, &mut || sample(&reports)).map_err(RigError::io(QEMU))?;
    let read = |path: &Path| {
        let bytes = fs::read(path).unwrap_or_default();
        String::from_utf8_lossy(&bytes).replace('\r', "")
    };
    let (console, reports) = (read(&console), read(&reports));
    let Some(status) = status else {
        let what = format!("did not end within {} s and was stopped", machine.time_limit.as_secs());
        return Err(RigError::Guest { what, tail: tail(&console) });
    };
    Ok(Ended { code: status.code(), reports, console, took: started.elapsed() })
}

fn command(
    machine: &Machine,
    kernel: &Kernel,
    initramfs: &Path,
    drives: &[PathBuf],
    console: &Path,
    reports: &Path,
) -> Command {
    // It must not outlive us however we end.
    let mut command = if need("setpriv", "util-linux").is_ok() {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "KILL", QEMU]);
        command
    } else {
        Command::new(QEMU)
    };
    let text = |path: &Path| path.display().to_string();
    let (threads, idle) = match machine.clock {
        // Waking a halted processor is slow where each has a thread of the host.
        Clock::Host => ("multi", " idle=poll"),
        Clock::Instructions => {
            command.args(["-icount", "shift=0,sleep=off"]);
            ("single", "")
        }
    };
    let tables = if machine.isolated_tables { " pti=on" } else { "" };
    command
        .args(["-accel", &format!("tcg,thread={threads}"), "-cpu", "max,la57=off"])
        .args(memory(machine))
        .args(["-smp", &machine.cpus.to_string()])
        .args(["-display", "none", "-nodefaults", "-no-reboot"])
        .args(["-serial", &format!("file:{}", text(console)), "-serial", &format!("file:{}", text(reports))])
        .args(["-device", "isa-debug-exit,iobase=0xf4,iosize=4"])
        .args(["-kernel", &text(&kernel.image), "-initrd", &text(initramfs)])
        // On a busy host the emulated timer can be too late for the kernel's check that it ticks, which causes a panic.
        .args(["-append", &format!("console=ttyS0 quiet panic=-1{idle}{tables} norandmaps no_timer_check")]);
    for drive in drives {
        command.args(["-drive", &format!("file={},if=virtio,format=raw,cache=unsafe", text(drive))]);
    }
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command
}

/// Kind of machine, memory and nodes. The slow node's figures are those of a CXL expander; they slow nothing down, but the kernel puts the
/// node into a lower tier.
fn memory(machine: &Machine) -> Vec<String> {
    let own = machine.memory_bytes >> 20;
    let Some(slow) = machine.slow_bytes.map(|bytes| bytes >> 20) else {
        return ["-machine", "q35", "-m", &format!("{own}M")].map(str::to_owned).to_vec();
    };
    let latency = "hmat-lb,initiator=0,hierarchy=memory,data-type=access-latency";
    let bandwidth = "hmat-lb,initiator=0,hierarchy=memory,data-type=access-bandwidth";
    let numa = [
        format!("node,nodeid=0,cpus=0-{},memdev=m0", machine.cpus - 1),
        "node,nodeid=1,memdev=m1,initiator=0".to_owned(),
        "dist,src=0,dst=1,val=20".to_owned(),
        format!("{latency},target=0,latency=100"),
        format!("{latency},target=1,latency=250"),
        format!("{bandwidth},target=0,bandwidth=200G"),
        format!("{bandwidth},target=1,bandwidth=25G"),
    ];
    let mut arguments: Vec<String> =
        ["-machine", "q35,hmat=on", "-m", &format!("{}M", own + slow)].map(str::to_owned).to_vec();
    for (id, size) in [("m0", own), ("m1", slow)] {
        arguments.extend(["-object".to_owned(), format!("memory-backend-ram,id={id},size={size}M")]);
    }
    arguments.extend(numa.into_iter().flat_map(|numa| ["-numa".to_owned(), numa]));
    arguments
}

/// A started emulator that does not outlive this value.
struct Running(Child);

impl Running {
    /// Waits until `end`; `None` when the time is over. Calls `sample` once a second.
    fn wait(&mut self, end: Instant, sample: &mut dyn FnMut()) -> std::io::Result<Option<ExitStatus>> {
        let mut looked = Instant::now();
        loop {
            if let Some(status) = self.0.try_wait()? {
                return Ok(Some(status));
            }
            let now = Instant::now();
            if now >= end {
                return Ok(None);
            }
            if now.duration_since(looked) >= Duration::from_secs(1) {
                looked = now;
                sample();
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // It may have ended already.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The end of a console, for an error.
pub(crate) fn tail(console: &str) -> String {
    let lines: Vec<&str> = console.lines().map(str::trim_end).filter(|line| !line.is_empty()).collect();
    if lines.is_empty() {
        return "; its console is empty".to_owned();
    }
    let mut tail = "; the end of its console:".to_owned();
    for line in &lines[lines.len().saturating_sub(TAIL_LINES)..] {
        let _ = write!(tail, "\n  {line}");
    }
    tail
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_are_isolated_where_asked_for() {
        let path = Path::new("file");
        let kernel = Kernel { release: "0".to_owned(), image: path.to_owned(), modules: path.to_owned() };
        let isolated = [false, true].map(|isolated_tables| {
            let machine = Machine { isolated_tables, ..Machine::default() };
            let command = command(&machine, &kernel, path, &[], path, path);
            command.get_args().any(|argument| argument.to_string_lossy().contains(" pti=on "))
        });
        assert_eq!(isolated, [false, true]);
    }

    #[test]
    fn the_end_of_a_console() {
        assert_eq!(tail(" \n\n"), "; its console is empty");
        let console: String = (1..=40).map(|line| format!("line {line} \n\n")).collect();
        let tail = tail(&console);
        assert!(tail.starts_with("; the end of its console:\n  line 26\n") && tail.ends_with("\n  line 40"), "{tail}");
    }
}
