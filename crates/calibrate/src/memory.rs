//! System calls, and zeroing and copying memory.

use crate::probes::{BYTES, PAGE, PAGES, each, samples};
use std::hint::black_box;

const CALLS: u32 = 100_000;

/// One system call that does next to nothing, in ns.
pub(crate) fn call() -> f64 {
    each(CALLS as usize, || {
        for _ in 0..CALLS {
            black_box(rustix::process::getppid());
        }
    })
}

/// Samples of zeroing a page, and of copying one.
pub(crate) fn zero_and_copy() -> [Vec<f64>; 2] {
    // Other than zero, so that all of it is there.
    let mut memory = vec![1u8; BYTES];
    [samples(|| Some(zero(&mut memory))), samples(|| Some(copy(&mut memory)))]
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
