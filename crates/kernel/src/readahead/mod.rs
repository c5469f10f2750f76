//! Pages to read ahead: from swap and from files (docs/spec/classic-lru.md#s9-3 and #s9-4), and the orders of a file's folios
//! (docs/spec/large-folios.md#f2).

pub mod file;
pub mod orders;
pub mod swap;
pub mod write;

#[cfg(test)]
mod large_examples;
