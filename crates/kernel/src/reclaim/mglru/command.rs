//! Writes to `lru_gen`: ageing and eviction by hand (docs/spec/mglru.md#s14-2).

use super::Mglru;
use super::ageing::Effort;
use super::baseline::Baseline;
use super::evict::Queue;
use super::page::MIN_NR_GENS;
use crate::cgroup::CgroupId;
use crate::memory::{Memory, NodeId};
use crate::reclaim::scan_balance::SWAPPINESS_ANON_ONLY;
use crate::reclaim::{LruvecId, Reclaimer, Scan};

/// Pages asked for in one go.
const BATCH: u64 = 4096;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Command {
    pub action: Action,
    /// Number of the group.
    pub group: u64,
    /// Number of the node.
    pub node: u64,
    /// The youngest generation there is (ageing), or the youngest to evict.
    pub seq: u64,
    /// 0..=200, or 201 for anonymous pages only; without it, the machine's setting.
    pub swappiness: Option<u32>,
    /// Ageing: 0 lets the walk skip areas that it takes for idle. Eviction: pages at most.
    pub amount: Option<u64>,
}

/// Action of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// `+`: makes a generation.
    Age,
    /// `-`: evicts generations.
    Evict,
}

/// Why a written text is refused. Each text begins with the kernel's error.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// Not a word or a number of the switch.
    #[error("EINVAL: allowed are y, n and an unsigned number")]
    Invalid,
    /// The text is not a number, or the number is too large.
    #[error("EINVAL: allowed are unsigned numbers up to 4294967295")]
    Number,
    /// Not in the form of a command.
    #[error(
        "EINVAL: a command is `+ memcg node max_gen [can_swap [force_scan]]` or `- memcg node min_gen [swappiness [pages]]`"
    )]
    Malformed,
    /// Above 201.
    #[error("EINVAL: swappiness is 0 to 200, or `max` for anonymous pages only")]
    Swappiness,
    /// Above 200, or `max`, under 6.12.
    #[error("EINVAL: swappiness is 0 to 200; `max` came after Linux 6.12")]
    SwappinessV6_12,
    /// Under 6.12: four generations already, and a walk that may skip things would not show which of the oldest are used.
    #[error("ERANGE: there are four generations; evict one, or let the walk be forced")]
    Range,
    /// No such group.
    #[error("EINVAL: there is no group of this number")]
    Group,
    /// No such node.
    #[error("EINVAL: there is no memory node of this number")]
    Node,
    /// The generation to age from lies in the future.
    #[error("EINVAL: the youngest generation is older than that")]
    Future,
    /// The two youngest generations cannot be evicted.
    #[error("EINVAL: the two youngest generations cannot be evicted")]
    Young,
    /// The policy has no generations.
    #[error("ENOENT: only the policy `mglru` has this file")]
    Absent,
    /// Generations are switched off.
    #[error("EINVAL: the Multi-Gen LRU is switched off")]
    Off,
}

impl Command {
    /// Reads commands separated by newlines, commas or semicolons; empty ones are skipped.
    pub fn parse_all(text: &str) -> impl Iterator<Item = Result<Self, Refusal>> {
        text.split(['\n', ',', ';']).filter_map(|part| Self::parse(part).transpose())
    }

    /// Reads one command; `None` for an empty one.
    ///
    /// # Errors
    /// [`Refusal::Malformed`] or [`Refusal::Swappiness`].
    pub fn parse(text: &str) -> Result<Option<Self>, Refusal> {
        let mut chars = text.trim_start().chars();
        let action = match chars.next() {
            None => return Ok(None),
            Some('+') => Action::Age,
            Some('-') => Action::Evict,
            Some(_) => return Err(Refusal::Malformed),
        };
        let words: Vec<&str> = chars.as_str().split_whitespace().collect();
        let number =
            |word: &&str| word.parse::<u64>().ok().filter(|_| !word.starts_with('+')).ok_or(Refusal::Malformed);
        let (&[group, node, seq], rest) = words.split_first_chunk().ok_or(Refusal::Malformed)?;
        if rest.len() > 2 {
            return Err(Refusal::Malformed);
        }
        let swappiness = match rest.first() {
            None => None,
            Some(&"max") => Some(SWAPPINESS_ANON_ONLY),
            Some(word) => {
                let value = u32::try_from(number(word)?).map_err(|_| Refusal::Swappiness)?;
                Some(Some(value).filter(|&value| value <= SWAPPINESS_ANON_ONLY).ok_or(Refusal::Swappiness)?)
            }
        };
        let amount = rest.get(1).map(number).transpose()?;
        Ok(Some(Self { action, group: number(&group)?, node: number(&node)?, seq: number(&seq)?, swappiness, amount }))
    }
}

impl Mglru {
    /// Carries out the text written to `lru_gen`: commands separated by newlines, commas or semicolons, in order.
    ///
    /// The writer waits for no device: pages that are written out are freed when their writes end.
    ///
    /// # Errors
    /// The first refusal; commands before it stay in effect.
    pub fn write_lru_gen(&mut self, memory: &mut Memory, text: &str) -> Result<(), Refusal> {
        Command::parse_all(text).try_for_each(|command| self.carry_out(memory, command?))
    }

    /// Carries out one command.
    ///
    /// # Errors
    /// When the group, the node or the generation does not allow it: nothing changed.
    pub fn carry_out(&mut self, memory: &mut Memory, command: Command) -> Result<(), Refusal> {
        let group = u16::try_from(command.group).ok().filter(|&id| usize::from(id) < memory.cgroups.len());
        let node = u8::try_from(command.node).ok().filter(|&id| usize::from(id) < memory.nodes.len());
        let group = CgroupId(group.ok_or(Refusal::Group)?);
        let lruvec = memory.lruvec(group, NodeId(node.ok_or(Refusal::Node)?));
        if !self.switches.has_core() {
            return Err(Refusal::Off);
        }
        let mut scan = Scan::new(Reclaimer::Proactive, group, u64::MAX, memory.config.swappiness);
        if self.baseline != Baseline::V7_2 && command.swappiness == Some(SWAPPINESS_ANON_ONLY) {
            return Err(Refusal::SwappinessV6_12);
        }
        let swappiness = command.swappiness.unwrap_or_else(|| Self::effective_swappiness(memory, lruvec, &scan));
        let max_seq = self.generations.get(lruvec).max_seq;
        match command.action {
            Action::Age if command.seq > max_seq => return Err(Refusal::Future),
            Action::Age => {
                let effort = if command.amount == Some(0) { Effort::Heuristic } else { Effort::Forced };
                let has_work = match self.baseline {
                    Baseline::V7_2 => true,
                    Baseline::V6_12 => self.may_age_v6_12(lruvec, command.seq, effort, swappiness)?,
                };
                if has_work {
                    self.age(memory, lruvec, swappiness, effort);
                }
            }
            Action::Evict if command.seq.saturating_add(MIN_NR_GENS) > max_seq => return Err(Refusal::Young),
            Action::Evict => {
                scan.priority = 0;
                self.evict_up_to(memory, lruvec, command.seq, (swappiness, command.amount), &mut scan);
            }
        }
        Ok(())
    }

    /// Evicts generations up to `seq`.
    fn evict_up_to(
        &mut self,
        memory: &mut Memory,
        lruvec: LruvecId,
        seq: u64,
        (swappiness, limit): (u32, Option<u64>),
        scan: &mut Scan,
    ) {
        debug_assert!(!self.has_walk_context, "the means of a walk are those of one reclaimer");
        debug_assert!(
            seq + MIN_NR_GENS <= self.generations.get(lruvec).max_seq,
            "the two youngest generations are not evicted"
        );
        let limit = limit.unwrap_or(u64::MAX);
        self.has_walk_context = true;
        while self.generations.get(lruvec).min_evictable(swappiness) <= seq && scan.nr_reclaimed < limit {
            let wanted = (limit - scan.nr_reclaimed).min(BATCH);
            if self.evict_batch(memory, lruvec, wanted, swappiness, Queue::Ignored, scan).scanned == 0 {
                break;
            }
        }
        self.has_walk_context = false;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn commands_are_read_as_the_kernel_reads_them() {
        let command = |action, swappiness, amount| Command { action, group: 1, node: 0, seq: 5, swappiness, amount };
        let table = [
            ("+ 1 0 5", Ok(Some(command(Action::Age, None, None)))),
            ("  -1 0 5", Ok(Some(command(Action::Evict, None, None)))),
            ("- 1 0 5 max 100", Ok(Some(command(Action::Evict, Some(201), Some(100))))),
            ("- 1 0 5 201", Ok(Some(command(Action::Evict, Some(201), None)))),
            ("+ 1 0 5 1 0", Ok(Some(command(Action::Age, Some(1), Some(0))))),
            ("", Ok(None)),
            ("  ", Ok(None)),
            ("- 1 0 5 202", Err(Refusal::Swappiness)),
            ("- 1 0 5 5000000000", Err(Refusal::Swappiness)),
            ("- 1 0", Err(Refusal::Malformed)),
            ("- 1 0 5 60 7 8", Err(Refusal::Malformed)),
            ("- 1 0 -5", Err(Refusal::Malformed)),
            ("* 1 0 5", Err(Refusal::Malformed)),
            ("- 1 0 5 some", Err(Refusal::Malformed)),
        ];
        for (text, expected) in table {
            assert_eq!(Command::parse(text), expected, "{text:?}");
        }
    }
}
