//! The recorder of page traces. Starts the program under an engine that sees each access, reads the engine's
//! records, and writes a trace. Design and limits: `docs/use/recording.md`.

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
    AccessedOptions, AccessedRecording, AccessedReport, BitScanner, Bits, Change, LookError, Who, record_accessed,
};
pub use engine::{cache_folder, probe as probe_engine};
pub use error::RecordError;
pub use host::describe as describe_host;
pub use program::find as find_program;
pub use record::{DEFAULT_EPOCH, RecordOptions, Recording, Report, record, run_native};
pub use stream::trace_from_stream;
