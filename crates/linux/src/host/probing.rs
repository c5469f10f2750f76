//! Accessed bits, by the kernel module. Data that the kernel keeps by frame comes from `kpageflags` and
//! `kpagecgroup`.

use super::{LiveHost, LiveTarget, answer};
use crate::module::{Look, NEEDS_MODULE};
use crate::sys;
use isotherm_core::host::{Attribute, Capabilities, HostError, Level, Probe, ProbeResult, Probing, TargetId};
use std::fs::File;
use std::os::unix::fs::FileExt as _;

const PHYSICAL: &str = "physical memory has no page table to scan; its frames are looked at one by one";
/// Bits of `kpageflags` (linux/kernel-page-flags.h).
const KPF_ANON: u64 = 1 << 12;
const KPF_NOPAGE: u64 = 1 << 20;

impl Probing for LiveHost {
    fn capabilities(&self, target: TargetId) -> Capabilities {
        let page_shift = u8::try_from(sys::page_bytes().trailing_zeros()).unwrap_or(12);
        match (&self.module, self.targets.get(&target)) {
            (Some(module), Some(LiveTarget::Process(_))) => {
                let shifts = module.shifts().to_vec();
                // If kernel and programs have separate top-level tables, the top-level bits mean nothing.
                let highest = u8::try_from(shifts.len().saturating_sub(2)).unwrap_or(0);
                let scan_children = shifts.len() > 1;
                Capabilities { shifts, highest_level: Level(highest), flush: true, scan_children, rules_out: false }
            }
            (Some(module), Some(LiveTarget::Physical)) => {
                let shifts = module.shifts().to_vec();
                let highest = u8::try_from(shifts.len().saturating_sub(2)).unwrap_or(0);
                let highest_level = Level(highest);
                Capabilities { shifts, highest_level, flush: true, scan_children: false, rules_out: true }
            }
            _ => Capabilities {
                shifts: vec![page_shift],
                highest_level: Level::LEAF,
                flush: false,
                scan_children: false,
                rules_out: false,
            },
        }
    }

    fn clear(&mut self, target: TargetId, probes: &[Probe], results: &mut [ProbeResult]) -> Result<(), HostError> {
        if let LiveTarget::Physical = self.target(target)? {
            let module = self.module.as_ref().ok_or(HostError::NotHere(NEEDS_MODULE))?;
            let cleared = self.physical.clear(&self.root, module, probes, results);
            return cleared.map_err(|error| answer(target, error));
        }
        let (process, module) = self.looked_at(target, PHYSICAL, NEEDS_MODULE)?;
        module.probe(process, probes, Look::Clear, results).map_err(|error| answer(target, error))
    }

    fn test(&mut self, target: TargetId, probes: &[Probe], results: &mut [ProbeResult]) -> Result<(), HostError> {
        if let LiveTarget::Physical = self.target(target)? {
            let module = self.module.as_ref().ok_or(HostError::NotHere(NEEDS_MODULE))?;
            return self.physical.test(module, probes, results).map_err(|error| answer(target, error));
        }
        let (process, module) = self.looked_at(target, PHYSICAL, NEEDS_MODULE)?;
        module.probe(process, probes, Look::Test, results).map_err(|error| answer(target, error))
    }

    fn scan_children(&mut self, target: TargetId, parent: Probe, out: &mut Vec<u64>) -> Result<(), HostError> {
        let (process, module) = self.looked_at(target, PHYSICAL, NEEDS_MODULE)?;
        let shift = module.shifts().get(usize::from(parent.level.0)).copied();
        let (Some(shift), Some(children)) = (shift, parent.level.0.checked_sub(1)) else {
            return Err(HostError::Failed(format!("entries of level {} have no children here", parent.level.0)));
        };
        let start = parent.address >> shift << shift;
        let range = start..start.saturating_add(1 << shift);
        let scanned =
            module.scan(process, range, Level(children), Look::Clear).map_err(|error| answer(target, error))?;
        let words = scanned.young.words().iter().zip(scanned.present.words());
        out.extend(words.map(|(young, present)| young & present));
        Ok(())
    }

    fn flush(&mut self, target: TargetId) -> Result<(), HostError> {
        if let LiveTarget::Physical = self.target(target)? {
            return self.physical.flush(self.module.as_ref().ok_or(HostError::NotHere(NEEDS_MODULE))?);
        }
        let (process, module) = self.looked_at(target, PHYSICAL, NEEDS_MODULE)?;
        module.flush(process).map_err(|error| answer(target, error))
    }

    fn has_attribute(
        &mut self,
        target: TargetId,
        attribute: Attribute,
        addresses: &[u64],
        out: &mut [Option<bool>],
    ) -> Result<(), HostError> {
        let LiveTarget::Physical = self.target(target)? else {
            return Err(HostError::NotHere("attributes are asked of the pages of physical memory, not of a process"));
        };
        let open = |path: &str, needs| File::open(self.root.path(path)).map_err(|_| HostError::NotHere(needs));
        let flags =
            open("/proc/kpageflags", "/proc/kpageflags cannot be read: it needs root and CONFIG_PROC_PAGE_MONITOR")?;
        let groups = match attribute {
            Attribute::Anon => None,
            Attribute::Memcg(_) => {
                Some(open("/proc/kpagecgroup", "/proc/kpagecgroup cannot be read: it needs root and CONFIG_MEMCG")?)
            }
        };
        let page_bytes = sys::page_bytes();
        for (&address, out) in addresses.iter().zip(out) {
            let frame = address / page_bytes;
            let page = number_at(&flags, frame).filter(|flags| flags & KPF_NOPAGE == 0);
            *out = match (attribute, &groups) {
                (Attribute::Memcg(memcg), Some(groups)) => {
                    page.and_then(|_| number_at(groups, frame)).map(|at| at == memcg)
                }
                _ => page.map(|flags| flags & KPF_ANON != 0),
            };
        }
        Ok(())
    }
}

/// The value of a frame in a file with one for each frame; `None` after the end of memory.
fn number_at(file: &File, frame: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, frame.checked_mul(8)?).ok()?;
    Some(u64::from_ne_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Root;

    #[test]
    fn attributes_are_read_by_frame() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::below(folder.path());
        let mut host = LiveHost::new(root.clone());
        let physical = TargetId(3);
        host.add(physical, LiveTarget::Physical);
        let page = sys::page_bytes();
        let addresses = [0, page, 2 * page + 5, 3 * page, u64::MAX];
        let mut out = [Some(true); 5];
        let missing = host.has_attribute(physical, Attribute::Anon, &addresses, &mut out);
        assert!(matches!(missing, Err(HostError::NotHere(needs)) if needs.contains("root")));
        std::fs::create_dir(root.path("/proc")).unwrap();
        let write = |file: &str, numbers: &[u64]| {
            let bytes: Vec<u8> = numbers.iter().flat_map(|number| number.to_ne_bytes()).collect();
            std::fs::write(root.path(file), [&bytes[..], b"rest"].concat()).unwrap();
        };
        write("/proc/kpageflags", &[KPF_NOPAGE, KPF_ANON, 0]);
        host.has_attribute(physical, Attribute::Anon, &addresses, &mut out).unwrap();
        assert_eq!(out, [None, Some(true), Some(false), None, None]);
        write("/proc/kpagecgroup", &[7, 7, 8]);
        host.has_attribute(physical, Attribute::Memcg(7), &addresses, &mut out).unwrap();
        assert_eq!(out, [None, Some(true), Some(false), None, None]);
        let gone = host.has_attribute(TargetId(4), Attribute::Anon, &addresses, &mut out);
        assert_eq!(gone, Err(HostError::Gone(TargetId(4))));
    }
}
