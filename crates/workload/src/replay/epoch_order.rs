//! In which order the rows of an epoch are played, where it was not recorded: see [`EpochOrder`].

use isotherm_trace::TraceRow;
use serde::{Deserialize, Serialize};

use super::decode::{Decoder, GROUP_ROWS_MAX};
use super::script::Outline;
use crate::chance::{Random, Rng, below, random};

/// The order of the pages that one thread uses in one epoch. Accessed bits do not show the order, and the truth lies between these two.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EpochOrder {
    /// In the order of the rows. In a trace of accessed bits this is the order of addresses, as if memory were used in order, which is the
    /// best case for readahead.
    #[default]
    Recorded,
    /// A random order, the same in every run; pages of mapped files one by one, which is the worst case for readahead.
    Scattered,
}

/// The random order is the same in every run: a trace is decoded once for all.
const SEED: u64 = 1;

/// Hands rows to a [`Decoder`].
#[derive(Debug)]
pub(super) struct Feed {
    pub(super) decoder: Decoder,
    scatter: Option<Scatter>,
}

#[derive(Debug)]
struct Scatter {
    chance: Random,
    /// Rows of one thread in one epoch, without an event between them.
    group: Vec<TraceRow>,
    /// The pieces in the order in which they are handed on.
    pieces: Vec<TraceRow>,
}

impl Feed {
    pub(super) fn new(outline: &Outline) -> Self {
        let scatter = || Scatter { chance: random(SEED, 0), group: Vec::new(), pieces: Vec::new() };
        Self { decoder: Decoder::new(outline), scatter: (outline.order == EpochOrder::Scattered).then(scatter) }
    }

    /// The next row.
    #[inline]
    pub(super) fn row(&mut self, outline: &Outline, row: TraceRow) {
        let Some(scatter) = &mut self.scatter else { return self.decoder.row(outline, row) };
        if let Some(first) = scatter.group.first()
            && ((first.thread, first.time_ns) != (row.thread, row.time_ns)
                || scatter.group.len() == GROUP_ROWS_MAX
                || self.decoder.has_event_within(outline, scatter.group.len() as u64))
        {
            scatter.hand_on(&mut self.decoder, outline);
        }
        scatter.group.push(row);
    }

    /// After all rows.
    pub(super) fn finish(&mut self, outline: &Outline) {
        if let Some(scatter) = &mut self.scatter {
            scatter.hand_on(&mut self.decoder, outline);
        }
        self.decoder.finish(outline);
    }
}

impl Scatter {
    fn hand_on(&mut self, decoder: &mut Decoder, outline: &Outline) {
        decoder.events_so_far(outline);
        for &row in &self.group {
            if decoder.is_mapped_file(outline, row.thread, row.page) {
                let pages = row.page..row.page + u64::from(row.pages);
                self.pieces.extend(pages.map(|page| TraceRow { page, pages: 1, ..row }));
            } else {
                self.pieces.push(row);
            }
        }
        for last in (1..self.pieces.len()).rev() {
            let (other, _) = below(self.chance.next_u64(), last as u64 + 1);
            self.pieces.swap(last, usize::try_from(other).expect("at most the index"));
        }
        self.pieces.drain(..).for_each(|row| decoder.one(outline, row));
        decoder.count(self.group.len() as u64);
        self.group.clear();
    }
}
