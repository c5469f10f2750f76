//! Live Linux: the Host of `isotherm-core` over a running kernel. A file for each source; everything is read and written below one
//! [`Root`], so that trees of files test it; system calls stand in one module. No policy and no loop.
//!
//! What it builds on: `docs/spec/live.md`, `docs/spec/live-linux.md`.

mod clock;
mod error;
mod host;
mod release;
mod root;

pub use clock::{Stopwatch, own_cpu_time};
pub use error::LiveError;
pub use host::LiveHost;
pub use release::kernel_version;
pub use root::Root;
