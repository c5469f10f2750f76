//! Storms: a process whose mappings change all the time, and others that scan it and make invalid calls.
#![expect(clippy::cast_possible_truncation, reason = "guests are of 64 bits, and numbers below a limit are small")]

use isotherm_guest::living::ModuleTest;
use isotherm_guest::monitoring::ARENA_PAGE;
use std::time::{Duration, Instant};

use crate::device::{ACTIVATE, CLEAR, Device, FLUSH, PROBE, SCAN, Scan, VERSION};
use crate::sys::{self, Backing, Forked, PAGE};

const LOOKERS: u64 = 3;

/// Pseudo-random numbers.
struct Chance(u64);

impl Chance {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }
    fn below(&mut self, limit: u64) -> u64 {
        self.next() % limit
    }
}

pub(super) fn blow(device: &Device, test: &ModuleTest) -> Result<(), String> {
    let fork = || sys::fork().map_err(|error| format!("fork: {error}"));
    let Forked::Parent(churner) = fork()? else { churn(Chance(test.seed | 1)) };
    let mut lookers = Vec::new();
    for looker in 0..LOOKERS {
        match fork()? {
            Forked::Parent(pid) => lookers.push(pid),
            Forked::Child => {
                let chance = Chance(test.seed.wrapping_add(looker + 1) | 1);
                sys::exit_now(i32::from(look(device, churner, looker, test, chance).is_err()));
            }
        }
    }
    for pid in lookers {
        let status = sys::wait(pid).map_err(|error| format!("wait: {error}"))?;
        if status != 0 {
            return Err(format!("storm: a looker ended with wait status {status:#x}"));
        }
    }
    if sys::has_ended(churner) {
        return Err("storm: the process that was looked at has ended".to_owned());
    }
    sys::kill(churner).map_err(|error| format!("kill: {error}"))?;
    while !sys::has_ended(churner) {
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok(())
}

/// Maps, unmaps, splits, collapses, protects and forks, for ever.
fn churn(mut chance: Chance) -> ! {
    const MADV_COLLAPSE: i32 = 25;
    loop {
        let first = ARENA_PAGE + chance.below(16) * 512;
        let part = first + chance.below(256);
        // Impossible actions (no huge page free, nothing mapped there) are skipped.
        let _ = match chance.below(9) {
            0 | 1 => sys::map(first, 1024, Backing::Anonymous)
                .and_then(|()| sys::advise(first, 1024, libc::MADV_HUGEPAGE))
                .map(|()| sys::touch(first, 1024, true, 5)),
            2 => sys::unmap(part, 1 + chance.below(600)),
            3 => sys::advise(part, 1 + chance.below(256), libc::MADV_DONTNEED),
            4 => sys::advise(first, 512, MADV_COLLAPSE),
            5 => sys::advise(part, 100, libc::MADV_COLD),
            6 => sys::map(first, 512, Backing::Anonymous).map(|()| sys::touch(first, 512, true, 5)),
            7 => sys::advise(part, 1 + chance.below(256), libc::MADV_FREE),
            _ => match sys::fork() {
                Ok(Forked::Child) => {
                    let _ = sys::unmap(first, 512);
                    if chance.below(2) == 0 {
                        sys::run_again();
                    }
                    sys::exit_now(0)
                }
                Ok(Forked::Parent(child)) => sys::wait(child).map(|_| ()),
                Err(error) => Err(error),
            },
        };
    }
}

/// A child of the process, which exits, or runs another program, at any moment. Calls about it may fail.
fn look_at_child(device: &Device, churner: i32, start: u64) {
    let children = std::fs::read_to_string(format!("/proc/{churner}/task/{churner}/children")).unwrap_or_default();
    let child = children.split_whitespace().next().and_then(|pid| pid.parse().ok());
    let Some(Ok(process)) = child.map(|child| device.process(child)) else { return };
    let _ = process.scan(&Scan { start, end: start + 512 * PAGE, level: 0, written: false, flags: CLEAR });
    let _ = process.flush();
    let _ = process.activate(&[start, start + PAGE]);
}

fn look(device: &Device, churner: i32, looker: u64, test: &ModuleTest, mut chance: Chance) -> Result<(), String> {
    let (begun_at, least) = (Instant::now(), Duration::from_secs(test.storm_seconds));
    let mut calls = 0;
    let process = device.process(churner)?;
    let start = ARENA_PAGE * PAGE;
    let [pid, begun] = process.target;
    if test.storm_alone {
        std::thread::sleep(least.max(Duration::from_secs(1)));
        return Ok(());
    }
    while calls < test.storm_calls || begun_at.elapsed() < least {
        calls += 1;
        if looker == 0 {
            // Invalid or nearly valid words; structures stay in place, addresses in them are small.
            let mut words: [u64; 13] = std::array::from_fn(|_| match chance.below(4) {
                0 => chance.next(),
                1 => chance.below(1 << 16),
                _ => 0,
            });
            // No address of a bitmap or a list is in this process's memory: below 64 KiB nothing is mapped.
            for index in [2, 5, 6, 7, 8] {
                words[index] = chance.below(1 << 16);
            }
            if chance.below(2) == 0 {
                (words[0], words[1]) = (pid, begun);
            }
            let known = [VERSION, PROBE, SCAN, FLUSH, ACTIVATE];
            let command = if chance.below(8) == 0 {
                0xb700 | (chance.next() as u32 & 0x3fff_00ff) | 0xc000_0000
            } else {
                known[chance.below(5) as usize]
            };
            let _ = device.call(command, &mut words);
            continue;
        }
        match chance.below(7) {
            6 => look_at_child(device, churner, start),
            0..=2 => {
                let level = chance.below(4) as u32;
                let span = 1u64 << (12 + 9 * level);
                let (flags, written) = (chance.below(2) as u32 * CLEAR, level == 0 && chance.below(2) == 0);
                process.scan(&Scan { start, end: start + 64 * span.min(1 << 30), level, written, flags }.whole())?;
            }
            3 => drop(process.probe(start + chance.below(9 << 21), chance.below(4) as u32, CLEAR)?),
            4 => process.flush()?,
            _ => {
                let addresses: Vec<u64> = (0..64).map(|_| start + chance.below(9 << 21)).collect();
                process.activate(&addresses)?;
            }
        }
    }
    Ok(())
}

impl Scan {
    /// Ends at the end of an entry of its level.
    fn whole(mut self) -> Self {
        self.end = self.end.next_multiple_of(1 << (12 + 9 * self.level));
        self
    }
}
