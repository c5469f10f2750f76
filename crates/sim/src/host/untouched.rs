//! Samples that need no test of every probe: the pages used since accessed bits were cleared are known, mostly none.
//!
//! A monitor clears bits at the end of a tick and tests them at the beginning of the next. If nothing
//! [stirred](isotherm_kernel::memory::Memory::stir) memory in between, a test takes the same walks and pays for them as the clear did. It finds the
//! cleared entries idle, except for the pages that programs [touched](isotherm_kernel::memory::Memory::note_touches).

use super::{HostTarget, MemoryHost, Wish};
use isotherm_core::host::{HostError, Level, Probe, Seen, TargetId};
use isotherm_kernel::mmu::SpaceId;
use isotherm_units::{PAGE_SHIFT, PageRange};

/// The samples of one monitor that are under way, one a target at most.
#[derive(Debug, Default)]
pub(crate) struct Samples(Vec<Sample>);

/// The cost and counts of a test if memory is not stirred before.
#[derive(Clone, Copy, Debug)]
struct Sample {
    target: TargetId,
    /// How often memory was stirred, and how much was touched since, when bits were cleared.
    nr_stirs: u64,
    nr_touches: usize,
    nr_probes: usize,
    /// A touch sets the bit of the probed page that it hits, and of no other; and probes are in order.
    is_by_page: bool,
    ns: u64,
    tests: [u64; 5],
}

/// Results of several probes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Looks {
    /// An entry that could not be read.
    pub(super) is_passed_over: bool,
    /// An entry above the leaf that maps memory.
    pub(super) is_upper: bool,
}

impl MemoryHost<'_> {
    /// Called after a clear; `ns` and `clears` are the time and the count before it. Remembers it if a test would read the same entries.
    pub(super) fn remember(&mut self, target: TargetId, probes: &[Probe], looks: Looks, (ns, clears): (u64, [u64; 5])) {
        let Some(Samples(samples)) = &mut self.samples else { return };
        samples.retain(|sample| sample.target != target);
        let is_physical = self.targets.get(target.0 as usize) == Some(&HostTarget::Physical);
        let (mut highest, mut last, mut ascends) = (Level::LEAF, 0, true);
        for probe in probes {
            highest = highest.max(probe.level);
            ascends &= last <= probe.address;
            last = probe.address;
        }
        // A clear skips pages that a test reads, and of page frames a test ends at the first clear entry from the top.
        if looks.is_passed_over || is_physical && highest > Level::LEAF {
            return;
        }
        let mut tests = self.counts.clears;
        tests.iter_mut().zip(clears).for_each(|(now, before)| *now -= before);
        let has_arithmetic_frames = is_physical && !self.memory.premapped.is_empty();
        samples.push(Sample {
            target,
            nr_stirs: self.memory.nr_stirs(),
            nr_touches: self.memory.touches().len(),
            nr_probes: probes.len(),
            is_by_page: ascends && !looks.is_upper && highest == Level::LEAF && !has_arithmetic_frames,
            ns: self.memory.ledger.peek() - ns,
            tests,
        });
        self.memory.want_touches();
    }

    /// Books the test of a remembered sample, if all later touches are known: adds the places of the probes that were accessed.
    pub(super) fn book_known(
        &mut self,
        target: TargetId,
        probes: &[Probe],
        accessed: &mut Vec<usize>,
    ) -> Result<bool, HostError> {
        let Some(Samples(samples)) = &self.samples else { return Ok(false) };
        let is_it = |sample: &&Sample| sample.target == target && sample.nr_stirs == self.memory.nr_stirs();
        let Some(&sample) = samples.iter().find(is_it) else { return Ok(false) };
        debug_assert_eq!(sample.nr_probes, probes.len(), "what was cleared is tested");
        if self.memory.touches().len() > sample.nr_touches {
            let before = accessed.len();
            if !sample.is_by_page || !self.find_touched(target, probes, sample.nr_touches, accessed)? {
                accessed.truncate(before);
                return Ok(false);
            }
        }
        self.memory.ledger.spend(sample.ns);
        self.counts.tests.iter_mut().zip(sample.tests).for_each(|(all, nr)| *all += nr);
        Ok(true)
    }

    /// Reads the probed pages that may have been touched, at no cost. `false`: one of them is unknown.
    fn find_touched(
        &mut self,
        id: TargetId,
        probes: &[Probe],
        nr_touches: usize,
        accessed: &mut Vec<usize>,
    ) -> Result<bool, HostError> {
        let target = self.target(id)?;
        let spent = self.memory.ledger;
        let mut is_known = true;
        for index in nr_touches..self.memory.touches().len() {
            let (space, pages): (SpaceId, PageRange) = self.memory.touches()[index];
            if matches!(target, HostTarget::Space(own) if own != space) {
                continue;
            }
            for page in pages.start..pages.end {
                let number = match target {
                    HostTarget::Space(_) => Some(page),
                    HostTarget::Physical => {
                        self.memory.space(space).table.frame_at(page).map(|frame| u64::from(frame.index_u32()))
                    }
                };
                let Some(number) = number else { continue };
                let first = probes.partition_point(|probe| probe.address >> PAGE_SHIFT < number);
                let here = probes[first..].iter().take_while(|probe| probe.address >> PAGE_SHIFT == number);
                for (place, probe) in (first..).zip(here) {
                    let seen = match target {
                        HostTarget::Space(space) => self.probe_space(Wish::Test, space, number, probe.level).0,
                        HostTarget::Physical => self.probe_frame(Wish::Test, number, probe.level).seen,
                    };
                    is_known &= seen != Seen::Unknown;
                    if seen == Seen::Accessed && !accessed.contains(&place) {
                        accessed.push(place);
                    }
                }
            }
        }
        self.memory.ledger = spent;
        Ok(is_known)
    }
}
