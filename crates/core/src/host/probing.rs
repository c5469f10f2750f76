//! Probing: accessed bits of page tables and attributes of pages.

use super::HostError;
use crate::vocabulary::{Level, Probe, ProbeResult, TargetId};
use serde::{Deserialize, Serialize};

/// Bytes of a base page, as a power of two.
const PAGE_SHIFT: u8 = 12;
const NO_LOOKS: &str = "this host does not look at accessed bits";

/// Reads accessed bits, entry by entry or table by table. Calls that a host does not implement answer "not here".
pub trait Probing {
    /// Features of this host for monitors of `target`. By default the host has base pages and reads none.
    fn capabilities(&self, _target: TargetId) -> Capabilities {
        Capabilities {
            shifts: vec![PAGE_SHIFT],
            highest_level: Level(0),
            flush: false,
            scan_children: false,
            rules_out: false,
        }
    }

    /// Clears the accessed bit of each probed entry. `results[i]` holds the bit's old state, as far as the host read it. `results` has the
    /// length of `probes`.
    ///
    /// # Errors
    /// [`HostError::Gone`], [`HostError::NotHere`]; then nothing was cleared.
    fn clear(&mut self, _target: TargetId, _probes: &[Probe], _results: &mut [ProbeResult]) -> Result<(), HostError> {
        Err(HostError::NotHere(NO_LOOKS))
    }

    /// Reads the accessed bit of each probed entry and leaves it as it is, so that two probes of one entry see the same.
    /// `results` has the length of `probes`.
    ///
    /// # Errors
    /// [`HostError::Gone`], [`HostError::NotHere`]; then no result is valid.
    fn test(&mut self, _target: TargetId, _probes: &[Probe], _results: &mut [ProbeResult]) -> Result<(), HostError> {
        Err(HostError::NotHere(NO_LOOKS))
    }

    /// Tests the entries that the last [`clear`](Self::clear) for this target cleared, without reading each, if the host knows which pages
    /// were accessed since. `probes` are the probes of that clear, in the same order. `true`: all that a [`test`](Self::test) costs and
    /// counts is booked. It would find accessed the probes whose places are appended to `accessed`, each once. All others that the clear
    /// found accessed it would find idle, and the rest as the clear found them. `false`: nothing was done; test them. A host that does not
    /// know this need not implement it.
    ///
    /// # Errors
    /// [`HostError::Gone`], [`HostError::NotHere`].
    fn test_known(
        &mut self,
        _target: TargetId,
        _probes: &[Probe],
        _accessed: &mut Vec<usize>,
    ) -> Result<bool, HostError> {
        Ok(false)
    }

    /// Reads and clears the accessed bits of all entries one level below the entry at `parent`, in one pass over its table.
    /// Appends one bit per child, in address order, 64 per word. A child that is not mapped reads as clear.
    ///
    /// # Errors
    /// [`HostError::Gone`], [`HostError::NotHere`].
    fn scan_children(&mut self, _target: TargetId, _parent: Probe, _out: &mut Vec<u64>) -> Result<(), HostError> {
        Err(HostError::NotHere("this host does not look at whole tables"))
    }

    /// Drops the cached translations of `target`, so that the next access to any page walks the table from the top.
    ///
    /// # Errors
    /// [`HostError::Gone`], [`HostError::NotHere`].
    fn flush(&mut self, _target: TargetId) -> Result<(), HostError> {
        Err(HostError::NotHere("this host does not drop translations"))
    }

    /// For each address whether its page has `attribute`; `None` if there is no page. Physical memory only. `out` has the length of
    /// `addresses`.
    ///
    /// # Errors
    /// [`HostError::NotHere`] for virtual targets.
    fn has_attribute(
        &mut self,
        _target: TargetId,
        _attribute: Attribute,
        _addresses: &[u64],
        _out: &mut [Option<bool>],
    ) -> Result<(), HostError> {
        Err(HostError::NotHere("this host does not tell attributes of pages"))
    }
}

/// Features of a host for monitors. The core plans with it and never asks for more.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// log2 of the bytes that an entry spans, from the base page up, ascending: `[12, 21, 30, 39]` for four levels on
    /// x86-64. Levels outside it do not exist.
    pub shifts: Vec<u8>,
    /// The highest level whose accessed bit is meaningful: 0 if hardware sets no bits above the leaf, one below the top if user and kernel
    /// halves have separate top tables.
    pub highest_level: Level,
    /// Whether [`Probing::flush`] does anything.
    pub flush: bool,
    /// Whether [`Probing::scan_children`] works here.
    pub scan_children: bool,
    /// Whether entries above the leaf can only rule pages out, like those of physical memory. An upper entry covers unrelated page frames,
    /// so its bit can prove that a frame was not used there, but never that it was. A probe at an upper level then clears the leaves that
    /// map the page and all entries above them up to that level. A test reads the entries from the top, and reads a leaf only if all
    /// entries above it were set. The answer is the leaf's bit. Source: docs/spec/page-table-profiling.md#s7-3.
    pub rules_out: bool,
}

impl Capabilities {
    /// Four levels of x86-64 whose accessed bits are all meaningful, and nothing else.
    pub fn four_levels() -> Self {
        Self {
            shifts: vec![12, 21, 30, 39],
            highest_level: Level(3),
            flush: false,
            scan_children: false,
            rules_out: false,
        }
    }

    /// Bytes spanned by an entry at `level`; `None` above the top.
    pub fn span(&self, level: Level) -> Option<u128> {
        self.shifts.get(usize::from(level.0)).map(|shift| 1 << shift)
    }
}

/// A kind of page that an attribute probe may ask for (docs/spec/monitoring.md#s12).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Attribute {
    /// The page is anonymous.
    Anon,
    /// The page is charged to the memory cgroup of this number, from [`Gauging::memcg`](super::Gauging::memcg).
    Memcg(u64),
}
