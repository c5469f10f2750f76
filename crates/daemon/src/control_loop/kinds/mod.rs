//! The kinds of sections that the loop runs.

mod compaction;
mod generations;
mod limits;
mod own;
mod switch;

use super::System;
use super::run::LoopError;
use super::section::{Kind, Taking};
use super::trouble::TargetError;
use crate::config::Config;

/// What the loop does with a kind.
pub(super) struct Entry {
    /// Starts its sections.
    pub(super) take: fn(&mut Taking<'_>) -> Result<(), LoopError>,
    /// What they lack on this machine.
    lacks: fn(&Config, &mut dyn System) -> Vec<String>,
    /// What they would do to the machine.
    foretells: fn(&Config, &mut dyn System) -> Vec<String>,
}

const fn kind<K: Kind>() -> Entry {
    Entry {
        take: |taking| taking.take::<K>(),
        lacks: |config, world| K::specs(config).iter().filter_map(|spec| K::lacks(spec, config, world)).collect(),
        foretells: |config, world| K::specs(config).iter().filter_map(|spec| K::foretells(spec, world)).collect(),
    }
}

/// All kinds, in the order of the state's sections. A new kind is a file of this folder, its `mod`, and a line here.
pub(super) const KINDS: &[Entry] = &[
    kind::<generations::GenerationsSection>(),
    kind::<switch::KernelSection>(),
    kind::<limits::LimitsSection>(),
    kind::<compaction::CompactionSection>(),
    kind::<own::OwnSection>(),
];

/// Why sections of a configuration would do nothing on this machine now: a sentence for each. Only reads.
pub fn lacking(config: &Config, world: &mut dyn System) -> Vec<String> {
    KINDS.iter().flat_map(|kind| (kind.lacks)(config, world)).collect()
}

/// What sections of a configuration would do to this machine now, where that can be foretold: a sentence for each. Only reads.
pub fn foretold(config: &Config, world: &mut dyn System) -> Vec<String> {
    KINDS.iter().flat_map(|kind| (kind.foretells)(config, world)).collect()
}

/// Why a section over groups would do nothing now: none of its groups is there, or groups cannot be found.
pub(super) fn without_groups(
    label: &str,
    targets: &[String],
    config: &Config,
    world: &mut dyn System,
) -> Option<String> {
    for target in targets {
        // What is no group is refused with its place where a configuration is read.
        let Ok(pattern) = config.cgroup_of(target, "") else { continue };
        match world.groups(&pattern) {
            Ok(groups) if groups.is_empty() => {}
            Ok(_) => return None,
            Err(why) => return Some(format!("{label}: {why}")),
        }
    }
    Some(format!("{label}: {}", TargetError::none_there("groups", targets)))
}

#[cfg(test)]
mod tests {
    use super::super::section::Watched;
    use super::*;
    use crate::config::GenerationsConfig;
    use isotherm_core::generations::{ReclaimerConfig, ToolConfig};
    use isotherm_units::Instant;

    #[test]
    fn a_section_that_no_kind_carries_out_is_refused() {
        let tool = ToolConfig::Reclaim(ReclaimerConfig::default());
        let section = GenerationsConfig { name: "cold".to_owned(), enable: false, min_ttl: None, tool };
        let config = Config { generations: vec![section], ..Config::default() };
        let taken = |kinds: &[Entry]| {
            let (mut watched, before) = (Watched::default(), Vec::new());
            let mut taking = Taking {
                config: &config,
                now: Instant::START,
                watched: &mut watched,
                before,
                sections: Vec::new(),
                lines: Vec::new(),
            };
            kinds.iter().try_for_each(|kind| (kind.take)(&mut taking))?;
            taking.is_whole()
        };
        assert_eq!(taken(KINDS), Ok(()));
        assert_eq!(taken(&KINDS[1..]), Err(LoopError::NoKind("generations".to_owned())));
    }
}
