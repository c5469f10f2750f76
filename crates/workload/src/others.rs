//! Other tasks of a machine: a program that wakes up once a tick and touches nothing.

use isotherm_units::access::{After, Batch, Forks, Process, Program, Stream, StreamError, Thread, ThreadStart, Timing};
use isotherm_units::{Duration, Instant};

/// A program that wakes up once a `tick` and sleeps again, `ticks` times; `None`: without end.
///
/// Kernel threads (read-copy-update, statistics, write-back) and other programs run for a moment now and then. They touch nothing of the
/// measured program, but the task that runs after them is switched to. The Multi-Gen LRU learns from such switches which address spaces
/// were in use (`include/linux/mm_types.h: lru_gen_use_mm`, 7.2).
pub fn others(tick: Duration, ticks: Option<u64>) -> Program {
    Program {
        name: "others".to_owned(),
        files: Vec::new(),
        processes: vec![Process::default()],
        threads: vec![Thread { process: 0, start: ThreadStart::WithProgram, stream: Box::new(Others { tick, ticks }) }],
        timing: Timing::Modelled,
        future: None,
    }
}

#[derive(Clone)]
struct Others {
    tick: Duration,
    /// Ticks that are left; `None`: without end.
    ticks: Option<u64>,
}

impl Stream for Others {
    fn next_batch(&mut self, _now: Instant, _batch: &mut Batch) -> Result<After, StreamError> {
        match &mut self.ticks {
            Some(0) => return Ok(After::Finish),
            Some(left) => *left -= 1,
            None => {}
        }
        Ok(After::Sleep(self.tick))
    }

    fn fork(&self, _forks: &mut Forks) -> Option<Box<dyn Stream>> {
        Some(Box::new(self.clone()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_wakes_up_as_often_as_asked_and_touches_nothing() {
        let mut program = others(Duration::from_ms(4), Some(2));
        let mut batch = Batch::default();
        let mut next = || program.threads[0].stream.next_batch(Instant::START, &mut batch).unwrap();
        let sleep = After::Sleep(Duration::from_ms(4));
        assert_eq!([next(), next(), next()], [sleep.clone(), sleep, After::Finish]);
        assert!(batch.runs.is_empty());
    }
}
