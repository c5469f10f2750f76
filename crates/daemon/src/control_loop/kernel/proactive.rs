//! kcompactd ahead of demand: `vm.compaction_proactiveness` (docs/spec/compaction.md#s6-3).

use super::settings::{Setting, Tallied, standing, writes};
use super::{Counts, EngineError, Kernel, Line, Standing, System, SystemError, Trouble, Write};
use crate::config::Config;
use crate::control_loop::NodeFree;
use isotherm_core::compaction::{MergedConfig, ScoreMarks};

/// Path of the setting.
pub(in super::super) const PROACTIVENESS: &str = "/proc/sys/vm/compaction_proactiveness";
const COUNTERS: &[&str] = &["compact_daemon_wake", "compact_daemon_migrate_scanned", "compact_daemon_free_scanned"];

/// kcompactd of all nodes.
#[derive(Debug)]
pub(in super::super) struct Proactive {
    settings: [Setting; 1],
    marks: ScoreMarks,
    tallied: Tallied,
    /// State of the nodes when it was switched on.
    before: Vec<NodeFree>,
}

impl Proactive {
    pub(in super::super) fn new(config: &MergedConfig) -> Self {
        let setting = Setting {
            path: PROACTIVENESS,
            value: u32::from(config.proactiveness).to_string(),
            needs: "it needs Linux 5.9 or later with CONFIG_COMPACTION",
        };
        Self {
            settings: [setting],
            marks: config.proactiveness.marks(config.leeway),
            tallied: Tallied::new(COUNTERS),
            before: Vec::new(),
        }
    }
}

impl Kernel for Proactive {
    fn engine(&self) -> &'static str {
        "kernel: kcompactd"
    }

    fn why(&self) -> String {
        let ScoreMarks { low, high } = self.marks;
        format!(
            "`merged` is kcompactd's own design: it starts above score {high} of a node, and stops at {low} of a zone"
        )
    }

    fn targets(&self) -> Vec<String> {
        vec!["all nodes".to_owned()]
    }

    fn follow(&mut self, _: &Config, _: &mut dyn System) -> Vec<Line> {
        Vec::new()
    }

    fn writes(&mut self, world: &mut dyn System) -> Result<Vec<Write>, EngineError> {
        writes(&self.settings, world)
    }

    fn begins(&mut self, world: &mut dyn System) -> Result<(), EngineError> {
        self.tallied.begin(world);
        self.before = world.fragmentation().unwrap_or_default();
        Ok(())
    }

    fn standing(&mut self, world: &mut dyn System) -> Result<Standing, SystemError> {
        standing(&self.settings, world)
    }

    /// Pages that kcompactd scanned prove no effect, so no bytes are reported.
    fn counts(&self, _: bool, world: &mut dyn System) -> Counts {
        let mut words = Vec::new();
        for now in world.fragmentation().unwrap_or_default() {
            let before = self.before.iter().find(|before| before.node == now.node);
            let then = before.map_or_else(String::new, |NodeFree { score, huge_free, .. }| {
                format!(" (when it was switched on: {score} and {huge_free})")
            });
            let NodeFree { node, score, huge_free } = now;
            words.push(format!("node {node}: score {score}, {huge_free} huge pages free{then}"));
        }
        words.extend(self.tallied.grown(world).iter().map(|(name, count)| format!("{name} {count}")));
        Counts { words, ..Counts::default() }
    }

    fn shortcoming(&self, _: &mut dyn System) -> Option<Trouble> {
        (self.marks.high >= 100).then_some(Trouble::NeverStarts)
    }
}
