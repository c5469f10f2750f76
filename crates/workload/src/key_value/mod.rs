//! Kind `key-value`: operations on items of a store, in memory or in a file.

mod distribution;
mod stream;

use std::sync::Arc;

use isotherm_units::access::{Program, Stream};
use isotherm_units::{Bytes, Duration, Ratio};
use serde::{Deserialize, Serialize};

pub use distribution::Distribution;
pub(crate) use distribution::Sampler;
pub(crate) use stream::Packing;
use stream::{KeyValue, Plan};

use crate::chance::threshold;
use crate::extent::Extent;
use crate::hot_cold::check_threads;
use crate::spaces::{Spaces, check_huge, check_share, footprint_pages, think_ns};
use crate::spec::Kind;
use crate::{BuildContext, Storage, WorkloadError};

/// A key-value store under load: items of equal size, picked by a distribution, read, written or inserted.
///
/// Inserts replace the oldest item (the footprint is fixed); threads insert in turn. Each operation computes first, then
/// walks the index from its root to a leaf if there is one, then touches the item's pages.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct KeyValueSpec {
    /// Bytes of all items together. Default 1 GiB.
    pub footprint: Bytes,
    /// Bytes of an item, 16 B to the footprint. As many whole items as fit share a page; larger items start on a new page and are touched
    /// as one run. Default 1 KiB.
    pub item_size: Bytes,
    /// How operations choose items. Default `zipfian`.
    pub distribution: Distribution,
    /// Share of operations that store to an item. Default 5 %.
    pub writes: Ratio,
    /// Share of operations that insert an item; `writes` and `inserts` together at most 100 %. Default 0 %.
    pub inserts: Ratio,
    /// Operations in all, over all threads. Give this or `duration`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operations: Option<u64>,
    /// How long it runs after loading. Give this or `operations`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<Duration>,
    /// CPU time per operation, up to 4.29 s, in addition to the latency of the memory. Default 1 µs.
    pub compute: Duration,
    /// Threads that work side by side. Default 1.
    pub threads: usize,
    /// Keys that an index page holds, 2 to 65536: each operation first touches one page of each level of a tree over
    /// all items, whose upper levels are hot. 0: no index. Default 0. Each level makes playing slower by a page touch.
    pub index_fanout: u64,
    /// Whether all pages are written once before the operations begin. Default yes.
    pub load: bool,
    /// `anonymous` (an in-memory store), `mapped-file` or `file` (through `read()` and `write()`). Default `anonymous`.
    pub storage: Storage,
    /// Path of the file for file storage; the index lies in the same path with `.index`. Default: the workload's name
    /// with `.data`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Whether anonymous memory uses 2 MiB pages. Default no.
    pub huge: bool,
}

impl Default for KeyValueSpec {
    fn default() -> Self {
        Self {
            footprint: Bytes::from_gib(1),
            item_size: Bytes::from_kib(1),
            distribution: Distribution::default(),
            writes: Ratio::from_percent(5),
            inserts: Ratio::ZERO,
            operations: None,
            duration: None,
            compute: Duration::from_us(1),
            threads: 1,
            index_fanout: 0,
            load: true,
            storage: Storage::Anonymous,
            file: None,
            huge: false,
        }
    }
}

impl Kind for KeyValueSpec {
    const NAME: &'static str = "key-value";
    const SUMMARY: &'static str = "operations on items of a store (uniform, zipfian, exponential, gaussian, sequential, \
                                   latest, hotspot)";
    const EXAMPLE: &'static str = "kind = \"key-value\"\nfootprint = \"2GiB\"\nitem-size = \"1KiB\"\n\
                                   distribution = { shape = \"zipfian\", theta = 0.99 }\nwrites = \"20%\"\n\
                                   inserts = \"5%\"\nthreads = 4\nindex-fanout = 256\ncompute = \"2us\"\n\
                                   operations = 5000000\n";

    fn build(&self, context: &BuildContext) -> Result<Program, WorkloadError> {
        let extent = Extent::of(Self::NAME, self.operations, self.duration)?;
        let plan = Arc::new(self.plan(context)?);
        let mut spaces = Spaces::new(context.name_or(Self::NAME));
        let file = self.file.as_deref();
        let data_start = spaces.map("data", plan.data_pages, self.storage, file, self.huge);
        let index_start = (plan.index_pages() > 0).then(|| {
            let index_file = file.map(|file| format!("{file}.index"));
            spaces.map("index", plan.index_pages(), self.storage, index_file.as_deref(), false)
        });
        let streams = (0..self.threads).map(|thread| -> Box<dyn Stream> {
            Box::new(KeyValue::new(Arc::clone(&plan), data_start, index_start, thread, self.threads, extent))
        });
        let streams = streams.collect();
        Ok(spaces.into_program(streams))
    }

    fn depends_on_time(&self) -> Option<String> {
        Extent::depends_on_time(self.duration)
    }
}

impl KeyValueSpec {
    fn plan(&self, context: &BuildContext) -> Result<Plan, WorkloadError> {
        let kind = Self::NAME;
        let pages = footprint_pages(kind, "footprint", self.footprint)?;
        if self.item_size < Bytes::new(16) || self.item_size.pages_ceil().get() > pages {
            let allowed = format!("16B to the footprint, {}", self.footprint);
            return Err(WorkloadError::field(kind, "item-size", self.item_size, allowed));
        }
        if self.item_size > Bytes::from_gib(1024) {
            return Err(WorkloadError::field(kind, "item-size", self.item_size, "16B to 1TiB"));
        }
        let (items, packing) = Packing::of(self.item_size, pages);
        check_share(kind, "writes", self.writes)?;
        check_share(kind, "inserts", self.inserts)?;
        if self.writes.ppm() + self.inserts.ppm() > Ratio::ONE.ppm() {
            let problem = format!("`writes` ({}) and `inserts` ({}) exceed 100% together", self.writes, self.inserts);
            return Err(WorkloadError::contradiction(kind, problem, "lower one; what is left are reads"));
        }
        check_threads(kind, self.threads)?;
        check_huge(kind, self.huge, self.storage)?;
        if self.index_fanout == 1 || self.index_fanout > 65_536 {
            return Err(WorkloadError::field(kind, "index-fanout", self.index_fanout, "0 (no index), 2 to 65536"));
        }
        Ok(Plan {
            items,
            packing,
            data_pages: pages,
            index_levels: index_levels(items, self.index_fanout),
            index_fanout: self.index_fanout.max(2),
            sampler: Sampler::new(kind, self.distribution, items, context.seed)?,
            insert_below: threshold(self.inserts),
            modify_below: threshold(Ratio::from_ppm(self.inserts.ppm() + self.writes.ppm())),
            compute_ns: think_ns(kind, "compute", self.compute)?,
            channel: self.storage.channel(),
            load: self.load,
            seed: context.seed,
        })
    }
}

/// Pages of each level of a tree over `items` keys, root first; none without a fanout.
fn index_levels(items: u64, fanout: u64) -> Vec<u64> {
    if fanout < 2 {
        return Vec::new();
    }
    let mut levels = vec![items.div_ceil(fanout)];
    while let Some(&pages) = levels.last().filter(|&&pages| pages > 1) {
        levels.push(pages.div_ceil(fanout));
    }
    levels.reverse();
    levels
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WorkloadSpec;
    use crate::chance::check;
    use crate::order::testing::{Played, drain_spec, hash};
    use isotherm_units::access::Channel;

    /// 100 items of a page, one thread, no load, reads only.
    fn base(distribution: Distribution, operations: u64) -> KeyValueSpec {
        KeyValueSpec {
            footprint: Bytes::from_kib(400),
            item_size: Bytes::from_kib(4),
            distribution,
            writes: Ratio::ZERO,
            operations: Some(operations),
            load: false,
            ..KeyValueSpec::default()
        }
    }

    fn play(spec: KeyValueSpec) -> Played {
        drain_spec(&WorkloadSpec::KeyValue(spec))
    }

    /// How often each of the 100 items of `base` is picked.
    fn counts(distribution: Distribution) -> Vec<u64> {
        let played = play(base(distribution, 200_000));
        let mut counts = vec![0; 100];
        let start = crate::spaces::Spaces::new(String::new()).map("", 1, Storage::Anonymous, None, false);
        played.runs.iter().for_each(|run| counts[usize::try_from(run.page() - start).unwrap()] += 1);
        counts
    }

    fn shares(weight: impl Fn(f64) -> f64) -> Vec<f64> {
        let weights: Vec<f64> = (0..100).map(|item| weight(f64::from(item))).collect();
        let sum: f64 = weights.iter().sum();
        weights.iter().map(|weight| weight / sum).collect()
    }

    #[test]
    fn items_are_picked_with_their_exact_probabilities() {
        check::near(&counts(Distribution::Uniform {}), &shares(|_| 1.0));
        check::near(&counts(Distribution::Sequential {}), &shares(|_| 1.0));
        let zipfian = |scrambled| Distribution::Zipfian { theta: 0.8, scrambled };
        check::near(&counts(zipfian(false)), &shares(|item| (item + 1.0).powf(-0.8)));
        let mut scattered = counts(zipfian(true));
        assert_ne!(scattered.iter().max(), Some(&scattered[0]));
        scattered.sort_unstable_by(|a, b| b.cmp(a));
        check::near(&scattered[..5], &shares(|item| if item < 5.0 { (item + 1.0).powf(-0.8) } else { 0.0 })[..5]);
        let exponential = Distribution::Exponential { mean: Ratio::from_percent(20), scrambled: false };
        check::near(&counts(exponential), &shares(|item| (-item / 20.0).exp()));
        let gaussian =
            |center| Distribution::Gaussian { center: Ratio::from_percent(center), deviation: Ratio::from_percent(15) };
        for center in [0u32, 30, 50] {
            let middle = f64::from(center) - 0.5;
            let exact = shares(|item| (-0.5 * ((item - middle) / 15.0).powi(2)).exp());
            check::near(&counts(gaussian(u64::from(center))), &exact);
        }
        let hotspot = Distribution::Hotspot {
            hot: Ratio::from_percent(10),
            hot_accesses: Ratio::from_percent(60),
            scrambled: false,
        };
        check::near(&counts(hotspot), &shares(|item| if item < 10.0 { 0.06 } else { 0.4 / 90.0 }));
        // Without inserts the last item stays the latest.
        let latest = Distribution::Latest { theta: 1.1 };
        check::near(&counts(latest), &shares(|item| (100.0 - item).powf(-1.1)));
    }

    #[test]
    fn equal_seeds_give_equal_runs_everywhere() {
        let spec = |distribution| KeyValueSpec {
            footprint: Bytes::from_gib(16),
            item_size: Bytes::new(100),
            writes: Ratio::from_percent(30),
            inserts: Ratio::from_percent(5),
            index_fanout: 100,
            threads: 2,
            ..base(distribution, 20_000)
        };
        // Blessed on 2026-11-21: any machine must give these.
        let table = [
            ("uniform", 0x3c95_c1ea_7df6_882d),
            ("zipfian", 0xba33_ae1d_96ae_1456),
            ("exponential", 0x216c_ca38_e57d_cb90),
            ("gaussian", 0xf936_5436_5a26_2cc3),
            ("sequential", 0x3a2d_af04_167c_b250),
            ("latest", 0x2c14_5522_29b3_c153),
            ("hotspot", 0x047e_ca2d_28a2_b603),
        ];
        let got = table.map(|(name, _)| {
            let text = format!("distribution = \"{name}\"");
            let distribution = toml::from_str::<KeyValueSpec>(&text).unwrap().distribution;
            (name, hash(&play(spec(distribution)).runs))
        });
        assert_eq!(got, table);
    }

    #[test]
    fn an_operation_walks_the_index_then_touches_its_item() {
        // 1000 items of 2 pages; fanout 10: 100 leaves, 10 inner pages, 1 root.
        let spec = KeyValueSpec {
            footprint: Bytes::from_kib(8000),
            item_size: Bytes::from_kib(5),
            index_fanout: 10,
            writes: Ratio::ONE,
            storage: Storage::File,
            compute: Duration::from_ns(700),
            ..base(Distribution::Sequential {}, 1000)
        };
        let program = spec.build(&BuildContext::new(".")).unwrap();
        let [data, index] = [0, 1].map(|i| program.processes[0].layout[i].pages);
        assert_eq!((data.len(), index.len()), (2000, 111));
        assert_eq!(
            program.files.iter().map(|file| file.name.as_str()).collect::<Vec<_>>(),
            ["key-value.data", "key-value.index"]
        );
        let runs = play(spec).runs;
        let operation: Vec<_> = runs[4 * 987..4 * 988]
            .iter()
            .map(|run| (run.page(), run.pages, run.is_write(), run.think_ns, run.channel()))
            .collect();
        let fd = Channel::FileDescriptor;
        assert_eq!(
            operation,
            [
                (index.start, 1, false, 700, fd),
                (index.start + 1 + 9, 1, false, 0, fd),
                (index.start + 11 + 98, 1, false, 0, fd),
                (data.start + 2 * 987, 2, true, 0, fd),
            ]
        );
    }

    #[test]
    fn small_items_share_pages() {
        // 3 items of 1300 bytes a page.
        let spec = KeyValueSpec { item_size: Bytes::new(1300), ..base(Distribution::Sequential {}, 301) };
        let runs = play(spec).runs;
        let offsets: Vec<u64> = runs.iter().map(|run| run.page() - runs[0].page()).collect();
        assert_eq!(offsets, (0..301u64).map(|item| item % 300 / 3).collect::<Vec<_>>());
    }

    #[test]
    fn loading_writes_every_page_once_and_counts_no_operation() {
        let spec = KeyValueSpec { threads: 3, load: true, ..base(Distribution::Uniform {}, 10) };
        let played = play(spec);
        assert_eq!((played.operations, played.runs.len()), (10, 3 + 10));
        let mut loaded: Vec<_> = played.runs.iter().filter(|run| run.is_write()).map(|run| run.range()).collect();
        loaded.sort();
        assert_eq!(loaded.iter().map(|range| range.len()).sum::<u64>(), 100);
        assert!(loaded.windows(2).all(|pair| pair[0].end == pair[1].start));
    }

    #[test]
    fn inserts_replace_the_oldest_and_become_the_latest() {
        let spec = KeyValueSpec {
            inserts: Ratio::from_percent(50),
            threads: 2,
            ..base(Distribution::Latest { theta: 4.0 }, 4000)
        };
        let played = play(spec);
        let start = played.runs.iter().map(|run| run.page()).min().unwrap();
        let inserted: Vec<u64> = (0..2)
            .flat_map(|thread| {
                let own = played.runs.iter().zip(&played.threads).filter(move |&(_, &t)| t == thread);
                own.filter(|(run, _)| run.is_write()).map(|(run, _)| run.page() - start).take(100)
            })
            .collect();
        let expected: Vec<u64> = (0..2).flat_map(|thread| (0..100).map(move |k| (2 * k + thread) % 100)).collect();
        assert_eq!(inserted, expected);
        let first = played.threads.iter().zip(&played.runs).filter(|(thread, _)| **thread == 0);
        let mut latest = 99;
        let mut near = 0u64;
        let mut reads = 0u64;
        for (_, run) in first {
            let item = run.page() - start;
            if run.is_write() {
                latest = (item + 1) % 100; // the other thread's insert of the same turn
                continue;
            }
            reads += 1;
            near += u64::from((latest + 100 - item) % 100 <= 3);
        }
        assert!(near * 10 > reads * 9, "{near} of {reads} reads are near the latest insert");
    }

    #[test]
    fn index_levels_end_in_one_root() {
        assert_eq!(index_levels(1000, 10), [1, 10, 100]);
        assert_eq!(index_levels(1001, 10), [1, 2, 11, 101]);
        assert_eq!(index_levels(1, 10), [1]);
        assert!(index_levels(1000, 0).is_empty());
    }

    #[test]
    fn bad_fields_are_named() {
        let message = |spec: KeyValueSpec| spec.build(&BuildContext::new(".")).err().unwrap().to_string();
        let good = || base(Distribution::default(), 1);
        let percent = Ratio::from_percent;
        let table = [
            (KeyValueSpec { item_size: Bytes::new(15), ..good() }, "`item-size` is 15B; allowed: 16B to the footprint"),
            (KeyValueSpec { item_size: Bytes::from_mib(1), ..good() }, "`item-size` is 1MiB"),
            (KeyValueSpec { writes: percent(60), inserts: percent(60), ..good() }, "exceed 100% together"),
            (KeyValueSpec { writes: percent(160), ..good() }, "`writes` is 160%; allowed: 0% to 100%"),
            (KeyValueSpec { threads: 0, ..good() }, "`threads` is 0; allowed: 1 to 4096"),
            (KeyValueSpec { index_fanout: 1, ..good() }, "`index-fanout` is 1"),
            (KeyValueSpec { operations: None, ..good() }, "set `operations`"),
        ];
        for (spec, expected) in table {
            assert!(message(spec.clone()).contains(expected), "{}", message(spec));
        }
    }
}
