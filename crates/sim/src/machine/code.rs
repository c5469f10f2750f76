//! Code that a thread runs all the time.
//!
//! A recording names a page once an epoch. A page of data that is used in each epoch is looked for in memory once an epoch as well, so that
//! little is lost. A processor fetches code at every moment: when reclaim clears the accessed bit of such a page, it is set again before
//! the next look. A storm of faults stretches an epoch to many times its CPU time. Played once in that span, code would look idle, and all
//! of it would be evicted; then the lists of files are empty, and with them the last list whose length makes Linux notice that it has spared
//! active pages (docs/spec/classic-lru.md#s6-5): groups were killed that no kernel kills.
//!
//! So a page of code that two epochs in a row have named is used again whenever its thread has to reclaim. Pages that it names in one epoch
//! only are not. Not covered: reclaim by others (daemons, writers of limits), and data.

use super::task::UserTask;
use super::{Machine, MachineConfig, Touches};
use isotherm_units::PageRange;
use isotherm_units::access::{Run, Stream};

/// Pages of code that are remembered, found by the lowest digits of their number: 1 MiB of code, of which one epoch names a part.
const PLACES: usize = 256;

/// The code that a thread runs, as far as it was looked for: from its first shortage on.
#[derive(Clone, Debug)]
pub(super) struct CodeInUse {
    /// CPU time after which a page that was not named again is out of use, in ns; 0: the thread names each use, or none of this is wanted.
    window_ns: u64,
    /// Empty before the first shortage.
    places: Vec<Place>,
    /// Runs of the present batch that were searched for code.
    seen: usize,
}

#[derive(Clone, Copy, Debug, Default)]
struct Place {
    page: u64,
    /// CPU time of the thread when the page was last named, in ns.
    named_ns: u64,
    /// The epoch before named it as well.
    is_steady: bool,
}

impl CodeInUse {
    pub(super) fn of(stream: &dyn Stream, config: &MachineConfig) -> Self {
        let epoch = stream.epoch().filter(|_| config.code_in_use);
        // Each epoch names it somewhere: two in a row are less than two epochs apart.
        let window_ns = epoch.map_or(0, |epoch| epoch.ns().saturating_mul(2));
        Self { window_ns, places: Vec::new(), seen: 0 }
    }

    /// Searches `runs`, the first of a batch, up to which the thread has come after `cpu_ns` of CPU time. `code`: where code lies.
    fn look_at(&mut self, runs: &[Run], code: &[PageRange], cpu_ns: u64) {
        // Ranges without code in which pages were looked for last: most accesses are to one of a few.
        let mut without = [PageRange::new(0, 0); 2];
        for run in &runs[self.seen.min(runs.len())..] {
            if without.iter().any(|range| range.contains(run.page())) {
                continue;
            }
            let at = code.partition_point(|range| range.end <= run.page());
            let next = code.get(at).copied();
            if next.is_none_or(|next| run.page() < next.start) {
                let from = at.checked_sub(1).map_or(0, |before| code[before].end);
                without = [PageRange::new(from, next.map_or(u64::MAX, |next| next.start)), without[0]];
                continue;
            }
            let named = run.range().intersection(code[at]);
            for page in (named.start..named.end).take(PLACES) {
                self.name(page, cpu_ns);
            }
        }
        self.seen = runs.len();
    }

    fn name(&mut self, page: u64, cpu_ns: u64) {
        #[expect(clippy::cast_possible_truncation, reason = "modulo PLACES")]
        let place = &mut self.places[(page % PLACES as u64) as usize];
        let is_steady = place.page == page && cpu_ns - place.named_ns <= self.window_ns;
        *place = Place { page, named_ns: cpu_ns, is_steady };
    }

    /// Pages in use after `cpu_ns` of CPU time.
    fn in_use(&self, cpu_ns: u64) -> impl Iterator<Item = u64> + '_ {
        let is_in_use = move |place: &&Place| place.is_steady && cpu_ns - place.named_ns <= self.window_ns;
        self.places.iter().filter(is_in_use).map(|place| place.page)
    }
}

impl Machine {
    /// The thread begins to reclaim: the code that it runs was used a moment ago.
    pub(super) fn use_code(&mut self, user: &mut UserTask) {
        if user.code.window_ns == 0 || self.touches != Touches::None || !self.caches.is_empty() {
            return;
        }
        if user.code.places.is_empty() {
            user.code.places = vec![Place::default(); PLACES];
        }
        self.look_for_code(user, user.cursor.run);
        let table = &mut self.memory.space_mut(user.space).table;
        if table.is_plain() {
            user.code.in_use(user.time.compute_ns).for_each(|page| table.use_again(page));
        }
    }

    /// Looks for code in the batch up to run `end`, if the thread was ever short of memory.
    pub(super) fn look_for_code(&self, user: &mut UserTask, end: usize) {
        if user.code.places.is_empty() {
            return;
        }
        let code = self.memory.space(user.space).vmas.code();
        user.code.look_at(&user.batch.runs[..end], code, user.time.compute_ns);
    }

    /// The thread's batch is done.
    pub(super) fn code_of_batch_done(&self, user: &mut UserTask) {
        self.look_for_code(user, user.batch.runs.len());
        user.code.seen = 0;
    }
}
