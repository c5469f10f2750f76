//! A program that plays the runs of a sweep, as `isotherm sweep` starts them, with ways to die for the tests: `die-at-second` ends it over its
//! second run, `die-at-mglru` over each run of `mglru`.

use isotherm_sweep::{Job, serve};
use std::io;

fn main() -> Result<(), isotherm_sweep::SweepError> {
    let how = std::env::args().nth(1).unwrap_or_default();
    let mut nr_begun = 0;
    let before = |job: &Job| {
        nr_begun += 1;
        let is_time =
            how == "die-at-second" && nr_begun == 2 || how == "die-at-mglru" && job.scenario.contains("mglru");
        if is_time {
            std::process::abort();
        }
    };
    serve(&mut io::stdin().lock(), &mut io::stdout().lock(), before)
}
