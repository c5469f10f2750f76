//! Plays a pattern in the simulated machine as the guest does in a real kernel.

use isotherm_guest::monitoring::ARENA_PAGE;
use isotherm_guest::patterns::Pattern;
use isotherm_units::access::{
    After, Batch, Mapping, Process, Program, Run, Stream, StreamError, Thread, ThreadStart, Timing,
};
use isotherm_units::{Duration, Instant, PageRange};
use std::sync::{Arc, Mutex, PoisonError};

/// Start of each pass, observed from outside the machine.
pub(super) type PassTimes = Arc<Mutex<Vec<u64>>>;

/// A process that touches all of the arena, then makes pass after pass on time; late ones follow at once.
pub(super) struct Player {
    pub(super) pattern: Pattern,
    /// The process's own code, data and stack; a page of each is used in each pass.
    pub(super) others: Vec<PageRange>,
    pub(super) pass: Duration,
    /// `None`: until the machine stops.
    pub(super) passes: Option<u64>,
    /// CPU time of a pass besides its accesses, at most 4 s.
    pub(super) compute: Duration,
    /// When the first pass begins, at the earliest.
    pub(super) begin: Instant,
    pub(super) times: PassTimes,
}

impl Player {
    /// The pages of its arena.
    pub(super) fn arena(&self) -> PageRange {
        PageRange::at(ARENA_PAGE, u64::from(self.pattern.pages))
    }

    pub(super) fn into_program(self) -> Program {
        let mut layout: Vec<Mapping> = self.others.iter().copied().map(Mapping::anonymous).collect();
        layout.push(Mapping::anonymous(self.arena()));
        layout.sort_unstable_by_key(|mapping| mapping.pages.start);
        let stream = Box::new(Playing { player: self, next: None });
        Program {
            name: "player".to_owned(),
            files: Vec::new(),
            processes: vec![Process { layout, ..Process::default() }],
            threads: vec![Thread { process: 0, start: ThreadStart::WithProgram, stream }],
            timing: Timing::Modelled,
            future: None,
        }
    }
}

struct Playing {
    player: Player,
    /// The next pass; `None` before the arena was touched.
    next: Option<u64>,
}

impl Stream for Playing {
    fn next_batch(&mut self, now: Instant, batch: &mut Batch) -> Result<After, StreamError> {
        let player = &mut self.player;
        let Some(pass) = self.next else {
            batch.runs.push(Run::write(ARENA_PAGE, player.pattern.pages));
            self.next = Some(0);
            return Ok(After::Continue);
        };
        let due = player.begin + player.pass.saturating_mul(pass);
        if now < due {
            return Ok(After::Sleep(due.since(now)));
        }
        if player.passes.is_some_and(|passes| pass >= passes) {
            return Ok(After::Finish);
        }
        player.times.lock().unwrap_or_else(PoisonError::into_inner).push(now.ns());
        batch.runs.extend(player.others.iter().map(|pages| Run::write(pages.start, 1)));
        player.pattern.pass(pass, |first, pages| batch.runs.push(Run::write(ARENA_PAGE + u64::from(first), pages)));
        if let Some(first) = batch.runs.own().first_mut() {
            *first = first.after_ns(u32::try_from(player.compute.ns())?);
        }
        self.next = Some(pass + 1);
        Ok(After::Continue)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use isotherm_guest::patterns::{Motion, Part};

    #[test]
    fn passes_come_on_time_and_late_ones_at_once() {
        let pattern =
            Pattern { pages: 8, parts: vec![Part { first: 2, pages: 3, motion: Motion::Every { passes: 1 } }] };
        let times = PassTimes::default();
        let player = Player {
            pattern,
            others: vec![PageRange::at(5, 4)],
            pass: Duration::from_ns(10),
            passes: Some(3),
            compute: Duration::from_ns(2),
            begin: Instant::from_ns(100),
            times: times.clone(),
        };
        let mut stream = player.into_program().threads.remove(0).stream;
        let mut step = |now| {
            let mut batch = Batch::default();
            let after = stream.next_batch(Instant::from_ns(now), &mut batch).unwrap();
            (batch.runs.to_vec(), after)
        };
        let pass = vec![Run::write(5, 1).after_ns(2), Run::write(ARENA_PAGE + 2, 3)];
        assert_eq!(step(0), (vec![Run::write(ARENA_PAGE, 8)], After::Continue));
        assert_eq!(step(40), (Vec::new(), After::Sleep(Duration::from_ns(60))));
        assert_eq!(step(100), (pass.clone(), After::Continue));
        assert_eq!(step(104), (Vec::new(), After::Sleep(Duration::from_ns(6))));
        assert_eq!(step(135), (pass.clone(), After::Continue));
        assert_eq!(step(136), (pass, After::Continue));
        assert_eq!(step(137), (Vec::new(), After::Finish));
        assert_eq!(*times.lock().unwrap(), [100, 135, 136]);
    }
}
