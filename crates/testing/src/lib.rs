//! proptest as our tests use it: its whole interface, and a failing test also prints the one command that replays it.
//!
//! The workspace knows this crate under the name `proptest`, so tests are written as proptest's documentation says.

mod replay;

pub use proptest::*;
pub use replay::{Replay, replayable};

/// proptest's prelude, with [`proptest!`](crate::proptest) of this crate.
pub mod prelude {
    pub use crate::proptest;
    pub use proptest::prelude::*;
}

/// proptest itself, for the macro.
#[doc(hidden)]
pub use ::proptest as original;

/// proptest's macro; a failure prints the command that replays it.
#[macro_export]
macro_rules! proptest {
    (#![proptest_config($config:expr)] $($tests:tt)*) => {
        $crate::original::proptest! {
            #![proptest_config($crate::replayable($config, env!("CARGO_PKG_NAME")))]
            $($tests)*
        }
    };
    ($($tests:tt)*) => {
        $crate::proptest! { #![proptest_config($crate::test_runner::Config::default())] $($tests)* }
    };
}
