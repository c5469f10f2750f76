//! Which pages to read before they are asked for: from swap and from files (spec classic-lru 9.3 and 9.4).

pub mod file;
pub mod swap;
