//! The module's device, as module/isotherm.h has it, in words of 64 bits.
#![expect(clippy::cast_possible_truncation, reason = "guests are of 64 bits, and numbers below a limit are small")]

use std::fs::File;

use crate::sys::{self, PAGE};

pub(super) const CLEAR: u32 = 1;
pub(super) const VERSION: u32 = 0x8010_b700;
pub(super) const PROBE: u32 = 0xc020_b701;
pub(super) const SCAN: u32 = 0xc068_b702;
pub(super) const FLUSH: u32 = 0x4010_b703;
pub(super) const ACTIVATE: u32 = 0xc020_b704;

pub(super) struct Device(pub(super) File);

/// A process by number and start.
pub(super) struct Process<'a> {
    device: &'a Device,
    pub(super) target: [u64; 2],
}

pub(super) struct Scan {
    pub(super) start: u64,
    pub(super) end: u64,
    pub(super) level: u32,
    pub(super) written: bool,
    pub(super) flags: u32,
}

/// Bitmaps of young, present, huge and written entries.
pub(super) struct Found {
    bitmaps: [Vec<u64>; 4],
    pub(super) entries: u64,
    pub(super) nr_young: u64,
    pub(super) nr_present: u64,
}

impl Found {
    pub(super) fn young(&self) -> Vec<u64> {
        self.bits(0)
    }
    pub(super) fn huge(&self) -> Vec<u64> {
        self.bits(2)
    }
    pub(super) fn written(&self) -> Vec<u64> {
        self.bits(3)
    }
    fn bits(&self, which: usize) -> Vec<u64> {
        (0..self.entries).filter(|&bit| self.bitmaps[which][(bit / 64) as usize] >> (bit % 64) & 1 == 1).collect()
    }
}

fn word(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

impl Device {
    pub(super) fn open() -> Result<Self, String> {
        File::open("/dev/isotherm").map(Self).map_err(|error| format!("/dev/isotherm: {error}"))
    }

    /// `argument` is a structure of the interface.
    pub(super) fn call(&self, command: u32, argument: &mut [u64]) -> Result<(), i32> {
        sys::ioctl(&self.0, command, argument.as_mut_ptr() as u64)
    }

    /// Version, levels, the first four shifts.
    pub(super) fn version(&self) -> Result<(u32, u32, u64), String> {
        let mut version = [0; 2];
        self.call(VERSION, &mut version).map_err(|errno| format!("errno {errno}"))?;
        Ok(((version[0] & 0xffff_ffff) as u32, (version[0] >> 32) as u32, version[1]))
    }

    pub(super) fn process(&self, pid: i32) -> Result<Process<'_>, String> {
        let path = format!("/proc/{pid}/stat");
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let start = text.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(19)?.parse().ok());
        let start = start.ok_or_else(|| format!("{path} has no field 22"))?;
        Ok(Process { device: self, target: [u64::from(pid.unsigned_abs()), start] })
    }
}

impl Process<'_> {
    pub(super) fn scan(&self, scan: &Scan) -> Result<Found, String> {
        let entries = (scan.end - scan.start) >> (12 + 9 * scan.level);
        let mut bitmaps: [Vec<u64>; 4] = std::array::from_fn(|_| vec![0; entries.div_ceil(64) as usize]);
        let (mut nr_young, mut nr_present) = (0, 0);
        let mut start = scan.start;
        while start < scan.end {
            let skipped = (start - scan.start) >> (12 + 9 * scan.level) >> 3;
            let mut places = bitmaps.each_mut().map(|bitmap| bitmap.as_mut_ptr() as u64 + skipped);
            if !scan.written {
                places[3] = 0;
            }
            let [young, present, huge, written] = places;
            let [pid, begun] = self.target;
            let level = word(scan.level, scan.flags);
            let mut words = [pid, begun, start, scan.end, 0, young, present, huge, written, level, 0, 0, 0];
            self.device.call(SCAN, &mut words).map_err(|errno| format!("scan: errno {errno}"))?;
            if words[4] <= start || words[4] > scan.end {
                return Err(format!("a scan from {start:#x} goes on at {:#x}", words[4]));
            }
            start = words[4];
            nr_young += words[10];
            nr_present += words[11];
        }
        let found = Found { bitmaps, entries, nr_young, nr_present };
        if found.bits(0).len() as u64 != nr_young || found.bits(1).len() as u64 != nr_present {
            return Err("bitmaps and numbers of a scan differ".to_owned());
        }
        Ok(found)
    }

    pub(super) fn flush(&self) -> Result<(), String> {
        let mut words = self.target;
        self.device.call(FLUSH, &mut words).map_err(|errno| format!("flush: errno {errno}"))
    }

    /// Level looked at, and what was seen.
    pub(super) fn probe(&self, address: u64, level: u32, flags: u32) -> Result<(u64, u64), String> {
        let mut entry = [address, u64::from(level)];
        let mut words = [self.target[0], self.target[1], entry.as_mut_ptr() as u64, word(1, flags)];
        self.device.call(PROBE, &mut words).map_err(|errno| format!("probe: errno {errno}"))?;
        Ok((entry[1] & 0xff, entry[1] >> 8 & 0xff))
    }

    pub(super) fn activate(&self, addresses: &[u64]) -> Result<u64, String> {
        let count = addresses.len() as u64;
        let mut words = [self.target[0], self.target[1], addresses.as_ptr() as u64, count];
        self.device.call(ACTIVATE, &mut words).map_err(|errno| format!("activate: errno {errno}"))?;
        Ok(words[3] >> 32)
    }
}

/// What is no call of the interface is refused with the error that says why.
pub(super) fn refusals(device: &Device, process: &Process<'_>, start: u64) -> Result<(), String> {
    let [pid, begun] = process.target;
    let end = start + 64 * PAGE;
    let scan = [pid, begun, start, end, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let with = |changes: &[(usize, u64)]| {
        let mut words = scan;
        for &(index, value) in changes {
            words[index] = value;
        }
        words
    };
    let scans = [
        ("a plain scan", with(&[]), Ok(())),
        ("another start", with(&[(1, begun + 1)]), Err(libc::ESRCH)),
        ("padding", with(&[(0, pid | 1 << 32)]), Err(libc::EINVAL)),
        ("process 0", with(&[(0, 0)]), Err(libc::EINVAL)),
        ("nobody", with(&[(0, 0x3f_ffff)]), Err(libc::ESRCH)),
        ("unaligned", with(&[(2, start + 1)]), Err(libc::EINVAL)),
        ("reversed", with(&[(2, end), (3, start)]), Err(libc::EINVAL)),
        ("beyond all", with(&[(3, !(PAGE - 1))]), Err(libc::EINVAL)),
        ("a huge range", with(&[(2, 0), (3, 1 << 56)]), Ok(())),
        ("a level too high", with(&[(9, 4)]), Err(libc::EINVAL)),
        ("an unknown flag", with(&[(9, 2 << 32)]), Err(libc::EINVAL)),
        ("a bitmap nowhere", with(&[(5, 8)]), Err(libc::EFAULT)),
        ("a bitmap of the kernel's", with(&[(6, 0xffff_8880_0000_0000)]), Err(libc::EFAULT)),
        ("written above leaves", with(&[(2, 0), (3, 1 << 21), (8, 8), (9, 1)]), Err(libc::EINVAL)),
    ];
    for (what, mut words, expected) in scans {
        let seen = device.call(SCAN, &mut words);
        super::same(what, &seen, &expected)?;
    }
    let mut entry = [start, 9];
    let at = entry.as_mut_ptr() as u64;
    let probes = [
        ("too many entries", [pid, begun, at, 4097], libc::EINVAL),
        ("a level out of range", [pid, begun, at, 1], libc::EINVAL),
        ("entries nowhere", [pid, begun, 8, 1], libc::EFAULT),
    ];
    for (what, mut words, errno) in probes {
        super::same(what, &device.call(PROBE, &mut words), &Err(errno))?;
    }
    entry = [start, 1 << 16];
    let mut words = [pid, begun, entry.as_mut_ptr() as u64, 1];
    super::same("padding of an entry", &device.call(PROBE, &mut words), &Err(libc::EINVAL))?;
    let mut words = [pid, begun, 8, 1];
    super::same("addresses nowhere", &device.call(ACTIVATE, &mut words), &Err(libc::EFAULT))?;
    super::same("a kernel thread", &device.call(FLUSH, &mut device.process(2)?.target), &Err(libc::ESRCH))?;
    super::same("an unknown call", &device.call(0x8010_b709, &mut words), &Err(libc::ENOTTY))?;
    super::same("another size", &device.call(0x8018_b700, &mut words), &Err(libc::ENOTTY))?;
    super::same("an argument nowhere", &sys::ioctl(&device.0, SCAN, 8), &Err(libc::EFAULT))
}
