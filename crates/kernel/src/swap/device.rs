//! Block devices as models: how long a request takes, with queueing (design: `docs/mechanism/machine.md#swap-and-readahead`).
//!
//! The same models serve as swap devices and as disks of files. A device has `channels` that serve one command each, and one bus over which
//! data move one command after the other. Commands start in the order of submission:
//!
//! ```text
//! start = max(now, first channel free)   ready = start + latency
//! done  = max(ready, bus free) + size / bandwidth
//! ```
//!
//! Compressed memory (`zram`) is synchronous: a request is CPU time of the task that submits it and queues for nothing.

use crate::costs::Costs;
use isotherm_units::{Duration, Instant, PAGE_BYTES, Pages, Ratio};
use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::fmt;
use std::str::FromStr;

/// The kinds of devices. Names as in scenarios and `--swap`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DeviceKind {
    /// No device: nothing can be swapped.
    None,
    /// A RAM disk: files in memory apart from the page cache.
    Ram,
    /// Compressed memory.
    Zram,
    /// NVMe solid-state drive.
    Nvme,
    /// SATA solid-state drive.
    Ssd,
    /// Rotating disk.
    Disk,
}

impl DeviceKind {
    /// All kinds, slowest last.
    pub const ALL: [Self; 6] = [Self::None, Self::Ram, Self::Zram, Self::Nvme, Self::Ssd, Self::Disk];

    /// The name in scenarios and on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Ram => "ram",
            Self::Zram => "zram",
            Self::Nvme => "nvme",
            Self::Ssd => "ssd",
            Self::Disk => "disk",
        }
    }
}

impl fmt::Display for DeviceKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

/// A name that is no device's or compressor's.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown {what} `{name}`; allowed: {allowed}")]
pub struct UnknownName {
    what: &'static str,
    name: String,
    allowed: &'static str,
}

impl FromStr for DeviceKind {
    type Err = UnknownName;
    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let unknown =
            || UnknownName { what: "device", name: name.to_owned(), allowed: "none, ram, zram, nvme, ssd, disk" };
        Self::ALL.into_iter().find(|kind| kind.name() == name).ok_or_else(unknown)
    }
}

/// How compressed memory compresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compressor {
    /// The kernel's default for zram.
    #[default]
    LzoRle,
    /// Faster, compresses less.
    Lz4,
    /// Slower, compresses more.
    Zstd,
}

impl Compressor {
    /// All compressors.
    pub const ALL: [Self; 3] = [Self::LzoRle, Self::Lz4, Self::Zstd];

    /// The kernel's name.
    pub const fn name(self) -> &'static str {
        match self {
            Self::LzoRle => "lzo-rle",
            Self::Lz4 => "lz4",
            Self::Zstd => "zstd",
        }
    }
}

impl fmt::Display for Compressor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Compressor {
    type Err = UnknownName;
    fn from_str(name: &str) -> Result<Self, UnknownName> {
        let unknown = || UnknownName { what: "compressor", name: name.to_owned(), allowed: "lzo-rle, lz4, zstd" };
        Self::ALL.into_iter().find(|compressor| compressor.name() == name).ok_or_else(unknown)
    }
}

/// Direction of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Transfer {
    /// A transfer from the device into memory.
    Read,
    /// A transfer from memory to the device.
    Write,
}

/// Bytes of a megabyte, as data sheets and the cost table count them.
const MB: u64 = 1_000_000;

/// A device behind a queue.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BlockModel {
    /// Time before the first byte of a read.
    pub read_latency: Duration,
    /// Time before the first byte of a write is accepted.
    pub write_latency: Duration,
    /// Bytes read per second.
    pub read_bytes_per_s: u64,
    /// Bytes written per second.
    pub write_bytes_per_s: u64,
    /// Commands served at once.
    pub channels: u32,
    /// Time of each request in which no other one moves data.
    pub request_time: Duration,
    /// For rotating devices: latency of a request that starts where the last one ended.
    pub sequential_latency: Option<Duration>,
}

/// Compressed memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZramModel {
    /// CPU time to compress a page.
    pub compress: Duration,
    /// CPU time to decompress a page.
    pub decompress: Duration,
    /// Bytes of memory that a stored page takes, allocator loss included; at most a page.
    pub stored_bytes: u64,
}

/// The model of a device, without its state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeviceModel {
    /// No device.
    None,
    /// Compressed memory.
    Zram(ZramModel),
    /// A queueing device.
    Block(BlockModel),
}

/// Why a model cannot be simulated.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DeviceError {
    /// A number that must not be zero is.
    #[error("the device's `{0}` is 0; allowed: 1 and more")]
    Zero(&'static str),
    /// A page would take more memory compressed than it gives back.
    #[error("a compressed page takes {stored_bytes} bytes; allowed: 1..={PAGE_BYTES}")]
    StoredBytes { stored_bytes: u64 },
}

impl ZramModel {
    /// The model of a compressor; `ratio_permille` (1000 = incompressible) replaces the table's ratio where the data are known.
    pub fn new(compressor: Compressor, ratio_permille: Option<u64>, costs: &Costs) -> Self {
        let (compress, decompress, ratio) = match compressor {
            Compressor::LzoRle => {
                (costs.lzo_rle_compress_ns, costs.lzo_rle_decompress_ns, costs.lzo_rle_ratio_permille)
            }
            Compressor::Lz4 => (costs.lz4_compress_ns, costs.lz4_decompress_ns, costs.lz4_ratio_permille),
            Compressor::Zstd => (costs.zstd_compress_ns, costs.zstd_decompress_ns, costs.zstd_ratio_permille),
        };
        let ratio = ratio_permille.unwrap_or(ratio).max(1);
        let stored = PAGE_BYTES * (1000 + costs.zram_overhead_permille) / ratio;
        Self {
            compress: Duration::from_ns(compress),
            decompress: Duration::from_ns(decompress),
            stored_bytes: stored.clamp(1, PAGE_BYTES),
        }
    }

    /// A RAM disk: pages are copied uncompressed.
    pub fn uncompressed(costs: &Costs) -> Self {
        let copy = Duration::from_ns(costs.page_copy_ns);
        Self { compress: copy, decompress: copy, stored_bytes: PAGE_BYTES }
    }

    /// Pages of memory that `stored` compressed pages occupy.
    #[inline]
    pub fn memory(&self, stored: Pages) -> Pages {
        let bytes = stored.get().checked_mul(self.stored_bytes).expect("slots are numbered with 32 bits");
        Pages::new(bytes.div_ceil(PAGE_BYTES))
    }
}

impl DeviceModel {
    /// The same device with latencies of `percent` of the original. Memory has none: its time is processor time.
    pub fn with_latency(self, percent: Ratio) -> Self {
        let scaled = |span: Duration| {
            let ns = u128::from(span.ns()) * u128::from(percent.ppm()) / u128::from(Ratio::ONE.ppm());
            Duration::from_ns(u64::try_from(ns).unwrap_or(u64::MAX))
        };
        match self {
            Self::Block(model) => Self::Block(BlockModel {
                read_latency: scaled(model.read_latency),
                write_latency: scaled(model.write_latency),
                request_time: scaled(model.request_time),
                sequential_latency: model.sequential_latency.map(scaled),
                ..model
            }),
            Self::None | Self::Zram(_) => self,
        }
    }

    /// The same device when each page counts for `pages`: a command takes that many times as long, and moves that many times the data. The
    /// time of memory is in its prices already.
    pub fn of_sample(self, pages: u64) -> Self {
        let longer = |span: Duration| span.saturating_mul(pages);
        match self {
            Self::Block(model) => Self::Block(BlockModel {
                read_latency: longer(model.read_latency),
                write_latency: longer(model.write_latency),
                request_time: longer(model.request_time),
                sequential_latency: model.sequential_latency.map(longer),
                read_bytes_per_s: (model.read_bytes_per_s / pages).max(1),
                write_bytes_per_s: (model.write_bytes_per_s / pages).max(1),
                ..model
            }),
            Self::None | Self::Zram(_) => self,
        }
    }

    /// The model of a kind of device, with the numbers of the cost table.
    pub fn preset(kind: DeviceKind, costs: &Costs) -> Self {
        let ns = Duration::from_ns;
        let channels = |n: u64| u32::try_from(n).expect("a small number in the table");
        match kind {
            DeviceKind::None => Self::None,
            DeviceKind::Ram => Self::Zram(ZramModel::uncompressed(costs)),
            DeviceKind::Zram => Self::Zram(ZramModel::new(Compressor::default(), None, costs)),
            DeviceKind::Nvme => Self::Block(BlockModel::idle(
                (costs.nvme_read_latency_ns, costs.nvme_read_mb_per_s * MB),
                (costs.nvme_write_latency_ns, costs.nvme_write_mb_per_s * MB),
                channels(costs.nvme_channels),
            )),
            DeviceKind::Ssd => Self::Block(BlockModel::idle(
                (costs.ssd_read_latency_ns, costs.ssd_read_mb_per_s * MB),
                (costs.ssd_write_latency_ns, costs.ssd_write_mb_per_s * MB),
                channels(costs.ssd_channels),
            )),
            DeviceKind::Disk => Self::Block(BlockModel {
                read_latency: ns(costs.disk_read_latency_ns),
                write_latency: ns(costs.disk_write_latency_ns),
                read_bytes_per_s: costs.disk_mb_per_s * MB,
                write_bytes_per_s: costs.disk_mb_per_s * MB,
                channels: 1,
                request_time: Duration::ZERO,
                sequential_latency: Some(ns(costs.disk_sequential_ns)),
            }),
        }
    }

    /// Whether a request is done when `submit` returns, on the submitter's CPU time (no swap readahead then).
    pub const fn is_synchronous(&self) -> bool {
        matches!(self, Self::Zram(_))
    }

    /// Whether the device rotates (swap readahead goes by slots then).
    pub const fn is_rotational(&self) -> bool {
        matches!(self, Self::Block(BlockModel { sequential_latency: Some(_), .. }))
    }

    /// CPU time that the submitter of a request spends on its data: compression. Zero for block devices.
    #[inline]
    pub const fn cpu_time(&self, pages: u64, transfer: Transfer) -> Duration {
        match (self, transfer) {
            (Self::Zram(zram), Transfer::Read) => zram.decompress.saturating_mul(pages),
            (Self::Zram(zram), Transfer::Write) => zram.compress.saturating_mul(pages),
            (Self::None | Self::Block(_), _) => Duration::ZERO,
        }
    }

    /// Pages of memory that `stored` pages on the device occupy.
    #[inline]
    pub fn memory(&self, stored: Pages) -> Pages {
        match self {
            Self::Zram(zram) => zram.memory(stored),
            Self::None | Self::Block(_) => Pages::new(0),
        }
    }

    /// Checks a model with user-set values.
    ///
    /// # Errors
    /// The first number out of range.
    pub fn check(&self) -> Result<(), DeviceError> {
        match self {
            Self::None => Ok(()),
            Self::Zram(zram) if (1..=PAGE_BYTES).contains(&zram.stored_bytes) => Ok(()),
            Self::Zram(zram) => Err(DeviceError::StoredBytes { stored_bytes: zram.stored_bytes }),
            Self::Block(block) => {
                let numbers = [
                    ("channels", u64::from(block.channels)),
                    ("read_bytes_per_s", block.read_bytes_per_s),
                    ("write_bytes_per_s", block.write_bytes_per_s),
                ];
                match numbers.into_iter().find(|(_, number)| *number == 0) {
                    Some((name, _)) => Err(DeviceError::Zero(name)),
                    None => Ok(()),
                }
            }
        }
    }
}

impl BlockModel {
    /// A drive without moving parts from `(latency in ns of one page with its transfer, bytes per second)` for reads and
    /// writes, as data sheets give it.
    pub(super) fn idle(read: (u64, u64), write: (u64, u64), channels: u32) -> Self {
        let before_data = |(latency_ns, bytes_per_s): (u64, u64)| {
            Duration::from_ns(latency_ns).saturating_sub(transfer_time(1, bytes_per_s))
        };
        Self {
            read_latency: before_data(read),
            write_latency: before_data(write),
            read_bytes_per_s: read.1,
            write_bytes_per_s: write.1,
            channels,
            request_time: Duration::ZERO,
            sequential_latency: None,
        }
    }
}

/// Time on the bus, rounded up to whole nanoseconds.
pub(super) fn transfer_time(pages: u64, bytes_per_s: u64) -> Duration {
    let ns = (u128::from(pages) * u128::from(PAGE_BYTES) * 1_000_000_000).div_ceil(u128::from(bytes_per_s.max(1)));
    Duration::from_ns(u64::try_from(ns).unwrap_or(u64::MAX))
}

/// Counts of a device so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct DeviceStats {
    /// Requests to read.
    pub reads: u64,
    /// Requests to write.
    pub writes: u64,
    pub pages_read: u64,
    pub pages_written: u64,
    /// Nanoseconds from submission to completion, summed over reads.
    pub read_ns: u64,
    /// Nanoseconds from submission to completion, summed over writes.
    pub write_ns: u64,
}

/// A device with its queue.
#[derive(Clone, Debug)]
pub struct Device {
    model: DeviceModel,
    /// When each channel becomes free, soonest on top.
    channels: BinaryHeap<Reverse<Instant>>,
    bus_free: Instant,
    /// Completions not yet passed, soonest on top.
    in_flight: BinaryHeap<Reverse<Instant>>,
    /// Position of the head of a rotating device: one past the last page of the last request.
    head: Option<u64>,
    stats: DeviceStats,
}

impl Device {
    /// An idle device.
    ///
    /// # Errors
    /// See [`DeviceModel::check`].
    pub fn new(model: DeviceModel) -> Result<Self, DeviceError> {
        model.check()?;
        let channels = match &model {
            DeviceModel::Block(block) => (0..block.channels).map(|_| Reverse(Instant::START)).collect(),
            DeviceModel::None | DeviceModel::Zram(_) => BinaryHeap::new(),
        };
        let (bus_free, in_flight) = (Instant::START, BinaryHeap::new());
        Ok(Self { model, channels, bus_free, in_flight, head: None, stats: DeviceStats::default() })
    }

    pub const fn model(&self) -> &DeviceModel {
        &self.model
    }
    /// Counts of the device so far.
    pub const fn stats(&self) -> DeviceStats {
        self.stats
    }

    /// Submits one request at a place unrelated to all others; returns when it is done. See [`submit_at`](Self::submit_at).
    pub fn submit(&mut self, now: Instant, pages: u64, transfer: Transfer) -> Instant {
        self.head = None;
        self.enqueue(now, None, pages, transfer)
    }

    /// Submits one request of `pages` pages from `position` (in pages; the caller's own numbering, in which neighbours are neighbours on
    /// the device); returns when it is done. `now` must not go back. A rotating device saves the seek if the request goes on where the last
    /// one ended. For a synchronous device the result is `now` plus [`cpu_time`](DeviceModel::cpu_time). Without a device, or for no pages,
    /// the result is `now`.
    #[inline]
    pub fn submit_at(&mut self, now: Instant, position: u64, pages: u64, transfer: Transfer) -> Instant {
        self.enqueue(now, Some(position), pages, transfer)
    }

    #[inline]
    fn enqueue(&mut self, now: Instant, position: Option<u64>, pages: u64, transfer: Transfer) -> Instant {
        if pages == 0 || self.model == DeviceModel::None {
            return now;
        }
        let done = match self.model {
            DeviceModel::None | DeviceModel::Zram(_) => now + self.model.cpu_time(pages, transfer),
            DeviceModel::Block(block) => {
                let goes_on = position.is_some() && position == self.head;
                self.head = position.map(|position| position.saturating_add(pages));
                let done = self.serve(&block, now, goes_on, pages, transfer);
                self.forget_completed(now);
                self.in_flight.push(Reverse(done));
                done
            }
        };
        let (requests, moved, ns) = match transfer {
            Transfer::Read => (&mut self.stats.reads, &mut self.stats.pages_read, &mut self.stats.read_ns),
            Transfer::Write => (&mut self.stats.writes, &mut self.stats.pages_written, &mut self.stats.write_ns),
        };
        *requests += 1;
        *moved += pages;
        *ns = ns.saturating_add(done.since(now).ns());
        done
    }

    #[inline(never)]
    fn serve(&mut self, block: &BlockModel, now: Instant, goes_on: bool, pages: u64, transfer: Transfer) -> Instant {
        let (latency, bytes_per_s) = match transfer {
            Transfer::Read => (block.read_latency, block.read_bytes_per_s),
            Transfer::Write => (block.write_latency, block.write_bytes_per_s),
        };
        let latency = block.sequential_latency.filter(|_| goes_on).unwrap_or(latency);
        let Reverse(channel_free) = self.channels.pop().expect("a block device has a channel");
        let ready = now.max(channel_free) + latency;
        let done = ready.max(self.bus_free) + block.request_time + transfer_time(pages, bytes_per_s);
        self.bus_free = done;
        self.channels.push(Reverse(done));
        done
    }

    /// Transfers pages one by one to or from a device that is memory: returns the CPU time that the caller spends.
    #[inline]
    pub(crate) fn move_pages(&mut self, transfer: Transfer, pages: u64) -> Duration {
        debug_assert!(self.model.is_synchronous(), "other devices have queues");
        let span = Duration::from_ns(self.model.cpu_time(1, transfer).ns() * pages);
        let stats = &mut self.stats;
        let (requests, moved, ns) = match transfer {
            Transfer::Read => (&mut stats.reads, &mut stats.pages_read, &mut stats.read_ns),
            Transfer::Write => (&mut stats.writes, &mut stats.pages_written, &mut stats.write_ns),
        };
        *requests += pages;
        *moved += pages;
        *ns = ns.saturating_add(span.ns());
        span
    }

    /// Requests not done at `now`. `now` must not go back.
    pub fn in_flight(&mut self, now: Instant) -> usize {
        self.forget_completed(now);
        self.in_flight.len()
    }

    fn forget_completed(&mut self, now: Instant) {
        while self.in_flight.peek().is_some_and(|&Reverse(done)| done <= now) {
            self.in_flight.pop();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn device(kind: DeviceKind) -> Device {
        Device::new(DeviceModel::preset(kind, &Costs::default())).unwrap()
    }
    fn us(us: u64) -> Instant {
        Instant::START + Duration::from_us(us)
    }

    /// 100 µs before a read, 50 µs before a write; a page takes 1 µs to read and 4 µs to write.
    fn block(channels: u32, sequential_us: Option<u64>) -> Device {
        let model = BlockModel {
            read_latency: Duration::from_us(100),
            write_latency: Duration::from_us(50),
            read_bytes_per_s: 4096 * MB,
            write_bytes_per_s: 1024 * MB,
            channels,
            request_time: Duration::ZERO,
            sequential_latency: sequential_us.map(Duration::from_us),
        };
        Device::new(DeviceModel::Block(model)).unwrap()
    }

    #[test]
    fn latencies_are_scaled_and_bandwidth_is_not() {
        let (costs, half) = (Costs::default(), Ratio::from_percent(50));
        let DeviceModel::Block(disk) = DeviceModel::preset(DeviceKind::Disk, &costs) else { panic!("it queues") };
        let halved = BlockModel {
            read_latency: Duration::from_ns(disk.read_latency.ns() / 2),
            write_latency: Duration::from_ns(disk.write_latency.ns() / 2),
            sequential_latency: disk.sequential_latency.map(|span| Duration::from_ns(span.ns() / 2)),
            ..disk
        };
        assert_eq!(DeviceModel::Block(disk).with_latency(half), DeviceModel::Block(halved));
        let zram = DeviceModel::preset(DeviceKind::Zram, &costs);
        assert_eq!(zram.with_latency(half), zram);
    }

    #[test]
    fn requests_queue_for_channels_and_then_for_the_bus() {
        let mut device = block(2, None);
        // Two channels work at the same time; their data follow each other on the bus (1 µs a page).
        assert_eq!(device.submit(us(0), 1, Transfer::Read), us(101));
        assert_eq!(device.submit(us(0), 8, Transfer::Read), us(109));
        // The third waits for the first channel (101), then 50 µs, then 4 µs a page.
        assert_eq!(device.submit(us(0), 1, Transfer::Write), us(101 + 50 + 4));
        assert_eq!(device.in_flight(us(100)), 3);
        assert_eq!(device.in_flight(us(109)), 1);
        assert_eq!(device.submit(us(1000), 1, Transfer::Read), us(1101), "idle again");
        let stats = device.stats();
        assert_eq!((stats.reads, stats.writes, stats.pages_read, stats.pages_written), (3, 1, 10, 1));
        assert_eq!((stats.read_ns, stats.write_ns), (311_000, 155_000));
    }

    #[test]
    fn a_rotating_device_saves_the_seek_of_a_request_that_goes_on() {
        let mut device = block(1, Some(5));
        assert!(device.model().is_rotational());
        assert_eq!(device.submit_at(us(0), 700, 4, Transfer::Read), us(104));
        assert_eq!(device.submit_at(us(200), 704, 1, Transfer::Read), us(206));
        assert_eq!(device.submit_at(us(300), 704, 1, Transfer::Read), us(401), "back by a page");
        device.submit(us(500), 1, Transfer::Read);
        assert_eq!(device.submit_at(us(700), 706, 1, Transfer::Read), us(801), "the head was elsewhere");
    }

    #[test]
    fn presets_take_what_data_sheets_say_for_one_page() {
        let table = [
            (DeviceKind::Nvme, 85_000, 20_000),
            (DeviceKind::Ssd, 110_000, 52_000),
            (DeviceKind::Disk, 11_580_480, 12_380_480), // 4096 B at 200 MB/s = 20.48 µs
            (DeviceKind::Zram, 2_200, 6_000),
        ];
        for (kind, read_ns, write_ns) in table {
            assert_eq!(device(kind).submit(us(0), 1, Transfer::Read).ns(), read_ns, "{kind}");
            assert_eq!(device(kind).submit(us(0), 1, Transfer::Write).ns(), write_ns, "{kind}");
        }
    }

    #[test]
    fn a_saturated_drive_reaches_its_rated_speed() {
        // 894 000 random reads a second by latency and channels, or 6500 MB/s by the bus: here 20 000 single pages at once.
        let mut nvme = device(DeviceKind::Nvme);
        let done = (0..20_000).map(|_| nvme.submit(us(0), 1, Transfer::Read)).max().unwrap();
        let per_second = 20_000_000_000_000 / done.ns();
        assert!((880_000..900_000).contains(&per_second), "{per_second}");
    }

    #[test]
    fn compressed_memory_costs_cpu_and_memory() {
        let mut zram = device(DeviceKind::Zram);
        assert!(zram.model().is_synchronous());
        assert_eq!(zram.submit(us(10), 4, Transfer::Write), us(10 + 24));
        assert_eq!(zram.submit(us(10), 4, Transfer::Write), us(10 + 24), "no queue");
        assert_eq!(zram.in_flight(us(10)), 0);
        // 4096 * 1.056 / 2.74 = 1578 bytes: a thousand pages take 385.3, rounded up.
        assert_eq!(zram.model().memory(Pages::new(1000)), Pages::new(386));
        let incompressible = ZramModel::new(Compressor::Zstd, Some(1000), &Costs::default());
        assert_eq!(incompressible.memory(Pages::new(7)), Pages::new(7), "never more than the pages themselves");
        assert_eq!(device(DeviceKind::Nvme).model().memory(Pages::new(7)), Pages::new(0));
    }

    #[test]
    fn nothing_happens_without_a_device_or_pages() {
        assert_eq!(device(DeviceKind::None).submit(us(3), 5, Transfer::Write), us(3));
        let mut disk = device(DeviceKind::Disk);
        assert_eq!(disk.submit_at(us(3), 0, 0, Transfer::Read), us(3));
        assert_eq!(disk.stats(), DeviceStats::default());
    }

    #[test]
    fn impossible_models_are_refused() {
        let DeviceModel::Block(good) = DeviceModel::preset(DeviceKind::Ssd, &Costs::default()) else { unreachable!() };
        let error = Device::new(DeviceModel::Block(BlockModel { channels: 0, ..good })).unwrap_err();
        assert_eq!(error.to_string(), "the device's `channels` is 0; allowed: 1 and more");
        let zram = ZramModel { compress: Duration::ZERO, decompress: Duration::ZERO, stored_bytes: 5000 };
        assert!(Device::new(DeviceModel::Zram(zram)).unwrap_err().to_string().contains("1..=4096"));
    }

    #[test]
    fn names_are_read_back() {
        for kind in DeviceKind::ALL {
            assert_eq!(kind.name().parse(), Ok(kind));
        }
        for compressor in Compressor::ALL {
            assert_eq!(compressor.name().parse(), Ok(compressor));
        }
        let error = "nvm".parse::<DeviceKind>().unwrap_err().to_string();
        assert_eq!(error, "unknown device `nvm`; allowed: none, ram, zram, nvme, ssd, disk");
    }

    proptest! {
        #[test]
        fn a_request_never_overtakes_on_the_bus_and_never_beats_the_idle_device(
            requests in prop::collection::vec((0u64..200, 1u64..40, any::<bool>()), 1..60), channels in 1u32..6,
        ) {
            let (mut device, mut now, mut last) = (block(channels, None), Instant::START, Instant::START);
            for (gap, pages, read) in requests {
                now += Duration::from_us(gap);
                let transfer = if read { Transfer::Read } else { Transfer::Write };
                let done = device.submit(now, pages, transfer);
                prop_assert!(done > last);
                prop_assert!(done >= block(1, None).submit(now, pages, transfer));
                last = done;
            }
        }
    }
}
