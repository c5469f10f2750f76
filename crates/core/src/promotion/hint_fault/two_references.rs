//! Mode 1: a page follows a thread once two faults in a row came from the same node.
//!
//! Source: Linux `kernel/sched/fair.c`, `should_numa_migrate_memory`, without groups of threads of several processes, which the
//! project does not model. A shared fault of a thread without a group moves the page.

use crate::host::NodeId;

/// Sequences in which first and private faults move pages at once.
const EARLY_SEQUENCES: u64 = 4;

/// The last thread that faulted on a page, as far as the page remembers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LastFault {
    /// No fault yet.
    #[default]
    Unset,
    /// The stored value is a time, left by mode 2, and names no processor.
    Invalid,
    /// A thread, by the low 8 bits of its number, on a node.
    By {
        /// The node on which the thread ran.
        node: NodeId,
        /// Low bits of the thread's number. One thread in 256 has the same bits.
        thread: u8,
    },
}

/// The thread that faults now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Faulter {
    /// The node of the processor that the thread runs on.
    pub node: NodeId,
    /// Low 8 bits of the thread's number.
    pub thread: u8,
    /// Whether the thread has a preferred node.
    pub has_preferred_node: bool,
    /// Number of scans of its space so far.
    pub scan_sequence: u64,
}

/// Whether the page moves to the node of the thread that faults. `is_slow`: it is not on the top tier.
pub fn two_references(last: LastFault, now: Faulter, is_slow: bool) -> bool {
    let is_early = !now.has_preferred_node || now.scan_sequence <= EARLY_SEQUENCES;
    match last {
        LastFault::Invalid => !is_slow,
        LastFault::Unset => true,
        LastFault::By { thread, .. } if thread == now.thread && is_early => true,
        LastFault::By { node, .. } => node == now.node,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_moves_at_the_second_fault_from_a_node() {
        let settled = Faulter { node: NodeId(0), thread: 7, has_preferred_node: true, scan_sequence: 5 };
        let young = Faulter { scan_sequence: 4, ..settled };
        let homeless = Faulter { has_preferred_node: false, ..settled };
        let by = |node, thread| LastFault::By { node: NodeId(node), thread };
        let table = [
            (LastFault::Unset, settled, true, "the first fault"),
            (by(0, 9), settled, true, "another thread of the node"),
            (by(1, 9), settled, false, "another node"),
            (by(1, 7), settled, false, "the thread itself, when it ran elsewhere"),
            (by(1, 7), young, true, "the same early on"),
            (by(1, 7), homeless, true, "the same without a preferred node"),
            (by(1, 9), young, false, "another thread elsewhere, early on"),
            (LastFault::Invalid, settled, true, "a page of the top tier that was promoted"),
        ];
        for (last, now, moves, what) in table {
            assert_eq!(two_references(last, now, false), moves, "{what}");
        }
        assert!(!two_references(LastFault::Invalid, settled, true), "a slow page that bears a time");
    }
}
