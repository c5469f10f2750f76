//! The disk under a folder: latency and bandwidth of direct reads of a file without a name.

use crate::Measured;
use crate::requests::requests;
use isotherm_kernel::swap::{DeviceConfig, DeviceNumbers};
use isotherm_linux::found::{BlockDevice, BlockKind};
use isotherm_units::random::Random;
use isotherm_units::{Bytes, Duration};
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl, fstatfs, fstatvfs};
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt as _;
use std::path::Path;
use std::time::Instant;

/// What is written, once.
pub const WRITTEN: Bytes = Bytes::from_mib(64);
/// What is read, at most.
pub const READ: Bytes = Bytes::from_mib(400);
/// A disk that writes less than a tenth of the file in this time is not measured.
const WRITE_AT_MOST: std::time::Duration = std::time::Duration::from_secs(5);
const SMALL: usize = 4 << 10;
const LARGE: usize = 1 << 20;
/// Passes over all measurements. The mean of each is a sample: a program that reads often waits for the slow reads, too. What others do to
/// a disk is part of what it costs here, unlike what they do to a processor.
const PASSES: u64 = 20;
/// Between passes, so that they do not all meet the same work of other programs.
const REST: std::time::Duration = std::time::Duration::from_millis(100);
/// Each part of a pass ends after this time, with the samples that there are.
const PART_AT_MOST: std::time::Duration = std::time::Duration::from_secs(1);
/// Reads of each thread: all passes of them are within [`READ`].
const ALONE: Load = Load { depth: 1, reads: 200, bytes: SMALL };
const FEW: Load = Load { depth: 4, reads: 100, bytes: SMALL };
const MANY: Load = Load { depth: 32, reads: 20, bytes: SMALL };
const IN_ROW: Load = Load { depth: 4, reads: 3, bytes: LARGE };
const TMPFS_MAGIC: u64 = 0x0102_1994;
const RAMFS_MAGIC: u64 = 0x8584_58f6;

/// A disk as it was measured.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct Storage {
    /// Where the file was.
    pub folder: String,
    /// Name of its disk in `/sys/block`; absent where it is not known, as on network file systems.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub disk: Option<String>,
    /// The simulated device that stands for it, as `--storage` takes it.
    pub device: DeviceConfig,
    /// Times of reads, and the processor's part of a request by its name in the table of costs.
    #[serde(default)]
    pub measured: Vec<Measured>,
}

/// Reads at the same time, each of another thread.
#[derive(Clone, Copy, Debug)]
struct Load {
    depth: usize,
    /// Of each thread.
    reads: usize,
    bytes: usize,
}

/// Measures the disk under a folder. `disk`: what is known of it.
///
/// # Errors
/// Why it cannot be measured, in words.
pub fn storage(folder: &Path, disk: Option<&BlockDevice>) -> Result<Storage, String> {
    if disk.is_some_and(|disk| disk.kind == BlockKind::Disk) {
        return Err("it rotates, and seeks within 64 MiB are shorter than others".to_owned());
    }
    let shown = folder.display();
    let file = tempfile::tempfile_in(folder).map_err(|error| format!("no file can be made in {shown}: {error}"))?;
    let failed = |error: io::Error| format!("{shown}: {error}");
    let system = fstatfs(&file).map_err(|error| failed(error.into()))?;
    if u64::try_from(system.f_type).is_ok_and(|kind| [TMPFS_MAGIC, RAMFS_MAGIC].contains(&(kind & 0xffff_ffff))) {
        return Err(format!("files of {shown} are in memory"));
    }
    let space = fstatvfs(&file).map_err(|error| failed(error.into()))?;
    if space.f_bavail.saturating_mul(space.f_frsize) < 2 * WRITTEN.get() {
        return Err(format!("{shown} has less than {} of free space", Bytes::new(2 * WRITTEN.get())));
    }
    fcntl_getfl(&file)
        .and_then(|flags| fcntl_setfl(&file, flags | OFlags::DIRECT))
        .map_err(|error| format!("the file system of {shown} refuses direct reads (O_DIRECT): {error}"))?;
    let written = fill(&file).map_err(failed)?;
    if written < WRITTEN.get() / 10 {
        return Err(format!("{shown} takes less than {} in 5 s", Bytes::new(WRITTEN.get() / 10)));
    }
    let loads = [ALONE, FEW, MANY, IN_ROW];
    let mut passes: [Vec<f64>; 4] = [const { Vec::new() }; 4];
    for pass in 0..PASSES {
        std::thread::sleep(REST);
        for (load, passes) in loads.iter().zip(&mut passes) {
            let times = reads(&file, written, *load, pass).map_err(failed)?;
            passes.push(times.iter().sum::<f64>() / times.len() as f64);
        }
    }
    fcntl_getfl(&file)
        .and_then(|flags| fcntl_setfl(&file, flags - OFlags::DIRECT))
        .map_err(|error| failed(error.into()))?;
    let requests = requests(&file, written).map_err(failed)?;
    let [alone, few, many, in_row] = passes;
    // The reads of a row share the bandwidth.
    let in_row: Vec<f64> = in_row.iter().map(|ns| ns / IN_ROW.depth as f64).collect();
    let figures = [
        ("read_4kib_ns", "direct reads of 4 KiB of a file of 64 MiB, one at a time", &alone),
        ("read_4kib_depth_4_ns", "the same, four at a time", &few),
        ("read_4kib_depth_32_ns", "the same, 32 at a time", &many),
        ("read_1mib_ns", "direct reads in a row, 1 MiB each and four at a time: time by MiB", &in_row),
    ];
    let mut measured: Vec<Measured> =
        figures.iter().filter_map(|(name, how, samples)| Measured::of(name, how, samples)).collect();
    let [alone, few, many, in_row] = &measured[..] else { return Err(format!("{shown}: no read ended in time")) };
    let times = (alone.ns, requests.of_one_read_ns());
    let device = device(times, &[(FEW.depth, few.ns), (MANY.depth, many.ns)], in_row.ns);
    measured.extend(requests.prices);
    let disk = disk.map(|disk| disk.name.clone());
    Ok(Storage { folder: folder.display().to_string(), disk, device, measured })
}

/// The simulated device. A read of `alone_ns` includes `of_processor` ns, which the simulated kernel adds on its own. `depths`: reads at a
/// time, and what one takes then. `mib_ns`: time of a MiB in a row.
fn device((alone_ns, of_processor): (u64, u64), depths: &[(usize, u64)], mib_ns: u64) -> DeviceConfig {
    let bytes_per_s = (1_u64 << 20) * 1_000_000_000 / mib_ns.max(1);
    // Whole units, and within the bounds of such a device.
    let unit: u64 = if bytes_per_s >= 1 << 20 { 1 << 20 } else { 1 << 10 };
    let bandwidth = (bytes_per_s / unit * unit).clamp(64 << 10, 1 << 40);
    let page_ns = (4096_u64 * 1_000_000_000).div_ceil(bandwidth);
    let latency_ns = alone_ns.saturating_sub(of_processor).max(page_ns).clamp(1_000, 10_000_000_000);
    let latency = Duration::from_ns(latency_ns.div_ceil(100) * 100);
    // What each of many reads adds to the time of one, except its transfer: they are served together as far as they do not add any.
    let &(depth, ns) = depths.iter().max_by_key(|(depth, _)| *depth).unwrap_or(&(1, alone_ns));
    let added = ns.saturating_sub(alone_ns) / (depth as u64 - 1).max(1);
    let request_ns = added.saturating_sub(page_ns).min(latency_ns - page_ns) / 100 * 100;
    let (bandwidth, request) = (Bytes::new(bandwidth), Duration::from_ns(request_ns));
    let queue = u32::try_from(depth).unwrap_or(u32::MAX);
    DeviceConfig::Numbers(DeviceNumbers { latency, bandwidth, queue, request })
}

/// Writes what no file system makes smaller. Returns the bytes that reached the disk in time.
fn fill(file: &File) -> io::Result<u64> {
    let (began, mut random) = (Instant::now(), Random::new(1));
    let mut buffer = Buffer::new(LARGE);
    let mut written = 0;
    while written < WRITTEN.get() && began.elapsed() < WRITE_AT_MOST {
        for word in buffer.bytes().chunks_exact_mut(8) {
            word.copy_from_slice(&random.next().to_le_bytes());
        }
        file.write_all_at(buffer.bytes(), written)?;
        written += LARGE as u64;
    }
    file.sync_all()?;
    Ok(written)
}

/// Times of single reads in ns.
fn reads(file: &File, written: u64, load: Load, pass: u64) -> io::Result<Vec<f64>> {
    let began = Instant::now();
    let blocks = written / load.bytes as u64;
    let one = |thread: usize| -> io::Result<Vec<f64>> {
        let mut buffer = Buffer::new(load.bytes);
        let mut random = Random::new(1 + pass * 64 + thread as u64);
        let mut samples = Vec::with_capacity(load.reads);
        for nr in 0..load.reads {
            let block = match load.bytes {
                SMALL => random.below(blocks),
                // Each pass goes on where the one before ended.
                _ => (pass * (load.reads * load.depth) as u64 + (nr * load.depth + thread) as u64) % blocks,
            };
            let asked = Instant::now();
            file.read_exact_at(buffer.bytes(), block * load.bytes as u64)?;
            samples.push(asked.elapsed().as_nanos() as f64);
            if began.elapsed() > PART_AT_MOST {
                break;
            }
        }
        Ok(samples)
    };
    let one = &one;
    std::thread::scope(|scope| {
        let threads: Vec<_> = (0..load.depth).map(|thread| scope.spawn(move || one(thread))).collect();
        let ended = threads.into_iter().map(|thread| thread.join().expect("it does not panic"));
        ended.collect::<io::Result<Vec<_>>>().map(|all| all.concat())
    })
}

/// Memory at the start of a page, as direct reads need it.
struct Buffer {
    memory: Vec<u8>,
    start: usize,
    len: usize,
}

impl Buffer {
    fn new(len: usize) -> Self {
        let memory = vec![0; len + SMALL];
        let start = memory.as_ptr().align_offset(SMALL);
        Self { memory, start, len }
    }

    fn bytes(&mut self) -> &mut [u8] {
        &mut self.memory[self.start..self.start + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_that_is_read_is_within_what_is_said() {
        let bytes: usize = [ALONE, FEW, MANY, IN_ROW].iter().map(|load| load.depth * load.reads * load.bytes).sum();
        assert!(bytes as u64 * PASSES + crate::requests::READ <= READ.get(), "{bytes}");
    }

    /// 102.2 us with 2.2 us of the processor; each of 32 reads adds 7 us, of which 4 are its transfer.
    #[test]
    fn a_device_follows_from_its_reads() {
        let text =
            |alone_ns, four, many, mib_ns| device((alone_ns, 2200), &[(4, four), (32, many)], mib_ns).to_string();
        assert_eq!(
            text(102_200, 123_200, 319_200, 1_000_000),
            "latency=100us,bandwidth=1000MiB/s,queue=32,request=3us"
        );
        assert_eq!(text(102_200, 102_200, 204_400, 1_000_000), "latency=100us,bandwidth=1000MiB/s,queue=32");
        assert_eq!(text(102_200, 408_800, 3_270_400, 2_000_000_000), "latency=7812.5us,bandwidth=512KiB/s,queue=32");
        // Nothing is out of the bounds of a device, whatever was measured.
        for ns in [0, 1, 1000, 1_000_000_000, u64::MAX / 64] {
            for mib_ns in [0, 1, 1_000_000, 1_000_000_000_000] {
                let device = text(ns, ns, ns, mib_ns);
                assert!(device.parse::<DeviceConfig>().is_ok(), "{device}");
            }
        }
    }

    #[test]
    fn a_disk_is_measured_or_a_reason_given_and_no_file_is_left() {
        let folder = tempfile::tempdir().unwrap();
        match storage(folder.path(), None) {
            Ok(storage) => {
                // Not every file system makes a request of advice.
                assert!([5, 8].contains(&storage.measured.len()), "{:?}", storage.measured);
                assert_eq!(storage.disk, None);
                // Wide: from a cache of the host to a slow disk.
                assert!((1_000..1_000_000_000).contains(&storage.measured[0].ns), "{:?}", storage.measured);
                assert!(storage.device.kind().is_none());
            }
            Err(why) => assert!(why.contains(folder.path().to_str().unwrap()), "{why}"),
        }
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn what_cannot_be_measured_has_a_reason() {
        let rotates = BlockDevice { name: "sda".to_owned(), kind: BlockKind::Disk };
        assert!(storage(Path::new("."), Some(&rotates)).unwrap_err().contains("rotates"));
        assert!(storage(Path::new("/no/such/folder"), None).unwrap_err().contains("/no/such/folder"));
        if Path::new("/dev/shm").is_dir() {
            let why = storage(Path::new("/dev/shm"), None).unwrap_err();
            assert!(why.contains("in memory") || why.contains("no file can be made"), "{why}");
        }
    }
}
