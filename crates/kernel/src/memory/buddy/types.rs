//! Migrate types, and the steps of allocation and freeing.

/// Purpose of a page block. Numbers and order as in the kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
pub enum MigrateType {
    /// Pages that never move: kernel memory.
    Unmovable,
    /// Pages of programs and files.
    Movable,
    /// Kernel caches that can be given up, but not moved.
    Reclaimable,
}

pub(super) const NR_TYPES: usize = 3;

impl MigrateType {
    pub const ALL: [Self; NR_TYPES] = [Self::Unmovable, Self::Movable, Self::Reclaimable];

    /// Types whose blocks serve this type once its own are used up, in this order (section 2.4).
    pub(super) const fn fallbacks(self) -> [Self; 2] {
        match self {
            Self::Unmovable => [Self::Reclaimable, Self::Movable],
            Self::Movable => [Self::Reclaimable, Self::Unmovable],
            Self::Reclaimable => [Self::Unmovable, Self::Movable],
        }
    }
}

/// How often each step was taken.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Effort {
    /// A block was halved.
    pub splits: u64,
    /// Two blocks were joined.
    pub merges: u64,
    /// A page block was given to another type.
    pub claims: u64,
    /// A block was taken from another type, whose page block keeps its type: this mixes types permanently.
    pub steals: u64,
    /// It was tried to claim part of a page block: each raises the zone's watermarks for a while.
    pub boosts: u64,
}
