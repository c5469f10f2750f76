//! The recorder of page traces. Starts the program under an emulator that sees each access, reads what it says,
//! writes a trace. How it works and what it does not see: `docs/recording.md`.

mod accessed;
mod assemble;
mod engine;
mod error;
#[doc(hidden)]
pub mod fuzzing;
mod host;
mod layout;
mod native;
mod page_cache;
mod program;
mod protocol;
mod queue;
mod record;
mod session;
mod signals;
mod spool;
mod stream;
mod sys;
mod touched;

pub use accessed::{
    AccessedOptions, AccessedRecording, AccessedReport, Bits, Change, Eyes, LookError, Who, record_accessed,
};
pub use engine::{ENGINES, EngineEntry, cache_folder, engine_named};
pub use error::{EngineFailure, RecordError};
pub use host::describe as describe_host;
pub use record::{DEFAULT_EPOCH, DEFAULT_NS_PER_INSTRUCTION, RecordOptions, Recording, Report, record, run_native};
pub use stream::trace_from_stream;
