//! The command that replays a failure. proptest keeps seeds of failures in files and reports that, but not how to run one again; and a seed
//! from another machine has to be written into such a file first.

use std::any::Any;
use std::fmt::Debug;

use proptest::test_runner::{Config, FailurePersistence, FileFailurePersistence, PersistedSeed};

/// The environment variable that holds the seed of the one case to play.
const VARIABLE: &str = "ISOTHERM_REPLAY";

/// proptest's files of seeds, with a command that replays each failure.
#[derive(Clone, Debug, PartialEq)]
pub struct Replay {
    package: &'static str,
    /// The one case to play, as proptest writes it.
    only: Option<String>,
    files: FileFailurePersistence,
}

/// `config` for a test in `package`. With a seed in `ISOTHERM_REPLAY` only its case is played.
///
/// # Panics
/// Where `ISOTHERM_REPLAY` holds no seed.
#[must_use]
pub fn replayable(mut config: Config, package: &'static str) -> Config {
    let only = std::env::var(VARIABLE).ok();
    if let Some(text) = &only {
        assert!(text.parse::<PersistedSeed>().is_ok(), "{VARIABLE} is `{text}`; allowed: the seed a failure printed");
        // The steps towards a smaller case go by the number of cases, unless they are given.
        config.max_shrink_iters = config.max_shrink_iters();
        config.cases = 0;
    }
    config.failure_persistence = Some(Box::new(Replay { package, only, files: FileFailurePersistence::default() }));
    config
}

impl Replay {
    /// The command for the test that runs on this thread; the test harness names threads after tests.
    fn command(&self, seed: Option<&PersistedSeed>) -> String {
        let seed = seed.map(|seed| format!("{VARIABLE}='{seed}' ")).unwrap_or_default();
        let thread = std::thread::current();
        // With one thread for all tests there is no name; then the seed's test is found by trying all.
        let test = thread.name().filter(|name| *name != "main").map(|name| format!(" {name} -- --exact"));
        format!("replay: {seed}cargo test --locked --package {}{}", self.package, test.unwrap_or_default())
    }
}

#[expect(clippy::print_stderr, reason = "the harness shows it where the test fails")]
impl FailurePersistence for Replay {
    fn load_persisted_failures2(&self, source_file: Option<&'static str>) -> Vec<PersistedSeed> {
        if let Some(only) = &self.only {
            return only.parse().into_iter().collect();
        }
        let seeds = self.files.load_persisted_failures2(source_file);
        if !seeds.is_empty() {
            // They are played first; where one fails again, it is not saved again.
            eprintln!("{}", self.command(None));
        }
        seeds
    }

    fn save_persisted_failure2(
        &mut self,
        source_file: Option<&'static str>,
        seed: PersistedSeed,
        shrunken_value: &dyn Debug,
    ) {
        eprintln!("{}", self.command(Some(&seed)));
        self.files.save_persisted_failure2(source_file, seed, shrunken_value);
    }

    fn box_clone(&self) -> Box<dyn FailurePersistence> {
        Box::new(self.clone())
    }

    fn eq(&self, other: &dyn FailurePersistence) -> bool {
        other.as_any().downcast_ref::<Self>() == Some(self)
    }

    fn as_any(&self) -> &dyn Any {
        self
    }
}

#[cfg(test)]
mod tests {
    use std::process::Command;

    /// Set for this test's child process, which then fails for any number from 1000 on.
    const CHILD: &str = "ISOTHERM_REPLAY_CHILD";

    crate::proptest! {
        #![proptest_config(crate::test_runner::Config::with_cases(64))]

        /// Fails when the test below asks for it.
        #[test]
        fn small_numbers(number: u64) {
            crate::prop_assert!(std::env::var_os(CHILD).is_none() || number < 1000, "played {number}");
        }
    }

    /// Runs `small_numbers` in a process of its own, where files of seeds are not written into the checkout.
    fn run_child(seed: Option<&str>) -> (bool, String) {
        let folder = std::env::temp_dir().join(format!("isotherm-replay-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let mut child = Command::new(std::env::current_exe().unwrap());
        child.args(["replay::tests::small_numbers", "--exact"]).current_dir(&folder).env(CHILD, "1");
        child.env_remove(super::VARIABLE).envs(seed.map(|seed| (super::VARIABLE, seed)));
        let output = child.output().unwrap();
        let _ = std::fs::remove_dir_all(&folder);
        let text = [output.stdout, output.stderr].map(|bytes| String::from_utf8_lossy(&bytes).into_owned()).concat();
        (output.status.success(), text)
    }

    #[test]
    fn a_failure_prints_a_command_that_fails_alike() {
        let (passed, text) = run_child(None);
        assert!(!passed, "{text}");
        let line = text.lines().find(|line| line.starts_with("replay: ")).unwrap_or_else(|| panic!("{text}"));
        let (seed, command) = line.strip_prefix("replay: ISOTHERM_REPLAY='").unwrap().split_once("' ").unwrap();
        assert_eq!(command, "cargo test --locked --package isotherm-testing replay::tests::small_numbers -- --exact");
        let (passed, again) = run_child(Some(seed));
        let reason = |text: &str| text.lines().find(|line| line.contains("minimal failing input")).map(str::to_owned);
        assert!(!passed && reason(&again).is_some(), "{again}");
        assert_eq!(reason(&again), reason(&text), "{again}");
        assert!(again.contains("successes: 0"), "one case alone is played: {again}");
    }

    #[test]
    fn a_seed_that_is_none_is_refused() {
        let (passed, text) = run_child(Some("cc nonsense"));
        assert!(!passed && text.contains("allowed: the seed a failure printed"), "{text}");
    }
}
