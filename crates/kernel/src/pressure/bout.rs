//! A running task that goes in and out of memory stalls, as a thread does that faults under a limit.
//!
//! Other tasks on its processor do not run in between, so the states that hold inside and outside of a stall stay the same two. Their times
//! are summed here, and added to the task's group and its ancestors when another event happens on the processor, or when they are read.

use super::states::TaskState;
use crate::cgroup::CgroupId;
use isotherm_units::Instant;

/// Stalls of one running task after another, with nothing between them.
#[derive(Clone, Debug, Default)]
pub(super) struct Bout {
    /// The task's group, then its ancestors; empty while there is no bout.
    groups: Vec<CgroupId>,
    /// Whether the task is in a stall now.
    inside: bool,
    /// Time of the last change.
    since: Instant,
    /// Spent outside and inside since the bout began, up to `since`.
    ns: [u64; 2],
}

impl Bout {
    /// The running task went in or out of a stall; the groups' times are booked up to now.
    pub(super) fn begin(&mut self, now: Instant, groups: impl Iterator<Item = CgroupId>, to: TaskState) {
        debug_assert!(self.groups.is_empty(), "one bout ends before the next one begins");
        self.groups.extend(groups);
        (self.inside, self.since, self.ns) = (to.memstall, now, [0; 2]);
    }

    /// A running task of `group` goes in or out of a stall. Whether that goes on the bout; then it is booked.
    #[inline]
    pub(super) fn goes_on(&mut self, now: Instant, group: CgroupId, stalled: bool) -> bool {
        if self.inside == stalled || self.groups.first() != Some(&group) {
            return false;
        }
        self.ns[usize::from(self.inside)] += now.since(self.since).ns();
        (self.inside, self.since) = (stalled, now);
        true
    }

    /// Ends the bout, if there is one: the groups whose times are to be booked, lowest first.
    pub(super) fn end(&mut self) -> Option<Ended<'_>> {
        let Self { inside, since, ns, .. } = *self;
        (!self.groups.is_empty()).then(|| Ended { groups: self.groups.drain(..), inside, since, ns })
    }
}

/// The result of a bout.
pub(super) struct Ended<'a> {
    pub(super) groups: std::vec::Drain<'a, CgroupId>,
    /// Whether it ended in a stall.
    pub(super) inside: bool,
    /// Times are known up to here.
    pub(super) since: Instant,
    /// Spent outside and inside.
    pub(super) ns: [u64; 2],
}
