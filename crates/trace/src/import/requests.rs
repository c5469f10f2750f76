//! What the importers of request traces share: one row a request, with a clock.

use super::numbering::Numbering;
use super::{ImportOptions, RequestClock};
use crate::{Result, TraceMeta, TraceRow, TraceWriter};

/// The meta of a trace of requests in format `name`.
pub(crate) fn meta(name: &str) -> TraceMeta {
    TraceMeta { recorder: format!("import {name}"), epoch_ns: 0, ..TraceMeta::single(name) }
}

/// Turns requests into rows.
#[derive(Debug)]
pub(crate) struct Requests {
    clock: RequestClock,
    ns_per_request: u64,
    count: u64,
    first_s: Option<u64>,
    latest_ns: u64,
    went_back: u64,
    pub(crate) numbering: Numbering,
}

impl Requests {
    pub(crate) fn new(options: &ImportOptions) -> Self {
        Self {
            clock: options.clock,
            ns_per_request: options.ns_per_request,
            count: 0,
            first_s: None,
            latest_ns: 0,
            went_back: 0,
            numbering: Numbering::default(),
        }
    }

    /// A request of `page`; `clock_s`: the file's own time in seconds.
    pub(crate) fn push(&mut self, writer: &mut TraceWriter, page: u64, write: bool, clock_s: u64) -> Result<()> {
        let time_ns = match self.clock {
            RequestClock::Even => self.count.saturating_mul(self.ns_per_request).min(i64::MAX.unsigned_abs()),
            RequestClock::File => {
                let first_s = *self.first_s.get_or_insert(clock_s);
                let ns = clock_s.saturating_sub(first_s).saturating_mul(1_000_000_000).min(i64::MAX.unsigned_abs());
                self.went_back += u64::from(ns < self.latest_ns);
                ns.max(self.latest_ns)
            }
        };
        self.latest_ns = time_ns;
        self.count += 1;
        writer.push(TraceRow { time_ns, thread: 0, page, pages: 1, write, kernel: false })
    }

    /// Requests so far.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Notes what a reader should know, and that the input was read to its end.
    pub(crate) fn finish(self, writer: &mut TraceWriter) -> Result<()> {
        match self.clock {
            RequestClock::Even => writer.note(format!("time is made up: {} ns a request", self.ns_per_request))?,
            RequestClock::File => writer.note("time is the file's own clock, from its first request on")?,
        }
        if self.went_back > 0 {
            writer.note(format!("the clock went back {} times; the latest time was kept", self.went_back))?;
        }
        if let Some(remark) = self.numbering.remark() {
            writer.note(remark)?;
        }
        writer.set_outcome(None, true)
    }
}
