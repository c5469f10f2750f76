//! Measurements that any user may make, in this process.

use crate::Measured;
use isotherm_linux::thread_cpu_time;
use rustix::thread::{disable_transparent_huge_pages, transparent_huge_pages_are_disabled};
use std::hint::black_box;

const PAGE: usize = 4096;
/// Memory of a measurement: more than caches hold.
const BYTES: usize = 64 << 20;
const PAGES: usize = BYTES / PAGE;
/// Samples of each figure.
const SAMPLES: usize = 15;
const CALLS: u32 = 100_000;

/// Measures in about three seconds, with 128 MiB of memory at most.
pub fn unprivileged() -> Vec<Measured> {
    let figures = [
        ("syscall_ns", "getppid() 100,000 times", samples(syscall)),
        ("page_zero_ns", "writing zeros to 64 MiB, page by page", in_memory(zero)),
        ("page_copy_ns", "copying 32 MiB, page by page", in_memory(copy)),
    ];
    let mut measured: Vec<Measured> =
        figures.iter().filter_map(|(name, how, samples)| Measured::of(name, how, samples)).collect();
    let zero_ns = measured.iter().find(|one| one.name == "page_zero_ns").map_or(0.0, |one| one.ns as f64);
    let faults: Vec<f64> = first_writes().iter().map(|whole| (whole - zero_ns).max(1.0)).collect();
    measured.extend(Measured::of(
        "minor_fault_anon_ns",
        "first writes to 64 MiB of new memory, less `page_zero_ns`",
        &faults,
    ));
    measured
}

fn samples(mut measure: impl FnMut() -> f64) -> Vec<f64> {
    (0..SAMPLES).map(|_| measure()).collect()
}

/// CPU time of `work` by `nr`, in ns: what other programs disturb least.
fn each(nr: usize, work: impl FnOnce()) -> f64 {
    let began = thread_cpu_time();
    work();
    (thread_cpu_time().saturating_sub(began)).ns() as f64 / nr as f64
}

fn syscall() -> f64 {
    each(CALLS as usize, || {
        for _ in 0..CALLS {
            black_box(rustix::process::getppid());
        }
    })
}

fn in_memory(measure: impl Fn(&mut [u8]) -> f64) -> Vec<f64> {
    // Other than zero, so that all of it is there.
    let mut memory = vec![1u8; BYTES];
    samples(|| measure(&mut memory))
}

fn zero(memory: &mut [u8]) -> f64 {
    each(PAGES, || memory.chunks_exact_mut(PAGE).for_each(|page| black_box(page).fill(0)))
}

fn copy(memory: &mut [u8]) -> f64 {
    let (from, to) = memory.split_at_mut(BYTES / 2);
    each(PAGES / 2, || {
        for (to, from) in to.chunks_exact_mut(PAGE).zip(from.chunks_exact(PAGE)) {
            black_box(to).copy_from_slice(black_box(from));
        }
    })
}

/// Faults of single pages: huge pages are off for this process meanwhile.
fn first_writes() -> Vec<f64> {
    let was_off = transparent_huge_pages_are_disabled().unwrap_or(false);
    if !was_off && disable_transparent_huge_pages(true).is_err() {
        return Vec::new();
    }
    let samples = samples(|| {
        // Memory of this size is new from the kernel, and not there before it is written (mallopt(3), `M_MMAP_THRESHOLD`).
        let mut memory = vec![0u8; BYTES];
        each(PAGES, || memory.iter_mut().step_by(PAGE).for_each(|byte| *black_box(byte) = 1))
    });
    if !was_off {
        let _ = disable_transparent_huge_pages(false);
    }
    samples
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn figures_are_of_the_order_of_such_machines() {
        let measured = unprivileged();
        let ns = |name: &str| measured.iter().find(|one| one.name == name).map(|one| one.ns);
        // Wide: a debug build on a busy machine counts as well.
        for (name, least, most) in
            [("syscall_ns", 20, 20_000), ("page_zero_ns", 20, 50_000), ("page_copy_ns", 40, 50_000)]
        {
            let ns = ns(name).unwrap();
            assert!((least..=most).contains(&ns), "{name}: {ns}");
        }
        assert!(ns("minor_fault_anon_ns").is_none_or(|ns| (50..100_000).contains(&ns)), "{measured:?}");
    }
}
