//! Putting the memory of a machine together.

use super::watermarks::{WatermarkConfig, Watermarks, ZoneSize};
use super::{Files, Frames, Io, Ledger, Memory, MemoryConfig, NodeSetup, Nodes, TieringSetup, Tiers};
use crate::cgroup::Cgroups;
use crate::costs::Costs;
use crate::counters::Counters;
use crate::fault::Flusher;
use crate::mmu::MmuConfig;
use crate::readahead::swap::ClusterReadahead;
use crate::reclaim::driver::ReclaimState;
use crate::swap::Slots;
use crate::swap::device::{Device, DeviceError, DeviceModel};
use isotherm_units::{Instant, Pages};

/// The description of memory.
#[derive(Clone, Debug)]
pub struct MemorySetup {
    /// Nodes. Nodes of at most 2^31 - 2 frames in all.
    pub nodes: Vec<NodeSetup>,
    /// Distances and tiers of the nodes.
    pub tiering: TieringSetup,
    /// How much stays free.
    pub watermarks: WatermarkConfig,
    /// Tunables.
    pub config: MemoryConfig,
    /// The costs.
    pub costs: Costs,
    /// The swap device, and its size in pages (on compressed memory: uncompressed). [`DeviceModel::None`] has no slots for any size.
    pub swap: (DeviceModel, Pages),
    /// The disk under files.
    pub storage: DeviceModel,
}

impl Memory {
    /// Memory in which nothing is used yet. The root group is there; its lruvecs are still to be announced to a policy and to
    /// get their `nonresident_age`.
    ///
    /// # Errors
    /// A device model with a number out of range.
    ///
    /// # Panics
    /// Memory of more than 2^31 - 2 frames.
    pub fn assemble(setup: &MemorySetup) -> Result<Self, DeviceError> {
        let zone = |&managed: &Pages| ZoneSize { managed, movable: false };
        let zones: Vec<Vec<ZoneSize>> = setup.nodes.iter().map(|node| node.zones.iter().map(zone).collect()).collect();
        let marks = Watermarks::new(&setup.watermarks, &zones);
        let nr_frames: u64 = setup.nodes.iter().flat_map(|node| &node.zones).map(|size| size.get()).sum();
        assert!(nr_frames < (1 << 31) - 1, "{nr_frames} frames; page-table entries hold fewer than 2^31 - 1");
        let nr_slots = if setup.swap.0 == DeviceModel::None { 0 } else { setup.swap.1.get() };
        let mut frames = Frames::new(usize::try_from(nr_frames).expect("fewer than 2^31"));
        if setup.config.file_system.is_some_and(|file_system| file_system.order_max(setup.config.release) > 0) {
            frames.keep_folios();
        }
        let mut nodes = Nodes::new(&mut frames, &setup.nodes, &marks);
        nodes.set_promo_watermark(setup.tiering.promo_watermark);
        Ok(Self {
            config: setup.config,
            costs: setup.costs,
            now: Instant::START,
            ledger: Ledger::default(),
            running: None,
            frames,
            kswapd_wanted: vec![false; nodes.len()],
            node_moves: vec![[0; 2]; nodes.len()],
            node_counters: vec![Counters::default(); nodes.len()],
            reclaim: ReclaimState::default(),
            nodes,
            tiers: Tiers::new(&setup.nodes, &setup.tiering),
            spaces: Vec::new(),
            files: Files::default(),
            slots: Slots::new(nr_slots),
            cgroups: Cgroups::new(),
            counters: Counters::default(),
            nonresident_age: Vec::new(),
            io: Io::new(Device::new(setup.swap.0)?, Device::new(setup.storage)?),
            nr_stirs: 0,
            touches: Vec::new(),
            notes_touches: false,
            charged: 0,
            flusher: Flusher::default(),
            cluster_readahead: ClusterReadahead::default(),
            mmu: MmuConfig::default(),
            recent_fault: false,
            premapped: Vec::new(),
            ground_truth: None,
            migration: crate::migrate::Flights::default(),
            compaction: crate::compaction::CompactionConfig::default(),
            high_written: Vec::new(),
            kcompactd_wanted: vec![0; setup.nodes.len()],
            kernel: super::KernelPages::default(),
            blocks_taken: Vec::new(),
        })
    }
}
