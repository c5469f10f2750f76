//! Questions of the core about the memory it manages, and requests to it: the narrow interface between decisions and the system, by role.
//!
//! A host implements the roles that it can; a feature asks only for the roles that it needs. Calls are batched: one call per tick and
//! target, not one per address. Addresses are bytes (`u64`) in the space of the target: virtual addresses of a process, or physical
//! addresses. A host charges the CPU time of its calls to the thread that runs the core (in the simulated machine: the kernel thread that
//! monitors).

mod adopting;
mod applying;
mod compacting;
pub mod conformance;
mod error;
mod gauging;
mod generations;
mod limiting;
mod mappings;
mod probing;
mod tiering;

pub use crate::vocabulary::{
    Action, AddressRange, Ageing, Destination, Eviction, FilterType, Flow, Level, Listing, Lruvec, Metric, NodeId,
    PageFilter, PageFilters, PageMarks, PageTest, Probe, ProbeResult, ScanFilter, ScannedPage, Seen, TargetId,
    UnitRange,
};
pub use adopting::Adopting;
pub use applying::{Applied, Applying, Order, SchemeCapabilities, Untreated};
pub use compacting::{
    CompactEnd, CompactMode, CompactStep, Compacted, Compacting, CompactionSignals, Granularity, Stalls, Stop, ZoneId,
    ZoneState,
};
pub use error::HostError;
pub use gauging::{Gauge, GaugeCapabilities, Gauging};
pub use generations::{Answer, GenerationCapabilities, Generational};
pub use limiting::Limiting;
pub use mappings::Mappings;
pub use probing::{Attribute, Capabilities, Probing};
pub use tiering::{Area, AreaKind, MoveOrder, NodeMemory, PageMove, Scanned, TierNode, Tiering, TieringCapabilities};

/// Roles that a monitor with its schemes needs.
pub trait MonitorHost: Probing + Mappings + Applying + Gauging {}
impl<H: Probing + Mappings + Applying + Gauging + ?Sized> MonitorHost for H {}

/// Roles that promotion needs: probes find hot ranges.
pub trait PromotionHost: Tiering + Probing {}
impl<H: Tiering + Probing + ?Sized> PromotionHost for H {}

/// Roles that tools over generations need.
pub trait GenerationsHost: Generational + Gauging {}
impl<H: Generational + Gauging + ?Sized> GenerationsHost for H {}

/// Roles that right-sizing needs: generations only to sort lists.
pub trait LimitsHost: Gauging + Limiting + Generational {}
impl<H: Gauging + Limiting + Generational + ?Sized> LimitsHost for H {}
