//! Developer commands. `cargo xtask help` lists them.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "a developer's command talks to its user")]

mod against;
mod bench;
mod bless;
mod check;
mod commits;
mod dkms;
mod fuzz;
mod guest;
mod keys;
mod licences;
mod module;
mod sbom;
#[cfg(test)]
mod setup;
mod suite;
mod tidy;
mod workspace;

use std::process::ExitCode;

const HELP: &str = "\
cargo xtask COMMAND

  test       everything that a change can break, as CI runs it: check, all cases, the Python package; a table of times
             test WORD…    only cases whose name contains one of the words
             test --list   the names of all cases
  nightly    that, and what takes longer: see docs/developing.md#testing
  check      formatting, lints, documentation, house rules, licences: all that must hold before a commit
             check --fast  formatting and house rules, lints and unit tests of the packages that were changed
  tidy       the house rules alone (also one of the cases)
  commits    the subjects of the branch's commits alone
  licences   licences of all dependencies alone
  digests    whether a release build makes the bytes of results that stand in crates/scenario/tests/data/digests.txt;
             `test` asks a debug build
  guest      the program that runs in the rig's virtual machines, into target/guest
  static     isotherm itself, linked into one file, into target/static
  bless      what tests compare with what the code makes, written again
             bless NAME…  keys (docs/keys.md), words (counts of odd ones), costs, results, digests, damo, sampled-curves,
             metrics, libcachesim, pictures, instructions
  sbom       what isotherm is made of, as CycloneDX on standard output
  module     the accessed-bit module for kernels of the rig, into the cache; as root
             module NAME…  for those of 6.1, 6.12, 7.2 (without names: all)
  dkms       whether DKMS builds, installs and removes the module, each in a clean root; as root
             dkms NAME…  for those kernels (without names: all)
  bench      all benchmarks with their bars, the comparison with libCacheSim; writes target/bench.json
             bench NAME…  only benchmark targets whose name contains one of the words
             bench --count [NAME…]  only those that count instructions, and no times: the same on a busy machine
             bench --against COMMIT [--pairs N] [NAME…]  beside that commit, pair by pair: what got slower
  fuzz       every parser, fed with damaged input (docs/developing.md#fuzzing)
             fuzz TARGET… --for 10m  these targets or groups of targets, for this long in all
             fuzz TARGET --input FILE  one input again; fuzz --list shows the targets";

/// Findings of a command, one line each; empty is good.
type Findings = Vec<String>;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let (command, rest) = arguments.split_first().map_or(("help", &[][..]), |(first, rest)| (first.as_str(), rest));
    let findings = match command {
        "test" => suite::run(suite::Extent::Everyday, rest),
        "nightly" => suite::run(suite::Extent::Nightly, rest),
        "check" => check::run(rest),
        "tidy" => tidy::run(&workspace::root()),
        "commits" => commits::run(&workspace::root()),
        "licences" | "licenses" => licences::run(),
        "digests" => check::digests(),
        "guest" => guest::run(),
        "static" => guest::run_static(),
        "module" => module::run(rest),
        "dkms" => dkms::run(rest),
        "bless" => bless::run(rest),
        "sbom" => sbom::run(),
        "bench" => match rest {
            [flag, against @ ..] if flag == "--against" => against::run(against),
            words => bench::run(words),
        },
        "fuzz" => fuzz::run(rest),
        "help" | "--help" | "-h" => {
            println!("{HELP}");
            return ExitCode::SUCCESS;
        }
        unknown => {
            eprintln!("`{unknown}` is no command of xtask.\n\n{HELP}");
            return ExitCode::from(2);
        }
    };
    for finding in &findings {
        eprintln!("{finding}");
    }
    if findings.is_empty() {
        return ExitCode::SUCCESS;
    }
    eprintln!("{command}: {} to mend", findings.len());
    ExitCode::FAILURE
}
