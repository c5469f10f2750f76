//! A host with generations for tests: pages by group, and whether each is used.

use super::{Ageing, Eviction};
use crate::host::{Answer, Gauge, Gauging, GenerationCapabilities, Generational, HostError, NodeId};
use crate::vocabulary::{GenerationRow, Listing, Lruvec, pages_of};
use isotherm_units::{Instant, PAGE_BYTES};

/// A group: pages that are used all the time, and pages that never are.
#[derive(Clone, Debug)]
pub(crate) struct FakeGroup {
    pub(crate) path: &'static str,
    pub(crate) hot: u64,
    /// Pages by generation, oldest first, of all but the hot ones; the hot ones are in the second youngest.
    pub(crate) idle: [u64; 4],
    births: [Instant; 4],
    pub(crate) max_seq: u64,
    /// Number of requested pages that cannot be evicted.
    pub(crate) stuck: u64,
    /// Refaults of this group only; the host's `refault_bytes` are added for the first group.
    pub(crate) refault_bytes: u64,
}

#[derive(Clone, Debug, Default)]
pub(crate) struct FakeHost {
    pub(crate) now: Instant,
    pub(crate) groups: Vec<FakeGroup>,
    pub(crate) stall_us: u64,
    pub(crate) refault_bytes: u64,
    pub(crate) evictions: Vec<Eviction>,
    pub(crate) ageings: Vec<Ageing>,
    /// The host has no generations.
    pub(crate) is_classic: bool,
    /// Reading them fails.
    pub(crate) is_failing: bool,
    /// The host has no gauges.
    pub(crate) is_blind: bool,
}

impl FakeHost {
    /// A group whose pages were all there from the beginning.
    pub(crate) fn add(&mut self, path: &'static str, hot: u64, idle: u64) {
        let births = [self.now; 4];
        self.groups.push(FakeGroup {
            path,
            hot,
            idle: [0, 0, idle, 0],
            births,
            max_seq: 3,
            stuck: 0,
            refault_bytes: 0,
        });
    }

    fn listing(&self, memcg: usize) -> Listing {
        let group = &self.groups[memcg];
        let rows = (0..4).map(|index| GenerationRow {
            seq: group.max_seq - 3 + index as u64,
            age_ms: self.now.since(group.births[index]).ns() / 1_000_000,
            anon_pages: group.idle[index] + if index == 2 { group.hot } else { 0 },
            file_pages: 0,
        });
        Listing {
            lruvec: Lruvec { memcg: memcg as u64, node: NodeId(0) },
            path: group.path.to_owned(),
            rows: rows.collect(),
        }
    }
}

impl Generational for FakeHost {
    fn generation_capabilities(&mut self) -> GenerationCapabilities {
        let is_here = !self.is_classic;
        GenerationCapabilities {
            read: is_here,
            age: is_here,
            evict: is_here,
            missing: self.is_classic.then_some("needs mglru"),
        }
    }

    fn read_generations(&mut self, out: &mut Vec<Listing>) -> Result<(), HostError> {
        if self.is_classic {
            return Err(HostError::NotHere("needs mglru"));
        }
        if self.is_failing {
            return Err(HostError::Failed("EINTR".to_owned()));
        }
        out.extend((0..self.groups.len()).map(|memcg| self.listing(memcg)));
        Ok(())
    }

    fn age_generations(&mut self, orders: &[Ageing], answers: &mut Vec<Answer>) {
        for order in orders {
            self.ageings.push(*order);
            let now = self.now;
            let index = usize::try_from(order.lruvec.memcg).expect("small");
            let Some(group) = self.groups.get_mut(index).filter(|group| order.max_gen_nr <= group.max_seq) else {
                answers.push(Answer::Failed("EINVAL: no such group or generation".to_owned()));
                continue;
            };
            // Pages in use are found again; the rest grows older by one.
            let [oldest, second, third, new] = group.idle;
            group.idle = [oldest + second, third, new, 0];
            group.births = [group.births[1], group.births[2], group.births[3], now];
            group.max_seq += 1;
            answers.push(Answer::Done { bytes: 0 });
        }
    }

    fn evict_generations(&mut self, orders: &[Eviction], answers: &mut Vec<Answer>) {
        for order in orders {
            self.evictions.push(*order);
            let listing = self.listing(usize::try_from(order.lruvec.memcg).expect("small"));
            let group = &mut self.groups[usize::try_from(order.lruvec.memcg).expect("small")];
            if order.min_gen_nr + 2 > group.max_seq {
                answers.push(Answer::Failed("EINVAL: two generations stay".to_owned()));
                continue;
            }
            let mut left = order.limit_pages.unwrap_or(u64::MAX);
            let mut freed = 0;
            let nr_old = listing.rows.iter().filter(|row| row.seq <= order.min_gen_nr).count();
            for pages in &mut group.idle[..nr_old] {
                let taken = left.min(pages.saturating_sub(group.stuck));
                *pages -= taken;
                left -= taken;
                freed += taken;
            }
            let remains = pages_of(&self.listing(usize::try_from(order.lruvec.memcg).expect("small")).rows[..nr_old]);
            let bytes = freed * PAGE_BYTES;
            answers.push(if remains == 0 || left == 0 { Answer::Done { bytes } } else { Answer::Partly { bytes } });
        }
    }
}

impl Gauging for FakeHost {
    fn gauges(&mut self, gauges: &[Gauge], values: &mut [Option<u64>]) -> Result<(), HostError> {
        if self.is_blind {
            return Err(HostError::NotHere("no gauges"));
        }
        for (gauge, value) in gauges.iter().zip(values) {
            *value = match gauge {
                Gauge::StallSomeUs => Some(self.stall_us),
                Gauge::RefaultBytes { memcg } => {
                    let group = usize::try_from(*memcg).ok().and_then(|index| self.groups.get(index));
                    let common = if *memcg == 0 { self.refault_bytes } else { 0 };
                    group.map(|group| group.refault_bytes + common)
                }
                _ => None,
            };
        }
        Ok(())
    }

    fn memcg(&self, path: &str) -> Option<u64> {
        self.groups.iter().position(|group| group.path == path).map(|index| index as u64).or((path == "/").then_some(0))
    }
}
