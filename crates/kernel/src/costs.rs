//! Costs: the one table from which every nanosecond of the simulated clock comes.
//!
//! Each entry has a name, a value, a unit and a source; [`Costs::entries`] lists them for `docs/mechanism/machine.md#costs` and
//! for results. Each value is read by a method of its name, and set by none, so that no scenario can tune an outcome. A scenario
//! chooses hardware (memory latency of a node, the kind of device), not the price of kernel code. The hardware of one host can come with
//! prices that `isotherm calibrate` measured there ([`Prices`]).
//!
//! Prices of kernel code are for a server core of about 3 GHz on bare metal. If only a measurement in a virtual machine was available,
//! [`Basis`] and the source tell that: nested paging makes faults there cost about twice as much.

use crate::prices::Prices;
use std::fmt;

/// Origin of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Basis {
    /// We measured exactly this.
    Measured,
    /// Others measured and published it.
    Published,
    /// The maker's data sheet.
    DataSheet,
    /// Computed from measured or published values; the source has the computation.
    Derived,
    /// A guess within the bounds that the source gives.
    Estimate,
}

impl fmt::Display for Basis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(match self {
            Self::Measured => "measured",
            Self::Published => "published",
            Self::DataSheet => "data sheet",
            Self::Derived => "derived",
            Self::Estimate => "estimate",
        })
    }
}

/// One line of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct CostEntry {
    /// Name of the field; ends in its unit.
    pub name: &'static str,
    /// The operation that is priced.
    pub what: &'static str,
    /// Price in `unit`.
    pub value: u64,
    /// `ns`, `MB/s` (10^6 bytes), `permille`, `commands`.
    pub unit: &'static str,
    /// Origin of the value.
    pub basis: Basis,
    /// Source of the price.
    pub source: &'static str,
}

macro_rules! costs {
    ($($name:ident = $value:literal $unit:literal, $basis:ident, $what:literal, $source:literal;)+) => {
        /// The table. There is one set of values, [`Costs::default`].
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub struct Costs {
            $(pub(crate) $name: u64,)+
        }

        impl Default for Costs {
            fn default() -> Self {
                Self { $($name: $value,)+ }
            }
        }

        impl Costs {
            $(#[doc = concat!($what, ", in ", $unit, ".")]
            #[inline]
            pub const fn $name(&self) -> u64 {
                self.$name
            })+

            /// Each value as `change` makes it, from its name, its unit and itself.
            fn changed(self, change: impl Fn(&str, &str, u64) -> u64) -> Self {
                Self { $($name: change(stringify!($name), $unit, self.$name),)+ }
            }

            /// The table, line by line, in a fixed order.
            pub fn entries(&self) -> Vec<CostEntry> {
                vec![$(CostEntry {
                    name: stringify!($name),
                    what: $what,
                    value: self.$name,
                    unit: $unit,
                    basis: Basis::$basis,
                    source: $source,
                },)+]
            }
        }
    };
}

costs! {
    dram_latency_ns = 100 "ns", Published,
        "A cache line from local DRAM",
        "Idle local DRAM is just under 100 ns on current servers (nextplatform.com 2022); 100–106 ns a line under load fits the published kmmscand runs";
    cxl_near_latency_ns = 175 "ns", Derived,
        "A cache line from near memory behind CXL",
        "abench without promotion on CXL memory, 8 to 64 GiB: 173 to 179 ns a line (kmmscand, patch version 1, Mar 2025, base with NUMAB1), if a touch is all 64 lines of a page";
    cxl_latency_ns = 250 "ns", Published,
        "A cache line from memory behind CXL",
        "Breakdown of a CXL.mem load on a documentation site: about 250 ns in all (weak source); real devices have 140 to 410 ns (arXiv 2409.14317)";
    cxl_far_latency_ns = 400 "ns", Published,
        "A cache line from far memory behind CXL",
        "Slow end of the 140 to 410 ns of four real devices in seven configurations (arXiv 2409.14317)";
    dram_bandwidth_mb_per_s = 200000 "MB/s", Estimate,
        "Bandwidth of the DRAM of one socket",
        "About eight channels of DDR4-3200, 25.6 GB/s each; a scenario should set what it knows";
    cxl_bandwidth_mb_per_s = 25000 "MB/s", Estimate,
        "Bandwidth of a memory device behind CXL",
        "Eight lanes of PCIe 5.0 are 31.5 GB/s each way; about a fifth goes to headers";
    minor_fault_anon_ns = 830 "ns", Derived,
        "First write to an anonymous page, without zeroing it",
        "Median 1013 ns for the whole fault (Linux 6.6, 3.2 GHz desktop core, rdtsc: ddumbying.vercel.app/experiments/pagefault-latency) less `page_zero_ns`; we measured 1.8 µs in a virtual machine";
    minor_fault_zero_page_ns = 450 "ns", Derived,
        "First read of an anonymous page: the shared zero page is mapped",
        "Measured 0.8 µs in a virtual machine, scaled by 0.56 = 1013 ns / 1.8 µs of the write fault";
    minor_fault_file_ns = 300 "ns", Derived,
        "Fault on a file page that is in the page cache, without what fault-around adds",
        "Measured 0.58 µs in a virtual machine for a fault that maps 16 pages, scaled by 0.56, split with `fault_around_page_ns`";
    fault_around_page_ns = 5 "ns", Derived,
        "Each page mapped by fault-around",
        "See `minor_fault_file_ns`";
    minor_fault_swap_cache_ns = 900 "ns", Estimate,
        "Fault that finds its page in the swap cache",
        "An anonymous fault without allocation, plus the swap-cache lookup";
    page_zero_ns = 180 "ns", Measured,
        "Zeroing a page",
        "memset of 4 KiB pages over 128 MiB, server core: 173–192 ns";
    page_copy_ns = 350 "ns", Estimate,
        "Copying a page (copy on write, collapse)",
        "Twice the memory traffic of zeroing it";
    migrate_isolate_ns = 300 "ns", Estimate,
        "Taking a page off its list in order to move it, and putting it back",
        "Preset of the specification (docs/spec/compaction.md#s5); not a figure of any kernel";
    migrate_lock_ns = 200 "ns", Estimate,
        "Locking a page that is to be moved, and its target; each further try of a page that somebody holds",
        "Preset of the specification (docs/spec/compaction.md#s5); not a figure of any kernel";
    migrate_unmap_ns = 1500 "ns", Estimate,
        "Finding one mapping of a page that is to be moved and replacing its entry, without the flush",
        "Preset of the specification (docs/spec/compaction.md#s5); not a figure of any kernel";
    migrate_flush_ns = 10000 "ns", Estimate,
        "Flushing translations on all CPUs that ran the owners of a batch of pages, before it is copied",
        "Preset of the specification (docs/spec/compaction.md#s5). On a busy server of two sockets batching it moved 3.9 times as many pages a second (commit text of Linux 6.3, \"migrate_pages: batch flushing TLB\"), which makes it 2.9 times the rest of a page, 13 µs here. Dearer than `tlb_flush_ns`: its pages are those of running threads";
    migrate_copy_ns = 1000 "ns", Estimate,
        "Copying a page that is moved",
        "Preset of the specification (docs/spec/compaction.md#s5): source and target come from DRAM. The pages of a huge page are copied in one stream, at `page_copy_ns` each";
    migrate_remap_ns = 1500 "ns", Estimate,
        "Freezing the references of a page that was moved and entering one mapping again",
        "Preset of the specification (docs/spec/compaction.md#s5); not a figure of any kernel";
    tier_unmap_ns = 500 "ns", Estimate,
        "Taking a target on another node for a page, and replacing one of its mappings, without the flush",
        "Isolating, unmapping, allocating and mapping again are 1.5 µs a page together in the cost model of the specification (docs/spec/promotion.md#s5-4, a default that was not measured); `migrate_isolate_ns` and `migrate_lock_ns` are parts of it, the rest is halved";
    tier_remap_ns = 500 "ns", Estimate,
        "Entering one mapping of a page again that has moved to another node",
        "See `tier_unmap_ns`";
    copy_core_mb_per_s = 8000 "MB/s", Estimate,
        "What one processor copies from page to page; less where either memory gives less",
        "Default of the specification (docs/spec/promotion.md#s5-4): 0.5 µs a page";
    tlb_answer_ns = 500 "ns", Estimate,
        "What a flush of a few translations takes from each other processor that runs their owner",
        "An interrupt's entry and exit (250 ns; `syscall_ns` is less), the request in two cache lines of who asks (100 ns each), the flush (50 ns). Published: 200 ns and more a receiver (unseel.com/cs/tlb-shootdown), 1000 cycles and more until it answers (a review of Amit, EuroSys 2020: ryotta-205.tistory.com)";
    migrate_fault_ns = 1500 "ns", Estimate,
        "Fault of an access to a page on its way, up to falling asleep",
        "Preset of the specification (docs/spec/compaction.md#s5)";
    swap_in_fault_ns = 1500 "ns", Estimate,
        "CPU part of a swap-in: allocation, swap cache, shadow, mapping; without device or decompression",
        "Anonymous fault plus swap-cache insertion and removal; half of all faults on compressed swap take under 20 µs on slow laptops in all (linux-mm, December 2023, swap slot freeing)";
    file_read_fault_ns = 900 "ns", Estimate,
        "CPU part of a file fault that must read, without page-cache insertion and I/O submission",
        "An anonymous fault with a page-cache lookup in place of zeroing";
    block_take_ns = 2000 "ns", Estimate,
        "Taking a huge page that is free: watermark, list, and the records of its 512 base pages",
        "32 KiB of page records, 512 lines at about 4 ns each, written in a row; the zone's lock beside it";
    zone_walk_ns = 500 "ns", Estimate,
        "Looking at one zone for a block, in vain",
        "Within the 0.3–1 µs of the specification (docs/spec/compaction.md#s2-7)";
    compact_scan_page_ns = 10 "ns", Estimate,
        "Each page frame that a scanner of compaction looks at",
        "One line of page records a frame, in a row: as an entry of a page-table walk (`pte_scan_ns`)";
    drain_lists_ns = 3000 "ns", Estimate,
        "Putting the pages on the CPUs' lists back among free blocks, where a block is free in pieces only",
        "The middle of 1–5 µs a CPU: work for each CPU, and a batch of frees";
    page_cache_add_ns = 150 "ns", Estimate,
        "Allocating a page and adding it to the page cache or swap cache, each page of a readahead window",
        "Order of an allocation plus an XArray insertion";
    syscall_ns = 150 "ns", Measured,
        "Entering and leaving the kernel by a system call",
        "getppid() in a loop, server core in a virtual machine: 149 ns";
    fd_copy_page_ns = 450 "ns", Derived,
        "Page-cache lookup and copy of one page by read() or write()",
        "pread() of 4 KiB in the page cache takes 570–700 ns, less `syscall_ns`";
    block_submit_ns = 1200 "ns", Estimate,
        "Submitting one request to a block device",
        "Interrupt-driven NVMe through the block layer reaches about half a million requests a second and core, both halves";
    block_complete_ns = 1000 "ns", Estimate,
        "Interrupt and completion of one request",
        "See `block_submit_ns`";
    block_wake_ns = 0 "ns", Estimate,
        "Telling a device that has nothing to do of a request, on top of `block_submit_ns`",
        "A write to a register of the device, which `block_submit_ns` includes. A virtual machine leaves for its host: about 30 µs measured in one";
    io_wait_ns = 0 "ns", Estimate,
        "Falling asleep until a transfer ends, and waking up",
        "Data sheets time a read as a program sees it, so that latencies of devices include it. About 20 µs measured in a virtual machine, where an idle processor is given back to the host";
    readahead_look_ns = 30 "ns", Derived,
        "Each page of a readahead window that is cached already",
        "posix_fadvise(POSIX_FADV_WILLNEED) over a file in memory: 55 ns a page in a virtual machine, scaled by 0.56 as `minor_fault_zero_page_ns`";
    context_switch_ns = 2000 "ns", Derived,
        "Switching a CPU to another process, wake-up included",
        "Pipe ping-pong: 2.4 µs a switch (Linux 6.6, 3.2 GHz desktop core: ddumbying.vercel.app/experiments/ctx-switch-overhead), 2.7 µs measured in a virtual machine; less the two system calls in it";
    kswapd_wakeup_ns = 3000 "ns", Estimate,
        "Waking the node's daemon: scheduling it in, checking the node's balance",
        "`context_switch_ns` plus the walk over zones";
    direct_reclaim_entry_ns = 2000 "ns", Estimate,
        "Entering reclaim from an allocation or at a limit: slow path, zone lists, empty shrinkers",
        "Low end of the 2–10 µs in which direct reclaim gets one clean page";
    reclaim_group_ns = 500 "ns", Estimate,
        "Visiting one group's lists on one node: protection, scan counts, locks",
        "A few dozen cache lines";
    lru_scan_page_ns = 40 "ns", Derived,
        "Taking a page off its list and putting it back or on another",
        "MADV_COLD on pages that are already inactive costs 70 ns, of which about half is the page-table walk";
    lru_move_ns = 20 "ns", Estimate,
        "Moving a page between lists through a CPU's batch",
        "The lock is shared by 31 pages";
    rmap_walk_ns = 70 "ns", Derived,
        "Finding one mapping of a page and testing its accessed bit",
        "Part of the 302–311 ns in which MADV_PAGEOUT drops a clean mapped file page (measured, server core in a virtual machine); the split into scan, rmap, unmap and free is ours";
    unmap_page_ns = 100 "ns", Derived,
        "Removing one mapping of a page, without the TLB flush",
        "See `rmap_walk_ns`";
    free_page_ns = 90 "ns", Derived,
        "Taking an unmapped page out of its cache, storing the shadow, giving the frame back",
        "See `rmap_walk_ns`";
    tlb_flush_ns = 1000 "ns", Published,
        "Flushing translations after a batch of pages was unmapped or made inaccessible",
        "A remote flush takes microseconds (Amit, USENIX ATC 2017); about 1 µs for the first interrupt (unseel.com/cs/tlb-shootdown)";
    tlb_flush_cpu_ns = 50 "ns", Estimate,
        "Each further CPU that a flush must reach",
        "Interrupts overlap; published slopes run from 50 to 200 ns a CPU";
    pte_scan_ns = 12 "ns", Published,
        "One entry of a page-table walk that tests and clears accessed bits",
        "10–15 ns an entry on hot tables; PAGEMAP_SCAN by presence takes 17 ns a page in a virtual machine";
    hint_fault_ns = 1200 "ns", Estimate,
        "A fault on an entry that was made inaccessible: entry and exit, locks, deciding; without a move",
        "Order of a minor fault that allocates nothing; spec default of the cost model, not fitted to published overheads";
    hint_mark_ns = 60 "ns", Estimate,
        "Making one entry inaccessible: looking at its page, exchanging the entry; on top of `pte_scan_ns`",
        "A cache line of the page from DRAM overlapped with its neighbours, and a locked exchange";
    probe_ns = 50 "ns", Estimate,
        "Each look at an accessed bit, whatever its level: choosing the address, the lock of the address space",
        "150 cycles at 3 GHz; with `probe_pte_ns` within the 600–1600 cycles that the published totals of the region monitor give for each look (docs/mechanism/machine.md#translation)";
    probe_pte_ns = 333 "ns", Estimate,
        "Testing or clearing the accessed bit of a base page: two cache lines of tables and one of the page from DRAM",
        "1000 cycles at 3 GHz, see `probe_ns`; 400 if everything is cached";
    probe_pmd_ns = 150 "ns", Estimate,
        "The same for an entry that points to a table of base pages",
        "450 cycles at 3 GHz: one line of tables from DRAM, no page";
    probe_huge_ns = 267 "ns", Estimate,
        "The same for a 2 MiB page",
        "800 cycles at 3 GHz: an entry of 2 MiB, and the marks of the page";
    probe_pud_ns = 67 "ns", Estimate,
        "The same for an entry that spans 1 GiB",
        "200 cycles at 3 GHz: the tables of 5 TiB at this level are 40 KiB, in the caches";
    probe_top_ns = 40 "ns", Estimate,
        "The same for an entry that spans 512 GiB or more",
        "120 cycles at 3 GHz";
    scan_table_ns = 500 "ns", Estimate,
        "Reading the 512 entries of one table",
        "1500 cycles at 3 GHz: 64 lines in order, fetched ahead";
    scan_table_clear_ns = 1500 "ns", Estimate,
        "Clearing all 512 accessed bits of a table on the way; fewer in proportion",
        "6000 cycles at 3 GHz for a pass with 512 atomic operations, less `scan_table_ns`";
    read_mapping_ns = 50 "ns", Estimate,
        "Reading the bounds of one mapping",
        "A step in the tree of mappings: one or two cache lines";
    monitor_wakeup_ns = 1000 "ns", Estimate,
        "Waking the monitor's thread: timer, scheduling, loop",
        "3000 cycles at 3 GHz, see `probe_ns`; below `context_switch_ns`, since a kernel thread changes no address space";
    lru_gen_read_ns = 2300 "ns", Derived,
        "Printing and reading the generations of one group on one node: two headings and four rows of `lru_gen`",
        "18 numbers at 106 ns each, as /proc/vmstat (199 numbers in 21.5 µs) and /proc/zoneinfo (231 in 24.5 µs) take on a server core in a virtual machine; 0.4 µs for reading them, an estimate";
    lru_gen_write_ns = 1000 "ns", Estimate,
        "Taking one command written to `lru_gen`: copying, parsing, finding the group; without what it does and the system call",
        "A copy from user space, an allocation, a dozen words scanned, a look-up with a reference";
    scheme_try_ns = 300 "ns", Estimate,
        "Each try of a scheme's action on a region: two looks at the clock, finding process and mapping, the lock of the address space",
        "About 900 cycles at 3 GHz: a handful of locked operations and cache misses; what is done to pages comes on top";
    scheme_folio_ns = 35 "ns", Derived,
        "Looking at one page frame for a scheme: is there a page on a list, taking and dropping a reference to it",
        "Half of the 70 ns in which MADV_COLD passes over a page that is already inactive (see `lru_scan_page_ns`): the half that is not the page-table walk";
    swap_out_page_ns = 400 "ns", Estimate,
        "Taking a slot and adding a page to the swap cache",
        "Two cache insertions and the slot allocator; without device or compression";
    writeback_page_ns = 300 "ns", Estimate,
        "Preparing one dirty file page for writing",
        "Tagging, block lookup, request assembly";
    lzo_rle_compress_ns = 6000 "ns", Measured,
        "Compressing a page with lzo-rle",
        "LZO1X-1 of liblzo2 2.10 on 2700 heap pages of a Python process, server core: 6.0 µs; the run-length variant is no slower";
    lzo_rle_decompress_ns = 2200 "ns", Published,
        "Decompressing a page with lzo-rle",
        "Random 4 KiB reads of zram take 2235 ns with the block layer (u/VenditatioDelendaEst, table repeated at notes.xeome.dev/notes/Zram)";
    lzo_rle_ratio_permille = 2740 "permille", Published,
        "Compression ratio of lzo-rle",
        "Same table: 2.74; Linux Reviews: 2.68. Depends on the data: a scenario should set what it knows";
    lz4_compress_ns = 5000 "ns", Measured,
        "Compressing a page with lz4",
        "liblz4 1.9.4, same pages as `lzo_rle_compress_ns`: 5.0 µs";
    lz4_decompress_ns = 1700 "ns", Published,
        "Decompressing a page with lz4",
        "Same table as `lzo_rle_decompress_ns`: 1708 ns; we measured 1.75 µs without a block layer";
    lz4_ratio_permille = 2630 "permille", Published,
        "Compression ratio of lz4",
        "Same table: 2.63";
    zstd_compress_ns = 15300 "ns", Measured,
        "Compressing a page with zstd at level 3, the default of zram",
        "libzstd 1.5.4, same pages as `lzo_rle_compress_ns`: 15.3 µs";
    zstd_decompress_ns = 5700 "ns", Published,
        "Decompressing a page with zstd",
        "Same table as `lzo_rle_decompress_ns`: 5714 ns; we measured 6.6 µs";
    zstd_ratio_permille = 3370 "permille", Published,
        "Compression ratio of zstd",
        "Same table: 3.37";
    zram_overhead_permille = 56 "permille", Published,
        "Memory that the allocator of compressed pages loses, on top of their sizes",
        "Linux Reviews: 388 MB compressed occupy 410 MB";
    nvme_read_latency_ns = 85000 "ns", DataSheet,
        "Random 4 KiB read of an idle NVMe drive, transfer included",
        "Intel DC P4500, 2 TB: 85 µs (Lenovo product guide)";
    nvme_write_latency_ns = 20000 "ns", DataSheet,
        "Random 4 KiB write to an idle NVMe drive, transfer included",
        "Intel DC P4500: 20 µs, into the drive's protected cache";
    nvme_read_mb_per_s = 6500 "MB/s", DataSheet,
        "Read bandwidth of an NVMe drive",
        "Samsung PM9A3, PCIe 4.0: 6500 MB/s (computerbase.de, May 2020)";
    nvme_write_mb_per_s = 3500 "MB/s", DataSheet,
        "Write bandwidth of an NVMe drive",
        "Samsung PM9A3: 3500 MB/s";
    nvme_channels = 76 "commands", Derived,
        "Commands that an NVMe drive serves at once",
        "900 000 random reads a second (PM9A3) times 85 µs";
    ssd_read_latency_ns = 110000 "ns", DataSheet,
        "Random 4 KiB read of an idle SATA SSD, transfer included",
        "Intel DC S4500/S4600 product specification: 110 µs typical";
    ssd_write_latency_ns = 52000 "ns", DataSheet,
        "Random 4 KiB write to an idle SATA SSD, transfer included",
        "Intel DC S4500/S4600 product specification: 52 µs typical";
    ssd_read_mb_per_s = 560 "MB/s", DataSheet,
        "Read bandwidth of a SATA SSD",
        "Kingston DC600M: 560 MB/s";
    ssd_write_mb_per_s = 530 "MB/s", DataSheet,
        "Write bandwidth of a SATA SSD",
        "Kingston DC600M: 530 MB/s";
    ssd_channels = 10 "commands", Derived,
        "Commands that a SATA SSD serves at once",
        "94 000 random reads a second (Kingston DC600M) times 110 µs";
    disk_read_latency_ns = 11560000 "ns", DataSheet,
        "Seek and half a turn before a read elsewhere on a disk",
        "WD Ultrastar DC HC310, 7200 rpm: 7.4 ms average seek + 4.16 ms";
    disk_write_latency_ns = 12360000 "ns", DataSheet,
        "Seek and half a turn before a write elsewhere on a disk",
        "WD Ultrastar DC HC310: 8.2 ms + 4.16 ms";
    disk_sequential_ns = 100000 "ns", Estimate,
        "A request to a disk that goes on where the last one ended",
        "Command overhead; no seek";
    disk_mb_per_s = 200 "MB/s", Estimate,
        "Transfer rate of a disk in the middle of its zones",
        "Makers give the outermost zone, about 250 MB/s; the innermost has half of it";
}

/// Prices that do not grow with the number of pages. Monitors probe as many regions of a sample as of the whole. Memory is priced where it
/// is accessed, devices in their models. Most switches between tasks end time slices.
const NOT_BY_PAGES: [&str; 13] = [
    "context_switch_ns",
    "lru_gen_read_ns",
    "lru_gen_write_ns",
    "monitor_wakeup_ns",
    "probe_ns",
    "probe_pte_ns",
    "probe_pmd_ns",
    "probe_huge_ns",
    "probe_pud_ns",
    "probe_top_ns",
    "read_mapping_ns",
    "scan_table_ns",
    "scheme_try_ns",
];

impl Costs {
    /// The table of a machine each of whose pages counts for `pages` (`docs/use/advise.md#machine`).
    pub fn of_sample(self, pages: u64) -> Self {
        let is_device = |name: &str| ["nvme_", "ssd_", "disk_"].iter().any(|prefix| name.starts_with(prefix));
        self.changed(|name, unit, value| match unit {
            _ if is_device(name) || name.contains("latency") || NOT_BY_PAGES.contains(&name) => value,
            "ns" => value.saturating_mul(pages),
            "MB/s" => (value / pages).max(1),
            _ => value,
        })
    }

    /// The table with the prices of one machine.
    pub fn priced(self, prices: &Prices) -> Self {
        self.changed(|name, _, value| prices.get(name).unwrap_or(value))
    }

    /// The line with this name.
    pub fn entry(&self, name: &str) -> Option<CostEntry> {
        self.entries().into_iter().find(|entry| entry.name == name)
    }

    /// Price of one probe of an accessed bit, in ns. `level` is the level of the entry where the walk ended, 0 for a base page; `is_leaf`:
    /// it maps memory.
    pub fn probe_of_ns(&self, level: u8, is_leaf: bool) -> u64 {
        let check = match level {
            0 => self.probe_pte_ns,
            1 if is_leaf => self.probe_huge_ns,
            1 => self.probe_pmd_ns,
            2 => self.probe_pud_ns,
            _ => self.probe_top_ns,
        };
        self.probe_ns + check
    }

    /// A pass over a table of 512 entries in which `nr_cleared` accessed bits are set and cleared, in ns.
    pub fn table_pass_ns(&self, nr_cleared: u32) -> u64 {
        self.probe_ns + self.scan_table_ns + self.scan_table_clear_ns * u64::from(nr_cleared) / 512
    }

    /// Flushing a process's cached translations on this processor and `nr_others` more, in ns.
    pub fn flush_ns(&self, nr_others: u64) -> u64 {
        self.tlb_flush_ns + nr_others * self.tlb_flush_cpu_ns
    }

    /// The table as Markdown, as it is in `docs/mechanism/machine.md#costs`.
    pub fn to_markdown(&self) -> String {
        let mut text = String::from("| name | value | what | basis | source |\n|---|--:|---|---|---|\n");
        for entry in self.entries() {
            let CostEntry { name, what, value, unit, basis, source } = entry;
            text.push_str(&format!("| `{name}` | {value} {unit} | {what} | {basis} | {source} |\n"));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn in_a_sample_pages_cost_more_and_regions_do_not() {
        let (whole, sample) = (Costs::default(), Costs::default().of_sample(16));
        assert_eq!(sample.swap_in_fault_ns, 16 * whole.swap_in_fault_ns);
        assert_eq!(sample.lzo_rle_compress_ns, 16 * whole.lzo_rle_compress_ns);
        assert_eq!(sample.copy_core_mb_per_s, whole.copy_core_mb_per_s / 16);
        let same = |costs: &Costs| {
            (costs.probe_pte_ns, costs.monitor_wakeup_ns, costs.zstd_ratio_permille, costs.dram_latency_ns)
        };
        assert_eq!(same(&sample), same(&whole));
        // Devices are made slower as models, by numbers or from the table.
        assert_eq!(sample.nvme_read_latency_ns, whole.nvme_read_latency_ns);
        assert_eq!(whole.of_sample(1), whole);
        for name in NOT_BY_PAGES {
            assert!(whole.entry(name).is_some(), "{name}");
        }
    }

    #[test]
    fn every_entry_says_its_unit_and_source() {
        for entry in Costs::default().entries() {
            let suffix = match entry.unit {
                "ns" => "_ns",
                "MB/s" => "_mb_per_s",
                "permille" => "_permille",
                "commands" => "_channels",
                unit => panic!("{}: unknown unit {unit}", entry.name),
            };
            assert!(entry.name.ends_with(suffix), "{} is in {}", entry.name, entry.unit);
            assert!(!entry.source.is_empty() && !entry.what.contains('|'), "{}", entry.name);
            assert!(
                entry.value > 0 || entry.source.contains("include"),
                "{} is nothing, or part of which?",
                entry.name
            );
            assert_eq!(Costs::default().entry(entry.name), Some(entry), "names are unique");
        }
    }

    /// The parts of one reclaimed clean file page add up to what was measured for the whole.
    #[test]
    fn parts_of_a_reclaimed_page_add_up() {
        let costs = Costs::default();
        let whole = costs.lru_scan_page_ns + costs.rmap_walk_ns + costs.unmap_page_ns + costs.free_page_ns;
        assert!((290..=311).contains(&whole), "{whole} ns against 302–311 measured");
        assert_eq!(costs.minor_fault_anon_ns + costs.page_zero_ns, 1010);
        assert_eq!(costs.nvme_channels * 1_000_000 / costs.nvme_read_latency_ns, 894, "thousand reads a second");
    }

    /// `docs/mechanism/machine.md#costs` holds the table between its two marks. `cargo xtask bless costs` writes it.
    #[test]
    fn the_documented_table_is_this_table() {
        const BEGIN: &str = "<!-- table: begin -->\n";
        const END: &str = "<!-- table: end -->";
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/mechanism/machine.md");
        let text = std::fs::read_to_string(path).expect("docs/mechanism/machine.md exists");
        let (head, rest) = text.split_once(BEGIN).expect("begin mark");
        let (table, tail) = rest.split_once(END).expect("end mark");
        let expected = Costs::default().to_markdown();
        if table != expected && std::env::var_os("ISOTHERM_BLESS").is_some_and(|value| value == "1") {
            std::fs::write(path, format!("{head}{BEGIN}{expected}{END}{tail}"))
                .expect("docs/mechanism/machine.md#costs is writable");
            return;
        }
        assert_eq!(table, expected, "`cargo xtask bless costs` writes docs/mechanism/machine.md#costs");
    }
}
