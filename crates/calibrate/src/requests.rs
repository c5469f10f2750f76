//! What the processor spends on requests to a disk: telling it of them, waiting for them, and looking for pages that need none.

use crate::Measured;
use crate::probes::each;
use isotherm_kernel::costs::Costs;
use isotherm_units::random::Random;
use rustix::fs::{Advice, fadvise};
use std::fs::File;
use std::io;
use std::num::NonZeroU64;
use std::os::unix::fs::FileExt as _;
use std::time::Duration;

const PAGE: usize = 4096;
const PASSES: u64 = 10;
/// Between passes, so that they do not all meet the same work of other programs.
const REST: Duration = Duration::from_millis(100);
/// Requests of a pass that follow each other: pages with a gap between them, so that none is joined with another.
const IN_ROW: usize = 1024;
/// Requests of a pass that find the disk idle, and reads that are waited for.
const ALONE: usize = 64;
/// After this time the disk has nothing to do.
const PAUSE: Duration = Duration::from_millis(1);
/// Pages of a window, as the kernel reads ahead by default, and windows of a pass.
const WINDOW: usize = 32;
const WINDOWS: usize = 8;
/// A request that costs less was none: the file system makes no use of the advice.
const SUBMIT_AT_LEAST_NS: u64 = 300;

/// What is read, at most.
#[cfg(test)]
pub(crate) const READ: u64 = PASSES * ((IN_ROW + 2 * ALONE + WINDOW * WINDOWS) * PAGE) as u64;

/// Processor's times of requests by their names in the table of costs. Each sample is the mean of a pass.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Requests {
    pub(crate) prices: Vec<Measured>,
}

impl Requests {
    /// What a thread that reads a page from an idle disk spends on it, in ns, by these prices and the table.
    pub(crate) fn of_one_read_ns(&self) -> u64 {
        let costs = Costs::default();
        let of = |name: &str, table| self.prices.iter().find(|one| one.name == name).map_or(table, |one| one.ns);
        of("block_submit_ns", costs.block_submit_ns())
            + of("block_wake_ns", costs.block_wake_ns())
            + of("io_wait_ns", costs.io_wait_ns())
    }
}

/// CPU times of a pass in ns: of a request of many, of one alone, of a read that waits, of a page that needs no request.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Pass {
    in_row: f64,
    alone: f64,
    waited: f64,
    look: f64,
}

/// Measures on a file of `written` bytes, through the page cache.
pub(crate) fn requests(file: &File, written: u64) -> io::Result<Requests> {
    let passes = (0..PASSES).map(|nr| {
        std::thread::sleep(REST);
        pass(file, written / PAGE as u64, nr)
    });
    Ok(priced(&passes.collect::<io::Result<Vec<_>>>()?))
}

/// Where a page begins, in bytes.
const fn place(page: u64) -> u64 {
    page * PAGE as u64
}

fn pass(file: &File, pages: u64, nr: u64) -> io::Result<Pass> {
    let mut failed = Ok(());
    let mut ask = |page: u64, nr: usize| {
        let done = fadvise(file, place(page % pages), NonZeroU64::new((nr * PAGE) as u64), Advice::WillNeed);
        failed = failed.and(done);
    };
    let mut buffer = vec![0; WINDOW * WINDOWS * PAGE];
    fadvise(file, 0, None, Advice::DontNeed)?;
    file.read_exact_at(&mut buffer, 0)?;
    let look = each(WINDOW * WINDOWS, || (0..WINDOWS).for_each(|window| ask((window * WINDOW) as u64, WINDOW)));
    fadvise(file, 0, None, Advice::DontNeed)?;
    let first = nr * (IN_ROW * 2) as u64;
    let in_row = each(IN_ROW, || (0..IN_ROW).for_each(|nr| ask(first + nr as u64 * 2, 1)));
    fadvise(file, 0, None, Advice::DontNeed)?;
    let mut random = Random::new(1 + nr);
    let mut scattered = || random.below(pages);
    let mut alone = 0.0;
    for _ in 0..ALONE {
        std::thread::sleep(PAUSE);
        let page = scattered();
        alone += each(ALONE, || ask(page, 1));
    }
    failed?;
    fadvise(file, 0, None, Advice::DontNeed)?;
    fadvise(file, 0, None, Advice::Random)?;
    let mut read = Ok(());
    let waited = each(ALONE, || {
        for _ in 0..ALONE {
            let done = file.read_exact_at(&mut buffer[..PAGE], place(scattered()));
            read = std::mem::replace(&mut read, Ok(())).and(done);
        }
    });
    fadvise(file, 0, None, Advice::Normal)?;
    read?;
    Ok(Pass { in_row, alone, waited, look })
}

/// Prices from passes: what one part has and another has not.
fn priced(passes: &[Pass]) -> Requests {
    let costs = Costs::default();
    let [call, add, copy] =
        [costs.syscall_ns(), costs.page_cache_add_ns(), costs.fd_copy_page_ns()].map(|ns| ns as f64);
    let figure = |name: &str, how: &str, of: &dyn Fn(&Pass) -> f64| {
        Measured::of(name, how, &passes.iter().map(|pass| of(pass).max(0.0)).collect::<Vec<_>>())
    };
    let submit = figure(
        "block_submit_ns",
        "processor's time of a page that posix_fadvise(2) has read, one of 1024, less `syscall_ns` and `page_cache_add_ns` of the table",
        &|pass| pass.in_row - call - add,
    )
    .filter(|submit| submit.ns >= SUBMIT_AT_LEAST_NS);
    let look = figure(
        "readahead_look_ns",
        "the same of a page that is in memory already, one of 32, less a 32nd of `syscall_ns` of the table",
        &|pass| pass.look - call / WINDOW as f64,
    );
    let of_idle = submit.as_ref().map(|_| {
        let wake = figure("block_wake_ns", "the same of a page alone after a pause of 1 ms, less one of 1024", &|pass| {
            pass.alone - pass.in_row
        });
        let wait = figure(
            "io_wait_ns",
            "processor's time of a page that pread(2) waits for, less such a page alone, and less `fd_copy_page_ns` of the table",
            &|pass| pass.waited - pass.alone - copy,
        );
        [wake, wait]
    });
    Requests { prices: submit.into_iter().chain(of_idle.into_iter().flatten().flatten()).chain(look).collect() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_is_priced_by_what_it_has_in_addition() {
        let pass = Pass { in_row: 7300.0, alone: 47_300.0, waited: 67_750.0, look: 59.6875 };
        let requests = priced(&[pass, pass, pass]);
        let prices: Vec<(&str, u64)> = requests.prices.iter().map(|one| (one.name.as_str(), one.ns)).collect();
        let wanted =
            [("block_submit_ns", 7000), ("block_wake_ns", 40_000), ("io_wait_ns", 20_000), ("readahead_look_ns", 55)];
        assert_eq!(prices, wanted);
        assert_eq!(requests.of_one_read_ns(), 67_000);
    }

    /// Where advice reads nothing, no part of a request is known.
    #[test]
    fn advice_without_effect_is_no_price() {
        let pass = Pass { in_row: 310.0, alone: 900.0, waited: 90_000.0, look: 9.0 };
        let requests = priced(&[pass]);
        assert_eq!(requests.prices.len(), 1, "{requests:?}");
        assert_eq!(requests.of_one_read_ns(), Costs::default().block_submit_ns());
        assert_eq!(priced(&[]), Requests::default());
    }
}
