//! Memory of the kernel itself that is charged to the program's group, and that no recording has: stacks, page tables, slabs.
//!
//! Draws take up to [`KERNEL_CHARGE_BP`] of each limit for it. Many threads or small programs need more than that share.

use super::chance::KERNEL_CHARGE_BP;
use isotherm_trace::{EventKind, TraceMeta};
use isotherm_units::Bytes;
use std::collections::BTreeMap;

/// Of a process with one thread: `docs/use/advise.md#kernel-memory`.
const PROCESS: Bytes = Bytes::from_kib(88);
/// Of each further thread: its stack of 16 KiB, and its structures.
const THREAD: Bytes = Bytes::from_kib(22);

/// What the kernel needs for the program's threads, beyond the share of `peak` that draws take in the mean.
pub(super) fn beyond_draws(meta: &TraceMeta, peak: Bytes) -> Bytes {
    let (processes, threads) = most_at_once(meta);
    let all = processes * PROCESS.get() + (threads - processes.min(threads)) * THREAD.get();
    let drawn = u128::from(peak.get()) * u128::from(KERNEL_CHARGE_BP / 2) / 10_000;
    Bytes::new(all.saturating_sub(u64::try_from(drawn).unwrap_or(u64::MAX))).pages_ceil().bytes()
}

/// The most threads that lived at one time, and how many processes these were.
fn most_at_once(meta: &TraceMeta) -> (u64, u64) {
    let process_of = |thread: usize| meta.threads.get(thread).map_or(0, |thread| thread.process);
    let mut living: BTreeMap<usize, u64> = BTreeMap::new(); // threads by process
    for (thread, _) in meta.threads.iter().enumerate().filter(|(_, thread)| thread.started_by.is_none()) {
        *living.entry(process_of(thread)).or_default() += 1;
    }
    let now = |living: &BTreeMap<usize, u64>| (living.values().sum::<u64>(), living.len() as u64);
    let mut most = now(&living);
    for event in &meta.events {
        match event.kind {
            EventKind::StartThread { thread } => *living.entry(process_of(thread as usize)).or_default() += 1,
            EventKind::EndThread => {
                let process = process_of(event.thread as usize);
                let left = living.remove(&process).unwrap_or(0);
                living.extend((left > 1).then(|| (process, left - 1)));
            }
            _ => {}
        }
        most = most.max(now(&living));
    }
    (most.1, most.0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_trace::{Event, ThreadMeta};

    fn thread(process: usize, started_by: Option<usize>) -> ThreadMeta {
        ThreadMeta { process, tid: 0, name: String::new(), started_by }
    }

    fn event(thread: u32, kind: EventKind) -> Event {
        Event { row: 0, thread, time_ns: 0, kind }
    }

    /// A program that starts `more` threads one after the other; each ends before the next one starts, or with the program.
    fn program(more: u32, is_in_turns: bool) -> TraceMeta {
        let threads = std::iter::once(thread(0, None)).chain((0..more).map(|_| thread(0, Some(0)))).collect();
        let mut events = Vec::new();
        for number in 1..=more {
            events.push(event(0, EventKind::StartThread { thread: number }));
            events.extend(is_in_turns.then(|| event(number, EventKind::EndThread)));
        }
        TraceMeta { threads, events, ..TraceMeta::default() }
    }

    #[test]
    fn threads_count_while_they_live() {
        assert_eq!(most_at_once(&program(400, false)), (1, 401));
        assert_eq!(most_at_once(&program(400, true)), (1, 2));
        let forked = TraceMeta {
            threads: vec![thread(0, None), thread(1, Some(0))],
            events: vec![event(0, EventKind::StartThread { thread: 1 }), event(1, EventKind::EndThread)],
            ..TraceMeta::default()
        };
        assert_eq!(most_at_once(&forked), (2, 2));
        assert_eq!(most_at_once(&TraceMeta::default()), (0, 0), "a foreign trace without threads");
    }

    #[test]
    fn many_threads_need_more_than_the_share_that_draws_take() {
        let mib = Bytes::from_mib;
        assert_eq!(beyond_draws(&program(0, false), mib(100)), Bytes::ZERO);
        assert_eq!(beyond_draws(&program(0, false), mib(4)), Bytes::from_kib(60), "88 KiB, less 0.75 % of 4 MiB");
        let extra = beyond_draws(&program(400, false), mib(6));
        assert_eq!(extra, Bytes::from_kib(88 + 400 * 22 - 44), "0.75 % of 6 MiB are 46 KiB, and it is whole pages");
    }
}
