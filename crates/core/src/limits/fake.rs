//! A group in a few numbers: part of its memory is hot, the rest goes when the limit asks for it.

use crate::host::{Ageing, Answer, Gauge, Gauging, Generational, HostError, Limiting, Listing};
use crate::vocabulary::{GenerationRow, Lruvec, NodeId};
use isotherm_units::{Bytes, PAGE_BYTES};

/// The group `/web`, number 7. Tests change its numbers between decisions.
#[derive(Clone, Debug)]
pub(crate) struct FakeGroup {
    pub(crate) is_there: bool,
    pub(crate) usage: u64,
    /// Memory that comes back as soon as it was evicted.
    pub(crate) hot: u64,
    pub(crate) stalled_us: u64,
    pub(crate) refaulted_bytes: u64,
    pub(crate) high_events: u64,
    /// `memory.high`.
    pub(crate) limit: Option<Bytes>,
    pub(crate) has_generations: bool,
    pub(crate) ageings: usize,
    /// Writes of limits fail with this.
    pub(crate) refusal: Option<&'static str>,
}

impl Default for FakeGroup {
    fn default() -> Self {
        Self {
            is_there: true,
            usage: 1000 << 20,
            hot: 400 << 20,
            stalled_us: 0,
            refaulted_bytes: 0,
            high_events: 0,
            limit: None,
            has_generations: false,
            ageings: 0,
            refusal: None,
        }
    }
}

impl FakeGroup {
    /// The time until the next decision: hot memory that was evicted comes back, pushes usage over the limit and costs 100 us a
    /// page.
    pub(crate) fn live(&mut self) {
        let missing = self.hot.saturating_sub(self.usage);
        self.refaulted_bytes += missing;
        self.stalled_us += missing / PAGE_BYTES * 100;
        self.high_events += u64::from(missing > 0);
        self.usage = self.usage.max(self.hot);
    }
}

impl Gauging for FakeGroup {
    fn gauges(&mut self, gauges: &[Gauge], values: &mut [Option<u64>]) -> Result<(), HostError> {
        for (gauge, value) in gauges.iter().zip(values) {
            *value = match *gauge {
                Gauge::GroupBytes { memcg: 7 } => Some(self.usage),
                Gauge::GroupStallSomeUs { memcg: 7 } => Some(self.stalled_us),
                Gauge::RefaultBytes { memcg: 7 } => Some(self.refaulted_bytes),
                Gauge::GroupHighEvents { memcg: 7 } => Some(self.high_events),
                _ => None,
            };
        }
        Ok(())
    }

    fn memcg(&self, path: &str) -> Option<u64> {
        (self.is_there && path == "/web").then_some(7)
    }
}

impl Limiting for FakeGroup {
    fn set_memory_high(&mut self, memcg: u64, high: Option<Bytes>) -> Result<(), HostError> {
        assert_eq!(memcg, 7);
        if let Some(cause) = self.refusal {
            return Err(HostError::Failed(cause.to_owned()));
        }
        self.limit = high;
        self.usage = high.map_or(self.usage, |high| self.usage.min(high.get()));
        Ok(())
    }
}

impl Generational for FakeGroup {
    fn read_generations(&mut self, out: &mut Vec<Listing>) -> Result<(), HostError> {
        if !self.has_generations {
            return Err(HostError::NotHere("needs mglru"));
        }
        let row = GenerationRow { seq: 3, age_ms: 0, anon_pages: 1, file_pages: 0 };
        let listing =
            |memcg| Listing { lruvec: Lruvec { memcg, node: NodeId(0) }, path: "/web".to_owned(), rows: vec![row] };
        out.extend([1, 7].map(listing));
        Ok(())
    }

    fn age_generations(&mut self, orders: &[Ageing], answers: &mut Vec<Answer>) {
        assert!(orders.iter().all(|order| (order.lruvec.memcg, order.max_gen_nr) == (7, 3)));
        self.ageings += orders.len();
        answers.extend(orders.iter().map(|_| Answer::Done { bytes: 0 }));
    }
}
