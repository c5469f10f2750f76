//! Shared by importers of request traces: one row for each request, with a clock.

use super::extents::{Extents, pages_of};
use super::numbering::Numbering;
use super::times::{Time, Times};
use super::{IdUnit, ImportOptions, RequestClock};
use crate::{Result, TraceError, TraceMeta, TraceRow, TraceWriter};

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
    pub(super) times: Times,
    latest_ns: u64,
    went_back: u64,
    pub(crate) numbering: Numbering,
    unit: IdUnit,
    sector_bytes: u64,
    split_objects: bool,
    /// Pages of objects with several pages; `None`: each object is one page, or ids are addresses.
    extents: Option<Extents>,
}

/// The pages of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Object {
    pub(crate) page: u64,
    pub(crate) pages: u32,
}

impl Object {
    /// One page.
    pub(super) fn single(page: u64) -> Self {
        Self { page, pages: 1 }
    }
    /// The pages of `size_bytes` bytes from `address` on; an error if they are invalid.
    pub(crate) fn at(address: u64, size_bytes: u64) -> Result<Self, String> {
        let first = address >> isotherm_units::PAGE_SHIFT;
        let within = address & (isotherm_units::PAGE_BYTES - 1);
        let pages = pages_of(within.saturating_add(size_bytes))?;
        if first + u64::from(pages) > crate::PAGE_LIMIT {
            return Err(format!("{size_bytes} bytes from address {address:#x} end after the last address"));
        }
        Ok(Self { page: first, pages })
    }
}

impl Requests {
    pub(crate) fn new(options: &ImportOptions) -> Self {
        Self {
            clock: options.clock,
            ns_per_request: options.ns_per_request,
            count: 0,
            times: Times::new(options.time_unit),
            latest_ns: 0,
            went_back: 0,
            numbering: Numbering::default(),
            unit: options.unit,
            sector_bytes: options.sector_bytes,
            split_objects: options.split_objects,
            extents: (options.split_objects && !options.unit.is_address()).then(Extents::default),
        }
    }

    /// The pages of object `id` with size `size_bytes`, or from the address or sector `id` on; an error if there is no space for it.
    pub(super) fn place(&mut self, id: u64, size_bytes: u64) -> Result<Object, String> {
        match self.unit {
            IdUnit::Addresses => self.at(id, size_bytes),
            IdUnit::Sectors => {
                let address = id.checked_mul(self.sector_bytes);
                let after = || format!("sector {id} of {} bytes is after the last address, 2^64", self.sector_bytes);
                self.at(address.ok_or_else(after)?, size_bytes)
            }
            IdUnit::ByLooks | IdUnit::Pages => self.object(id, size_bytes),
        }
    }

    /// The pages of object `id`.
    pub(super) fn object(&mut self, id: u64, size_bytes: u64) -> Result<Object, String> {
        match &mut self.extents {
            Some(extents) => extents.place(id, size_bytes).map(|(page, pages)| Object { page, pages }),
            None => Ok(Object::single(self.numbering.page_of(id))),
        }
    }

    fn at(&self, address: u64, size_bytes: u64) -> Result<Object, String> {
        Object::at(address, if self.split_objects { size_bytes } else { 0 })
    }

    /// Writes a request of `object`; `time`: the file's own.
    pub(super) fn push(&mut self, writer: &mut TraceWriter, object: Object, write: bool, time: Time) -> Result<()> {
        let time_ns = match self.clock {
            RequestClock::Even => self.count.saturating_mul(self.ns_per_request).min(i64::MAX.unsigned_abs()),
            RequestClock::File => {
                let ns = self.times.since_first_ns(time).map_err(|what| TraceError::option("time-unit", what))?;
                self.went_back += u64::from(ns < self.latest_ns);
                ns.max(self.latest_ns)
            }
        };
        self.latest_ns = time_ns;
        self.count += 1;
        writer.push(TraceRow { time_ns, thread: 0, page: object.page, pages: object.pages, write, kernel: false })
    }

    /// Requests so far.
    pub(crate) fn count(&self) -> u64 {
        self.count
    }

    /// Adds notes for readers, and marks that the input was read to its end.
    pub(crate) fn finish(self, writer: &mut TraceWriter) -> Result<()> {
        match self.clock {
            RequestClock::Even => writer.note(format!("time is made up: {} ns a request", self.ns_per_request))?,
            RequestClock::File => writer.note(self.times.note(self.count, self.latest_ns))?,
        }
        if self.went_back > 0 {
            writer.note(format!("the clock went back {} times; the latest time was kept", self.went_back))?;
        }
        match (&self.extents, self.numbering.remark()) {
            (Some(extents), _) => writer.note(extents.remark())?,
            (None, Some(remark)) => writer.note(remark)?,
            (None, None) => {}
        }
        writer.set_outcome(None, true)
    }
}
