//! Accessed memory by `clear_refs` and `smaps`: one number for each mapping. Both lock the address space for the walk, and clearing
//! erases marks that reclaim uses, so sweeps are rate-limited (docs/spec/live-linux.md#1-interfaces-that-show-accesses-or-page-state).
//!
//! Reading a process's memory by `process_vm_readv` counts as an access here: never do both in one sampling window. TLBs are not flushed,
//! so the small part of memory whose translations stay cached appears unused.

use crate::LiveError;
use crate::process::Process;
use crate::smaps::{SmapsArea, smaps};
use isotherm_core::host::AddressRange;
use isotherm_units::{Duration, Instant};

/// Marks that are cleared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClearedPages {
    #[default]
    All,
    /// Only anonymous memory.
    Anonymous,
    /// Only file mappings.
    Files,
}

impl ClearedPages {
    /// Text that is written to `clear_refs`.
    const fn kind(self) -> &'static str {
        match self {
            Self::All => "1",
            Self::Anonymous => "2",
            Self::Files => "3",
        }
    }
}

/// Bytes of memory in base pages that may be swept once a second.
const BYTES_A_SECOND: u64 = 4 << 30;
/// Factor by which pages under huge leaves are cheaper to walk: 512 pages an entry, measured 54 ms and 0.35 ms for 4 GiB.
const HUGE_DISCOUNT: u64 = 128;

/// Shortest time between the starts of two sweeps of this amount of memory: a second for each 4 GiB of small pages, and never less than a
/// second.
pub fn sweep_interval(resident_bytes: u64, huge_bytes: u64) -> Duration {
    let huge = huge_bytes.min(resident_bytes);
    let weight = resident_bytes - huge + huge / HUGE_DISCOUNT;
    let ns = u128::from(weight) * 1_000_000_000 / u128::from(BYTES_A_SECOND);
    Duration::from_ns(u64::try_from(ns).unwrap_or(u64::MAX).max(1_000_000_000))
}

/// Result for one mapping.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Referenced {
    pub range: AddressRange,
    pub resident_bytes: u64,
    /// Bytes accessed since the last sweep; for the first sweep, since an unknown time.
    pub referenced_bytes: u64,
}

/// Sweeps one process, within the rate limit.
#[derive(Clone, Debug, Default)]
pub struct ClearRefs {
    pages: ClearedPages,
    /// The earliest time of the next sweep.
    next: Option<Instant>,
    nr_sweeps: u64,
}

impl ClearRefs {
    /// A source without a sweep so far.
    pub fn new(pages: ClearedPages) -> Self {
        Self { pages, ..Self::default() }
    }

    /// The earliest time at which [`sweep`](Self::sweep) sweeps; `None` before the first.
    pub fn due(&self) -> Option<Instant> {
        self.next
    }

    /// Number of sweeps that cleared marks so far. The first sweep finds accesses from before any interval.
    pub fn nr_sweeps(&self) -> u64 {
        self.nr_sweeps
    }

    /// Reads the pages accessed since the last sweep and clears the marks; `None` if it is too early.
    ///
    /// # Errors
    /// [`LiveError::Gone`], [`LiveError::Refused`], [`LiveError::Io`], [`LiveError::Strange`].
    pub fn sweep(&mut self, process: &Process, now: Instant) -> Result<Option<Vec<Referenced>>, LiveError> {
        if self.next.is_some_and(|next| now < next) {
            return Ok(None);
        }
        let areas = smaps(process)?;
        process.write("clear_refs", self.pages.kind())?;
        self.nr_sweeps += 1;
        let sum = |bytes: fn(&SmapsArea) -> u64| areas.iter().map(bytes).fold(0, u64::saturating_add);
        let interval = sweep_interval(sum(|area| area.resident_bytes), sum(|area| area.huge_bytes));
        self.next = Some(now + interval);
        let referenced = |area: &SmapsArea| Referenced {
            range: area.mapping.range,
            resident_bytes: area.resident_bytes,
            referenced_bytes: area.referenced_bytes,
        };
        Ok(Some(areas.iter().map(referenced).collect()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn large_memory_is_swept_less_often() {
        let seconds = |resident: u64, huge: u64| sweep_interval(resident << 30, huge << 30).ns() / 1_000_000_000;
        assert_eq!([seconds(0, 0), seconds(4, 0), seconds(8, 0), seconds(64, 0)], [1, 1, 2, 16]);
        assert_eq!((seconds(64, 64), seconds(64, 99)), (1, 1), "huge pages are walked at a hundredth");
        assert!(sweep_interval(u64::MAX, 0) > Duration::from_ns(1_000_000_000));
        let kinds = [ClearedPages::All, ClearedPages::Anonymous, ClearedPages::Files].map(ClearedPages::kind);
        assert_eq!(kinds, ["1", "2", "3"]);
    }
}
