//! Setting up the guest, and switching it off.

use isotherm_guest::job::{DISK_MODULE_PATH, DISK_PATH, Disk, MODULES_PATH, Report, Setting};
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::Path;

use crate::sys;

/// Folder of the script's files.
pub(crate) const FILES_PATH: &str = "/files";
pub(crate) const GROUP_PATH: &str = "/sys/fs/cgroup/play";

const MOUNTS: &[(&str, &str)] = &[
    ("/proc", "proc"),
    ("/sys", "sysfs"),
    ("/dev", "devtmpfs"),
    ("/sys/kernel/debug", "debugfs"),
    ("/sys/fs/cgroup", "cgroup2"),
];

/// Mounts the file systems that every job needs.
pub(crate) fn mount_basics() -> Result<(), String> {
    for (path, kind) in MOUNTS {
        // Below /sys the kernel has the folder, elsewhere it may not exist yet; mount reports errors.
        let _ = std::fs::create_dir_all(path);
        sys::mount(kind, path, kind, "").map_err(|error| format!("cannot mount {kind} at {path}: {error}"))?;
    }
    Ok(())
}

/// Opens the serial port that reports go to.
pub(crate) fn open_reports() -> Result<File, String> {
    OpenOptions::new().write(true).open("/dev/ttyS1").map_err(|error| format!("/dev/ttyS1: {error}"))
}

/// Describes this machine.
pub(crate) fn booted() -> Result<Report, String> {
    let read = |path: &str| std::fs::read_to_string(path).map_err(|error| format!("{path}: {error}"));
    let kernel = read("/proc/sys/kernel/osrelease")?.trim().to_owned();
    let memory = read("/proc/meminfo")?;
    let kib = memory.lines().find_map(|line| line.strip_prefix("MemTotal:")?.trim().strip_suffix(" kB")?.parse().ok());
    let kib: u64 = kib.ok_or("/proc/meminfo has no line `MemTotal:`")?;
    let cpus = read("/proc/cpuinfo")?.lines().filter(|line| line.starts_with("processor")).count();
    Ok(Report::Booted { kernel, memory_bytes: kib * 1024, cpus: u32::try_from(cpus).unwrap_or(0) })
}

/// Loads the modules that the host put in, in the order of their names.
pub(crate) fn load_modules() -> Result<(), String> {
    let Ok(entries) = std::fs::read_dir(MODULES_PATH) else { return Ok(()) };
    let mut paths: Vec<_> = entries.flatten().map(|entry| entry.path()).collect();
    paths.sort();
    for path in paths {
        let load = || sys::load_module(&File::open(&path)?, "");
        load().map_err(|error| format!("cannot load {}: {error}", path.display()))?;
    }
    Ok(())
}

/// Writes kernel knobs.
pub(crate) fn write_settings(settings: &[Setting]) -> Result<(), String> {
    for Setting { path, value, optional } in settings {
        if *optional && !Path::new(path).exists() {
            continue;
        }
        write(path, value)?;
    }
    Ok(())
}

/// Writes a kernel file.
pub(crate) fn write(path: &str, value: &str) -> Result<(), String> {
    std::fs::write(path, value).map_err(|error| format!("cannot write `{value}` to {path}: {error}"))
}

const SWAP_DEVICE: &str = "/dev/zram0";

/// Gives the compressed RAM disk back, if it is in use.
pub(crate) fn swap_off_zram() -> Result<(), String> {
    // Not in use as swap: nothing to do.
    let _ = sys::swap_off(SWAP_DEVICE);
    if Path::new(SWAP_DEVICE).exists() { write("/sys/block/zram0/reset", "1") } else { Ok(()) }
}

/// Makes a compressed RAM disk and swaps on it.
pub(crate) fn swap_on_zram(bytes: u64) -> Result<(), String> {
    const DEVICE: &str = SWAP_DEVICE;
    if !Path::new(DEVICE).exists() {
        return Err("this kernel has no zram, or its module is not among those given".to_owned());
    }
    write("/sys/block/zram0/disksize", &bytes.to_string())?;
    let header =
        swap_header(bytes).ok_or_else(|| format!("a swap device of {bytes} bytes is too small or too large"))?;
    let put = || OpenOptions::new().write(true).open(DEVICE)?.write_all(&header);
    put().map_err(|error| format!("{DEVICE}: {error}"))?;
    sys::swap_on(DEVICE).map_err(|error| format!("cannot swap on {DEVICE}: {error}"))
}

/// First page of a swap device, version 1: after 1024 bytes the version, the last page, the number of bad pages; at the end of the
/// page the magic word.
fn swap_header(bytes: u64) -> Option<Vec<u8>> {
    let last = u32::try_from(bytes / sys::PAGE).ok()?.checked_sub(1).filter(|&last| last >= 10)?;
    let mut page = vec![0; sys::PAGE_LEN];
    page[1024..1028].copy_from_slice(&1u32.to_le_bytes());
    page[1028..1032].copy_from_slice(&last.to_le_bytes());
    page[4086..].copy_from_slice(b"SWAPSPACE2");
    Some(page)
}

/// Keeps pages of files single: with journalled data ext4 has no large folios. It has them otherwise from 6.16 on; older kernels
/// and the simulated machine do not.
const FILES_OPTIONS: &str = "data=journal";

/// Mounts the file system with the script's files.
pub(crate) fn mount_files(device: &str) -> Result<(), String> {
    mount_at_files(device, "ext4", FILES_OPTIONS)
}

fn mount_at_files(device: &str, kind: &str, options: &str) -> Result<(), String> {
    std::fs::create_dir_all(FILES_PATH).map_err(|error| format!("{FILES_PATH}: {error}"))?;
    sys::mount(device, FILES_PATH, kind, options)
        .map_err(|error| format!("cannot mount {device} at {FILES_PATH} as {kind}: {error}"))
}

/// Makes a RAM disk, copies the empty file system to it and mounts that.
pub(crate) fn mount_disk(disk: &Disk) -> Result<(), String> {
    const DEVICE: &str = "/dev/ram0";
    let load = || sys::load_module(&File::open(DISK_MODULE_PATH)?, &format!("rd_nr=1 rd_size={}", disk.bytes / 1024));
    // Without the file it is built in, or missing: then there is no device.
    if Path::new(DISK_MODULE_PATH).exists() {
        load().map_err(|error| format!("cannot load {DISK_MODULE_PATH}: {error}"))?;
    }
    let copy = || -> std::io::Result<()> {
        let mut blocks = File::open(DISK_PATH)?;
        let mut device = OpenOptions::new().write(true).open(DEVICE)?;
        let (mut at, mut block) = ([0; 8], vec![0; sys::PAGE_LEN]);
        // Whole blocks only: a truncated one is an error.
        for _ in 0..blocks.metadata()?.len().div_ceil((at.len() + block.len()) as u64) {
            blocks.read_exact(&mut at)?;
            blocks.read_exact(&mut block)?;
            device.seek(SeekFrom::Start(u64::from_le_bytes(at)))?;
            device.write_all(&block)?;
        }
        device.sync_all()
    };
    copy().map_err(|error| format!("{DEVICE}: {error}"))?;
    std::fs::remove_file(DISK_PATH).map_err(|error| format!("{DISK_PATH}: {error}"))?;
    mount_at_files(DEVICE, &disk.kind, &disk.options)
}

/// Ends the guest. The byte becomes QEMU's exit code; without the exit port the host gets no code and treats the run as failed.
pub(crate) fn switch_off(code: u8) -> ! {
    let out = || -> std::io::Result<()> {
        let mut port = OpenOptions::new().write(true).open("/dev/port")?;
        port.seek(SeekFrom::Start(0xf4))?;
        port.write_all(&[code])
    };
    // Reached only without the port.
    let _ = out();
    sys::power_off()
}
