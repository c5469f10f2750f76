//! Generations for tools of user space: the machine's `lru_gen`, read and written as a program does (docs/spec/mglru.md#s14).

use super::MemoryHost;
use isotherm_core::generations::{Ageing, Eviction, GenerationRow, Listing};
use isotherm_core::host::{Answer, GenerationCapabilities, HostError, Lruvec, NodeId};
use isotherm_kernel::counters::Counter;
use isotherm_kernel::memory::Memory;
use isotherm_kernel::reclaim::LruvecId;
use isotherm_kernel::reclaim::mglru::{self, Mglru};
use isotherm_units::PAGE_BYTES;

/// The error of machines under other policies.
const NEEDS_MGLRU: &str = "needs mglru: the policy of this machine has no generations";

impl MemoryHost<'_> {
    /// The policy's generations and the memory they are of.
    fn generations(&mut self) -> Option<(&mut Mglru, &mut Memory)> {
        self.policy.as_mglru().map(|mglru| (mglru, &mut *self.memory))
    }

    pub(super) fn can_do_with_generations(&mut self) -> GenerationCapabilities {
        let is_here = self.policy.as_mglru().is_some();
        GenerationCapabilities {
            read: is_here,
            age: is_here,
            evict: is_here,
            missing: (!is_here).then_some(NEEDS_MGLRU),
        }
    }

    pub(super) fn read_lru_gen(&mut self, out: &mut Vec<Listing>) -> Result<(), HostError> {
        let Some((mglru, memory)) = self.generations() else { return Err(HostError::NotHere(NEEDS_MGLRU)) };
        memory.ledger.spend(memory.costs.syscall_ns());
        for group in memory.cgroups.subtree(isotherm_kernel::cgroup::CgroupId::ROOT) {
            for node in memory.nodes.ids() {
                memory.ledger.spend(memory.costs.lru_gen_read_ns());
                let path = memory.cgroups.get(group).path.clone();
                let rows = rows_of(mglru, memory, memory.lruvec(group, node));
                let node = NodeId(u32::try_from(node.index()).expect("few nodes"));
                out.push(Listing { lruvec: Lruvec { memcg: group.index() as u64, node }, path, rows });
            }
        }
        Ok(())
    }

    pub(super) fn write_ageings(&mut self, orders: &[Ageing], answers: &mut Vec<Answer>) {
        for order in orders {
            answers.push(self.write_lru_gen(&order.to_string()).unwrap_or(Answer::Done { bytes: 0 }));
        }
    }

    pub(super) fn write_evictions(&mut self, orders: &[Eviction], answers: &mut Vec<Answer>) {
        for order in orders {
            let asked = self.pages_up_to(order).min(order.limit_pages.unwrap_or(u64::MAX));
            let before = self.memory.counters.get(Counter::PgStealProactive);
            let refusal = self.write_lru_gen(&order.to_string());
            let freed = self.memory.counters.get(Counter::PgStealProactive) - before;
            let bytes = freed * PAGE_BYTES;
            let answer = if freed >= asked { Answer::Done { bytes } } else { Answer::Partly { bytes } };
            answers.push(refusal.unwrap_or(answer));
        }
    }

    /// Writes a command as a program does. `None`: it was carried out.
    fn write_lru_gen(&mut self, text: &str) -> Option<Answer> {
        let Some((mglru, memory)) = self.generations() else { return Some(Answer::NotHere(NEEDS_MGLRU)) };
        memory.ledger.spend(memory.costs.syscall_ns() + memory.costs.lru_gen_write_ns());
        mglru.write_lru_gen(memory, text).err().map(|refusal| Answer::Failed(refusal.to_string()))
    }

    /// Pages of the types that an order is for, in the generations that it names. Pages that a program would know of after reading the
    /// generations; no cost is charged for it here.
    fn pages_up_to(&mut self, order: &Eviction) -> u64 {
        let Some((mglru, memory)) = self.generations() else { return 0 };
        let Lruvec { memcg, node } = order.lruvec;
        let group = memory.cgroups.ids().find(|group| group.index() as u64 == memcg);
        let node = memory.nodes.ids().find(|id| id.index() == node.0 as usize);
        let Some((group, node)) = group.zip(node) else { return 0 };
        let of_types = |row: &GenerationRow| {
            let anon = if order.swappiness.takes_anon() { row.anon_pages } else { 0 };
            anon + if order.swappiness.takes_file() { row.file_pages } else { 0 }
        };
        let rows = rows_of(mglru, memory, memory.lruvec(group, node));
        rows.iter().filter(|row| row.seq <= order.min_gen_nr).map(of_types).sum()
    }
}

fn rows_of(mglru: &Mglru, memory: &Memory, lruvec: LruvecId) -> Vec<GenerationRow> {
    let row = |row: mglru::ReadoutRow| GenerationRow {
        seq: row.seq,
        age_ms: row.age_ms,
        anon_pages: row.anon_pages,
        file_pages: row.file_pages,
    };
    mglru.rows(memory, lruvec).into_iter().map(row).collect()
}
