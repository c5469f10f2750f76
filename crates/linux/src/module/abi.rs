//! The structures and numbers of `module/isotherm.h`.

use rustix::ioctl::opcode;

/// Version of the interface that this client uses.
pub(crate) const ABI: u32 = 1;
/// Entries of one probe, addresses of one activation.
pub(crate) const BATCH_MAX: usize = 4096;
/// Probes and scans clear the bits.
pub(crate) const CLEAR: u32 = 1;
pub(crate) const LEVELS_MAX: usize = 8;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Target {
    pub(crate) pid: i32,
    pub(crate) padding: u32,
    /// Field 22 of `/proc/PID/stat`, in clock ticks since boot.
    pub(crate) start_time: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Version {
    pub(crate) abi: u32,
    pub(crate) nr_levels: u32,
    /// log2 of the bytes that an entry spans, from the leaf up.
    pub(crate) shifts: [u8; LEVELS_MAX],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Entry {
    pub(crate) address: u64,
    pub(crate) level: u8,
    pub(crate) seen: u8,
    pub(crate) padding: [u8; 6],
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Probe {
    pub(crate) target: Target,
    pub(crate) entries: u64,
    pub(crate) count: u32,
    pub(crate) flags: u32,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Scan {
    pub(crate) target: Target,
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) next: u64,
    pub(crate) young: u64,
    pub(crate) present: u64,
    pub(crate) huge: u64,
    pub(crate) written: u64,
    pub(crate) level: u32,
    pub(crate) flags: u32,
    pub(crate) nr_young: u64,
    pub(crate) nr_present: u64,
    pub(crate) nr_skipped: u64,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[repr(C)]
pub(crate) struct Activate {
    pub(crate) target: Target,
    pub(crate) addresses: u64,
    pub(crate) count: u32,
    pub(crate) done: u32,
}

const MAGIC: u8 = 0xB7;
pub(crate) const VERSION: u32 = opcode::read::<Version>(MAGIC, 0);
pub(crate) const PROBE: u32 = opcode::read_write::<Probe>(MAGIC, 1);
pub(crate) const SCAN: u32 = opcode::read_write::<Scan>(MAGIC, 2);
pub(crate) const FLUSH: u32 = opcode::write::<Target>(MAGIC, 3);
pub(crate) const ACTIVATE: u32 = opcode::read_write::<Activate>(MAGIC, 4);

#[cfg(test)]
mod tests {
    use super::*;
    use std::mem::{offset_of, size_of};

    /// Offsets added up by hand from module/isotherm.h: fields are in declaration order, each at a multiple of its size.
    #[test]
    fn structures_are_laid_out_as_in_the_header() {
        assert_eq!((size_of::<Target>(), offset_of!(Target, padding), offset_of!(Target, start_time)), (16, 4, 8));
        assert_eq!((size_of::<Version>(), offset_of!(Version, nr_levels), offset_of!(Version, shifts)), (16, 4, 8));
        let entry = (offset_of!(Entry, level), offset_of!(Entry, seen), offset_of!(Entry, padding));
        assert_eq!((size_of::<Entry>(), entry), (16, (8, 9, 10)));
        let probe = (offset_of!(Probe, entries), offset_of!(Probe, count), offset_of!(Probe, flags));
        assert_eq!((size_of::<Probe>(), probe), (32, (16, 24, 28)));
        let range = [offset_of!(Scan, start), offset_of!(Scan, end), offset_of!(Scan, next)];
        assert_eq!((size_of::<Scan>(), range), (104, [16, 24, 32]));
        let bitmaps =
            [offset_of!(Scan, young), offset_of!(Scan, present), offset_of!(Scan, huge), offset_of!(Scan, written)];
        assert_eq!(bitmaps, [40, 48, 56, 64]);
        assert_eq!((offset_of!(Scan, level), offset_of!(Scan, flags)), (72, 76));
        let counts = [offset_of!(Scan, nr_young), offset_of!(Scan, nr_present), offset_of!(Scan, nr_skipped)];
        assert_eq!(counts, [80, 88, 96]);
        let activate = (offset_of!(Activate, addresses), offset_of!(Activate, count), offset_of!(Activate, done));
        assert_eq!((size_of::<Activate>(), activate), (32, (16, 24, 28)));
    }

    /// Direction in the two topmost bits (1 write, 2 read), then 14 bits of size, 8 of 0xB7, 8 of the number (asm-generic/ioctl.h).
    #[test]
    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64", target_arch = "riscv64"))]
    fn numbers_of_calls_are_those_of_the_header() {
        assert_eq!([VERSION, FLUSH], [0x8010_B700, 0x4010_B703]);
        assert_eq!([PROBE, SCAN, ACTIVATE], [0xC020_B701, 0xC068_B702, 0xC020_B704]);
    }
}
