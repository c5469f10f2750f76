//! Minor faults by kind, as the simulated kernel prices them: first writes and first reads of anonymous memory, and pages of a file that
//! are in the page cache.
//!
//! A fault on such a page maps its neighbours too. A file that has each sixteenth page alone gives one page a fault; a file that has all of
//! them gives as many as the kernel takes. The difference is the price of a neighbour.

use crate::probes::{BYTES, PAGE, PAGES, Quietest, Series, each, samples};
use isotherm_linux::OwnMapping;
use rustix::fs::{MemfdFlags, memfd_create};
use rustix::thread::{disable_transparent_huge_pages, transparent_huge_pages_are_disabled};
use std::fs::File;
use std::hint::black_box;
use std::io;
use std::os::unix::fs::FileExt as _;

/// Pages from one to the next in a file that has few of them: more than a fault maps with the usual `fault_around_bytes` of 64 KiB.
const APART: usize = 16;
/// Pages of each file.
const FILE_PAGES: usize = 8 << 10;

/// Samples of first writes, with the zeroing of their pages, and of first reads; empty where huge pages cannot be turned off.
#[derive(Default)]
pub(crate) struct Anonymous {
    pub(crate) writes: Vec<f64>,
    pub(crate) reads: Vec<f64>,
}

/// Faults of single pages: huge pages are off for this process meanwhile.
pub(crate) fn anonymous() -> Anonymous {
    let was_off = transparent_huge_pages_are_disabled().unwrap_or(false);
    if !was_off && disable_transparent_huge_pages(true).is_err() {
        return Anonymous::default();
    }
    let faults = |touch: &dyn Fn(&mut OwnMapping, usize)| {
        let sample = || {
            let mut memory = OwnMapping::anonymous(BYTES).ok()?;
            Some(each(PAGES, || (0..BYTES).step_by(PAGE).for_each(|at| touch(&mut memory, at))))
        };
        samples(sample)
    };
    let measured = Anonymous {
        writes: faults(&|memory, at| memory.write(at, 1)),
        reads: faults(&|memory, at| {
            memory.read(at);
        }),
    };
    if !was_off {
        let _ = disable_transparent_huge_pages(false);
    }
    measured
}

/// Faults on pages of a file that are in memory, and reads of them through a descriptor.
///
/// # Errors
/// There is no file in memory.
pub(crate) fn of_file(quietest: &mut Quietest) -> io::Result<()> {
    let few = file(APART)?;
    quietest.add(Series::FileAlone, samples(|| faults_of(&few, APART, APART)));
    drop(few);
    let all = file(1)?;
    quietest.add(Series::FileAround, samples(|| faults_of(&all, 1, APART)));
    if let Some(pages) = pages_of_a_fault(&all) {
        quietest.add(Series::PagesAround, vec![pages]);
    }
    let mut page = [0; PAGE];
    let read = samples(|| {
        let mut is_read = true;
        let ns = each(FILE_PAGES, || {
            is_read = (0..FILE_PAGES).all(|nr| all.read_exact_at(black_box(&mut page), (nr * PAGE) as u64).is_ok());
        });
        is_read.then_some(ns)
    });
    quietest.add(Series::Read, read);
    Ok(())
}

/// A file in memory with [`FILE_PAGES`] pages, each `apart` pages from the last one.
fn file(apart: usize) -> io::Result<File> {
    let file = File::from(memfd_create("isotherm-calibrate", MemfdFlags::CLOEXEC)?);
    file.set_len((FILE_PAGES * apart * PAGE) as u64)?;
    let page = [1; PAGE];
    (0..FILE_PAGES).try_for_each(|nr| file.write_all_at(&page, (nr * apart * PAGE) as u64))?;
    Ok(file)
}

/// A fault on each page that is `stride` pages from the last one, in ns. The file has a page each `apart`.
fn faults_of(file: &File, apart: usize, stride: usize) -> Option<f64> {
    let bytes = FILE_PAGES * apart * PAGE;
    let memory = OwnMapping::shared(file, bytes).ok()?;
    Some(each(bytes / (stride * PAGE), || {
        (0..bytes).step_by(stride * PAGE).for_each(|at| {
            memory.read(at);
        });
    }))
}

/// Pages that a fault maps of a file that has all; `None` where it cannot be known, or is more than a fault of [`faults_of`] could map.
fn pages_of_a_fault(file: &File) -> Option<f64> {
    let memory = OwnMapping::shared(file, FILE_PAGES * PAGE).ok()?;
    let before = minor_faults()?;
    (0..FILE_PAGES).for_each(|nr| {
        memory.read(nr * PAGE);
    });
    // A few faults are of the program itself.
    let faults = minor_faults()?.checked_sub(before).filter(|nr| *nr > 0)?;
    let pages = (FILE_PAGES as f64 / faults as f64).round();
    (pages <= APART as f64).then_some(pages)
}

fn minor_faults() -> Option<u64> {
    Some(isotherm_texts::stat::Stat::parse(&std::fs::read_to_string("/proc/self/stat").ok()?)?.minor_faults)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_in_memory_has_each_page_or_a_few() {
        use std::os::unix::fs::MetadataExt as _;
        for apart in [1, APART] {
            let file = file(apart).unwrap();
            let metadata = file.metadata().unwrap();
            assert_eq!(metadata.len(), (FILE_PAGES * apart * PAGE) as u64);
            assert_eq!(metadata.blocks() * 512, (FILE_PAGES * PAGE) as u64, "holes are none of its pages");
            assert!(faults_of(&file, apart, APART).unwrap() > 0.0);
        }
        assert!(pages_of_a_fault(&file(1).unwrap()).is_none_or(|pages| pages >= 1.0));
    }
}
