//! Accessed bits for the recording of running processes: the accessed-bit module, and `/proc`.

use std::collections::BTreeMap;

use isotherm_core::host::Level;
use isotherm_linux::{
    Family, LiveError, Look, Mapping, Member, Module, Process, Root, maps, page_bytes, process_cpu_time,
};
use isotherm_recorder::{BitScanner, Bits, Change, LookError, Who};
use isotherm_trace::{MapKind, MapRange};
use isotherm_units::Duration;

/// Scans all members of a family.
#[derive(Debug)]
pub(crate) struct LiveScanner {
    root: Root,
    module: Module,
    family: Family,
    known: BTreeMap<Member, Who>,
    watched: BTreeMap<Who, Process>,
    next: u32,
    page_bytes: u64,
}

impl LiveScanner {
    pub(crate) fn new(root: &Root, module: Module, family: Family) -> Self {
        Self {
            root: root.clone(),
            module,
            family,
            known: BTreeMap::new(),
            watched: BTreeMap::new(),
            next: 0,
            page_bytes: page_bytes(),
        }
    }

    fn process(&self, who: Who) -> Result<&Process, LookError> {
        self.watched.get(&who).ok_or(LookError::Gone)
    }

    fn came(&mut self, member: Member, was_another: bool) -> Option<Change> {
        // Ended already, or not readable for us: nothing to record.
        let process = Process::open(&self.root, member.pid).ok()?;
        if process.start_time() != member.start_time {
            return None;
        }
        let parent = self.parent_of(member.pid);
        let is_copy = |parent: &Who| {
            let of_parent = maps(self.watched.get(parent)?).ok()?;
            Some(!was_another && begins_alike(&of_parent, &maps(&process).ok()?))
        };
        let shares_with_parent = parent.as_ref().and_then(is_copy).unwrap_or(false);
        let who = Who(self.next);
        self.next += 1;
        let change = Change::Came { who, pid: member.pid, name: process.name().to_owned(), parent, shares_with_parent };
        self.known.insert(member, who);
        self.watched.insert(who, process);
        Some(change)
    }

    fn parent_of(&self, pid: u32) -> Option<Who> {
        let status = self.root.read(format!("/proc/{pid}/status")).ok()?;
        let parent: u32 = status.lines().find_map(|line| line.strip_prefix("PPid:"))?.trim().parse().ok()?;
        self.known.iter().find(|(member, _)| member.pid == parent).map(|(_, who)| *who)
    }
}

/// Whether two processes run the same program since the same exec: the addresses of its code and of its stack are equal. Each exec
/// draws a new stack address.
fn begins_alike(one: &[Mapping], other: &[Mapping]) -> bool {
    let first = |mappings: &[Mapping]| mappings.first().map(|mapping| (mapping.range.start, mapping.name.clone()));
    let stack = |mappings: &[Mapping]| {
        mappings.iter().find(|mapping| mapping.name == "[stack]").map(|mapping| mapping.range.end)
    };
    !one.is_empty() && first(one) == first(other) && stack(one) == stack(other)
}

/// An ended process is no failure of the recording.
fn look_error(error: LiveError) -> LookError {
    match error {
        LiveError::Gone(_) => LookError::Gone,
        other => LookError::Lost(other.to_string()),
    }
}

impl BitScanner for LiveScanner {
    fn page_bytes(&self) -> u64 {
        self.page_bytes
    }

    fn changes(&mut self) -> Result<Vec<Change>, LookError> {
        let changes = self.family.update().map_err(|error| LookError::Lost(error.to_string()))?;
        let mut told = Vec::new();
        let mut gone = changes.went;
        // A process that runs another program now is another process of the trace.
        let others: Vec<Member> = self
            .known
            .iter()
            .filter(|(member, who)| !gone.contains(member) && self.watched[*who].check().is_err())
            .map(|(member, _)| *member)
            .collect();
        gone.extend(&others);
        for member in gone {
            if let Some(who) = self.known.remove(&member) {
                self.watched.remove(&who);
                told.push(Change::Went(who));
            }
        }
        told.extend(changes.came.into_iter().filter_map(|member| self.came(member, false)));
        told.extend(others.into_iter().filter_map(|member| self.came(member, true)));
        Ok(told)
    }

    fn mappings(&mut self, who: Who) -> Result<Vec<MapRange>, LookError> {
        let page_bytes = self.page_bytes;
        let found = maps(self.process(who)?).map_err(look_error)?;
        Ok(found.iter().filter_map(|mapping| map_range(mapping, page_bytes)).collect())
    }

    fn cpu_time(&mut self, who: Who) -> Result<Duration, LookError> {
        process_cpu_time(self.process(who)?).map_err(look_error)
    }

    fn look(&mut self, who: Who, start: u64, end: u64, bits: &mut Bits) -> Result<(), LookError> {
        let range = start * self.page_bytes..end * self.page_bytes;
        let found = self.module.scan(self.process(who)?, range, Level::LEAF, Look::ClearWritten).map_err(look_error)?;
        for (to, from) in
            [(&mut bits.young, &found.young), (&mut bits.present, &found.present), (&mut bits.written, &found.written)]
        {
            let words = from.words();
            let common = words.len().min(to.len());
            to[..common].copy_from_slice(&words[..common]);
        }
        Ok(())
    }

    fn settle(&mut self, who: Who) -> Result<(), LookError> {
        self.module.flush(self.process(who)?).map_err(look_error)
    }
}

/// A mapping in the trace's format; `None` for a mapping without pages of its own.
fn map_range(mapping: &Mapping, page_bytes: u64) -> Option<MapRange> {
    let name = mapping.name.as_str();
    let is_special = ["[vdso]", "[vvar]", "[vvar_vclock]", "[vsyscall]", "[uprobes]"].contains(&name);
    let is_device = name.starts_with("/dev/") && !name.starts_with("/dev/shm/") && !name.starts_with("/dev/zero");
    let (start, end) = (mapping.range.start / page_bytes, mapping.range.end / page_bytes);
    // The kernel's half belongs to no process.
    if is_special || is_device || start >= end || mapping.range.start >= 1 << 56 {
        return None;
    }
    let file = mapping.is_file();
    let is_memory = name.starts_with("/dev/shm/")
        || name.starts_with("/memfd:")
        || name.starts_with("/SYSV")
        || name.starts_with("/dev/zero");
    let what = match name {
        "[heap]" => MapKind::Heap,
        _ if name.starts_with("[stack") => MapKind::Stack,
        _ if is_memory || (mapping.is_shared && !file) => MapKind::Shared,
        _ if file => MapKind::File,
        _ => MapKind::Anonymous,
    };
    Some(MapRange {
        start,
        end,
        what,
        file: (file && !is_memory).then(|| name.to_owned()),
        file_page: if file { mapping.offset / page_bytes } else { 0 },
        shared: mapping.is_shared,
        executable: mapping.is_executable,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_core::host::AddressRange;

    #[test]
    fn copies_are_told_from_other_programs() {
        let mapping = |start: u64, name: &str| Mapping {
            range: AddressRange::new(start, start + 0x1000),
            is_readable: true,
            is_writable: false,
            is_executable: false,
            is_shared: false,
            offset: 0,
            inode: 0,
            name: name.to_owned(),
        };
        let one = [mapping(0x40_0000, "/bin/a"), mapping(0x7000_0000, "[stack]")];
        let grown = [mapping(0x40_0000, "/bin/a"), mapping(0x50_0000, "[heap]"), mapping(0x7000_0000, "[stack]")];
        assert!(begins_alike(&one, &grown));
        // The same program at a fixed address, started again.
        assert!(!begins_alike(&one, &[mapping(0x40_0000, "/bin/a"), mapping(0x7100_0000, "[stack]")]));
        assert!(!begins_alike(&one, &[mapping(0x40_0000, "/bin/b"), mapping(0x7000_0000, "[stack]")]));
        assert!(!begins_alike(&[], &[]));
    }

    #[test]
    fn mappings_are_told_apart() {
        let mapping = |name: &str, inode: u64, is_shared: bool| Mapping {
            range: AddressRange::new(0x1000, 0x3000),
            is_readable: true,
            is_writable: true,
            is_executable: false,
            is_shared,
            offset: 0x4000,
            inode,
            name: name.to_owned(),
        };
        let kind = |name: &str, inode: u64, is_shared: bool| {
            map_range(&mapping(name, inode, is_shared), 4096).map(|range| (range.what, range.file.is_some()))
        };
        assert_eq!(kind("[heap]", 0, false), Some((MapKind::Heap, false)));
        assert_eq!(kind("[stack]", 0, false), Some((MapKind::Stack, false)));
        assert_eq!(kind("", 0, false), Some((MapKind::Anonymous, false)));
        assert_eq!(kind("/usr/lib/x.so", 7, false), Some((MapKind::File, true)));
        assert_eq!(kind("/dev/shm/pool", 7, true), Some((MapKind::Shared, false)));
        assert_eq!(kind("/memfd:x (deleted)", 7, true), Some((MapKind::Shared, false)));
        for nothing in ["[vdso]", "[vvar]", "[vsyscall]", "/dev/dri/card0"] {
            assert_eq!(kind(nothing, 3, false), None, "{nothing}");
        }
        let range = map_range(&mapping("/usr/lib/x.so", 7, false), 4096).unwrap();
        assert_eq!((range.start, range.end, range.file_page), (1, 3, 4));
    }
}
