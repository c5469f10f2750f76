//! The processors' side of memory: translation caches, and memory that was mapped before the run.

use super::task::{TaskId, UserTask};
use super::{Machine, MachineBuilder, MachineConfig, ProgramId};
use isotherm_kernel::mmu::translation::{Caches, drop_stale};
use isotherm_kernel::mmu::{MmuConfig, Pace, PremappedFrames, SpaceId, Stop};
use isotherm_kernel::reclaim::ReclaimPolicy;
use isotherm_units::Instant;
use isotherm_units::access::{Backing, Mapping};

/// Pages below 2^57 bytes.
const PAGES_MAX: u64 = 1 << 45;

/// The page-table settings of the machine. A page-exact baseline must see every access, so it has no caches before it.
pub(super) fn mmu_under(policy: &dyn ReclaimPolicy, config: &MachineConfig) -> MmuConfig {
    let translation = config.mmu.translation.clone().filter(|_| !policy.is_exact());
    MmuConfig { translation, ..config.mmu.clone() }
}

/// Translation caches of every processor, if the machine has the model.
pub(super) fn caches_of(mmu: &MmuConfig, nr_cpus: usize) -> Vec<Caches> {
    let one = mmu.translation.as_ref().map(|sizes| Caches::new(sizes, mmu.levels));
    one.map_or_else(Vec::new, |one| vec![one; nr_cpus])
}

impl MachineBuilder {
    /// The anonymous memory with which the program's processes start was touched before the run: it is resident from the start, costs no
    /// fault and never leaves. Such memory has no frames, is on no list and is charged to no group, so several terabytes of it fit
    /// (`docs/mechanism/machine.md#translation`); a forked process does not inherit it.
    pub fn premap(&mut self, program: ProgramId) {
        self.machine.programs[program.0].premapped = true;
    }
}

impl Machine {
    /// Plays the user's batch up to the run numbered `end` on the table of its space, through the caches of its processor if
    /// there are any.
    pub(super) fn touch(&mut self, id: TaskId, user: &mut UserTask, end: usize, pace: &mut Pace) -> Stop {
        if !self.memory.migration.is_empty() {
            return self.touch_migrating(id, user, end, pace);
        }
        self.touch_freely(id, user, end, pace)
    }

    /// Some pages of the machine are in flight to other frames: accesses to those must not go through, and no step goes past the next
    /// departure or arrival.
    #[cold]
    fn touch_migrating(&mut self, id: TaskId, user: &mut UserTask, end: usize, pace: &mut Pace) -> Stop {
        let Some((pages, next)) = self.memory.migration.migrating(user.space, Instant::from_ns(pace.now_ns)) else {
            return self.touch_freely(id, user, end, pace);
        };
        pace.until_ns = pace.until_ns.min(next.ns());
        let set_migration_entries = self.memory.space_mut(user.space).table.set_migration_entries(&pages);
        let stop = self.touch_freely(id, user, end, pace);
        self.memory.space_mut(user.space).table.remove_migration_entries(set_migration_entries);
        stop
    }

    fn touch_freely(&mut self, id: TaskId, user: &mut UserTask, end: usize, pace: &mut Pace) -> Stop {
        let space = self.memory.space_mut(user.space);
        let (table, huge) = (&mut space.table, &space.huge_blocks);
        let (runs, cursor) = (&user.batch.runs[..end], &mut user.cursor);
        if self.caches.is_empty() {
            return table.play_through(None, huge, runs, cursor, pace);
        }
        drop_stale(&mut self.caches, user.space, table);
        let caches = &mut self.caches[self.tasks[id.0].last_cpu.0];
        caches.switch_to(user.space);
        table.play_through(Some(caches), huge, runs, cursor, pace)
    }

    /// Makes the [premapped](MachineBuilder::premap) mappings of a program at its start.
    ///
    /// # Errors
    /// The first page beyond the address space.
    pub(super) fn premap(&mut self, program: usize, space: SpaceId, mapping: Mapping) -> Result<(), u64> {
        let Mapping { pages, huge, .. } = mapping;
        if !self.programs[program].premapped || mapping.backing != Backing::Anonymous || pages.is_empty() {
            return Ok(());
        }
        if pages.end > PAGES_MAX {
            return Err(pages.start.max(PAGES_MAX));
        }
        let first_frame = self.memory.nr_page_frames();
        self.memory.premapped.push(PremappedFrames { space, pages, first_frame });
        self.memory.space_mut(space).table.premap(pages, huge);
        Ok(())
    }
}
