//! Threads that are kept on one processor while they measure.

use rustix::io;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// The calling thread runs on one processor alone until this is dropped.
pub(crate) struct Pinned {
    before: CpuSet,
}

impl Pinned {
    /// # Errors
    /// This thread may not run on that processor.
    pub(crate) fn to(cpu: usize) -> io::Result<Self> {
        let before = sched_getaffinity(None)?;
        let mut one = CpuSet::new();
        if cpu >= CpuSet::MAX_CPU {
            return Err(io::Errno::INVAL);
        }
        one.set(cpu);
        sched_setaffinity(None, &one)?;
        Ok(Self { before })
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        let _ = sched_setaffinity(None, &self.before);
    }
}
