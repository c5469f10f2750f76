//! Metadata of a group record: JSON in the file's metadata under the key `isotherm`. Absent keys take their defaults,
//! unknown keys are ignored.

use serde::{Deserialize, Serialize};

/// The version of the format that this crate writes. Readers refuse later ones.
pub const GROUP_VERSION: u32 = 1;

/// Everything about a group record except its samples.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GroupMeta {
    /// The [`GROUP_VERSION`] that the file was written with.
    pub group_version: u32,
    /// Path of the cgroup as the kernel writes it; `/` is the whole system.
    pub group: String,
    /// The monitored command, or empty.
    pub command: Vec<String>,
    /// Program and version that wrote the file.
    pub created_by: String,
    /// Description of the machine of the recording (architecture, CPU).
    pub host: String,
    /// Release of its kernel, or empty.
    pub kernel: String,
    /// Configured nanoseconds between two samples; 0: not regular.
    pub interval_ns: u64,
    /// Whether transparent huge pages were possible; `None`: not known. A huge page counts as used as a whole.
    pub huge_pages: Option<bool>,
    /// Whether the recording ran to its end. `false`: interrupted or torn; the existing part is valid.
    pub complete: bool,
    /// Number of samples in the file.
    pub looks: u64,
    /// Notes for readers of results.
    pub notes: Vec<String>,
}

impl Default for GroupMeta {
    fn default() -> Self {
        Self {
            group_version: GROUP_VERSION,
            group: String::new(),
            command: Vec::new(),
            created_by: concat!("isotherm ", env!("CARGO_PKG_VERSION")).to_owned(),
            host: String::new(),
            kernel: String::new(),
            interval_ns: 0,
            huge_pages: None,
            complete: false,
            looks: 0,
            notes: Vec::new(),
        }
    }
}
