//! Traces and records on disk: every format, read and written. A single program, so that it is
//! linked once.

mod analysis;
mod damo;
mod drmemtrace;
mod edit;
mod files;
mod foreign_files;
mod foreign_requests;
mod formats;
mod group_files;
mod limits;
mod merge_files;
mod region_edit;
mod region_files;
mod region_formats;
mod region_kdamonds;
