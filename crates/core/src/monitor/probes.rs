//! Attribute probes: which share of a region has some attribute, estimated from the samples (docs/spec/monitoring.md#s12).

use super::region::PROBES_MAX;
use super::target::Target;
use crate::host::{Attribute, HostError, MonitorHost};
use serde::{Deserialize, Serialize};

/// A question asked of the page at each sampled address: `probe_hits` counts how often it passed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct AttributeProbe {
    /// The first that matches decides. None at all: every page passes.
    pub filters: Vec<ProbeFilter>,
}

/// One filter of an [`AttributeProbe`]; the first that matches decides.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct ProbeFilter {
    /// Attribute of the page that is tested. A page that is not there has no attribute.
    pub attribute: Attribute,
    /// Matches pages that have the attribute (`true`) or have it not.
    pub matching: bool,
    /// Pages that match pass (`true`) or fail.
    pub allow: bool,
}

impl AttributeProbe {
    /// Whether a page passes, `has[i]` saying whether it has the attribute of filter `i`.
    fn passes(&self, has: impl Iterator<Item = bool>) -> bool {
        let decision = self.filters.iter().zip(has).find(|(filter, has)| *has == filter.matching);
        match (decision, self.filters.last()) {
            (Some((filter, _)), _) => filter.allow,
            // A page that no filter matches is treated as the opposite of the last filter.
            (None, Some(last)) => !last.allow,
            (None, None) => true,
        }
    }
}

/// Buffers of [`evaluate`].
#[derive(Clone, Debug, Default)]
pub(crate) struct ProbeBuffers {
    addresses: Vec<u64>,
    answers: Vec<Option<bool>>,
}

/// Counts the probes that pass at the sampled addresses of `target`, one call to the host for each filter.
pub(crate) fn evaluate(
    probes: &[AttributeProbe],
    target: &mut Target,
    host: &mut dyn MonitorHost,
    buffers: &mut ProbeBuffers,
) -> Result<(), HostError> {
    let nr_regions = target.regions.len();
    debug_assert_eq!(
        target.probes.len(),
        target.doubted.len() + nr_regions,
        "companions come first, then one probe a region"
    );
    let sampled = &target.probes[target.probes.len() - nr_regions..];
    let ProbeBuffers { addresses, answers } = buffers;
    addresses.clear();
    addresses.extend(sampled.iter().map(|probe| probe.address));
    for (index, probe) in probes.iter().enumerate().take(PROBES_MAX) {
        answers.clear();
        for (filter, row) in probe.filters.iter().zip((0..).step_by(nr_regions.max(1))) {
            answers.resize(row + nr_regions, None);
            host.has_attribute(target.id, filter.attribute, addresses, &mut answers[row..])?;
        }
        for (column, region) in target.regions.iter_mut().enumerate() {
            let has = answers.iter().skip(column).step_by(nr_regions).map(|answer| answer.unwrap_or(false));
            region.probe_hits[index] += u32::from(probe.passes(has));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// docs/spec/monitoring.md#s17, examples 48 and 49: a page that is anonymous, of a file, absent.
    #[test]
    fn the_first_filter_that_matches_decides() {
        let filter = |matching, allow| ProbeFilter { attribute: Attribute::Anon, matching, allow };
        let table = [(48, filter(true, true), [true, false, false]), (49, filter(false, false), [true, false, false])];
        for (example, filter, expected) in table {
            let probe = AttributeProbe { filters: vec![filter] };
            for (has, expected) in [true, false, false].into_iter().zip(expected) {
                assert_eq!(probe.passes([has].into_iter()), expected, "example {example}");
            }
        }
        assert!(AttributeProbe::default().passes(std::iter::empty()), "without filters every page passes");
    }
}
