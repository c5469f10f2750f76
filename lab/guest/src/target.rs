//! A process on which other parts of the guest call the accessed-bit module: it maps areas, and touches pages in them on request.

use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use crate::sys::{self, Backing, Forked};

/// An area: every `stride`-th of `pages` pages from `first` on is touched when the process starts.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Area {
    pub(crate) first: u64,
    pub(crate) pages: u64,
    pub(crate) stride: u64,
    /// Advice for the area, as `madvise` takes it.
    pub(crate) advice: libc::c_int,
}

/// An order: every `stride`-th page of a range to touch, reading or writing.
#[derive(Debug)]
pub(crate) struct Orders {
    /// Increased by one for each order.
    serial: AtomicU32,
    done: AtomicU32,
    first: AtomicU64,
    pages: AtomicU64,
    stride: AtomicU64,
    writes: AtomicU32,
}

pub(crate) struct Target {
    pub(crate) pid: i32,
    orders: &'static Orders,
}

impl Target {
    /// A new process with these areas, after it has written to all areas.
    pub(crate) fn start(areas: &[Area]) -> Result<Self, String> {
        let orders: &'static Orders = sys::shared().map_err(|error| format!("shared memory: {error}"))?;
        let pid = match sys::fork().map_err(|error| format!("fork: {error}"))? {
            Forked::Child => obey(areas, orders),
            Forked::Parent(pid) => pid,
        };
        let target = Self { pid, orders };
        for area in areas {
            target.touch_area(area, true)?;
        }
        Ok(target)
    }

    pub(crate) fn touch_area(&self, area: &Area, writes: bool) -> Result<(), String> {
        self.touch_each(area.first, area.pages, area.stride, writes)
    }

    pub(crate) fn touch(&self, first: u64, pages: u64, writes: bool) -> Result<(), String> {
        self.touch_each(first, pages, 1, writes)
    }

    fn touch_each(&self, first: u64, pages: u64, stride: u64, writes: bool) -> Result<(), String> {
        let orders = self.orders;
        orders.first.store(first, Ordering::Relaxed);
        orders.pages.store(pages, Ordering::Relaxed);
        orders.stride.store(stride, Ordering::Relaxed);
        orders.writes.store(u32::from(writes), Ordering::Relaxed);
        let serial = orders.serial.fetch_add(1, Ordering::Release) + 1;
        sys::wake_all(&orders.serial);
        while orders.done.load(Ordering::Acquire) != serial {
            sys::wait_while(&orders.done, serial - 1, Duration::from_millis(100));
            if sys::has_ended(self.pid) {
                return Err("the target ended".to_owned());
            }
        }
        Ok(())
    }

    /// Kills it, and waits until it is gone.
    pub(crate) fn end(self) -> Result<(), String> {
        sys::kill(self.pid).map_err(|error| format!("kill: {error}"))?;
        while !sys::has_ended(self.pid) {
            std::thread::sleep(Duration::from_millis(1));
        }
        Ok(())
    }
}

fn obey(areas: &[Area], orders: &Orders) -> ! {
    let map = |area: &Area| {
        sys::map(area.first, area.pages, Backing::Anonymous)
            .and_then(|()| sys::advise(area.first, area.pages, area.advice))
    };
    if areas.iter().try_for_each(map).is_err() {
        sys::exit_now(1);
    }
    let mut serial = 0;
    loop {
        while orders.serial.load(Ordering::Acquire) == serial {
            sys::wait_while(&orders.serial, serial, Duration::from_secs(1));
        }
        serial += 1;
        let word = |word: &AtomicU64| word.load(Ordering::Relaxed);
        let (first, pages, stride) = (word(&orders.first), word(&orders.pages), word(&orders.stride).max(1));
        for index in 0..pages.div_ceil(stride) {
            sys::touch(first + index * stride, 1, orders.writes.load(Ordering::Relaxed) == 1, 3);
        }
        orders.done.store(serial, Ordering::Release);
        sys::wake_all(&orders.done);
    }
}
