//! Synthetic page traces of any length and size, for measuring readers and replays of recordings.
//!
//! The program is a service. At first it fills its memory, page after page; then it answers requests. Pages are drawn by a Zipf
//! distribution that is scattered over all memory and drifts: the popular pages at the end differ from those at the beginning. Now and then
//! a scan goes over a part. Equal seeds give equal traces.

use crate::chance::{Permutation, Random, Ranked, Weight, random};
use isotherm_trace::{EventKind, MapKind, MapRange, PageRun, TraceError, TraceMeta, TraceWriter};
use isotherm_units::{Bytes, Duration, PAGE_BYTES};
use rand_core::Rng;
use std::path::Path;

/// Shape of a synthetic trace.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct MadeTrace {
    /// Memory of the program, all of which it touches.
    pub footprint: Bytes,
    /// Page touches in all, epoch by epoch each page once; the filling is among them.
    pub touches: u64,
    /// CPU time of the program.
    pub length: Duration,
    /// Exponent of the Zipf distribution, 0 (even) to below 2.
    pub theta: f64,
    pub seed: u64,
}

/// Length of an epoch, as of recordings.
const EPOCH: Duration = Duration::from_ms(10);
/// Start of its memory: a page number as of a heap.
const FIRST_PAGE: u64 = 0x5555_5555_6000 / PAGE_BYTES;
/// The program fills its memory in this part of its life.
const FILLED_AFTER: u64 = 20;
/// Popularity drifts over this part of its memory.
const DRIFT: u64 = 8;
/// One epoch in this number of epochs is a scan.
const SCAN_EVERY: u64 = 64;
/// One touch in this number of touches is a write.
const WRITE_EVERY: u64 = 4;

impl MadeTrace {
    /// Number of its epochs.
    pub fn epochs(&self) -> u64 {
        (self.length.ns() / EPOCH.ns()).max(1)
    }
}

/// Writes the trace; `epoch_done` is called after each of its epochs.
///
/// # Errors
/// The file cannot be written.
pub fn write_made(path: &Path, made: &MadeTrace, mut epoch_done: impl FnMut()) -> Result<TraceMeta, TraceError> {
    let pages = made.footprint.pages_ceil().get().max(1);
    let epochs = made.epochs();
    let meta =
        TraceMeta { recorder: "made".to_owned(), epoch_ns: EPOCH.ns(), complete: true, ..TraceMeta::single("made") };
    let mut writer = TraceWriter::create_finished(path, meta)?;
    let range = MapRange { start: FIRST_PAGE, end: FIRST_PAGE + pages, what: MapKind::Heap, ..MapRange::default() };
    writer.event(0, 0, EventKind::Map(range))?;
    let mut service = Service::new(made, pages);
    let filling = (epochs / FILLED_AFTER).max(1);
    let mut runs = Vec::new();
    for epoch in 0..epochs {
        runs.clear();
        if epoch < filling {
            let (from, to) = (pages * epoch / filling, pages * (epoch + 1) / filling);
            fill(from, to, &mut runs);
        } else {
            let (done, all) = (epoch - filling, epochs - filling);
            let left = made.touches.saturating_sub(pages);
            let wanted = left * (done + 1) / all - left * done / all;
            service.answer(wanted.min(pages), (done, all), &mut runs);
        }
        writer.push_runs(epoch * EPOCH.ns(), 0, &runs)?;
        epoch_done();
    }
    writer.event(0, made.length.ns(), EventKind::EndThread)?;
    writer.set_outcome(Some(0), true)?;
    writer.note("made, not recorded")?;
    writer.finish()
}

/// Pages of a run, at most.
const RUN_MAX: u64 = 512;

fn fill(mut from: u64, to: u64, runs: &mut Vec<PageRun>) {
    while from < to {
        let pages = (to - from).min(RUN_MAX);
        runs.push(PageRun {
            page: FIRST_PAGE + from,
            pages: u32::try_from(pages).unwrap_or(u32::MAX),
            write: true,
            kernel: false,
        });
        from += pages;
    }
}

struct Service {
    pages: u64,
    ranks: Ranked,
    place: Permutation,
    random: Random,
    /// Epoch in which a page was touched last: each is touched once in an epoch.
    touched: Vec<u32>,
    epoch: u32,
    scanned: u64,
}

impl Service {
    fn new(made: &MadeTrace, pages: u64) -> Self {
        Self {
            pages,
            ranks: Ranked::new(Weight::Zipf { theta: made.theta }, pages),
            place: Permutation::new(pages, made.seed),
            random: random(made.seed, 0),
            touched: vec![0; usize::try_from(pages).unwrap_or(usize::MAX)],
            epoch: 0,
            scanned: 0,
        }
    }

    /// Touches this number of pages; `done` of `all` epochs are over.
    fn answer(&mut self, wanted: u64, (done, all): (u64, u64), runs: &mut Vec<PageRun>) {
        self.epoch += 1;
        if done % SCAN_EVERY == SCAN_EVERY - 1 {
            let to = (self.scanned + wanted).min(self.pages);
            fill(self.scanned, to, runs);
            runs.iter_mut().for_each(|run| run.write = false);
            self.scanned = if to == self.pages { 0 } else { to };
            return;
        }
        let drift = u64::try_from(u128::from(self.pages / DRIFT) * u128::from(done) / u128::from(all)).unwrap_or(0);
        let mut drawn = 0;
        // In a small memory few pages are left after a while: pages drawn before count too.
        for _ in 0..wanted.saturating_mul(8) {
            if drawn == wanted {
                break;
            }
            let mut page = [(self.ranks.draw(&mut self.random) + drift) % self.pages];
            self.place.apply(&mut page);
            let [page] = page;
            let touched = &mut self.touched[usize::try_from(page).unwrap_or(0)];
            if *touched == self.epoch {
                continue;
            }
            *touched = self.epoch;
            drawn += 1;
            let write = self.random.next_u64().is_multiple_of(WRITE_EVERY);
            runs.push(PageRun { page: FIRST_PAGE + page, pages: 1, write, kernel: false });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_trace::TraceReader;

    const SMALL: MadeTrace = MadeTrace {
        footprint: Bytes::from_mib(4),
        touches: 20_000,
        length: Duration::from_secs(1),
        theta: 0.8,
        seed: 1,
    };

    #[test]
    fn a_made_trace_is_as_large_and_long_as_was_asked() {
        let folder = tempfile::tempdir().unwrap();
        let write = |name: &str, made: &MadeTrace| {
            let path = folder.path().join(name);
            write_made(&path, made, || {}).unwrap();
            path
        };
        let (one, same, other) = (write("a", &SMALL), write("b", &SMALL), write("c", &MadeTrace { seed: 2, ..SMALL }));
        assert_eq!(std::fs::read(&one).unwrap(), std::fs::read(&same).unwrap(), "same seed, same bytes");
        assert_ne!(std::fs::read(&one).unwrap(), std::fs::read(&other).unwrap());
        let reader = TraceReader::open(&one).unwrap();
        let accesses = reader.meta().accesses;
        assert!((19_000..=20_000).contains(&accesses), "{accesses}");
        let info = isotherm_trace::analysis::info(&mut TraceReader::open(&one).unwrap()).unwrap();
        assert_eq!(info.accesses, accesses);
    }
}
