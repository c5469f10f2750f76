//! The modes of the scan daemon: the versions of the series one by one, and our default. One line for each mode in [`MODES`].

use super::target_node::TargetRule;
use crate::vocabulary::PageRule;
use serde::{Deserialize, Serialize};

const MIB: u64 = 1 << 20;
const GIB: u64 = 1 << 30;

/// The numbers and rules of a mode (docs/spec/promotion.md#s1-3). Sizes in bytes, times in milliseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Scan period in milliseconds: the least, the period of a new space, the most.
    pub period_ms: [u64; 3],
    /// Bytes of address space in one scan: the least, the size for a new space, the most.
    pub size: [u64; 3],
    /// A scan with fewer useful pages has found nothing.
    pub ignore_below: u64,
    /// Before that comparison the last scan's count is added, shifted right by this number of bits. `None`: not.
    pub decay_shift: Option<u32>,
    /// Useful pages above `ignore_below` at the end of the budget lift it, to the end of the space in practice.
    pub goes_on: bool,
    /// Milliseconds that a new space waits for its first scan.
    pub scan_delay_ms: u64,
    /// Milliseconds of sleep between two rounds.
    pub sleep_ms: u64,
    /// Pages are moved by a thread of its own, which pauses for this time when its list stops being empty. `None`: by the
    /// scanner, after each scan.
    pub migrate_pause_ms: Option<u64>,
    /// When a page counts as useful.
    pub rule: PageRule,
    /// Pages that are unevictable, shared or on no list are skipped when they are scanned.
    pub skips_unmovable: bool,
    /// A scan of an area ends at the first empty entry.
    pub stops_at_hole: bool,
    /// Huge leaves are split before they are scanned.
    pub splits_huge: bool,
    /// How the node is chosen that a space's pages are promoted to.
    pub target: TargetRule,
    /// No move may bring a node below its high watermark.
    pub keeps_high_watermark: bool,
    /// Only pages among the active ones are moved.
    pub only_active: bool,
    /// Order in which lists of spaces are served.
    pub turn: Turn,
    /// Whether failed moves lengthen the scan period.
    pub feedback: bool,
    /// A space's scale of 1 to 10 stretches its scan period; otherwise only the value 0 has an effect: not scanned.
    pub scale_stretches: bool,
    /// Whether spaces have a scale; otherwise all have the same.
    pub has_scale: bool,
    /// Number of pages that are unmapped under one flush.
    pub together: u32,
    /// Regions with heat and a rotating cursor in place of whole areas in turn.
    pub by_region: bool,
    /// Drops pages that a full or low node refused, and pages that are still queued when the space is scanned again. The scan finds them
    /// again if they are still hot.
    pub drops_stale: bool,
}

/// Order in which the pages of several spaces are moved.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// Pages move in the order in which they were found, over all spaces.
    Found,
    /// One space after the other, each until its list is empty.
    Space,
    /// One batch of a space, then one batch of the next.
    Batch,
}

/// The original series, patch version 0, of December 2024.
const V0: Limits = Limits {
    period_ms: [400, 2000, 5000],
    size: [512 * MIB, 4 * GIB, 16 * GIB],
    ignore_below: 100,
    decay_shift: None,
    goes_on: true,
    scan_delay_ms: 0,
    sleep_ms: 16,
    migrate_pause_ms: None,
    rule: PageRule::FirstAccess,
    skips_unmovable: false,
    stops_at_hole: true,
    splits_huge: true,
    target: TargetRule::Fixed,
    keeps_high_watermark: false,
    only_active: false,
    turn: Turn::Found,
    feedback: false,
    scale_stretches: false,
    has_scale: false,
    together: 1,
    by_region: false,
    drops_stale: false,
};

/// March 2025: section 2.1.
const V1: Limits = Limits {
    period_ms: [500, 2000, 5000],
    size: [256 * MIB, GIB, 4 * GIB],
    ignore_below: 256,
    decay_shift: Some(4),
    goes_on: false,
    scan_delay_ms: 1000,
    // 20 ms fixed and 20 ms of waiting.
    migrate_pause_ms: Some(40),
    skips_unmovable: true,
    stops_at_hole: false,
    target: TargetRule::MostScanned,
    keeps_high_watermark: true,
    has_scale: true,
    ..V0
};

/// June 2025: section 2.2.
const V2: Limits = Limits {
    period_ms: [600, 2000, 5000],
    sleep_ms: 20,
    migrate_pause_ms: Some(20),
    only_active: true,
    turn: Turn::Space,
    ..V1
};

/// August 2025: section 2.3. Its shortest period and its threshold are not verified; V2's are taken, as in docs/spec/promotion.md.
const V3: Limits = Limits {
    rule: PageRule::SecondAccess,
    only_active: false,
    target: TargetRule::MostAccessed,
    feedback: true,
    scale_stretches: true,
    ..V2
};

/// Ours: section 3.2, with V0's bounds and threshold, and the improvements of later versions that proved right.
const RCH: Limits = Limits {
    migrate_pause_ms: Some(20),
    rule: PageRule::TwoIntervals,
    skips_unmovable: true,
    stops_at_hole: false,
    splits_huge: false,
    goes_on: false,
    target: TargetRule::MostAccessedWithRoom,
    keeps_high_watermark: true,
    turn: Turn::Batch,
    feedback: true,
    scale_stretches: true,
    has_scale: true,
    together: 512,
    by_region: true,
    drops_stale: true,
    ..V0
};

/// A mode with its name and numbers; an entry of [`MODES`].
#[derive(Clone, Copy, Debug)]
pub struct ModeEntry {
    pub mode: Mode,
    /// Name of the mode in files, in lower case.
    pub name: &'static str,
    pub summary: &'static str,
    /// The numbers and rules of the mode.
    pub limits: Limits,
}

macro_rules! modes {
    ($($(#[$attribute:meta])* $mode:ident, $name:literal, $limits:expr, $summary:literal;)*) => {
        /// How the scan daemon decides.
        #[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
        pub enum Mode {
            $($(#[$attribute])* #[doc = $summary] #[serde(rename = $name)] $mode,)*
        }

        pub const MODES: &[ModeEntry] =
            &[$(ModeEntry { mode: Mode::$mode, name: $name, summary: $summary, limits: $limits },)*];
    };
}

modes! {
    V0, "v0", V0, "patch version 0: first access promotes, whole areas in turn, one thread, one fixed node";
    V1, "v1", V1, "patch version 1: a thread that moves, decay of counts, a node by where pages are, a watermark";
    V2, "v2", V2, "patch version 2: a list a space, only what stands among the active is moved";
    V3, "v3", V3, "patch version 3: second access promotes, failed moves stretch the period";
    #[default] Rch, "rch", RCH, "a rotating cursor and heat of regions: no part of a space waits longer than a minute";
}

impl Mode {
    /// The entry of this mode in [`MODES`].
    pub fn entry(self) -> &'static ModeEntry {
        MODES.iter().find(|entry| entry.mode == self).expect("every mode has its line")
    }

    /// The numbers and rules of the mode.
    pub fn limits(self) -> Limits {
        self.entry().limits
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn modes_have_the_numbers_of_their_postings() {
        // docs/spec/promotion.md#s1-3: (mode, periods, sizes in MiB, threshold, decay, sleep, delay).
        type Row = (Mode, [u64; 3], [u64; 3], u64, Option<u32>, u64, u64);
        let table: [Row; 5] = [
            (Mode::V0, [400, 2000, 5000], [512, 4096, 16384], 100, None, 16, 0),
            (Mode::V1, [500, 2000, 5000], [256, 1024, 4096], 256, Some(4), 16, 1000),
            (Mode::V2, [600, 2000, 5000], [256, 1024, 4096], 256, Some(4), 20, 1000),
            (Mode::V3, [600, 2000, 5000], [256, 1024, 4096], 256, Some(4), 20, 1000),
            (Mode::Rch, [400, 2000, 5000], [512, 4096, 16384], 100, None, 16, 0),
        ];
        for (mode, period_ms, size_mib, ignore_below, decay, sleep_ms, delay_ms) in table {
            let limits = mode.limits();
            assert_eq!((limits.period_ms, limits.size.map(|size| size / MIB)), (period_ms, size_mib), "{mode:?}");
            assert_eq!((limits.ignore_below, limits.decay_shift), (ignore_below, decay), "{mode:?}");
            assert_eq!((limits.sleep_ms, limits.scan_delay_ms), (sleep_ms, delay_ms), "{mode:?}");
        }
    }
}
