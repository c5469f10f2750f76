//! Every parser of the workspace, fed with damaged input (docs/developing.md#fuzzing).
//!
//! Input number `n` of a target follows from the seed, the target's name and its corpus alone. Targets run in a process of their own,
//! which has bounds on memory and on time for one input. When it ends early, the campaign knows the number of the input, makes it
//! again, makes it smaller and keeps it.

pub mod campaign;
pub mod child;
pub mod corpus;
pub mod faults;
pub mod groups;
pub mod mutate;
pub mod target;
