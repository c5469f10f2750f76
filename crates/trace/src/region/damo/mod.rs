//! Records of damo, the user-space tool of DAMON, and the kernel's own text.
//!
//! Facts: damo 3.4, Linux `include/trace/events/damon.h`. All pitfalls: `docs/mechanism/formats.md#region-records`.

pub(crate) mod input;
pub(crate) mod json_read;
pub(crate) mod json_schema;
pub(crate) mod json_write;
pub(crate) mod quantity;
pub(crate) mod trace_line;
pub(crate) mod trace_text;
