//! Kind `kernel-memory`: a kernel at work for programs. It has caches of inodes and dentries that come and go, and buffers that
//! cannot be moved. A few cache objects stay for good and pin their page blocks.

use isotherm_units::access::{
    After, Batch, BlockEffort, BlockKind, BlockRequest, KernelCall, Program, Stream, StreamError,
};
use isotherm_units::{Duration, Instant, Ratio};
use serde::{Deserialize, Serialize};

use crate::chance::{Random, Rng, random, threshold};
use crate::spaces::{Spaces, check_share};
use crate::spec::Kind;
use crate::{BuildContext, WorkloadError};

/// Takes kernel memory bit by bit, as opening many files does, and gives most of the memory back soon.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct KernelMemorySpec {
    /// Allocations in all. Default 100 000.
    pub operations: u64,
    /// Time between two bursts of allocations, asleep. Default 1 ms.
    pub interval: Duration,
    /// Allocations together. Default 16.
    pub burst: u64,
    /// log2 of the pages of an allocation, 0 to 3. Default 0.
    pub order: u32,
    /// Share of the allocations that cannot be moved and that no cache gives back; all others are caches. Default 8 %.
    pub unmovable: Ratio,
    /// Share of the allocations that are never given back. Default 1 %.
    pub immortal: Ratio,
    /// How many of the others of a kind are there at a time, the oldest given back for a new one. Default 4096.
    pub live: u64,
    /// How long it stays after the last. Default 0.
    pub keep: Duration,
}

impl Default for KernelMemorySpec {
    fn default() -> Self {
        Self {
            operations: 100_000,
            interval: Duration::from_ms(1),
            burst: 16,
            order: 0,
            unmovable: Ratio::from_percent(8),
            immortal: Ratio::from_percent(1),
            live: 4096,
            keep: Duration::ZERO,
        }
    }
}

impl Kind for KernelMemorySpec {
    const NAME: &'static str = "kernel-memory";
    const SUMMARY: &'static str =
        "caches and buffers of the kernel that come and go; some stay and pin their page blocks";
    const EXAMPLE: &'static str = "kind = \"kernel-memory\"\noperations = 200000\ninterval = \"1ms\"\nburst = 32\norder = 0\n\
                                   unmovable = \"8%\"\nimmortal = \"1%\"\nlive = 4096\n";

    fn build(&self, context: &BuildContext) -> Result<Program, WorkloadError> {
        let kind = Self::NAME;
        check_share(kind, "unmovable", self.unmovable)?;
        check_share(kind, "immortal", self.immortal)?;
        if self.order > 3 {
            return Err(WorkloadError::field(kind, "order", self.order, "0 to 3"));
        }
        for (field, value) in [("operations", self.operations), ("burst", self.burst)] {
            if value == 0 {
                return Err(WorkloadError::field(kind, field, 0, "1 or more"));
            }
        }
        let stream = Kernel {
            spec: self.clone(),
            unmovable_below: threshold(self.unmovable),
            immortal_below: threshold(self.immortal),
            random: random(context.seed, 0),
            left: self.operations,
            in_burst: 0,
            live: [0; 2],
            due: None,
            is_kept: false,
        };
        Ok(Spaces::new(context.name_or(kind)).into_program(vec![Box::new(stream)]))
    }

    fn depends_on_time(&self) -> Option<String> {
        None
    }
}

struct Kernel {
    spec: KernelMemorySpec,
    unmovable_below: u64,
    immortal_below: u64,
    random: Random,
    left: u64,
    in_burst: u64,
    /// Caches and buffers that will be given back.
    live: [u64; 2],
    /// Kind whose oldest allocation is given back next.
    due: Option<u32>,
    is_kept: bool,
}

/// By kind: the tag of allocations that are given back, and the tag of those that stay.
const TAGS: [[u32; 2]; 2] = [[0, 2], [1, 3]];

impl Stream for Kernel {
    fn next_batch(&mut self, _now: Instant, batch: &mut Batch) -> Result<After, StreamError> {
        if let Some(tag) = self.due.take() {
            return Ok(After::Kernel(KernelCall::Give { tag, count: 1 }));
        }
        if self.left == 0 {
            let keeps = self.spec.keep > Duration::ZERO && !std::mem::replace(&mut self.is_kept, true);
            return Ok(if keeps { After::Sleep(self.spec.keep) } else { After::Finish });
        }
        if self.in_burst == self.spec.burst {
            self.in_burst = 0;
            return Ok(After::Sleep(self.spec.interval));
        }
        self.in_burst += 1;
        self.left -= 1;
        batch.operations = 1;
        let is_unmovable = self.random.next_u64() < self.unmovable_below;
        let stays = self.random.next_u64() < self.immortal_below;
        let of_kind = usize::from(is_unmovable);
        let tag = TAGS[of_kind][usize::from(stays)];
        if !stays {
            self.live[of_kind] += 1;
            if self.live[of_kind] > self.spec.live {
                self.live[of_kind] -= 1;
                self.due = Some(tag);
            }
        }
        Ok(After::Kernel(KernelCall::Take(BlockRequest {
            tag,
            order: self.spec.order,
            kind: if is_unmovable { BlockKind::Unmovable } else { BlockKind::Reclaimable },
            effort: BlockEffort::Normal,
            count: 1,
            failures: 1,
        })))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WorkloadSpec;
    use crate::order::testing::drain_spec;

    #[test]
    fn most_of_it_is_given_back() {
        let spec = KernelMemorySpec { operations: 20_000, live: 100, ..KernelMemorySpec::default() };
        let played = drain_spec(&WorkloadSpec::KernelMemory(spec));
        let (mut taken, mut given) = ([0_i64; 4], [0_i64; 4]);
        for after in &played.afters {
            match after {
                After::Kernel(KernelCall::Take(request)) => {
                    let is_unmovable = request.kind == BlockKind::Unmovable;
                    assert_eq!(request.tag % 2 == 1, is_unmovable);
                    taken[request.tag as usize] += 1;
                }
                After::Kernel(KernelCall::Give { tag, count: 1 }) => given[*tag as usize] += 1,
                After::Sleep(_) | After::Finish => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(taken.iter().sum::<i64>(), 20_000);
        assert_eq!((taken[0] - given[0], taken[1] - given[1], given[2], given[3]), (100, 100, 0, 0));
        // 8 % buffers, 1 % of all for good: within six standard deviations.
        assert!(
            (1370..1830).contains(&(taken[1] + taken[3])) && (110..290).contains(&(taken[2] + taken[3])),
            "{taken:?}"
        );
    }

    #[test]
    fn what_makes_no_sense_is_refused() {
        let said = |spec: KernelMemorySpec| {
            WorkloadSpec::KernelMemory(spec).build(&BuildContext::new(".")).map(|_| ()).unwrap_err().to_string()
        };
        let base = KernelMemorySpec::default;
        assert_eq!(said(KernelMemorySpec { order: 4, ..base() }), "kernel-memory: `order` is 4; allowed: 0 to 3");
        assert_eq!(said(KernelMemorySpec { burst: 0, ..base() }), "kernel-memory: `burst` is 0; allowed: 1 or more");
        assert!(said(KernelMemorySpec { immortal: Ratio::from_percent(101), ..base() }).contains("0% to 100%"));
    }
}
