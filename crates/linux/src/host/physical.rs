//! Accessed bits of page frames, probed through the mappings of their pages. Upper entries rule mappings out
//! (docs/spec/page-table-profiling.md#s7-3).

use crate::LiveError;
use crate::module::{Look, Module};
use crate::pagemap::frame_at;
use crate::reverse_map::ReverseMap;
use crate::{Root, sys};
use isotherm_core::host::{HostError, Level, Probe, ProbeResult, Seen};
use std::time::{Duration, Instant};

/// Mappings are read again after this time, or after a multiple of the time that reading took: half a percent of a
/// processor.
const READ_AGAIN: Duration = Duration::from_secs(5);
const READ_AGAIN_FACTOR: u32 = 200;

/// Probes pages of processes, which are given by number.
trait BitScanner {
    /// As [`Module::probe`].
    fn look(&self, process: u32, probes: &[Probe], look: Look, results: &mut [ProbeResult]) -> Result<(), LiveError>;
    /// The frame at an address, if a page is there.
    fn frame_at(&self, process: u32, address: u64) -> Option<u64>;
}

struct LiveScanner<'a> {
    map: &'a ReverseMap,
    module: &'a Module,
}

impl BitScanner for LiveScanner<'_> {
    fn look(&self, process: u32, probes: &[Probe], look: Look, results: &mut [ProbeResult]) -> Result<(), LiveError> {
        let process = self.map.process(process).ok_or_else(|| LiveError::Gone("a process has ended".to_owned()))?;
        self.module.probe(process, probes, look, results)
    }

    fn frame_at(&self, process: u32, address: u64) -> Option<u64> {
        frame_at(self.map.process(process)?, address)
    }
}

/// A mapping of a probed frame.
#[derive(Clone, Copy, Debug)]
struct Way {
    process: u32,
    address: u64,
    frame: u64,
    /// Index of the probe.
    probe: usize,
    seen: Seen,
}

/// State of physical memory between clears and tests.
#[derive(Debug, Default)]
pub(super) struct Physical {
    map: ReverseMap,
    read_next: Option<Instant>,
    /// Probes of the last clear, and the mappings that it used.
    probes: Vec<Probe>,
    ways: Vec<Way>,
}

impl Physical {
    /// Clears the accessed bits of these frames in all entries that map them, up to the level of each probe.
    ///
    /// # Errors
    /// Errors of [`ReverseMap::read`], and failures of the module.
    pub(super) fn clear(
        &mut self,
        root: &Root,
        module: &Module,
        probes: &[Probe],
        results: &mut [ProbeResult],
    ) -> Result<(), LiveError> {
        let start = Instant::now();
        if self.read_next.is_none_or(|next| start >= next) {
            self.map = ReverseMap::read(root)?;
            let took = start.elapsed();
            self.read_next = Some(start + READ_AGAIN.max(took * READ_AGAIN_FACTOR));
        }
        self.find_ways(probes);
        clear(&mut self.ways, probes, &LiveScanner { map: &self.map, module })?;
        answer(&self.ways, results);
        Ok(())
    }

    /// Tests them, through the mappings that existed at the clear.
    ///
    /// # Errors
    /// Failures of the module.
    pub(super) fn test(
        &mut self,
        module: &Module,
        probes: &[Probe],
        results: &mut [ProbeResult],
    ) -> Result<(), LiveError> {
        if self.probes != probes {
            self.find_ways(probes);
        }
        test(&mut self.ways, probes, &LiveScanner { map: &self.map, module })?;
        answer(&self.ways, results);
        Ok(())
    }

    /// Flushes the TLB entries of all processes that map the last cleared frames.
    ///
    /// # Errors
    /// [`HostError::Failed`]. Ended processes need no flush.
    pub(super) fn flush(&self, module: &Module) -> Result<(), HostError> {
        let mut processes: Vec<u32> = self.ways.iter().map(|way| way.process).collect();
        processes.sort_unstable();
        processes.dedup();
        for process in processes.into_iter().filter_map(|number| self.map.process(number)) {
            match module.flush(process) {
                Ok(()) | Err(LiveError::Gone(_)) => {}
                Err(error) => return Err(HostError::Failed(error.to_string())),
            }
        }
        Ok(())
    }

    fn find_ways(&mut self, probes: &[Probe]) {
        let page_bytes = sys::page_bytes();
        self.probes = probes.to_vec();
        self.ways.clear();
        for (probe, frame) in probes.iter().map(|probe| probe.address / page_bytes).enumerate() {
            let way = |(process, page): (u32, u64)| {
                Some(Way { process, address: page.checked_mul(page_bytes)?, frame, probe, seen: Seen::NotMapped })
            };
            self.ways.extend(self.map.mappers(frame).filter_map(way));
        }
        // A call to the module is for a single process.
        self.ways.sort_by_key(|way| way.process);
    }
}

/// Clears leaves first, then upper levels: an access in between sets the bits of both.
fn clear(ways: &mut Vec<Way>, probes: &[Probe], eyes: &dyn BitScanner) -> Result<(), LiveError> {
    for ways in ways.chunk_by_mut(|one, other| one.process == other.process) {
        let process = ways[0].process;
        let levels = |way: &Way| (0..=probes[way.probe].level.0).map(Level);
        let asked: Vec<Probe> =
            ways.iter().flat_map(|way| levels(way).map(|level| Probe { address: way.address, level })).collect();
        let mut results = vec![ProbeResult::default(); asked.len()];
        match eyes.look(process, &asked, Look::Clear, &mut results) {
            Err(LiveError::Gone(_)) => continue,
            other => other?,
        }
        let mut first = 0;
        for way in &mut *ways {
            way.seen = results[first].seen;
            first += levels(way).count();
        }
    }
    // The page may have moved or been replaced.
    ways.retain(|way| eyes.frame_at(way.process, way.address) == Some(way.frame));
    Ok(())
}

/// Tests entries from the top level down, and continues below entries that are set.
fn test(ways: &mut [Way], probes: &[Probe], eyes: &dyn BitScanner) -> Result<(), LiveError> {
    for ways in ways.chunk_by_mut(|one, other| one.process == other.process) {
        let process = ways[0].process;
        let mut open: Vec<usize> = (0..ways.len()).collect();
        let highest = ways.iter().map(|way| probes[way.probe].level.0).max().unwrap_or(0);
        for level in (0..=highest).rev().map(Level) {
            let now: Vec<usize> = open.iter().copied().filter(|&way| probes[ways[way].probe].level >= level).collect();
            let asked: Vec<Probe> = now.iter().map(|&way| Probe { address: ways[way].address, level }).collect();
            let mut results = vec![ProbeResult::default(); asked.len()];
            match eyes.look(process, &asked, Look::Test, &mut results) {
                Err(LiveError::Gone(_)) => {
                    ways.iter_mut().for_each(|way| way.seen = Seen::Unknown);
                    open.clear();
                    break;
                }
                other => other?,
            }
            for (&way, result) in now.iter().zip(&results) {
                ways[way].seen = result.seen;
                if result.seen != Seen::Accessed {
                    open.retain(|&still| still != way);
                }
            }
        }
    }
    for way in ways {
        if eyes.frame_at(way.process, way.address) != Some(way.frame) {
            way.seen = Seen::Unknown;
        }
    }
    Ok(())
}

/// One accessed mapping is enough. If a mapping is unknown, the page is unknown, unless another mapping was accessed.
fn answer(ways: &[Way], results: &mut [ProbeResult]) {
    results.fill(ProbeResult { seen: Seen::NotMapped, level: Level::LEAF });
    let weight = |seen: Seen| match seen {
        Seen::NotMapped => 0,
        Seen::Idle => 1,
        Seen::Unknown => 2,
        Seen::Accessed => 3,
    };
    for way in ways {
        let result = &mut results[way.probe];
        if weight(way.seen) > weight(result.seen) {
            result.seen = way.seen;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::collections::{BTreeMap, BTreeSet};

    /// Two processes; pages at 4 KiB each, frames by (process, address), and bits by (process, level, entry).
    #[derive(Default)]
    struct World {
        frames: RefCell<BTreeMap<(u32, u64), u64>>,
        set: RefCell<BTreeSet<(u32, u8, u64)>>,
        asked: RefCell<Vec<(u32, u8)>>,
        gone: Option<u32>,
    }

    impl World {
        fn access(&self, process: u32, address: u64) {
            let entries = (0..3u8).map(|level| (process, level, address >> (12 + 9 * level)));
            self.set.borrow_mut().extend(entries);
        }
        fn way(&self, process: u32, address: u64, probe: usize) -> Way {
            let frame = self.frames.borrow()[&(process, address)];
            Way { process, address, frame, probe, seen: Seen::NotMapped }
        }
    }

    impl BitScanner for World {
        fn look(&self, process: u32, probes: &[Probe], look: Look, out: &mut [ProbeResult]) -> Result<(), LiveError> {
            if self.gone == Some(process) {
                return Err(LiveError::Gone("ended".to_owned()));
            }
            for (probe, out) in probes.iter().zip(out) {
                let entry = (process, probe.level.0, probe.address >> (12 + 9 * probe.level.0));
                self.asked.borrow_mut().push((process, probe.level.0));
                let mut set = self.set.borrow_mut();
                let was = if look == Look::Clear { set.remove(&entry) } else { set.contains(&entry) };
                out.seen = if was { Seen::Accessed } else { Seen::Idle };
            }
            Ok(())
        }
        fn frame_at(&self, process: u32, address: u64) -> Option<u64> {
            self.frames.borrow().get(&(process, address)).copied()
        }
    }

    const MIB: u64 = 1 << 20;

    fn shared() -> (World, Vec<Probe>, Vec<Way>) {
        let world = World::default();
        world.frames.borrow_mut().extend([((0, 0), 7), ((1, 8 * MIB), 7), ((1, 0), 9)]);
        let probes = [7u64, 9].map(|frame| Probe { address: frame << 12, level: Level(2) }).to_vec();
        let ways = vec![world.way(0, 0, 0), world.way(1, 8 * MIB, 0), world.way(1, 0, 1)];
        (world, probes, ways)
    }

    fn seen(ways: &[Way]) -> Vec<Seen> {
        let mut results = vec![ProbeResult::default(); 2];
        answer(ways, &mut results);
        results.iter().map(|result| result.seen).collect()
    }

    #[test]
    fn upper_entries_rule_mappings_out() {
        let (world, probes, mut ways) = shared();
        world.access(1, 8 * MIB);
        clear(&mut ways, &probes, &world).unwrap();
        assert_eq!(seen(&ways), [Seen::Accessed, Seen::Idle]);
        assert!(world.set.borrow().is_empty(), "all levels were cleared");
        world.asked.borrow_mut().clear();
        test(&mut ways, &probes, &world).unwrap();
        assert_eq!(seen(&ways), [Seen::Idle, Seen::Idle]);
        assert_eq!(*world.asked.borrow(), [(0, 2), (1, 2), (1, 2)], "the highest entries say it all");
        // A neighbour of frame 9 in process 1, below the same table.
        world.access(1, 4096);
        test(&mut ways, &probes, &world).unwrap();
        assert_eq!(seen(&ways), [Seen::Idle, Seen::Idle]);
        world.access(1, 8 * MIB);
        test(&mut ways, &probes, &world).unwrap();
        assert_eq!(seen(&ways), [Seen::Accessed, Seen::Idle], "one mapping of two is enough");
    }

    #[test]
    fn what_moved_or_ended_is_not_known() {
        let (world, probes, mut ways) = shared();
        clear(&mut ways, &probes, &world).unwrap();
        world.frames.borrow_mut().insert((1, 0), 10);
        world.access(1, 0);
        test(&mut ways, &probes, &world).unwrap();
        assert_eq!(seen(&ways), [Seen::Idle, Seen::Unknown], "another page is there now");
        // Unmapped before the clear: no such mapping. Unmapped between clear and test: unknown.
        world.frames.borrow_mut().remove(&(0, 0));
        clear(&mut ways, &probes, &world).unwrap();
        assert_eq!(ways.len(), 1);
        let world = World { gone: Some(1), ..world };
        test(&mut ways, &probes, &world).unwrap();
        assert_eq!(seen(&ways), [Seen::Unknown, Seen::NotMapped]);
    }
}
