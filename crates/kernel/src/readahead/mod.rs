//! Pages to read ahead: from swap and from files (docs/spec/classic-lru.md#s9-3 and #s9-4).

pub mod file;
pub mod swap;
