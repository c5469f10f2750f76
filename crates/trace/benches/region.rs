//! Speed of writing and reading region records, their size, and the memory of reading, on a synthetic record: one target of
//! 1,000 regions whose borders, counts and ages move a little from snapshot to snapshot, as a monitor's do.
//!
//! Prints one JSON object a line: `name, unit, bar, value, pass`. Bars: DESIGN section 5. `BENCH_REGIONS` sets the number of
//! regions; run under `cargo test` it uses few and only checks that it works.

#![expect(clippy::print_stdout, reason = "a benchmark's output")]

use std::io::Write as _;
use std::path::Path;
use std::sync::OnceLock;
use std::time::Instant;

use flate2::Compression;
use flate2::write::ZlibEncoder;
use isotherm_trace::region::{
    Intervals, RecordFormat, RecordMeta, Region, RegionReader, RegionStore, RegionWriter, Snapshot,
};
use isotherm_units::random::Random;

const REGIONS: usize = 1000;
const INTERVALS: Intervals = Intervals::new(5_000_000, 100_000_000, 1_000_000_000);

/// Makes the next snapshot of the last one: a tenth of the borders move, a fifth of the counts change.
fn advance(random: &mut Random, snapshot: &mut Snapshot) {
    snapshot.time_ns += 100_000_000 + random.below(50_000);
    snapshot.duration_ns = Some(100_000_000);
    for index in 0..REGIONS {
        if random.below(5) == 0 {
            snapshot.regions[index].nr_accesses = u32::try_from(random.below(21)).expect("small");
            snapshot.regions[index].age = Some(0);
        } else {
            snapshot.regions[index].age = snapshot.regions[index].age.map(|age| age + 1);
        }
        if index > 0 && random.below(10) == 0 {
            let (left, right) = (snapshot.regions[index - 1].start, snapshot.regions[index].end);
            let border = left + 4096 * (1 + random.below((right - left) / 4096 - 1));
            snapshot.regions[index - 1].end = border;
            snapshot.regions[index].start = border;
        }
    }
}

fn write(path: &Path, snapshots: u64) {
    let mut random = Random::new(42);
    let region = |index: u64| Region {
        start: 0x5555_0000_0000 + index * (10 << 20),
        end: 0x5555_0000_0000 + (index + 1) * (10 << 20),
        age: Some(0),
        ..Region::default()
    };
    let regions = (0..REGIONS as u64).map(region).collect();
    let mut snapshot = Snapshot { intervals: INTERVALS, regions, ..Snapshot::default() };
    let mut writer = RegionWriter::create_finished(path, RecordMeta::single("vaddr", "bench")).expect("writable");
    for _ in 0..snapshots {
        advance(&mut random, &mut snapshot);
        writer.push(&snapshot).expect("writable");
    }
    writer.finish().expect("writable");
}

/// CPU time of this thread, which other programs on the machine disturb least; elapsed time if the kernel keeps none.
fn cpu_seconds() -> f64 {
    static START: OnceLock<Instant> = OnceLock::new();
    let start = START.get_or_init(Instant::now);
    let stat = std::fs::read_to_string("/proc/thread-self/schedstat").ok();
    let nanoseconds = stat.and_then(|stat| stat.split(' ').next()?.parse::<u64>().ok());
    nanoseconds.map_or_else(|| start.elapsed().as_secs_f64(), |nanoseconds| nanoseconds as f64 / 1e9)
}

/// Memory of this process in MiB, if the kernel reports it.
fn resident_mib() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:"));
    let kib = line.and_then(|line| line.split_whitespace().next()?.parse::<f64>().ok());
    kib.unwrap_or(0.0) / 1024.0
}

/// Reads the whole record; the most memory it took beyond that at the start. The checksum keeps the work from being optimised
/// away.
fn read(path: &Path) -> (f64, f64, u64) {
    let (start, before) = (cpu_seconds(), resident_mib());
    let mut reader = RegionReader::open(path).expect("just written");
    let mut snapshot = Snapshot::default();
    let (mut checksum, mut most) = (0u64, before);
    while reader.next_snapshot(&mut snapshot).expect("just written") {
        checksum ^= snapshot.regions[snapshot.regions.len() - 1].start ^ snapshot.time_ns;
        if snapshot.number.is_multiple_of(1024) {
            most = most.max(resident_mib());
        }
    }
    (cpu_seconds() - start, most - before, checksum)
}

fn report(name: &str, unit: &str, bar: Option<f64>, value: f64, at_least: bool) {
    let pass = bar.is_none_or(|bar| if at_least { value >= bar } else { value <= bar });
    let rounded = (value * 1000.0).round() / 1000.0;
    println!("{}", serde_json::json!({"name": name, "unit": unit, "bar": bar, "value": rounded, "pass": pass}));
}

fn main() {
    let measuring = std::env::args().any(|argument| argument == "--bench");
    let regions = std::env::var("BENCH_REGIONS").ok().and_then(|regions| regions.parse().ok());
    let regions: u64 = regions.unwrap_or(if measuring { 8_000_000 } else { 20_000 });
    let snapshots = (regions / REGIONS as u64).max(1);
    let regions = (snapshots * REGIONS as u64) as f64;
    let folder = tempfile::tempdir().expect("a temporary folder");
    let bar = |bar: f64| measuring.then_some(bar);

    // A short record first: its memory use must equal that of the long one.
    let short = folder.path().join("short.parquet");
    write(&short, snapshots.div_ceil(8));
    let _ = read(&short);
    let path = folder.path().join("r.parquet");
    let start = cpu_seconds();
    write(&path, snapshots);
    report("region record, write", "M regions/s", None, regions / (cpu_seconds() - start) / 1e6, true);
    let mut runs: Vec<(f64, f64, u64)> = (0..5).map(|_| read(&path)).collect();
    runs.sort_by(|left, right| left.0.total_cmp(&right.0));
    report("region record, read", "M regions/s", bar(5.0), regions / runs[2].0 / 1e6, true);
    let most = runs.iter().map(|run| run.1).fold(0.0, f64::max);
    report("region record, memory of reading 8 times as much", "MiB more", bar(1.0), most, false);
    let bytes = std::fs::metadata(&path).expect("just written").len() as f64;
    report("region record, size", "B/region", None, bytes / regions, false);

    let json = folder.path().join("short.json");
    let mut store = RegionStore::open(&short).expect("just written");
    store.write(&json, RecordFormat::Json).expect("writable");
    let mut encoder = ZlibEncoder::new(Vec::new(), Compression::default());
    encoder.write_all(&std::fs::read(&json).expect("just written")).expect("memory");
    std::fs::write(&json, encoder.finish().expect("memory")).expect("writable");
    let start = cpu_seconds();
    let store = RegionStore::open(&json).expect("just written");
    let rate = store.meta().regions as f64 / (cpu_seconds() - start) / 1e6;
    report("region record, check and count damo's json_compressed", "M regions/s", None, rate, true);
}
