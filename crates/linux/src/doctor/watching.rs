//! Ways to see which memory is used.

use super::{AS_ROOT, Context, Finding, Part, State, said};
use crate::damon::{self, DamonUser};
use crate::{Categories, module};
use crate::{LiveError, Look, Module, lru_gen, maps, pagemap as entries_of, pagemap_scan, smaps};
use isotherm_core::host::Level;
use isotherm_core::monitor::Attributes;
use std::collections::BTreeSet;

const PART: Part = Part::Watching;
const NO_CHILD: &str = "is there; not tried, which takes a process of our own";

pub(super) fn damon(context: &Context<'_>) -> Vec<Finding> {
    const NAME: &str = "DAMON";
    let operations = match damon::operations(context.root) {
        Ok(operations) => operations.join(", "),
        Err(error @ LiveError::NotHere { .. }) => {
            return vec![
                Finding::new(PART, NAME, State::Missing, said(&error))
                    .fix("a kernel with CONFIG_DAMON_SYSFS: Debian 13, Ubuntu 24.04, Fedora 40 and newer have it"),
            ];
        }
        Err(error) => return vec![Finding::new(PART, NAME, State::Missing, said(&error)).fix(AS_ROOT)],
    };
    let users = match damon::users(context.root) {
        Ok(users) => users,
        Err(error) => return vec![Finding::new(PART, NAME, State::Missing, said(&error)).fix(AS_ROOT)],
    };
    if !users.is_empty() {
        let names: Vec<String> = users.iter().map(ToString::to_string).collect();
        let words = format!("is there ({operations}), and in use by {}; nothing was touched", names.join(", "));
        let finding = Finding::new(PART, NAME, State::Busy, words);
        let is_stat_alone = users.iter().all(|user| *user == DamonUser::Module("DAMON_STAT"));
        return vec![if is_stat_alone {
            finding.fix("isotherm monitor --take-damon-stat switches DAMON_STAT off meanwhile, and on again afterwards")
        } else {
            finding.fix("wait until they are done, or watch by --source module or clear-refs")
        }];
    }
    let Some(child) = context.child else {
        return vec![Finding::new(PART, NAME, State::Partly, format!("({operations}) {NO_CHILD}"))];
    };
    // DAMON is free: tries a session on our own child, and stops it at once.
    let target = damon::DamonTarget::Process(child.process().pid());
    let (attributes, options) = (Attributes::default(), damon::Options::default());
    let tried = damon::Session::start(context.root, &attributes, &target, options, || (context.undo)(context.root))
        .and_then(|session| session.snapshot().and_then(|snapshot| session.stop().map(|()| snapshot)));
    vec![match tried {
        Ok(snapshot) => Finding::new(
            PART,
            NAME,
            State::Works,
            format!("watched a process of our own: {} regions ({operations})", snapshot.regions.len()),
        ),
        Err(error) => Finding::new(PART, NAME, State::Missing, format!("does not start: {error}")).fix(AS_ROOT),
    }]
}

pub(super) fn module(context: &Context<'_>) -> Vec<Finding> {
    const NAME: &str = "accessed-bit module";
    let opened = match Module::open(context.root) {
        Ok(opened) => opened,
        Err(error) => {
            return vec![
                Finding::new(PART, NAME, State::Missing, said(&error))
                    .fix("make module-install && modprobe isotherm (module/README.md)"),
            ];
        }
    };
    let levels = opened.shifts().len();
    let Some(child) = context.child else {
        return vec![Finding::new(PART, NAME, State::Partly, format!("{levels} levels; {NO_CHILD}"))];
    };
    let (process, range) = (child.process(), child.range());
    let scan = || opened.scan(process, range.start..range.end, Level::LEAF, Look::Clear);
    let tried = scan().and_then(|_| opened.flush(process)).and_then(|()| {
        let answers = child.touch_half();
        scan().map(|seen| (seen, answers))
    });
    vec![match tried {
        Ok((seen, true)) => {
            let (used, all) = (seen.young.count(), seen.young.len());
            let is_half = used * 10 >= all * 4 && used * 10 <= all * 6;
            let state = if is_half { State::Works } else { State::Partly };
            Finding::new(
                PART,
                NAME,
                state,
                format!("{levels} levels; found {used} of {all} pages used, of which half were"),
            )
        }
        Ok((_, false)) => Finding::new(PART, NAME, State::Partly, "the process that it looked at does not answer"),
        Err(error) => Finding::new(PART, NAME, State::Missing, said(&error)).fix(module::NEEDS_MODULE),
    }]
}

pub(super) fn clear_refs(context: &Context<'_>) -> Vec<Finding> {
    const NAME: &str = "clear_refs and smaps";
    if !context.root.has("/proc/self/clear_refs") {
        let words = "this kernel has no /proc/PID/clear_refs";
        return vec![Finding::new(PART, NAME, State::Missing, words).fix("a kernel with CONFIG_PROC_PAGE_MONITOR")];
    }
    let Some(child) = context.child else { return vec![Finding::new(PART, NAME, State::Partly, NO_CHILD)] };
    let process = child.process();
    let tried = process.write("clear_refs", "1").and_then(|()| {
        let answers = child.touch_half();
        smaps(process).map(|areas| (areas, answers))
    });
    vec![match tried {
        Ok((areas, true)) => {
            let range = child.range();
            let bytes: u64 =
                areas.iter().filter(|area| area.mapping.range.overlaps(range)).map(|area| area.referenced_bytes).sum();
            // Some pages stay in TLBs, and are missed: docs/spec/live-linux.md.
            let is_half = bytes * 10 >= range.len() * 3 && bytes * 10 <= range.len() * 7;
            let state = if is_half { State::Works } else { State::Partly };
            let (seen, all) = (bytes >> 10, range.len() >> 10);
            Finding::new(
                PART,
                NAME,
                state,
                format!("found {seen} of {all} KiB used, of which half were; one number for each mapping"),
            )
        }
        Ok((_, false)) => Finding::new(PART, NAME, State::Partly, "the process that was looked at does not answer"),
        Err(error) => Finding::new(PART, NAME, State::Missing, said(&error)).fix(AS_ROOT),
    }]
}

pub(super) fn generations(context: &Context<'_>) -> Vec<Finding> {
    const NAME: &str = "generations";
    // First the files that every user may read: without rights debugfs is closed, even on a kernel without
    // generations.
    match lru_gen::enabled(context.root) {
        Ok(enabled) if enabled.core => {}
        Ok(_) => {
            return vec![
                Finding::new(PART, NAME, State::Missing, "the Multi-Gen LRU is switched off")
                    .fix("as root: echo y > /sys/kernel/mm/lru_gen/enabled"),
            ];
        }
        Err(LiveError::NotHere { .. }) => {
            return vec![
                Finding::new(PART, NAME, State::Missing, "this kernel has no Multi-Gen LRU")
                    .fix("a kernel with CONFIG_LRU_GEN: 6.1 and newer have it"),
            ];
        }
        Err(error) => return vec![Finding::new(PART, NAME, State::Missing, said(&error))],
    }
    vec![match lru_gen::read(context.root) {
        Ok(listings) => {
            let groups: BTreeSet<u64> = listings.iter().map(|listing| listing.lruvec.memcg).collect();
            let words =
                format!("{} groups are listed; ageing one was not tried, because it is somebody's", groups.len());
            Finding::new(PART, NAME, State::Works, words)
        }
        Err(error) => unread_generations(&error),
    }]
}

/// Why generations cannot be read on a kernel that has them.
fn unread_generations(error: &LiveError) -> Finding {
    let finding = |words: String| Finding::new(PART, "generations", State::Missing, words);
    match error {
        _ if error.is_denied() => finding("the kernel shows them to root alone".to_owned()).fix(AS_ROOT),
        LiveError::NotHere { .. } => finding(said(error)).fix("as root: mount -t debugfs none /sys/kernel/debug"),
        _ => finding(said(error)),
    }
}

pub(super) fn pagemap(context: &Context<'_>) -> Vec<Finding> {
    const NAME: &str = "pagemap";
    let Some(child) = context.child else {
        let state = if context.root.has("/proc/self/pagemap") { State::Partly } else { State::Missing };
        return vec![Finding::new(PART, NAME, state, NO_CHILD)];
    };
    let (process, range) = (child.process(), child.range());
    let frames = entries_of(process, range).map(|entries| {
        let present = entries.iter().filter(|entry| entry.is_present()).count();
        (present, entries.iter().filter(|entry| entry.frame().is_some()).count(), entries.len())
    });
    vec![match frames {
        Ok((present, numbered, all)) if present == all && numbered == all => {
            Finding::new(PART, NAME, State::Works, format!("{present} of {all} pages present, with their frames"))
        }
        Ok((present, _, all)) => {
            Finding::new(PART, NAME, State::Partly, format!("{present} of {all} pages present; frames are hidden"))
                .fix(AS_ROOT)
        }
        Err(error) => Finding::new(PART, NAME, State::Missing, said(&error)).fix(AS_ROOT),
    }]
}

pub(super) fn scan_of_pagemap(context: &Context<'_>) -> Vec<Finding> {
    const NAME: &str = "PAGEMAP_SCAN";
    let Some(child) = context.child else { return Vec::new() };
    vec![match pagemap_scan(child.process(), child.range(), Categories::PRESENT, Categories::PRESENT) {
        Ok(Some(regions)) => {
            let ranges = if regions.len() == 1 { "one range".to_owned() } else { format!("{} ranges", regions.len()) };
            Finding::new(PART, NAME, State::Works, format!("present pages in {ranges}"))
        }
        Ok(None) => Finding::new(PART, NAME, State::Missing, "this kernel does not have it").fix("Linux 6.7 or newer"),
        Err(error) => Finding::new(PART, NAME, State::Missing, said(&error)),
    }]
}

pub(super) fn soft_dirty(context: &Context<'_>) -> Vec<Finding> {
    const NAME: &str = "soft-dirty";
    let Some(child) = context.child else { return Vec::new() };
    let (process, range) = (child.process(), child.range());
    let count =
        || entries_of(process, range).map(|entries| entries.iter().filter(|entry| entry.is_soft_dirty()).count());
    let tried = process.write("clear_refs", "4").and_then(|()| {
        let before = count()?;
        let answers = child.touch_half();
        count().map(|after| (before, after, answers))
    });
    // The mappings of the child show that it still exists.
    let is_there = maps(process).is_ok();
    vec![match tried {
        Ok((0, after, true)) if after > 0 && is_there => {
            Finding::new(PART, NAME, State::Works, format!("{after} pages were found written; writes only"))
        }
        Ok(_) => Finding::new(PART, NAME, State::Missing, "this kernel does not mark written pages")
            .fix("a kernel with CONFIG_MEM_SOFT_DIRTY"),
        Err(error) => Finding::new(PART, NAME, State::Missing, said(&error)),
    }]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn who_lacks_rights_for_generations_is_not_sent_to_mount_something() {
        let denied = LiveError::io(
            "read",
            std::path::Path::new("/sys/kernel/debug/lru_gen"),
            std::io::ErrorKind::PermissionDenied.into(),
        );
        let finding = unread_generations(&denied);
        assert_eq!((finding.state, finding.fix.as_deref()), (State::Missing, Some(AS_ROOT)), "{finding:?}");
    }
}
