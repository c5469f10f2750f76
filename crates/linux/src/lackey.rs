//! Recording under Valgrind's lackey.

use crate::error::RecordError;
use crate::program::Program;
use crate::record::{RecordOptions, Recording, Report};

pub(crate) fn record(
    _options: &RecordOptions,
    _program: &Program,
    _report: &mut dyn FnMut(Report),
) -> Result<Recording, RecordError> {
    Err(RecordError::ToolMissing { tool: "valgrind", package: "valgrind", other: "qemu" })
}
