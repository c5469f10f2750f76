//! Kind `application`: operations made of steps on several areas of memory and files.

mod stream;

use std::sync::Arc;

use isotherm_units::access::{Program, Stream};
use isotherm_units::{Bytes, Duration, PAGE_BYTES, Ratio};
use serde::{Deserialize, Serialize};

use crate::chance::threshold;
use crate::extent::Extent;
use crate::hot_cold::check_threads;
use crate::key_value::{Distribution, Packing, Sampler};
use crate::spaces::{Spaces, check_huge, check_share, footprint_pages, think_ns};
use crate::spec::Kind;
use crate::{BuildContext, Storage, WorkloadError};
use stream::{Application, Area, Operation, Plan};

/// A server, say: each operation computes, then takes its steps in order. A step touches items of an area, in each operation or once in a
/// number of operations.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, rename_all = "kebab-case", deny_unknown_fields)]
pub struct ApplicationSpec {
    /// Operations in all, over all threads. Give this or `duration`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub operations: Option<u64>,
    /// How long it runs after loading. Give this or `operations`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub duration: Option<Duration>,
    /// CPU time per operation, up to 4.29 s, in addition to the latency of the memory. Default 5 µs.
    pub compute: Duration,
    /// Threads that work side by side. Default 1.
    pub threads: usize,
    /// Processes among which the threads are dealt out, 1 to the threads. Each has an equal part of every anonymous area for
    /// itself; files and shared memory are the same in all. Default 1.
    pub processes: usize,
    /// Memory and files it works on. At least one.
    pub areas: Vec<AreaSpec>,
    /// Steps of an operation, in order. At least one.
    pub steps: Vec<StepSpec>,
}

/// A piece of memory, or a file.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct AreaSpec {
    /// Name by which steps refer to it; the file's name follows from it.
    pub name: String,
    /// Size in bytes; of an anonymous area, in all processes together.
    pub footprint: Bytes,
    /// `anonymous`, `mapped-file`, `file` (through `read()` and `write()`) or `shared-memory`. Default `anonymous`.
    #[serde(default)]
    pub storage: Storage,
    /// Whether the whole area is written once before the operations begin. Default no: files lie on the disk, memory is untouched.
    #[serde(default)]
    pub load: bool,
    /// Whether anonymous memory uses 2 MiB pages. Default no.
    #[serde(default)]
    pub huge: bool,
}

/// A part of an operation.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", deny_unknown_fields)]
pub struct StepSpec {
    /// The area it touches.
    pub area: String,
    /// Bytes touched together, 16 B to the area; as in `key-value`. Default 1 KiB.
    #[serde(default = "one_kib")]
    pub item_size: Bytes,
    /// How items are chosen; not `latest`. `sequential` goes on where the thread's last such step ended. Default `zipfian`.
    #[serde(default)]
    pub distribution: Distribution,
    /// Items touched, 1 to 1 000 000. Default 1.
    #[serde(default = "one")]
    pub count: u64,
    /// Taken in each so-many-th operation of a thread. Default 1: in all.
    #[serde(default = "one")]
    pub every: u64,
    /// Share of the items that are stored to. Default 0 %.
    #[serde(default)]
    pub writes: Ratio,
}

fn one_kib() -> Bytes {
    Bytes::from_kib(1)
}
fn one() -> u64 {
    1
}

impl Default for ApplicationSpec {
    fn default() -> Self {
        Self {
            operations: None,
            duration: None,
            compute: Duration::from_us(5),
            threads: 1,
            processes: 1,
            areas: Vec::new(),
            steps: Vec::new(),
        }
    }
}

impl Kind for ApplicationSpec {
    const NAME: &'static str = "application";
    const SUMMARY: &'static str = "operations made of steps on heaps, shared memory and files: databases, servers";
    const EXAMPLE: &'static str = "kind = \"application\"\noperations = 200000\ncompute = \"20us\"\nthreads = 8\n\
                                   processes = 2\n\n\
                                   [[areas]]\nname = \"heap\"\nfootprint = \"96MiB\"\nload = true\n\n\
                                   [[areas]]\nname = \"table\"\nfootprint = \"512MiB\"\nstorage = \"file\"\n\n\
                                   [[areas]]\nname = \"log\"\nfootprint = \"64MiB\"\nstorage = \"file\"\n\n\
                                   [[steps]]\narea = \"heap\"\nitem-size = \"1KiB\"\ncount = 2\nwrites = \"20%\"\n\n\
                                   [[steps]]\narea = \"table\"\nitem-size = \"8KiB\"\n\
                                   distribution = { shape = \"zipfian\", theta = 0.8 }\nevery = 4\n\n\
                                   [[steps]]\narea = \"log\"\nitem-size = \"256B\"\ndistribution = \"sequential\"\n\
                                   writes = \"100%\"\n";

    fn build(&self, context: &BuildContext) -> Result<Program, WorkloadError> {
        let kind = Self::NAME;
        let extent = Extent::of(kind, self.operations, self.duration)?;
        check_threads(kind, self.threads)?;
        if self.processes == 0 || self.processes > self.threads {
            let allowed = format!("1 to the threads, {}", self.threads);
            return Err(WorkloadError::field(kind, "processes", self.processes, allowed));
        }
        let mut spaces = Spaces::new(context.name_or(kind));
        let areas = self.areas(&mut spaces)?;
        let plan = Arc::new(Plan {
            steps: self.steps(&areas, context)?,
            areas,
            compute_ns: think_ns(kind, "compute", self.compute)?,
            processes: self.processes as u64,
            threads: self.threads as u64,
            seed: context.seed,
        });
        let streams =
            (0..self.threads).map(|nth| -> Box<dyn Stream> { Box::new(Application::new(&plan, nth, extent)) });
        Ok(spaces.into_processes(self.processes, streams.collect()))
    }

    fn depends_on_time(&self) -> Option<String> {
        Extent::depends_on_time(self.duration)
    }
}

impl ApplicationSpec {
    fn areas(&self, spaces: &mut Spaces) -> Result<Vec<Area>, WorkloadError> {
        let kind = Self::NAME;
        if self.areas.is_empty() {
            return Err(WorkloadError::field(kind, "areas", "empty", "one area or more"));
        }
        let mut areas = Vec::with_capacity(self.areas.len());
        for (index, spec) in self.areas.iter().enumerate() {
            if spec.name.is_empty() || self.areas[..index].iter().any(|earlier| earlier.name == spec.name) {
                let got = format!("`{}`", spec.name);
                return Err(WorkloadError::field(kind, "areas.name", got, "a name that no other area has"));
            }
            check_huge(kind, spec.huge, spec.storage)?;
            let all = footprint_pages(kind, "areas.footprint", spec.footprint)?;
            let is_private = spec.storage == Storage::Anonymous;
            let pages = if is_private { all.div_ceil(self.processes as u64) } else { all };
            areas.push(Area {
                start: spaces.map(&spec.name, pages, spec.storage, None, spec.huge),
                pages,
                is_private,
                channel: spec.storage.channel(),
                load: spec.load,
            });
        }
        Ok(areas)
    }

    fn steps(&self, areas: &[Area], context: &BuildContext) -> Result<Vec<Operation>, WorkloadError> {
        let kind = Self::NAME;
        if self.steps.is_empty() {
            return Err(WorkloadError::field(kind, "steps", "empty", "one step or more"));
        }
        let steps = self.steps.iter().enumerate().map(|(nth, spec)| {
            let Some(area) = self.areas.iter().position(|area| area.name == spec.area) else {
                let names: Vec<&str> = self.areas.iter().map(|area| area.name.as_str()).collect();
                let allowed = format!("the name of an area: {}", names.join(", "));
                return Err(WorkloadError::field(kind, "steps.area", format!("`{}`", spec.area), allowed));
            };
            let pages = areas[area].pages;
            if spec.item_size < Bytes::new(16) || spec.item_size.pages_ceil().get() > pages {
                let allowed = format!("16B to a process's part of the area, {}", Bytes::new(pages * PAGE_BYTES));
                return Err(WorkloadError::field(kind, "steps.item-size", spec.item_size, allowed));
            }
            if spec.item_size > Bytes::from_gib(1) {
                return Err(WorkloadError::field(kind, "steps.item-size", spec.item_size, "16B to 1GiB"));
            }
            if !(1..=1_000_000).contains(&spec.count) {
                return Err(WorkloadError::field(kind, "steps.count", spec.count, "1 to 1000000"));
            }
            if spec.every == 0 {
                return Err(WorkloadError::field(kind, "steps.every", 0, "1 or more"));
            }
            if let Distribution::Latest { .. } = spec.distribution {
                let problem = "a step is `latest`, but nothing is ever inserted";
                return Err(WorkloadError::contradiction(kind, problem, "choose another, or the kind `key-value`"));
            }
            check_share(kind, "steps.writes", spec.writes)?;
            let (items, packing) = Packing::of(spec.item_size, pages);
            Ok(Operation {
                area,
                items,
                packing,
                // Steps choose independently of each other, but one area's hot items are hot in all its steps.
                sampler: Sampler::new(kind, spec.distribution, items, context.seed ^ (area as u64) << 32)?,
                count: spec.count,
                every: spec.every,
                phase: nth as u64,
                write_below: threshold(spec.writes),
            })
        });
        steps.collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::WorkloadSpec;
    use crate::chance::check;
    use crate::order::testing::{Played, drain_spec};
    use isotherm_units::access::{Backing, Channel, FileKind, Run};

    fn area(name: &str, pages: u64, storage: Storage) -> AreaSpec {
        AreaSpec { name: name.into(), footprint: Bytes::new(pages * PAGE_BYTES), storage, load: false, huge: false }
    }
    fn step(area: &str, item_pages: u64, distribution: Distribution) -> StepSpec {
        let item_size = Bytes::new(item_pages * PAGE_BYTES);
        StepSpec { area: area.into(), item_size, distribution, count: 1, every: 1, writes: Ratio::ZERO }
    }
    fn play(spec: &ApplicationSpec) -> Played {
        drain_spec(&WorkloadSpec::Application(spec.clone()))
    }

    /// A heap of 8 pages, a file of 100; two heap pages in each operation, 2 file pages in order in each third.
    fn small() -> ApplicationSpec {
        ApplicationSpec {
            operations: Some(6),
            compute: Duration::from_ns(700),
            areas: vec![area("heap", 8, Storage::Anonymous), area("file", 100, Storage::File)],
            steps: vec![
                StepSpec { count: 2, ..step("heap", 1, Distribution::Sequential {}) },
                StepSpec { every: 3, writes: Ratio::ONE, ..step("file", 2, Distribution::Sequential {}) },
            ],
            ..ApplicationSpec::default()
        }
    }

    #[test]
    fn an_operation_takes_its_steps_in_order() {
        let spec = small();
        let program = WorkloadSpec::Application(spec.clone()).build(&BuildContext::new(".")).unwrap();
        let [heap, file] = [0, 1].map(|nth| program.processes[0].layout[nth].pages.start);
        let played = play(&spec);
        let read = |page: u64, think| Run::read(heap + page % 8, 1).after_ns(think);
        let write = |page| Run::write(file + page, 2).through(Channel::FileDescriptor);
        let mut expected = Vec::new();
        for operation in 0..6 {
            expected.extend([read(2 * operation, 700), read(2 * operation + 1, 0)]);
            match operation {
                1 => expected.push(write(0)), // the second step begins one operation later than the first
                4 => expected.push(write(2)),
                _ => {}
            }
        }
        assert_eq!(played.runs, expected);
        assert_eq!(played.operations, 6);
    }

    #[test]
    fn processes_have_heaps_of_their_own_and_files_together() {
        let spec = ApplicationSpec {
            threads: 4,
            processes: 2,
            operations: Some(400),
            areas: vec![
                AreaSpec { load: true, ..area("heap", 8, Storage::Anonymous) },
                AreaSpec { load: true, ..area("buffers", 16, Storage::SharedMemory) },
            ],
            steps: vec![step("heap", 1, Distribution::Uniform {}), step("buffers", 1, Distribution::Uniform {})],
            ..ApplicationSpec::default()
        };
        let program = spec.build(&BuildContext::new(".")).unwrap();
        assert_eq!(program.threads.iter().map(|thread| thread.process).collect::<Vec<_>>(), [0, 1, 0, 1]);
        assert_eq!(program.processes[0].layout, program.processes[1].layout);
        assert_eq!(program.processes[0].layout[0].pages.len(), 4, "half of the heap");
        assert!(matches!(program.processes[1].layout[1].backing, Backing::File { file: 0, .. }));
        assert_eq!(program.files[0].kind, FileKind::SharedMemory);
        let (heap, buffers) = (program.processes[0].layout[0].pages, program.processes[0].layout[1].pages);
        let played = play(&spec);
        assert_eq!(played.operations, 400);
        let loaded: Vec<(usize, u64)> = played
            .runs
            .iter()
            .zip(&played.processes)
            .filter(|(run, _)| run.is_write())
            .flat_map(|(run, &process)| (run.page()..run.range().end).map(move |page| (process, page)))
            .collect();
        let of_heap = |process| loaded.iter().filter(|&&(of, page)| of == process && heap.contains(page)).count();
        assert_eq!((of_heap(0), of_heap(1)), (4, 4), "each loads its own");
        let mut of_buffers: Vec<u64> =
            loaded.iter().map(|&(_, page)| page).filter(|&page| buffers.contains(page)).collect();
        of_buffers.sort_unstable();
        assert_eq!(of_buffers, (buffers.start..buffers.end).collect::<Vec<_>>(), "together, each page once");
    }

    #[test]
    fn shares_are_kept_and_equal_seeds_give_equal_runs() {
        let spec = ApplicationSpec {
            operations: Some(100_000),
            threads: 3,
            areas: vec![area("data", 100, Storage::MappedFile)],
            steps: vec![StepSpec {
                writes: Ratio::from_percent(30),
                ..step("data", 1, Distribution::Gaussian { center: Ratio::ZERO, deviation: Ratio::from_percent(20) })
            }],
            ..ApplicationSpec::default()
        };
        let played = play(&spec);
        let start = played.runs.iter().map(|run| run.page()).min().unwrap();
        let mut counts = vec![0; 100];
        played.runs.iter().for_each(|run| counts[usize::try_from(run.page() - start).unwrap()] += 1);
        let weights: Vec<f64> = (0..100).map(|item| (-0.5 * ((f64::from(item) + 0.5) / 20.0).powi(2)).exp()).collect();
        let sum: f64 = weights.iter().sum();
        check::near(&counts, &weights.iter().map(|weight| weight / sum).collect::<Vec<_>>());
        let writes = played.runs.iter().filter(|run| run.is_write()).count() as u64;
        check::near(&[writes, 100_000 - writes], &[0.3, 0.7]);
        assert_eq!(played.runs, play(&spec).runs);
    }

    #[test]
    fn bad_fields_are_named() {
        let message = |change: fn(&mut ApplicationSpec)| {
            let mut spec = small();
            change(&mut spec);
            spec.build(&BuildContext::new(".")).err().unwrap().to_string()
        };
        type Row = (fn(&mut ApplicationSpec), &'static str);
        let table: [Row; 12] = [
            (|spec| spec.areas.clear(), "`areas` is empty; allowed: one area or more"),
            (|spec| spec.steps.clear(), "`steps` is empty; allowed: one step or more"),
            (|spec| spec.areas[1].name = "heap".into(), "`areas.name` is `heap`; allowed: a name that no other"),
            (|spec| spec.areas[1].huge = true, "only anonymous memory has huge pages"),
            (
                |spec| spec.steps[0].area = "hep".into(),
                "`steps.area` is `hep`; allowed: the name of an area: heap, file",
            ),
            (|spec| spec.steps[0].item_size = Bytes::from_kib(36), "`steps.item-size` is 36KiB; allowed: 16B to"),
            (|spec| spec.steps[0].count = 0, "`steps.count` is 0; allowed: 1 to 1000000"),
            (|spec| spec.steps[0].every = 0, "`steps.every` is 0; allowed: 1 or more"),
            (|spec| spec.steps[0].writes = Ratio::from_percent(101), "`steps.writes` is 101%; allowed: 0% to 100%"),
            (|spec| spec.steps[0].distribution = Distribution::Latest { theta: 1.0 }, "nothing is ever inserted"),
            (|spec| spec.processes = 2, "`processes` is 2; allowed: 1 to the threads, 1"),
            (|spec| spec.operations = None, "set `operations`"),
        ];
        for (change, expected) in table {
            let message = message(change);
            assert!(message.contains(expected), "{message:?} lacks {expected:?}");
        }
    }
}
