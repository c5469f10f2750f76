//! Decoded traces, shared by the variants of a scenario.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::SystemTime;

use super::EpochOrder;
use super::held::{HeldRuns, PackedRuns};
use super::script::Outline;
use crate::WorkloadError;

/// Traces that were decoded, and the warnings about them. A store lives as long as the scenario that plays its traces.
///
/// A trace is decoded once, also when several threads ask for it at the same time; each takes up to 1 GiB.
#[derive(Debug)]
pub struct TraceStore {
    /// Longer traces are packed.
    rows_plain_max: u64,
    /// Longer traces are not held.
    rows_held_max: u64,
    slots: Mutex<BTreeMap<Key, Arc<Slot>>>,
    warnings: Mutex<BTreeSet<String>>,
}

/// A file, the marks of a change to it, and how it is decoded.
type Key = (PathBuf, u64, Option<SystemTime>, EpochOrder);

/// Locked while its trace is decoded.
type Slot = Mutex<Option<Arc<Outline>>>;

/// Rows up to which a trace is held as it is played: 256 MiB.
const ROWS_PLAIN_MAX: u64 = 16 << 20;
/// Rows up to which it is held in 8 bytes a row: 1 GiB.
const ROWS_HELD_MAX: u64 = 128 << 20;

impl Default for TraceStore {
    /// Holds traces of up to 128 M rows.
    fn default() -> Self {
        Self::holding(ROWS_PLAIN_MAX, ROWS_HELD_MAX)
    }
}

impl TraceStore {
    /// Holds traces of up to `rows_plain_max` rows, 16 bytes each, and others of up to `rows_held_max` rows, 8 bytes each; longer ones are
    /// decoded while they are played.
    pub fn holding(rows_plain_max: u64, rows_held_max: u64) -> Self {
        Self { rows_plain_max, rows_held_max, slots: Mutex::default(), warnings: Mutex::default() }
    }

    /// Where the runs of a thread of a trace are held; `None` for a trace that is decoded while it is played.
    pub(super) fn room_for(&self, rows: u64) -> Option<HeldRuns> {
        match rows {
            rows if rows <= self.rows_plain_max => Some(HeldRuns::Plain(Arc::default())),
            rows if rows <= self.rows_held_max => Some(HeldRuns::Packed(PackedRuns::default())),
            _ => None,
        }
    }

    /// Warnings about the traces built so far (and, of long ones, played so far), sorted: mappings that had to be
    /// made, events that make no sense.
    pub fn warnings(&self) -> Vec<String> {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).iter().cloned().collect()
    }

    pub(super) fn warn(&self, warnings: impl IntoIterator<Item = String>) {
        self.warnings.lock().unwrap_or_else(PoisonError::into_inner).extend(warnings);
    }

    /// The trace at `path`, read by `read` the first time.
    pub(super) fn outline(
        &self,
        path: &Path,
        order: EpochOrder,
        read: impl FnOnce() -> Result<Outline, WorkloadError>,
    ) -> Result<Arc<Outline>, WorkloadError> {
        let metadata = std::fs::metadata(path).ok();
        let len = metadata.as_ref().map_or(0, std::fs::Metadata::len);
        let key = (path.to_owned(), len, metadata.and_then(|metadata| metadata.modified().ok()), order);
        let slot = {
            let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(slots.entry(key).or_default())
        };
        let mut slot = slot.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(outline) = &*slot {
            return Ok(Arc::clone(outline));
        }
        let outline = Arc::new(read()?);
        *slot = Some(Arc::clone(&outline));
        Ok(outline)
    }
}
