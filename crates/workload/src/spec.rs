//! A workload as written in a scenario, and the table of all kinds.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use isotherm_units::PageRange;
use isotherm_units::access::{Channel, Program};
use serde::{Deserialize, Serialize};

use crate::abench::AbenchSpec;
use crate::application::ApplicationSpec;
use crate::far_chunk::FarChunkSpec;
use crate::fragmenter::FragmenterSpec;
use crate::hot_cold::HotColdSpec;
use crate::huge_pages::HugePagesSpec;
use crate::idle::IdleSpec;
use crate::kernel_memory::KernelMemorySpec;
use crate::key_value::KeyValueSpec;
use crate::masim::MasimSpec;
use crate::phases::PhasesSpec;
use crate::registered::{RegisteredSpec, RegisteredWorkloads};
use crate::replay::{TraceSpec, TraceStore};
use crate::scan::ScanSpec;
use crate::sort::SortSpec;
use crate::thpscale::ThpscaleSpec;
use crate::{WorkloadError, order};

/// One kind of workload: its configuration type, which builds programs.
pub(crate) trait Kind {
    /// The value of the `kind` key.
    const NAME: &'static str;
    /// One line of description.
    const SUMMARY: &'static str;
    /// A workload table as in a scenario file, with every field worth showing.
    const EXAMPLE: &'static str;

    /// Checks the fields and makes the program. `context.want_future` is only for kinds that know their future better
    /// than by generating their accesses twice.
    fn build(&self, context: &BuildContext) -> Result<Program, WorkloadError>;

    /// Why the accesses depend on the speed of the machine, and the way out; `None` if they do not.
    fn depends_on_time(&self) -> Option<String>;
}

/// A row of [`KINDS`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KindEntry {
    /// The value of the `kind` key.
    pub name: &'static str,
    /// One line of description.
    pub summary: &'static str,
    /// A workload table as in a scenario file, with every field worth showing.
    pub example: &'static str,
}

macro_rules! kinds {
    ($($variant:ident($config:ty)),+ $(,)?) => {
        /// A workload, as written in a scenario: a table whose `kind` names one of [`KINDS`] and whose other keys are that
        /// kind's fields. Unknown keys are refused.
        #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
        #[serde(tag = "kind", rename_all = "kebab-case")]
        pub enum WorkloadSpec {
            $(#[doc = concat!("See [`", stringify!($config), "`].")] $variant($config),)+
        }

        /// Every kind of workload. To add a kind: a file and a line here; CLI, scenarios and tests read this table.
        pub const KINDS: &[KindEntry] = &[
            $(KindEntry {
                name: <$config as Kind>::NAME,
                summary: <$config as Kind>::SUMMARY,
                example: <$config as Kind>::EXAMPLE,
            },)+
        ];

        impl WorkloadSpec {
            /// The kind's row in [`KINDS`].
            pub fn entry(&self) -> &'static KindEntry {
                fn of<K: Kind>(_: &K) -> &'static KindEntry {
                    kind_named(K::NAME).expect("the table is made from the same list")
                }
                match self { $(Self::$variant(config) => of(config),)+ }
            }
            fn build_once(&self, context: &BuildContext) -> Result<Program, WorkloadError> {
                match self { $(Self::$variant(config) => config.build(context),)+ }
            }
            pub(crate) fn depends_on_time(&self) -> Option<String> {
                match self { $(Self::$variant(config) => config.depends_on_time(),)+ }
            }
        }
    };
}

kinds! {
    Trace(TraceSpec),
    KeyValue(KeyValueSpec),
    Application(ApplicationSpec),
    Sort(SortSpec),
    Masim(MasimSpec),
    Scan(ScanSpec),
    HotCold(HotColdSpec),
    FarChunk(FarChunkSpec),
    Abench(AbenchSpec),
    Phases(PhasesSpec),
    Idle(IdleSpec),
    Fragmenter(FragmenterSpec),
    HugePages(HugePagesSpec),
    KernelMemory(KernelMemorySpec),
    Thpscale(ThpscaleSpec),
    Registered(RegisteredSpec),
}

/// The row of [`KINDS`] called `name`.
pub fn kind_named(name: &str) -> Option<&'static KindEntry> {
    KINDS.iter().find(|entry| entry.name == name)
}

impl WorkloadSpec {
    /// The hot pages of its first process, ascending, where its configuration names them and they stay: the reference
    /// for monitors.
    pub fn hot_set(&self, context: &BuildContext) -> Option<Vec<PageRange>> {
        match self {
            Self::HotCold(spec) => spec.hot_set(context),
            _ => None,
        }
    }

    /// Checks the fields, reads the files it names and makes the program.
    ///
    /// With [`BuildContext::want_future`] the accesses are gone through beforehand, which takes about as long as playing
    /// them on a machine without reclaim.
    ///
    /// # Errors
    /// When a field or file is wrong, or when the future is wanted of a workload whose accesses depend on time.
    pub fn build(&self, context: &BuildContext) -> Result<Program, WorkloadError> {
        let kind = self.entry().name;
        if context.want_future
            && let Some(reason) = self.depends_on_time()
        {
            return Err(WorkloadError::NoFuture { kind, reason });
        }
        let mut program = self.build_once(context)?;
        if context.want_future && program.future.is_none() {
            let again = || self.build_once(context);
            program.future = Some(order::future_of(kind, again)?);
        }
        Ok(program)
    }
}

/// The inputs of building a workload besides its spec. Clone one context for all variants of a scenario: traces decoded
/// through it are shared.
#[derive(Clone, Debug)]
pub struct BuildContext {
    /// Relative paths in specs start here (the scenario file's folder).
    pub base_dir: PathBuf,
    /// Seed of the generators.
    pub seed: u64,
    /// Whether [`Program::future`] must be filled.
    pub want_future: bool,
    /// Name of the workload: the program's name, and the beginning of its files' names. Workloads of equal names share
    /// the files they do not name themselves.
    pub name: Option<String>,
    /// Workloads that the program has registered.
    pub registered: RegisteredWorkloads,
    /// Decoded traces, shared by all clones of the context.
    pub traces: Arc<TraceStore>,
}

impl BuildContext {
    /// Seed 0, no future, no name, nothing registered, an empty store.
    pub fn new(base_dir: impl Into<PathBuf>) -> Self {
        Self {
            base_dir: base_dir.into(),
            seed: 0,
            want_future: false,
            name: None,
            registered: RegisteredWorkloads::default(),
            traces: Arc::default(),
        }
    }
    /// This context with another seed.
    pub fn with_seed(self, seed: u64) -> Self {
        Self { seed, ..self }
    }
    /// This context, with or without the future.
    pub fn with_future(self, want_future: bool) -> Self {
        Self { want_future, ..self }
    }
    /// This context for the workload called `name`.
    pub fn named(self, name: impl Into<String>) -> Self {
        Self { name: Some(name.into()), ..self }
    }
    /// `path`, from the base folder if relative.
    pub fn resolve(&self, path: &Path) -> PathBuf {
        self.base_dir.join(path)
    }
    /// The workload's name, or `kind`.
    pub(crate) fn name_or(&self, kind: &str) -> String {
        self.name.clone().unwrap_or_else(|| kind.to_owned())
    }
}

/// Kind of a generator's access to a page.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    /// Loads from it. A first touch of anonymous memory by a load maps the shared zero page on Linux.
    Read,
    /// Stores to it.
    #[default]
    Write,
}

/// Where a generator's data lies and how it is reached.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Storage {
    /// Private memory, reached through the page table: evicted to swap.
    #[default]
    Anonymous,
    /// A file, mapped shared and reached through the page table: evicted by dropping or writing back.
    MappedFile,
    /// A file, reached by `read()` and `write()`: the kernel sees each access.
    File,
    /// Shared memory without a file, tmpfs or System V: mapped by all processes of the program, evicted to swap.
    SharedMemory,
}

impl Storage {
    pub(crate) fn channel(self) -> Channel {
        match self {
            Self::Anonymous | Self::MappedFile | Self::SharedMemory => Channel::PageTable,
            Self::File => Channel::FileDescriptor,
        }
    }
}
