//! Generations: read from `lru_gen`, aged and evicted by its commands.

use super::LiveHost;
use crate::{LiveError, lru_gen};
use isotherm_core::host::{Ageing, Answer, Eviction, GenerationCapabilities, Generational, HostError, Listing};

const PAGE_BYTES: u64 = 4096;
const OFF: &str = "the Multi-Gen LRU is off: `echo y > /sys/kernel/mm/lru_gen/enabled` switches it on";
const ABSENT: &str =
    "needs a kernel with CONFIG_LRU_GEN, with debugfs mounted: `mount -t debugfs none /sys/kernel/debug`";

impl Generational for LiveHost {
    fn generation_capabilities(&mut self) -> GenerationCapabilities {
        let is_there = lru_gen::read(&self.root).is_ok();
        let is_on = lru_gen::enabled(&self.root).is_ok_and(|enabled| enabled.core);
        let missing = if !is_there {
            Some(ABSENT)
        } else if !is_on {
            Some(OFF)
        } else {
            None
        };
        GenerationCapabilities { read: is_there, age: is_there && is_on, evict: is_there && is_on, missing }
    }

    fn read_generations(&mut self, out: &mut Vec<Listing>) -> Result<(), HostError> {
        match lru_gen::read(&self.root) {
            Ok(listings) => out.extend(listings),
            Err(LiveError::NotHere { .. }) => return Err(HostError::NotHere(ABSENT)),
            Err(error) => return Err(HostError::Failed(error.to_string())),
        }
        Ok(())
    }

    fn age_generations(&mut self, orders: &[Ageing], answers: &mut Vec<Answer>) {
        for order in orders {
            answers.push(match lru_gen::age(&self.root, order) {
                Ok(()) => Answer::Done { bytes: 0 },
                Err(error) => refusal(error),
            });
        }
    }

    fn evict_generations(&mut self, orders: &[Eviction], answers: &mut Vec<Answer>) {
        for order in orders {
            answers.push(self.evicted(order).unwrap_or_else(refusal));
        }
    }
}

impl LiveHost {
    /// Evicts, and reads back the number of evicted pages, because the kernel does not report it.
    fn evicted(&self, order: &Eviction) -> Result<Answer, LiveError> {
        let before = self.evictable(order)?;
        let is_slow = match lru_gen::evict(&self.root, order) {
            // Later evictions are not counted, because no caller waits for them.
            Err(error) if error.is_slow() => true,
            done => done.map(|()| false)?,
        };
        let left = self.evictable(order)?;
        let gone = before.saturating_sub(left);
        let bytes = gone.saturating_mul(PAGE_BYTES);
        let is_done = !is_slow && (left == 0 || order.limit_pages.is_some_and(|limit| gone >= limit));
        Ok(if is_done { Answer::Done { bytes } } else { Answer::Partly { bytes } })
    }

    /// Pages of the group on the node in generations up to the order's generation, of the types in the order.
    fn evictable(&self, order: &Eviction) -> Result<u64, LiveError> {
        let listings = lru_gen::read(&self.root)?;
        let rows = listings.iter().filter(|listing| listing.lruvec == order.lruvec).flat_map(|listing| &listing.rows);
        let pages = |takes: bool, pages: u64| if takes { pages } else { 0 };
        let sizes = rows.filter(|row| row.seq <= order.min_gen_nr).map(|row| {
            pages(order.swappiness.takes_anon(), row.anon_pages)
                .saturating_add(pages(order.swappiness.takes_file(), row.file_pages))
        });
        Ok(sizes.fold(0, u64::saturating_add))
    }
}

fn refusal(error: LiveError) -> Answer {
    match error {
        LiveError::NotHere { .. } => Answer::NotHere(ABSENT),
        other => Answer::Failed(other.to_string()),
    }
}
