//! Shared by importers of samples of running processes: one row for each sample, by thread, with the clock of the samples.

use std::collections::HashMap;

use crate::{ProcessMeta, Result, ThreadMeta, TraceRow, TraceWriter};

/// Addresses from here on are the kernel's.
pub(super) const KERNEL_FROM: u64 = 1 << 63;

/// A sample of an address of a process.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Sample<'a> {
    pub(crate) pid: u32,
    pub(crate) tid: u32,
    /// Name of the thread. The first name seen of a process is also the name of the process.
    pub(crate) name: &'a str,
    /// Clock of all threads, from any start.
    pub(crate) time_ns: u64,
    /// In bytes; see [`Samples::user_address`].
    pub(crate) address: u64,
    pub(crate) write: bool,
}

/// Turns samples into rows, and counts dropped ones.
#[derive(Debug, Default)]
pub(crate) struct Samples {
    /// Number of samples so far, including dropped ones.
    pub(crate) count: u64,
    /// Dropped because they carry no address.
    pub(crate) without_address: u64,
    /// Dropped because the address is the kernel's.
    of_kernel: u64,
    /// Older than the sample before of the same thread.
    went_back: u64,
    /// Lines of another format.
    pub(crate) other_lines: u64,
    /// Whether the last line was left out because it has no end: its numbers may be truncated.
    pub(crate) is_cut: bool,
    /// Time of the first row.
    first_ns: Option<u64>,
    /// Number by pid.
    processes: HashMap<u32, usize>,
    /// Number and latest time since `first_ns`, by pid and tid.
    threads: HashMap<(u32, u32), (u32, u64)>,
}

impl Samples {
    /// Counts a sample. Returns its address, unless it is dropped: without an address (`None` or 0), or with one of the kernel.
    pub(crate) fn user_address(&mut self, address: Option<u64>) -> Option<u64> {
        self.count += 1;
        let address = address.filter(|&address| address != 0);
        self.without_address += u64::from(address.is_none());
        let address = address?;
        self.of_kernel += u64::from(address >= KERNEL_FROM);
        (address < KERNEL_FROM).then_some(address)
    }

    /// Writes the row of a sample. Time counts from the first row and never falls within a thread: a sample that is older than the one
    /// before gets the time of that sample.
    pub(crate) fn push(&mut self, writer: &mut TraceWriter, sample: Sample<'_>) -> Result<()> {
        let since_ns = sample.time_ns.saturating_sub(*self.first_ns.get_or_insert(sample.time_ns));
        let (thread, latest_ns) = self.thread(writer, &sample)?;
        let time_ns = since_ns.max(*latest_ns);
        *latest_ns = time_ns;
        self.went_back += u64::from(since_ns < time_ns);
        let page = sample.address >> isotherm_units::PAGE_SHIFT;
        writer.push(TraceRow { time_ns, thread, page, pages: 1, write: sample.write, kernel: false })
    }

    /// Number and latest time of the sample's thread, declared at its first sample.
    fn thread(&mut self, writer: &mut TraceWriter, sample: &Sample<'_>) -> Result<(u32, &mut u64)> {
        let &Sample { pid, tid, name, .. } = sample;
        let key = (pid, tid);
        if !self.threads.contains_key(&key) {
            let name = name.to_owned();
            let process = match self.processes.get(&pid) {
                Some(&process) => process,
                None => {
                    let process =
                        writer.add_process(ProcessMeta { pid, name: name.clone(), ..ProcessMeta::default() })?;
                    *self.processes.entry(pid).or_insert(process)
                }
            };
            let number = writer.add_thread(ThreadMeta { process, tid, name, started_by: None })?;
            self.threads.insert(key, (number, 0));
        }
        let (number, latest_ns) = self.threads.get_mut(&key).expect("just inserted");
        Ok((*number, latest_ns))
    }

    /// Adds notes for readers, and marks whether the input was read to its end.
    pub(crate) fn finish(self, writer: &mut TraceWriter) -> Result<()> {
        writer.note("time is the clock of the samples, from the first one on; sleeps count as running")?;
        let dropped = [
            (self.of_kernel, "samples of kernel addresses were dropped"),
            (self.without_address, "samples without an address were dropped"),
            (self.went_back, "samples were older than the one before of the same thread; the later time was kept"),
            (self.other_lines, "lines that are no samples were passed over"),
            (u64::from(self.is_cut), "line at the end has no line end, so it may be cut: left out"),
        ];
        for (count, what) in dropped.into_iter().filter(|(count, _)| *count > 0) {
            writer.note(format!("{count} {what}"))?;
        }
        writer.set_outcome(None, !self.is_cut)
    }
}
