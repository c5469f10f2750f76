//! Tests of reading and writing kernel files, on trees of files. A single program, so that it is
//! linked once.

mod compacting;
mod doctor;
mod live;
mod system_host;
mod trees;
