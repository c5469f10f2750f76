//! Live Linux: the recorder of page traces. Starts the program under an emulator that sees each access, reads what it says,
//! writes a trace. How it works and what it does not see: `docs/recording.md`.

mod assemble;
mod emulator;
mod error;
mod host;
mod lackey;
mod layout;
mod program;
mod protocol;
mod record;
mod release;
mod signals;
mod spool;
mod sys;

pub use error::RecordError;
pub use record::{
    DEFAULT_EPOCH, DEFAULT_NS_PER_INSTRUCTION, RecordOptions, Recording, Report, Tool, record, tracer_path,
};
pub use release::kernel_version;
