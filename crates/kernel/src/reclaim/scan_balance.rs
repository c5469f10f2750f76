//! How much of each list to scan (docs/spec/classic-lru.md#s4 and #s6). Plain numbers in, plain numbers out; all counts are pages.

/// Pages per list and round, and the weight of one page of I/O against one rotated page.
pub const SWAP_CLUSTER_MAX: u64 = 32;
/// Swappiness value that means "anonymous pages only".
pub const SWAPPINESS_ANON_ONLY: u32 = crate::cgroup::proactive::SWAPPINESS_ANON_ONLY;

/// Anonymous pages (and shared memory) or file pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PageType {
    /// Swap-backed.
    Anon,
    /// Everything else.
    File,
}

/// A list of an lruvec. The discriminant is the index into `[u64; 4]` arrays of this module.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Lru {
    /// Cold anonymous pages.
    InactiveAnon = 0,
    /// Hot anonymous pages.
    ActiveAnon = 1,
    /// Cold file pages.
    InactiveFile = 2,
    /// Hot file pages.
    ActiveFile = 3,
}

impl Lru {
    /// All lists in the order in which a round visits them.
    pub const ALL: [Self; 4] = [Self::InactiveAnon, Self::ActiveAnon, Self::InactiveFile, Self::ActiveFile];

    /// Type of the pages on the list.
    pub const fn page_type(self) -> PageType {
        match self {
            Self::InactiveAnon | Self::ActiveAnon => PageType::Anon,
            Self::InactiveFile | Self::ActiveFile => PageType::File,
        }
    }
    /// Whether the list is active.
    pub const fn is_active(self) -> bool {
        matches!(self, Self::ActiveAnon | Self::ActiveFile)
    }
}

/// Active pages per inactive page that are wanted for a type of `total` pages: 1 below 1 GiB, then growing with the root. For a sample,
/// `total` is the number of pages that its pages count for.
pub const fn inactive_ratio(total: u64) -> u64 {
    let gib = total >> (30 - isotherm_units::PAGE_SHIFT);
    if gib == 0 { 1 } else { gib.saturating_mul(10).isqrt() }
}

/// Whether the inactive list is so short that active pages must be deactivated (docs/spec/classic-lru.md#s4). Each page counts for
/// `sample_pages`.
pub const fn inactive_is_low(inactive: u64, active: u64, sample_pages: u64) -> bool {
    let total = inactive.saturating_add(active).saturating_mul(sample_pages);
    inactive.saturating_mul(inactive_ratio(total)) < active
}

/// Cache-trim mode: there are enough cold file pages, so leave anonymous pages alone.
pub const fn cache_trim_mode(inactive_file: u64, priority: u32, may_deactivate_file: bool, disabled: bool) -> bool {
    shift(inactive_file, priority) != 0 && !may_deactivate_file && !disabled
}

/// Whether the page cache of a node is so small that only anonymous pages are worth scanning. Global reclaim only.
/// `file` and `free` are the node's, `sum_high` the sum of its high watermarks.
pub const fn file_is_tiny(
    file: u64,
    free: u64,
    sum_high: u64,
    may_deactivate_anon: bool,
    inactive_anon: u64,
    priority: u32,
) -> bool {
    file.saturating_add(free) <= sum_high && !may_deactivate_anon && shift(inactive_anon, priority) != 0
}

/// Page types that are scanned.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScanMode {
    /// File pages only.
    File,
    /// Anonymous pages only.
    Anon,
    /// Both in full.
    Equal,
    /// Both, divided by swappiness and cost.
    Fraction(Fractions),
}

/// Shares of the two types; the denominator is their sum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fractions {
    /// Numerator for anonymous pages.
    pub anon: u64,
    /// Numerator for file pages.
    pub file: u64,
}

impl Fractions {
    /// Cheaper types are scanned more, file pages more than anonymous ones at swappiness below 100 (spec 6.2). The costs are those of the
    /// lruvec that is reclaimed from; `swappiness` is at most 200.
    pub fn new(swappiness: u32, anon_cost: u64, file_cost: u64) -> Self {
        debug_assert!(swappiness <= 200, "anonymous pages only is a mode of its own");
        let total = u128::from(anon_cost) + u128::from(file_cost);
        let (anon_cost, file_cost) = (total + u128::from(anon_cost), total + u128::from(file_cost));
        let sum = anon_cost + file_cost + 1;
        let part = |weight: u32, cost: u128| u64::try_from(u128::from(weight) * sum / (cost + 1)).unwrap_or(u64::MAX);
        Self { anon: part(swappiness, anon_cost), file: part(200u32.saturating_sub(swappiness), file_cost) }
    }
    /// The sum of both.
    pub const fn denominator(self) -> u64 {
        self.anon + self.file
    }
    /// The share of one type in `scan` pages; rounded up if `round_up` (removed groups).
    pub fn of(self, page_type: PageType, scan: u64, round_up: bool) -> u64 {
        let numerator = match page_type {
            PageType::Anon => self.anon,
            PageType::File => self.file,
        };
        let denominator = self.denominator().max(1);
        // Mostly: wider divisions take long.
        if let Some(product) = scan.checked_mul(numerator) {
            return if round_up { product.div_ceil(denominator) } else { product / denominator };
        }
        let denominator = u128::from(denominator);
        let product = u128::from(scan) * u128::from(numerator);
        let share = if round_up { product.div_ceil(denominator) } else { product / denominator };
        u64::try_from(share).unwrap_or(u64::MAX)
    }
}

/// The inputs of the mode.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanInputs {
    /// 0..=200 or [`SWAPPINESS_ANON_ONLY`].
    pub swappiness: u32,
    /// 12 (gentle) to 0.
    pub priority: u32,
    /// Anonymous pages can go somewhere: swapping is allowed and a slot is free for this group, or demotion works.
    pub can_reclaim_anon: bool,
    /// Reclaim because of a group's limit, not of the whole machine.
    pub cgroup_reclaim: bool,
    /// See [`file_is_tiny`].
    pub file_is_tiny: bool,
    /// See [`cache_trim_mode`].
    pub cache_trim: bool,
    /// Costs of the lruvec that is reclaimed from.
    pub cost: IoCost,
}

impl ScanInputs {
    /// The mode: the first rule of spec 6.1 that holds.
    pub fn mode(&self) -> ScanMode {
        if !self.can_reclaim_anon || (self.cgroup_reclaim && self.swappiness == 0) {
            ScanMode::File
        } else if self.swappiness == SWAPPINESS_ANON_ONLY {
            ScanMode::Anon
        } else if self.priority == 0 && self.swappiness > 0 {
            ScanMode::Equal
        } else if self.file_is_tiny {
            ScanMode::Anon
        } else if self.cache_trim {
            ScanMode::File
        } else {
            ScanMode::Fraction(Fractions::new(self.swappiness, self.cost.anon, self.cost.file))
        }
    }
}

/// Pages to scan of one list (spec 6.3). `offered`: its size after protection (the same as `size` without any); `offline`: its group was
/// removed, so that even small remains are scanned.
pub fn scan_size(lru: Lru, size: u64, offered: u64, priority: u32, mode: ScanMode, offline: bool) -> u64 {
    let mut scan = shift(offered, priority);
    if offline && scan == 0 {
        scan = size.min(SWAP_CLUSTER_MAX);
    }
    match (mode, lru.page_type()) {
        (ScanMode::Equal, _) | (ScanMode::Anon, PageType::Anon) | (ScanMode::File, PageType::File) => scan,
        (ScanMode::Fraction(fractions), page_type) => fractions.of(page_type, scan, offline),
        (ScanMode::Anon, PageType::File) | (ScanMode::File, PageType::Anon) => 0,
    }
}

const fn shift(pages: u64, priority: u32) -> u64 {
    if priority < 64 { pages >> priority } else { 0 }
}

/// The recent cost of reclaiming each type for an lruvec (spec 6.2).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct IoCost {
    /// Cost of anonymous pages.
    pub anon: u64,
    /// Cost of file pages.
    pub file: u64,
}

impl IoCost {
    /// Adds `nr_io` pages of I/O (pages written out, or refaults of working-set pages) and `nr_rotated` pages that were scanned without
    /// being reclaimed. Both costs are halved when they exceed a quarter of `list_pages`, the four lists of the lruvec. Call it for the
    /// lruvec and each ancestor's.
    pub fn note(&mut self, page_type: PageType, nr_io: u64, nr_rotated: u64, list_pages: u64) {
        let cost = nr_io.saturating_mul(SWAP_CLUSTER_MAX).saturating_add(nr_rotated);
        if cost == 0 {
            return;
        }
        match page_type {
            PageType::Anon => self.anon = self.anon.saturating_add(cost),
            PageType::File => self.file = self.file.saturating_add(cost),
        }
        if self.anon.saturating_add(self.file) > list_pages / 4 {
            self.anon /= 2;
            self.file /= 2;
        }
    }
}

/// The loop over the four lists of one lruvec at one priority (spec 6.5).
///
/// Repeat: while [`goes_on`](Self::goes_on), scan [`take`](Self::take) pages of each list in the order of [`Lru::ALL`],
/// then call [`end_round`](Self::end_round).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ScanLoop {
    targets: [u64; 4],
    left: [u64; 4],
    /// Global direct reclaim at priority 12 scans all it planned.
    proportional: bool,
    stopped: bool,
}

impl ScanLoop {
    /// Begins with pages to scan of each list. `proportional`: global direct reclaim at priority 12, which does not stop
    /// early.
    pub const fn new(targets: [u64; 4], proportional: bool) -> Self {
        Self { targets, left: targets, proportional, stopped: false }
    }

    /// Whether another round is due. Active anonymous pages alone do not ask for one.
    pub const fn goes_on(&self) -> bool {
        let wanted = self.left[Lru::InactiveAnon as usize] > 0
            || self.left[Lru::ActiveFile as usize] > 0
            || self.left[Lru::InactiveFile as usize] > 0;
        wanted && !self.stopped
    }

    /// Pages of `lru` to scan in this round; at most 32.
    pub fn take(&mut self, lru: Lru) -> u64 {
        let left = &mut self.left[lru as usize];
        let batch = (*left).min(SWAP_CLUSTER_MAX);
        *left -= batch;
        batch
    }

    /// Pages still to scan of each list.
    pub const fn left(&self) -> [u64; 4] {
        self.left
    }

    /// A round is over and `reclaimed` pages of the wanted `nr_to_reclaim` came together. Once the goal is met, the type
    /// with less left is dropped and the other is scanned to the same percentage.
    pub fn end_round(&mut self, reclaimed: u64, nr_to_reclaim: u64) {
        if reclaimed < nr_to_reclaim || self.proportional {
            return;
        }
        let [inactive_anon, active_anon, inactive_file, active_file] = self.left;
        let (anon, file) = (inactive_anon + active_anon, inactive_file + active_file);
        if anon == 0 || file == 0 {
            self.stopped = true;
            return;
        }
        let (smaller, other, left) = if file > anon { (0, 2, anon) } else { (2, 0, file) };
        let percent = left.saturating_mul(100) / (self.targets[smaller] + self.targets[smaller + 1] + 1);
        self.left[smaller] = 0;
        self.left[smaller + 1] = 0;
        for list in [other, other + 1] {
            debug_assert!(self.left[list] <= self.targets[list], "what is left was planned");
            let done = self.targets[list] - self.left[list];
            let goal = self.targets[list].saturating_mul(100 - percent) / 100;
            self.left[list] = goal.saturating_sub(done);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const GIB: u64 = 1 << 18;

    #[test]
    fn c3_inactive_ratio() {
        let table = [
            (60_000, 202_144, true),  // 60000 * 3 = 180000 < 202144
            (65_536, 196_608, false), // equal
            (100, 101, true),         // ratio 1
            (100, 100, false),
        ];
        for (inactive, active, low) in table {
            assert_eq!(inactive_is_low(inactive, active, 1), low, "{inactive} {active}");
        }
        // 20 000 + 60 000 pages are 0.3 GiB: ratio 1. Each counting for 4 they are 1.2 GiB: ratio 3.
        assert!(inactive_is_low(20_000, 60_000, 1) && !inactive_is_low(20_000, 60_000, 4));
        // The table of section 4: total, ratio, inactive pages at target = total / (ratio + 1).
        let table = [
            (GIB, 3, 65_536),
            (10 * GIB, 10, 238_312),
            (100 * GIB, 31, 819_200),
            (1024 * GIB, 101, 2_631_720),
            (10_240 * GIB, 320, 8_362_475),
        ];
        assert_eq!(inactive_ratio(GIB - 1), 1);
        for (total, ratio, target) in table {
            assert_eq!((inactive_ratio(total), total / (ratio + 1)), (ratio, target), "{total}");
        }
    }

    #[test]
    fn c4_fraction() {
        // (anon cost, file cost, swappiness) -> (ap, fp) -> pages of 256.
        let table = [
            (0, 0, 60, (60, 140), (76, 179)),
            (1000, 0, 60, (89, 419), (44, 211)),
            (0, 1000, 60, (179, 209), (118, 137)),
            (500, 1500, 60, (143, 239), (95, 160)),
            (0, 1000, 100, (299, 149), (170, 85)),
            (1000, 3000, 200, (479, 0), (256, 0)),
        ];
        for (anon, file, swappiness, parts, pages) in table {
            let fractions = Fractions::new(swappiness, anon, file);
            assert_eq!((fractions.anon, fractions.file), parts, "{anon} {file} {swappiness}");
            let scan = [PageType::Anon, PageType::File].map(|page_type| fractions.of(page_type, 256, false));
            assert_eq!(scan, [pages.0, pages.1], "{anon} {file} {swappiness}");
        }
    }

    #[test]
    fn c5_cost_decay() {
        // (before, type, io, rotated, lists, after), costs as (file, anon).
        let table = [
            ((1000, 500), PageType::File, 1, 20, 4000, (526, 250)), // 1052 + 500 > 1000
            ((1000, 500), PageType::Anon, 10, 0, 8000, (1000, 820)), // 1820 <= 2000
            ((900, 100), PageType::File, 0, 24, 4096, (924, 100)),  // 1024 <= 1024
            ((900, 100), PageType::File, 0, 25, 4096, (462, 50)),   // 1025 > 1024
            ((900, 100), PageType::File, 0, 0, 4, (900, 100)),      // nothing noted, no decay
        ];
        for (before, page_type, io, rotated, lists, after) in table {
            let mut cost = IoCost { file: before.0, anon: before.1 };
            cost.note(page_type, io, rotated, lists);
            assert_eq!((cost.file, cost.anon), after, "{page_type:?} {io} {rotated} {lists}");
        }
    }

    #[test]
    fn c9_proportional_stop() {
        let mut scan = ScanLoop::new([100, 50, 400, 200], false);
        let round = |scan: &mut ScanLoop, reclaimed| {
            assert!(scan.goes_on());
            let taken = Lru::ALL.map(|lru| scan.take(lru));
            let left = scan.left();
            scan.end_round(reclaimed, 40);
            (taken, left)
        };
        assert_eq!(round(&mut scan, 20), ([32, 32, 32, 32], [68, 18, 368, 168]));
        // The goal is met after the second round: anon has 36 of 150 left, 36 * 100 / 151 = 23 %.
        assert_eq!(round(&mut scan, 41), ([32, 18, 32, 32], [36, 0, 336, 136]));
        assert_eq!(scan.left(), [0, 0, 244, 90]);
        assert!(scan.goes_on());
        // One type is gone: the next round is the last.
        round(&mut scan, 60);
        assert!(!scan.goes_on());
    }

    #[test]
    fn the_loop_knows_ties_and_what_keeps_it_running() {
        // A tie drops file.
        let mut scan = ScanLoop::new([64, 0, 64, 0], false);
        Lru::ALL.iter().for_each(|&lru| _ = scan.take(lru));
        scan.end_round(40, 32);
        // 32 * 100 / 65 = 49 % left; 64 * 51 / 100 = 32, and 32 are done.
        assert_eq!(scan.left(), [0, 0, 0, 0]);
        assert!(!ScanLoop::new([0, 500, 0, 0], false).goes_on(), "active anon alone");
        let mut scan = ScanLoop::new([64, 0, 64, 0], true);
        Lru::ALL.iter().for_each(|&lru| _ = scan.take(lru));
        scan.end_round(40, 32);
        assert_eq!(scan.left(), [32, 0, 32, 0], "proportional reclaim does not stop early");
    }

    #[test]
    fn c10_cache_trim() {
        assert!(cache_trim_mode(5000, 12, false, false));
        assert!(!cache_trim_mode(4095, 12, false, false));
        assert!(cache_trim_mode(4095, 11, false, false));
        assert!(!cache_trim_mode(5000, 12, true, false), "cold pages are short");
        assert!(!cache_trim_mode(5000, 12, false, true), "tried in vain");
    }

    #[test]
    fn c11_scan_sizes() {
        let size = |priority| scan_size(Lru::InactiveFile, 1_000_000, 1_000_000, priority, ScanMode::Equal, false);
        assert_eq!((size(12), size(6), size(0)), (244, 15_625, 1_000_000));
        let mut scan = ScanLoop::new([0, 0, size(12), 0], false);
        let mut batches = Vec::new();
        while scan.goes_on() {
            batches.push(scan.take(Lru::InactiveFile));
        }
        assert_eq!(batches, [32, 32, 32, 32, 32, 32, 32, 20]);
        let total: u64 = (0..=12).map(size).sum();
        assert!((1_999_000..2_000_000).contains(&total), "about twice the list: {total}");
    }

    #[test]
    fn the_first_rule_that_holds_decides() {
        let plain = ScanInputs {
            swappiness: 60,
            priority: 12,
            can_reclaim_anon: true,
            cgroup_reclaim: false,
            file_is_tiny: false,
            cache_trim: false,
            cost: IoCost::default(),
        };
        let fraction = ScanMode::Fraction(Fractions { anon: 60, file: 140 });
        let table = [
            (plain, fraction),
            (ScanInputs { can_reclaim_anon: false, swappiness: 201, ..plain }, ScanMode::File),
            (ScanInputs { cgroup_reclaim: true, swappiness: 0, ..plain }, ScanMode::File),
            (ScanInputs { swappiness: 0, priority: 0, ..plain }, ScanMode::Fraction(Fractions { anon: 0, file: 200 })),
            (ScanInputs { swappiness: 201, priority: 0, ..plain }, ScanMode::Anon),
            (ScanInputs { priority: 0, file_is_tiny: true, ..plain }, ScanMode::Equal),
            (ScanInputs { file_is_tiny: true, cache_trim: true, ..plain }, ScanMode::Anon),
            (ScanInputs { cache_trim: true, ..plain }, ScanMode::File),
        ];
        for (inputs, mode) in table {
            assert_eq!(inputs.mode(), mode, "{inputs:?}");
        }
        assert!(file_is_tiny(1000, 548, 1548, false, 4096, 12));
        assert!(!file_is_tiny(1000, 549, 1548, false, 4096, 12));
        assert!(!file_is_tiny(1000, 548, 1548, true, 4096, 12));
        assert!(!file_is_tiny(1000, 548, 1548, false, 4095, 12));
    }

    #[test]
    fn a_group_that_is_gone_is_scanned_to_the_end() {
        let fraction = ScanMode::Fraction(Fractions { anon: 60, file: 140 });
        assert_eq!(scan_size(Lru::InactiveAnon, 20, 20, 12, ScanMode::Equal, true), 20);
        assert_eq!(scan_size(Lru::InactiveAnon, 20, 20, 12, ScanMode::Equal, false), 0);
        assert_eq!(scan_size(Lru::InactiveAnon, 1, 1, 12, fraction, true), 1, "60/200 of 1, rounded up");
        assert_eq!(scan_size(Lru::InactiveFile, 9000, 9000, 0, ScanMode::Anon, false), 0);
    }

    proptest! {
        #[test]
        fn fractions_never_exceed_the_whole(swappiness in 0u32..=200, anon: u64, file: u64, scan in 0u64..1 << 48) {
            let fractions = Fractions::new(swappiness, anon, file);
            let sum: u64 = [PageType::Anon, PageType::File].iter().map(|&t| fractions.of(t, scan, false)).sum();
            prop_assert!(sum <= scan && sum + 2 > scan);
        }
        #[test]
        fn a_loop_ends_and_never_scans_more_than_planned(targets: [u16; 4], goal in 0u64..200, proportional: bool) {
            let targets = targets.map(u64::from);
            let mut scan = ScanLoop::new(targets, proportional);
            let (mut scanned, mut rounds) = ([0u64; 4], 0u64);
            while scan.goes_on() {
                for lru in Lru::ALL {
                    scanned[lru as usize] += scan.take(lru);
                }
                rounds += 1;
                scan.end_round(rounds, goal);
                prop_assert!(rounds <= 2 * (65_536 / 32) + 1);
            }
            prop_assert!(scanned.iter().zip(targets).all(|(&scanned, target)| scanned <= target));
        }
    }
}
