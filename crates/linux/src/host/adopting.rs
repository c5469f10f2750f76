//! Adds processes as targets while the host is running.

use super::{LiveHost, LiveTarget, answer};
use crate::module::Module;
use crate::pagemap::{Categories, pagemap, pagemap_scan};
use crate::process::Process;
use crate::{LiveError, sys};
use isotherm_core::host::{AddressRange, Adopting, HostError, TargetId};

impl Adopting for LiveHost {
    /// Opens the accessed-bit module, unless it is open already.
    fn can_look(&mut self) -> Result<(), HostError> {
        if self.module.is_none() {
            self.module = Some(Module::open(&self.root).map_err(|error| HostError::Failed(error.to_string()))?);
        }
        Ok(())
    }

    fn adopt(&mut self, target: TargetId, process: u32) -> Result<(), HostError> {
        let process = Process::open(&self.root, process).map_err(|error| answer(target, error))?;
        self.add(target, LiveTarget::Process(process));
        Ok(())
    }

    fn dismiss(&mut self, target: TargetId) {
        self.remove(target);
    }

    fn is_as_adopted(&mut self, target: TargetId) -> bool {
        self.is_as_added(target)
    }

    fn present_bytes(&mut self, target: TargetId, range: AddressRange) -> Result<u64, HostError> {
        let process = self.process(target, "present memory is counted for processes")?;
        let count = || -> Result<u64, LiveError> {
            if let Some(regions) = pagemap_scan(process, range, Categories::PRESENT, Categories::default())? {
                return Ok(regions.iter().map(|region| region.end - region.start).sum());
            }
            // Before Linux 6.7.
            let present = pagemap(process, range)?.iter().filter(|entry| entry.is_present()).count() as u64;
            Ok(present.saturating_mul(sys::page_bytes()))
        };
        count().map_err(|error| answer(target, error))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Root;

    #[test]
    fn a_process_is_taken_in_counted_and_let_go() {
        let mut host = LiveHost::new(Root::default());
        let (own, page) = (TargetId(7), sys::page_bytes());
        assert_eq!(host.adopt(TargetId(8), u32::MAX), Err(HostError::Gone(TargetId(8))));
        host.adopt(own, std::process::id()).unwrap();
        assert!(host.is_as_adopted(own) && !host.is_as_adopted(TargetId(9)));
        let memory = vec![1u8; usize::try_from(8 * page).unwrap()];
        let start = (memory.as_ptr() as u64).next_multiple_of(page);
        assert_eq!(host.present_bytes(own, AddressRange::new(start, start + 4 * page)), Ok(4 * page));
        assert_eq!(host.present_bytes(own, AddressRange::new(0, page)), Ok(0));
        host.dismiss(own);
        assert!(!host.is_as_adopted(own));
        assert_eq!(host.present_bytes(own, AddressRange::new(start, start + page)), Err(HostError::Gone(own)));
    }

    #[test]
    fn without_the_module_it_says_so() {
        let folder = tempfile::tempdir().unwrap();
        let refused = LiveHost::new(Root::below(folder.path())).can_look();
        assert!(matches!(refused, Err(HostError::Failed(why)) if why.contains("modprobe isotherm")));
    }
}
