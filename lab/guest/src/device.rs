//! The accessed-bit module's device, as in module/isotherm.h, in words of 64 bits.
#![expect(clippy::cast_possible_truncation, reason = "guests are of 64 bits, and numbers below a limit are small")]

use std::fs::File;

use crate::sys;

pub(crate) const CLEAR: u32 = 1;
pub(crate) const VERSION: u32 = 0x8010_b700;
pub(crate) const PROBE: u32 = 0xc020_b701;
pub(crate) const SCAN: u32 = 0xc068_b702;
pub(crate) const FLUSH: u32 = 0x4010_b703;
pub(crate) const ACTIVATE: u32 = 0xc020_b704;

pub(crate) struct Device(pub(crate) File);

/// A process by number and start.
pub(crate) struct Process<'a> {
    device: &'a Device,
    pub(crate) target: [u64; 2],
}

pub(crate) struct Scan {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) level: u32,
    pub(crate) written: bool,
    pub(crate) flags: u32,
}

impl Scan {
    /// Number of entries of the level in the range.
    pub(crate) fn entries(&self) -> u64 {
        (self.end - self.start) >> (12 + 9 * self.level)
    }

    /// Room for the four bitmaps of a scan.
    pub(crate) fn bitmaps(&self) -> [Vec<u64>; 4] {
        std::array::from_fn(|_| vec![0; self.entries().div_ceil(64) as usize])
    }
}

/// Totals over the calls of one scan.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Scanned {
    pub(crate) nr_calls: u64,
    pub(crate) nr_young: u64,
    pub(crate) nr_present: u64,
}

/// Bitmaps of young, present, huge and written entries.
pub(crate) struct Found {
    bitmaps: [Vec<u64>; 4],
    pub(crate) entries: u64,
    pub(crate) nr_young: u64,
    pub(crate) nr_present: u64,
}

impl Found {
    pub(crate) fn young(&self) -> Vec<u64> {
        self.bits(0)
    }
    pub(crate) fn huge(&self) -> Vec<u64> {
        self.bits(2)
    }
    pub(crate) fn written(&self) -> Vec<u64> {
        self.bits(3)
    }
    fn bits(&self, which: usize) -> Vec<u64> {
        (0..self.entries).filter(|&bit| self.bitmaps[which][(bit / 64) as usize] >> (bit % 64) & 1 == 1).collect()
    }
}

pub(crate) fn word(low: u32, high: u32) -> u64 {
    u64::from(low) | u64::from(high) << 32
}

impl Device {
    pub(crate) fn open() -> Result<Self, String> {
        File::open("/dev/isotherm").map(Self).map_err(|error| format!("/dev/isotherm: {error}"))
    }

    /// `argument` is a structure of the interface.
    pub(crate) fn call(&self, command: u32, argument: &mut [u64]) -> Result<(), i32> {
        sys::ioctl(&self.0, command, argument.as_mut_ptr() as u64)
    }

    /// Version, levels, the first four shifts.
    pub(crate) fn version(&self) -> Result<(u32, u32, u64), String> {
        let mut version = [0; 2];
        self.call(VERSION, &mut version).map_err(|errno| format!("errno {errno}"))?;
        Ok(((version[0] & 0xffff_ffff) as u32, (version[0] >> 32) as u32, version[1]))
    }

    pub(crate) fn process(&self, pid: i32) -> Result<Process<'_>, String> {
        let path = format!("/proc/{pid}/stat");
        let text = std::fs::read_to_string(&path).map_err(|error| format!("{path}: {error}"))?;
        let start = text.rsplit(')').next().and_then(|rest| rest.split_whitespace().nth(19)?.parse().ok());
        let start = start.ok_or_else(|| format!("{path} has no field 22"))?;
        Ok(Process { device: self, target: [u64::from(pid.unsigned_abs()), start] })
    }
}

impl Process<'_> {
    pub(crate) fn scan(&self, scan: &Scan) -> Result<Found, String> {
        let mut bitmaps = scan.bitmaps();
        let Scanned { nr_young, nr_present, .. } = self.scan_into(scan, &mut bitmaps)?;
        let found = Found { bitmaps, entries: scan.entries(), nr_young, nr_present };
        if found.bits(0).len() as u64 != nr_young || found.bits(1).len() as u64 != nr_present {
            return Err("bitmaps and numbers of a scan differ".to_owned());
        }
        Ok(found)
    }

    /// Calls the module until the whole range is scanned. `bitmaps` are from [`Scan::bitmaps`] for this range and level.
    pub(crate) fn scan_into(&self, scan: &Scan, bitmaps: &mut [Vec<u64>; 4]) -> Result<Scanned, String> {
        let mut scanned = Scanned::default();
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
            scanned.nr_calls += 1;
            scanned.nr_young += words[10];
            scanned.nr_present += words[11];
        }
        Ok(scanned)
    }

    pub(crate) fn flush(&self) -> Result<(), String> {
        let mut words = self.target;
        self.device.call(FLUSH, &mut words).map_err(|errno| format!("flush: errno {errno}"))
    }

    /// Level probed, and the answer.
    pub(crate) fn probe(&self, address: u64, level: u32, flags: u32) -> Result<(u64, u64), String> {
        let mut entry = [[address, u64::from(level)]];
        self.probe_all(&mut entry, flags)?;
        Ok((entry[0][1] & 0xff, entry[0][1] >> 8 & 0xff))
    }

    /// One call for all entries: the first word is an address, the two lowest bytes of the second are level and answer.
    pub(crate) fn probe_all(&self, entries: &mut [[u64; 2]], flags: u32) -> Result<(), String> {
        let count = u32::try_from(entries.len()).map_err(|error| format!("probe: {error}"))?;
        let mut words = [self.target[0], self.target[1], entries.as_mut_ptr() as u64, word(count, flags)];
        self.device.call(PROBE, &mut words).map_err(|errno| format!("probe: errno {errno}"))
    }

    pub(crate) fn activate(&self, addresses: &[u64]) -> Result<u64, String> {
        let count = addresses.len() as u64;
        let mut words = [self.target[0], self.target[1], addresses.as_ptr() as u64, count];
        self.device.call(ACTIVATE, &mut words).map_err(|errno| format!("activate: errno {errno}"))?;
        Ok(words[3] >> 32)
    }
}
