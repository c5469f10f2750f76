//! Mappings of processes.

use super::{LiveHost, answer};
use crate::maps::maps;
use isotherm_core::host::{AddressRange, HostError, Mappings, TargetId};

impl Mappings for LiveHost {
    fn mappings(&mut self, target: TargetId, out: &mut Vec<AddressRange>) -> Result<(), HostError> {
        let process = self.process(target, "physical memory has no mappings: name its ranges in the configuration")?;
        let mappings = maps(process).map_err(|error| answer(target, error))?;
        out.extend(mappings.iter().map(|mapping| mapping.range));
        Ok(())
    }
}
