//! The configuration that `damo record` writes next to a record, as `FILE.kdamonds`: settings that the record itself
//! lacks.

use std::path::Path;

use super::kdamonds::{Context, Kdamonds, read_kdamonds};
use super::{Intervals, RecordMeta, Warning};

/// The configuration; empty if there is none.
#[derive(Debug, Default)]
pub(crate) struct Companion {
    kdamonds: Kdamonds,
    warning: Option<Warning>,
}

impl Companion {
    pub(crate) fn beside(record: &Path) -> Self {
        let mut name = record.as_os_str().to_owned();
        name.push(".kdamonds");
        let path = Path::new(&name);
        if !path.is_file() {
            return Self::default();
        }
        match read_kdamonds(path) {
            Ok((kdamonds, _)) => Self { kdamonds, warning: None },
            Err(error) => {
                let warning = Some(Warning::CompanionUnreadable { why: error.to_string() });
                Self { kdamonds: Kdamonds::default(), warning }
            }
        }
    }

    /// Intervals of the only context. With several contexts, the one of a record without intervals is unknown.
    pub(crate) fn intervals(&self) -> Intervals {
        let mut contexts = self.kdamonds.kdamonds.iter().flat_map(|kdamond| &kdamond.contexts);
        match (contexts.next(), contexts.next()) {
            (Some(only), None) => {
                let known = |time: u64| Some(time).filter(|&time| time > 0);
                Intervals {
                    sample_ns: known(only.intervals.sample_ns),
                    aggregation_ns: known(only.intervals.aggregation_ns),
                    update_ns: known(only.intervals.update_ns),
                }
            }
            _ => Intervals::default(),
        }
    }

    /// Adds its settings to the record's contexts and targets.
    pub(crate) fn complete(&self, meta: &mut RecordMeta) {
        let find = |kdamond: u32, context: u32| -> Option<&Context> {
            self.kdamonds.kdamonds.get(kdamond as usize)?.contexts.get(context as usize)
        };
        for target in &mut meta.targets {
            let context = &meta.contexts[target.context];
            let found = find(context.kdamond, context.context).zip(target.id);
            let found = found.and_then(|(context, id)| context.targets.get(usize::try_from(id).ok()?));
            target.pid = target.pid.or(found.and_then(|found| found.pid));
        }
        for context in &mut meta.contexts {
            let Some(found) = find(context.kdamond, context.context) else { continue };
            context.operations.clone_from(&found.operations);
            context.min_regions = Some(found.min_regions);
            context.max_regions = Some(found.max_regions);
            context.address_unit_bytes = found.address_unit_bytes;
            let goal = found.intervals.goal;
            if context.intervals_goal.is_none() && goal.nr_aggregations > 0 {
                context.intervals_goal = Some(goal);
            }
        }
    }

    pub(crate) fn into_warning(self) -> Option<Warning> {
        self.warning
    }
}
