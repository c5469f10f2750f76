//! The kinds of sections that the loop runs.

use super::compaction::CompactionSection;
use super::generations::GenerationsSection;
use super::limits::LimitsSection;
use super::own::OwnSection;
use super::run::LoopError;
use super::section::Taking;
use super::switch::KernelSection;

type Take = fn(&mut Taking<'_>) -> Result<(), LoopError>;

/// All kinds, in the order of the state's sections. A new kind is a file with its type, and a line here.
pub(super) const KINDS: &[Take] = &[
    |taking| taking.take::<GenerationsSection>(),
    |taking| taking.take::<KernelSection>(),
    |taking| taking.take::<LimitsSection>(),
    |taking| taking.take::<CompactionSection>(),
    |taking| taking.take::<OwnSection>(),
];
