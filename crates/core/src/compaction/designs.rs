//! Designs of proactive compaction, as one table.

use super::Decision;
use super::caller::{Explicit, ExplicitConfig};
use super::controller::{Controller, ControllerConfig};
use super::merged::{Merged, MergedConfig};
use super::rfc::{Rfc, RfcConfig};
use super::run::ZoneReport;
use crate::OutOfRange;
use crate::host::{Compacting, HostError, NodeId};
use isotherm_units::{Duration, Instant};
use serde::{Deserialize, Serialize};

/// Results of one call of [`Compactor::handle_timeout`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Activity {
    /// CPU time that the call took; it has to pass before the next call.
    pub spent: Duration,
    /// The decision, with its inputs. Calls that only go on with a compaction decide nothing.
    pub decision: Option<Decision>,
    /// The zone whose compaction ended in this call; `None` if none did.
    pub report: Option<ZoneReport>,
}

/// A design that runs on one node.
pub trait Compactor: std::fmt::Debug {
    /// When to call [`handle_timeout`](Self::handle_timeout) next; `None`: not until a setting changes.
    fn poll_timeout(&self) -> Option<Instant>;

    /// Does the work that is due at `now`. Earlier calls do nothing; after a long sleep it checks once.
    ///
    /// # Errors
    /// The host's. A compaction under way is given up; the design goes on with its next check.
    fn handle_timeout(&mut self, now: Instant, host: &mut dyn Compacting) -> Result<Activity, HostError>;
}

/// A design with its name; an entry of [`DESIGNS`].
#[derive(Clone, Copy, Debug)]
pub struct DesignEntry {
    /// Name of the design in files, in lower case.
    pub name: &'static str,
    pub summary: &'static str,
    /// Makes the design with its default settings.
    pub make: fn() -> Design,
}

macro_rules! designs {
    ($($type:ident, $config:ident, $name:literal, $summary:literal;)*) => {
        /// A design with its settings.
        #[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
        #[serde(tag = "design")]
        pub enum Design {
            $(
                #[doc = $summary]
                #[serde(rename = $name)]
                $type($config),
            )*
        }

        pub const DESIGNS: &[DesignEntry] = &[
            $(DesignEntry { name: $name, summary: $summary, make: || Design::$type($config::default()) },)*
        ];

        impl Design {
            /// The design's name in files, in lower case.
            pub fn name(&self) -> &'static str {
                match self {
                    $(Self::$type(_) => $name,)*
                }
            }

            /// The design at work on a node from `now` on.
            ///
            /// # Errors
            /// The first invalid setting.
            pub fn start(&self, node: NodeId, now: Instant) -> Result<Box<dyn Compactor + Send>, OutOfRange> {
                Ok(match self {
                    $(Self::$type(config) => Box::new($type::new(config.clone(), node, now)?),)*
                })
            }
        }
    };
}

designs! {
    Rfc, RfcConfig, "rfc", "proactive compaction as first proposed: a low and a high mark for each order";
    Explicit, ExplicitConfig, "explicit", "the original series' last word: somebody calls compact_extfrag(node, zone, order, high, low), here every so often";
    Merged, MergedConfig, "merged", "proactive compaction as the kernel has it: one number, scores of zones and of the node";
    Controller, ControllerConfig, "controller", "ours: as many huge pages as are asked for, only where a yield is predicted";
}
