//! Messages between the two sides of the real-kernel rig.
//!
//! The host puts a [`Job`](job::Job) and, for a replay, a [`Script`](script::Script) into the guest's first file system. The
//! guest, whose first process is this package's program, does the job and writes [`Report`](job::Report)s, one JSON object a
//! line, to its second serial port. How the rig is used: `docs/evidence/fidelity.md#the-rig`.

pub mod fragmenting;
pub mod job;
pub mod killing;
pub mod living;
pub mod monitoring;
pub mod patterns;
pub mod pricing;
pub mod restoring;
pub mod script;
pub mod sorting;
pub mod tenancy;
pub mod tiering;
