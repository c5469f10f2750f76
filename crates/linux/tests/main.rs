//! What a kernel's files say and take, on trees of files. One program, so that it is linked once.

mod compacting;
mod doctor;
mod live;
mod system_host;
mod trees;
