//! Applying schemes: actions on ranges, and the actions that a host can carry out.

use super::HostError;
use crate::vocabulary::{Action, AddressRange, Destination, FilterType, NodeId, PageFilters, TargetId};
use isotherm_units::Duration;
use serde::{Deserialize, Serialize};

/// Carries out the actions of schemes. Calls that a host does not implement answer "not here".
pub trait Applying {
    /// Features of this host for schemes on `target`.
    fn scheme_capabilities(&self, _target: TargetId) -> SchemeCapabilities {
        SchemeCapabilities::default()
    }

    /// Applies one action to the pages of one range of a target that pass the filters.
    ///
    /// | action | target | what is done | bytes |
    /// |---|---|---|---|
    /// | `stat` | both | nothing; the filters are asked for each folio | 0 |
    /// | `willneed`, `cold`, `pageout`, `hugepage`, `nohugepage`, `collapse` | process | `madvise` of that name; the filters are not asked | the whole range if it succeeded, else 0 |
    /// | `pageout` | physical | referenced and young marks cleared, taken off the list (an unevictable folio is put back), reclaimed with writeback, unmapping and swap, never demoted | reclaimed |
    /// | `lru-prio` | both | two lists: an inactive folio goes to the head of its active list, `referenced` stays as it is; an active one stays where it is. Generations: inserted again at the second youngest, with the workingset mark at the youngest | all that passed and are on a list, also where nothing moved |
    /// | `lru-deprio` | physical; of a process it is `cold` | two lists: an active folio goes to the head of the inactive list, active and referenced cleared; an inactive one stays where it is. Generations: references and workingset mark cleared, and unless it is in the oldest already inserted again: file folios and anonymous ones in the swap cache in the oldest, other anonymous ones at the second youngest | all that passed and are on a list, also where nothing moved |
    /// | `migrate-hot`, `migrate-cold` | both | moved to its node, failing rather than reclaiming there; a folio that is there already is left | moved |
    ///
    /// Physical memory is walked folio by folio: a frame without a folio on a list is skipped. The walk continues after each folio: as many
    /// bytes further as the folio has, counted from where it was met. Only folios on a list count.
    ///
    /// # Errors
    /// [`HostError::Gone`]: nothing was done. [`HostError::NotHere`], [`HostError::Failed`]: taken as a try that changed nothing, with the
    /// counts of the filters.
    fn apply(&mut self, _target: TargetId, _order: &mut Order<'_>) -> Result<Applied, HostError> {
        Err(HostError::NotHere("this host applies no schemes"))
    }
}

/// Features of a host for schemes on a target. A scheme that needs more features is refused when it is given.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SchemeCapabilities {
    /// Actions of [`Applying::apply`]. `stat` without page filters needs no host and need not be named.
    pub actions: Vec<Action>,
    /// Actions among them that obey page filters. On Linux all of physical memory, and for a process `stat` and migration.
    pub filtered_actions: Vec<Action>,
    /// Questions about pages that users may ask. `pageout` of physical memory asks `young` in any case, to spare pages that were accessed a
    /// moment ago.
    pub filters: Vec<FilterType>,
}

/// An action to apply to a range, and the results of it.
#[derive(Debug)]
pub struct Order<'a> {
    pub action: Action,
    /// Byte addresses. Ends of regions are aligned to pages, except where a monitor was set to make smaller ones. Then the start
    /// is rounded up to the next page, and the length too.
    pub range: AddressRange,
    /// Pages to treat: each page that [`PageFilters::admit`] lets through, asked once for each folio, and no other. The filter counts pages
    /// that passed; it must be asked only for actions that obey page filters.
    pub filter: &'a mut PageFilters,
    /// The node of a migration of physical memory, and of a process without `destinations`.
    pub target_nid: Option<NodeId>,
    /// The nodes of a migration in a process, by turns: [`choose`](crate::vocabulary::choose) with
    /// [`interleave_index`](crate::vocabulary::interleave_index).
    pub destinations: &'a [Destination],
    /// `lru-prio` marks pages as accessed once (`folio_mark_accessed`, mm/swap.c), in place of moving them: an inactive page
    /// becomes referenced, a referenced one becomes active.
    pub marks_accessed: bool,
    /// The folio visited last in this pass, by any number that the host gives folios; `None` at the start of a pass. A folio that
    /// reaches from one region into the next is to be treated once. The host skips the first folio of a range if it is this one,
    /// and stores here the last one it visited. Physical memory, and `stat` in a process.
    pub last_folio: &'a mut Option<u64>,
}

/// The result of an [`Order`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Applied {
    /// Bytes treated with success, as [`Applying::apply`] says for each action. May exceed the range where folios stick out.
    pub bytes: u64,
    /// CPU time that it took the thread that runs the core. Counts against quotas in time.
    pub spent: Duration,
    /// Bytes that could not be treated, as far as the host knows. Bytes of a process count as treated by advice that succeeded,
    /// and may be counted here too: the kernel's own count does not see that.
    pub untreated: Untreated,
}

/// Bytes of an order's range that could not be treated, by reason. Pages that page filters stop are counted by the filters themselves.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Untreated {
    /// Anonymous memory that was to go where there is no swap.
    pub no_swap: u64,
    /// Anonymous memory that was to go, but swap is full.
    pub swap_full: u64,
    /// Addresses of a process that are not mapped, or were never touched.
    pub nothing_there: u64,
    /// Free memory.
    pub free: u64,
    /// Physical addresses that this machine does not have.
    pub elsewhere: u64,
}

impl Untreated {
    /// All of it.
    pub fn bytes(&self) -> u64 {
        self.by_why().into_iter().fold(0, u64::saturating_add)
    }

    /// All counts, in the order of the fields.
    pub fn by_why(&self) -> [u64; 5] {
        [self.no_swap, self.swap_full, self.nothing_there, self.free, self.elsewhere]
    }

    /// Adds more.
    pub fn join(&mut self, more: Self) {
        let both = [
            (&mut self.no_swap, more.no_swap),
            (&mut self.swap_full, more.swap_full),
            (&mut self.nothing_there, more.nothing_there),
            (&mut self.free, more.free),
            (&mut self.elsewhere, more.elsewhere),
        ];
        both.into_iter().for_each(|(sum, more)| *sum = sum.saturating_add(more));
    }
}
